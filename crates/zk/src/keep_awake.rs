//! Keeps a server from forgetting a request.
//!
//! ZooKeeper 3.6.0 to 3.6.3, 3.7.0, 3.7.1 and 3.8.0 can leave a request aside until the next one reaches that
//! server: the thread that serves looks at its queues, and goes to sleep without looking again once it holds
//! the monitor in which the next request would wake it (ZOOKEEPER-4537). When everybody waits for one lock no
//! next request comes, and all stand still until some session's heartbeat. So a server of the suite's own
//! gets a small read every [`EVERY`]; a foreign one gets no load that was not asked for.
//!
//! A server that does not answer is asked again until it does, with a new session if need be, and the longest time
//! for which it was not read is told: for that long it was not kept awake.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use zookeeper_client::Client;

use super::connect::Target;
use super::session::close;
use super::{Failure, reactor};
use zklockbench_core::clock::{self, Stamp};

/// How long a request of a run may be left aside at most.
pub const EVERY: Duration = Duration::from_millis(20);
const SESSION_TIMEOUT: Duration = Duration::from_secs(10);
const CLOSE_DEADLINE: Duration = Duration::from_secs(2);
/// A node that every server has, and that no lock is below.
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

/// For how long a server that is kept awake was not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unread {
    /// The server, as `host:port`.
    pub server: String,
    /// The longest time between two reads that it answered, in microseconds, from when it was to be kept awake to when
    /// that was over.
    pub longest_us: u64,
}

/// Sends the one server of that target a read every so often until it is told to stop.
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
            reactor::sleep(every).await;
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
    fn only_the_versions_with_the_fault_are_kept_awake() {
        for version in ["3.6.0", "3.6.3", "3.7.1", "3.8.0"] {
            assert!(is_needed(version), "{version}");
        }
        for version in ["3.5.9", "3.6.4", "3.7.2", "3.8.1", "3.9.0", "4.0.0", "not known"] {
            assert!(!is_needed(version), "{version}");
        }
    }
}
