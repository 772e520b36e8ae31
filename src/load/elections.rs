//! When the ensemble had a new leader, as its servers tell whoever asks. Watched in trials whose faults hit servers.
//!
//! For a moment two servers may both say that they lead. A later epoch counts more, and none before a majority is in
//! step with it. Each server is asked on its own, so that those that stand still or are cut off delay no sight of
//! the others.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use tokio_util::sync::CancellationToken;

use crate::clock::{self, Stamp};
use crate::ensemble::Leader;

/// How often each server is asked: an election is seen that much late at most, while its new leader answers at once.
const LOOK_EVERY: Duration = Duration::from_millis(40);
const PATIENCE: Duration = Duration::from_millis(500);

/// Each new leader: when it was first seen, and its epoch.
#[derive(Debug, Default)]
pub struct Elections(Mutex<Vec<(Stamp, u64)>>);

impl Elections {
    /// Finds out who leads now. What comes later is an election.
    pub async fn from_now_on(servers: &[String]) -> Self {
        let elections = Self::default();
        join_all(servers.iter().map(|address| elections.look(address, servers.len()))).await;
        elections
    }

    /// Watches until it is stopped.
    pub async fn watch(&self, servers: &[String], stop: &CancellationToken) {
        let watches = servers.iter().map(|address| async {
            while stop.run_until_cancelled(self.look(address, servers.len())).await.is_some() {
                stop.run_until_cancelled(tokio::time::sleep(LOOK_EVERY)).await;
            }
        });
        join_all(watches).await;
    }

    async fn look(&self, address: &str, servers: usize) {
        if let Some(leader) = Leader::told_by((0, address), PATIENCE).await
            && leader.is_backed(servers)
        {
            self.sees(clock::now(), leader.epoch);
        }
    }

    fn sees(&self, at: Stamp, epoch: u64) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.last().is_none_or(|(_, newest)| *newest < epoch) {
            seen.push((at, epoch));
        }
    }

    /// From the one time to the first sight of a leader that was elected between the two, in microseconds. `None` when
    /// none was.
    #[must_use]
    pub fn first_between(&self, from: Stamp, to: Stamp) -> Option<u64> {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Whoever led when the watch began was elected before.
        let elected = seen.iter().skip(1).map(|(at, _)| *at);
        elected.into_iter().find(|at| (from..=to).contains(at)).map(|at| at - from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_election_is_the_first_sight_of_a_later_epoch() {
        let elections = Elections::default();
        for (at, epoch) in [(10, 4), (20, 4), (350, 5), (360, 4), (400, 5), (900, 6)] {
            elections.sees(at, epoch);
        }
        assert_eq!(elections.first_between(0, 100), None, "who led from the start was not elected");
        assert_eq!(elections.first_between(100, 500), Some(250));
        assert_eq!(elections.first_between(355, 800), None, "the old leader still says that it leads");
        assert_eq!(elections.first_between(500, Stamp::MAX), Some(400));
    }
}
