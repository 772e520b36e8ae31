//! Keeps a server from forgetting a request.
//!
//! ZooKeeper 3.6.0 to 3.6.3, 3.7.0, 3.7.1 and 3.8.0 can leave a request aside until the next one reaches that
//! server: the thread that serves looks at its queues, and goes to sleep without looking again once it holds
//! the monitor in which the next request would wake it (ZOOKEEPER-4537). When everybody waits for one lock no
//! next request comes, and all stand still until some session's heartbeat. So a server of the suite's own
//! gets a small read every [`EVERY`]; somebody else's gets no load that was not asked for.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::connect::Target;
use super::reactor;
use super::session::close;

/// How long a request of a run may be left aside at most.
pub const EVERY: Duration = Duration::from_millis(20);
const SESSION_TIMEOUT: Duration = Duration::from_secs(10);
const CLOSE_DEADLINE: Duration = Duration::from_secs(2);
/// A node that every server has, and that no lock is below.
const NODE: &str = "/zookeeper";

/// Whether servers of that version can forget a request.
pub fn is_needed(version: &str) -> bool {
    let mut numbers = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    let mut next = || numbers.next().unwrap_or(0);
    match (next(), next(), next()) {
        (3, 6, patch) => patch <= 3,
        (3, 7, patch) => patch <= 1,
        (3, 8, patch) => patch == 0,
        _ => false,
    }
}

/// Sends the one server of that target a read every so often until it is told to stop. A server that does not
/// answer is left alone.
pub async fn keep_awake(server: Target, every: Duration, stop: CancellationToken) {
    let Some(Ok(client)) = stop.run_until_cancelled(server.client(SESSION_TIMEOUT)).await else { return };
    let reading = async {
        while client.check_stat(NODE).await.is_ok() {
            reactor::sleep(every).await;
        }
    };
    stop.run_until_cancelled(reading).await;
    close(client, CLOSE_DEADLINE).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_versions_with_the_fault_are_kept_awake() {
        for version in ["3.6.0", "3.6.3", "3.7.1", "3.8.0"] {
            assert!(is_needed(version), "{version}");
        }
        for version in ["3.5.9", "3.6.4", "3.7.2", "3.8.1", "3.9.0", "4.0.0", "not known"] {
            assert!(!is_needed(version), "{version}");
        }
    }
}
