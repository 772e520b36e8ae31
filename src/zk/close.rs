//! Closing a session so that its ephemeral nodes are gone afterwards.

use std::time::Duration;

use zookeeper_client::Client;

use super::reactor;

/// Closes a client's session and waits until the server has answered, but no longer than that.
pub async fn close(client: Client, deadline: Duration) {
    let mut states = client.state_watcher();
    drop(client);
    let _ = reactor::timeout(deadline, async {
        let mut state = states.state();
        while !state.is_terminated() {
            state = states.changed().await;
        }
    })
    .await;
}
