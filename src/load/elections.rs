//! Elections of the servers, caused by a fault of the trial or by anything else.
//!
//! The servers are asked who leads, each on its own, so that those that stand still or are cut off delay no sight of the
//! others. Where a fault may make them elect they are asked often, so that the time until they have a leader again can be
//! told; elsewhere once a second, which costs an ensemble next to nothing. What happens between two looks is seen by the
//! next one: an election leaves a later epoch behind.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;

use crate::record::{Election, FaultRecord};
use crate::scenario::TrialSpec;
use crate::words::clock::{self, Stamp};
use crate::world::ensemble::Leader;
use crate::world::fault::find;

/// How often each server is asked where a fault hits servers: an election is seen that much late at most, while its new
/// leader answers at once.
const OFTEN: Duration = Duration::from_millis(40);
const SELDOM: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_millis(500);

#[derive(Debug, Clone, Copy)]
struct Sight {
    at: Stamp,
    epoch: u64,
    /// Which of the servers, from 0.
    server: usize,
}

/// When the ensemble had a new leader, as its servers tell: when each was first seen, and its epoch.
///
/// For a moment two servers may both say that they lead. A later epoch counts more, and none before a majority is in
/// step with it.
#[derive(Debug, Default)]
pub struct Elections {
    servers: Vec<String>,
    seen: Mutex<Vec<Sight>>,
}

impl Elections {
    /// Finds out who leads now. What comes later is an election.
    pub async fn from_now_on(servers: &[String]) -> Self {
        let elections = Self { servers: servers.to_vec(), seen: Mutex::default() };
        elections.look_once().await;
        elections
    }

    /// Watches for as long as it is polled, as closely as the trial needs.
    pub async fn watch(&self, spec: &TrialSpec) {
        let hits_servers = spec.faults.iter().any(|fault| reaches_servers(&fault.kind));
        let every = if hits_servers { OFTEN } else { SELDOM };
        let watches = (0..self.servers.len()).map(|server| async move {
            loop {
                tokio::time::sleep(every).await;
                self.look(server).await;
            }
        });
        let _: Vec<()> = join_all(watches).await;
        // There are no servers to watch.
        std::future::pending().await
    }

    pub async fn look_once(&self) {
        join_all((0..self.servers.len()).map(|server| self.look(server))).await;
    }

    async fn look(&self, server: usize) {
        let known = self.newest();
        if let Some(leader) = Leader::elected_after(known, server, &self.servers[server], PATIENCE).await
            && leader.is_backed(self.servers.len())
        {
            self.sees(Sight { at: clock::now(), epoch: leader.epoch, server });
        }
    }

    fn seen(&self) -> MutexGuard<'_, Vec<Sight>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sees(&self, sight: Sight) {
        let mut seen = self.seen();
        if seen.last().is_none_or(|newest| newest.epoch < sight.epoch) {
            seen.push(sight);
        }
    }

    /// The epoch of the leader that was elected last.
    fn newest(&self) -> Option<u64> {
        self.seen().last().map(|sight| sight.epoch)
    }

    /// The leaders that were elected since it watches. The leader at its beginning was elected before.
    fn elected(&self) -> Vec<Sight> {
        self.seen().iter().skip(1).copied().collect()
    }

    /// Microseconds to the first sight of a leader that was elected between the two times; `None` when none was.
    pub fn first_between(&self, from: Stamp, to: Stamp) -> Option<u64> {
        let first = self.elected().into_iter().find(|sight| (from..=to).contains(&sight.at))?;
        Some(first.at - from)
    }

    /// All of them, told by when the measured phase began, each with the fault that may have caused it; `None` where no
    /// server ever told who leads.
    pub fn records(&self, begin: Stamp, faults: &[FaultRecord]) -> Option<Vec<Election>> {
        if self.seen().is_empty() {
            return None;
        }
        let record = |sight: Sight| {
            let seen_us = clock::signed_difference(sight.at, begin);
            let may_be_due = |fault: &&FaultRecord| {
                fault.asked_us <= seen_us && fault.proved && reaches_servers(&fault.kind)
            };
            Election {
                seen_us,
                leader: self.servers[sight.server].clone(),
                epoch: sight.epoch,
                after_fault: faults.iter().filter(may_be_due).map(|fault| fault.number).next_back(),
            }
        };
        Some(self.elected().into_iter().map(record).collect())
    }
}

fn reaches_servers(kind: &str) -> bool {
    find(kind).is_some_and(|entry| entry.card.needs.reaches_servers())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of two servers, which lead in turn.
    fn seen(sights: &[(Stamp, u64)]) -> Elections {
        let elections =
            Elections { servers: vec!["zk1:2181".into(), "zk2:2181".into()], ..Elections::default() };
        for (at, epoch) in sights {
            let server = usize::from(epoch % 2 == 0);
            elections.sees(Sight { at: *at, epoch: *epoch, server });
        }
        elections
    }

    fn fault(number: usize, kind: &str, asked_us: i64) -> FaultRecord {
        FaultRecord {
            number,
            kind: kind.into(),
            label: kind.into(),
            target: String::new(),
            asked_us,
            effective_us: Some(asked_us),
            ended_us: None,
            proved: true,
            proof: String::new(),
            left: None,
            elected_us: None,
            longest_gap_us: None,
            wait_p99: None,
            disturbance: None,
            meanwhile: None,
            recovered_us: None,
        }
    }

    #[test]
    fn an_election_is_the_first_sight_of_a_later_epoch() {
        let elections = seen(&[(10, 4), (20, 4), (350, 5), (360, 4), (400, 5), (900, 6)]);
        assert_eq!(elections.first_between(0, 100), None, "who led from the start was not elected");
        assert_eq!(elections.first_between(100, 500), Some(250));
        assert_eq!(elections.first_between(355, 800), None, "the old leader still says that it leads");
        assert_eq!(elections.first_between(500, Stamp::MAX), Some(400));
    }

    #[test]
    fn an_election_is_put_down_to_the_last_fault_of_servers_before_it_or_to_nobody_here() {
        let elections = seen(&[(10, 4), (350, 5), (900, 6)]);
        let faults = [fault(1, "freeze", 100), fault(2, "kill", 500), fault(3, "kill", 950)];
        let told = elections.records(300, &faults).unwrap();
        let told: Vec<_> =
            told.iter().map(|one| (one.seen_us, one.leader.as_str(), one.epoch, one.after_fault)).collect();
        assert_eq!(told, [(50, "zk1:2181", 5, None), (600, "zk2:2181", 6, Some(2))]);
    }

    #[test]
    fn servers_that_never_told_who_leads_are_not_said_to_have_elected_nobody() {
        assert_eq!(seen(&[]).records(0, &[]), None);
        assert_eq!(seen(&[(10, 4)]).records(0, &[]), Some(Vec::new()));
    }
}
