//! Periodic reads that prevent a server from stalling on a request.
//!
//! ZooKeeper 3.6.0 to 3.6.3, 3.7.0, 3.7.1 and 3.8.0 can leave a request unprocessed until the next request
//! reaches that server (ZOOKEEPER-4537). The processing thread checks its queues before it takes the monitor,
//! and then sleeps without checking again. If all contenders wait for one lock, no request follows, and all
//! of them stall until the next heartbeat of any session. The suite therefore sends a small read to its own
//! servers every [`EVERY`]. External servers get no extra load.
//!
//! An unanswered read is retried, with a new session if needed. The longest time without an answered read is
//! reported, because the server was not kept awake during that time.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use zookeeper_client::Client;

use super::connect::Target;
use super::session::close;
use super::{Failure, runtime};
use zklockbench_core::clock::{self, Stamp};

/// Interval between reads, which limits how long a request can stay unprocessed.
pub const EVERY: Duration = Duration::from_millis(20);
const SESSION_TIMEOUT: Duration = Duration::from_secs(10);
const CLOSE_DEADLINE: Duration = Duration::from_secs(2);
/// A node that exists on every server and is not above any lock.
const NODE: &str = "/zookeeper";

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

/// The longest gap between reads from one server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unread {
    /// Address of the server, as `host:port`.
    pub server: String,
    /// Longest time without an answered read in microseconds, including the time before the first read and after
    /// the last.
    pub longest_us: u64,
}

/// Reads from the target's only server at regular intervals until stopped.
pub async fn keep_awake(server: Target, every: Duration, stop: CancellationToken) -> Unread {
    let mut answered = Answered { last: clock::now(), longest: 0 };
    let mut client = None;
    let reading = async {
        loop {
            match read(&server, &mut client).await {
                Ok(()) => answered.now(),
                Err(failure) if failure.session_survives() => {}
                Err(_) => client = None,
            }
            runtime::sleep(every).await;
        }
    };
    stop.run_until_cancelled(reading).await;
    answered.ends();
    if let Some(client) = client {
        close(client, CLOSE_DEADLINE).await;
    }
    Unread { server: server.connect, longest_us: answered.longest }
}

async fn read(server: &Target, client: &mut Option<Client>) -> Result<(), Failure> {
    let client = match client {
        Some(client) => client,
        None => client.insert(server.client(SESSION_TIMEOUT).await?),
    };
    client.check_stat(NODE).await.map(drop).map_err(Failure::from)
}

struct Answered {
    last: Stamp,
    longest: u64,
}

impl Answered {
    fn now(&mut self) {
        self.ends();
        self.last = clock::now();
    }

    fn ends(&mut self) {
        self.longest = self.longest.max(clock::now().saturating_sub(self.last));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_affected_server_versions_must_be_kept_awake() {
        for version in ["3.6.0", "3.6.3", "3.7.1", "3.8.0"] {
            assert!(is_needed(version), "{version}");
        }
        for version in ["3.5.9", "3.6.4", "3.7.2", "3.8.1", "3.9.0", "4.0.0", "not known"] {
            assert!(!is_needed(version), "{version}");
        }
    }
}
