//! The first session with an ensemble. Some of its servers may be down, and an election may be in progress.

use std::time::Duration;

use futures_util::future::select_all;
use zookeeper_client::Client;

use super::workspace::opened;
use zklockbench_core::error::Error;
use zklockbench_zk::{Failure, Target, close};

/// Time limit, long enough for an election. With checks and diagnosis, an error is reported in less than 10 s.
const FIRST_CONTACT: Duration = Duration::from_secs(6);
const TRIES_AGAIN: Duration = Duration::from_millis(100);
/// Time without a session after which the next server is also tried.
const NEXT_SERVER: Duration = Duration::from_secs(1);
const CLOSED_WITHIN: Duration = Duration::from_secs(2);

/// Opens and closes a session with a trial's timeout. Returns the granted timeout.
pub async fn granted_timeout(target: &Target, asked: Duration) -> Result<Duration, Error> {
    let client = first_session(target, asked).await?;
    let granted = client.session_timeout();
    // A server at its connection limit would refuse the next connection.
    close(client, CLOSED_WITHIN).await;
    Ok(granted)
}

/// Opens a session as the first contact with the ensemble.
pub(super) async fn first_session(target: &Target, session: Duration) -> Result<Client, Error> {
    let opening = async {
        loop {
            match any_server(target, session).await {
                // A session with a short timeout may end before a busy server answers.
                Err(Failure::NotConnected(_)) => tokio::time::sleep(TRIES_AGAIN).await,
                opened => return opened,
            }
        }
    };
    opened(target, opening, FIRST_CONTACT).await
}

/// Opens a session, trying the servers one after the other without giving up the earlier attempts. The client library
/// alone would wait two fifths of the session timeout for a server that does not respond.
async fn any_server(target: &Target, session: Duration) -> Result<Client, Failure> {
    let attempts = (0_u32..).zip(target.parts().0.split(',')).map(|(position, _)| {
        Box::pin(async move {
            tokio::time::sleep(NEXT_SERVER * position).await;
            target.client_at(position as usize, session).await
        })
    });
    select_all(attempts).await.0
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use tokio::net::TcpListener;

    use super::*;
    use crate::one_ensemble::tests::server;
    use zklockbench_zk::Access;

    #[tokio::test]
    async fn next_server_is_also_tried_if_one_does_not_respond() {
        let (silent, next) = (
            TcpListener::bind("127.0.0.1:0").await.unwrap(),
            TcpListener::bind("127.0.0.1:0").await.unwrap(),
        );
        let connect = [&silent, &next].map(|listener| listener.local_addr().unwrap().to_string()).join(",");
        let target = Target { connect, access: Access::default() };
        // The client library alone would wait 24 s.
        tokio::select! {
            accepted = next.accept() => drop(accepted.unwrap()),
            _ = any_server(&target, Duration::from_secs(60)) => unreachable!("no server grants a session"),
            () = tokio::time::sleep(Duration::from_secs(12)) => panic!("only one server was tried"),
        }
    }

    #[tokio::test]
    async fn session_is_closed_once_the_granted_timeout_is_known() {
        let (connect, closed) = server(true).await;
        let target = Target { connect, access: Access::default() };
        let granted = granted_timeout(&target, Duration::from_secs(20)).await.unwrap();
        assert_eq!((granted, closed.load(Ordering::SeqCst)), (Duration::from_secs(10), 1));
    }
}
