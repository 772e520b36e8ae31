//! Standstills: a lock is free, contenders wait for it, and none gets it.
//!
//! Between a release and the next acquisition that is so for a moment in every lock. When it lasts for longer than the
//! lock itself explains, it is a result like any other, and what it may be due to is looked for: servers that went away,
//! a stranger's node in the queue, versions that can forget a request.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::{join, join_all};
use futures_util::stream::{FuturesUnordered, StreamExt as _};

use super::progress;
use super::shared::Shared;
use crate::lock::longest_pause;
use crate::record::{ServerCounters, Standstill};
use crate::words::clock::{self, Stamp};
use crate::words::units::counted;
use crate::world::zk::{Target, admin};

const LOOK_EVERY: Duration = Duration::from_millis(25);
/// A server that takes longer to answer while the lock stands still is told of.
const ANSWERS_WITHIN: Duration = Duration::from_millis(500);
/// How long a lock may be free while others wait, beside the times that it sleeps by its parameters.
const FREE_AT_MOST: Duration = Duration::from_secs(1);

/// Notes the longest standstill on the board for as long as it is polled, with the signs that are seen only meanwhile.
pub async fn watch(shared: &Shared, target: &Target, servers: &[String]) {
    if shared.slice.is_part() {
        // A lock that looks free may be held by a contender of another worker.
        return std::future::pending().await;
    }
    let board = &shared.board;
    let (at_most, is_looked_into) = (clock::micros(at_most(shared)), is_looked_into(shared));
    let mut since: Option<(Stamp, u64)> = None;
    let mut looked_at = None;
    // The ensemble may take its time to answer, or not answer at all.
    let mut looks = FuturesUnordered::new();
    loop {
        tokio::select! {
            () = tokio::time::sleep(LOOK_EVERY) => {}
            Some(signs) = looks.next() => {
                board.signs.lock().unwrap_or_else(PoisonError::into_inner).extend::<Vec<String>>(signs);
                continue;
            }
        }
        let acquired = board.acquired.load(Ordering::Acquire);
        let is_free = shared.lock_states.iter().all(|lock_state| lock_state.inside() == 0)
            && shared.gauge.waiting() > 0;
        let now = clock::now();
        since = match since {
            Some((began, before)) if is_free && before == acquired => {
                let lasts = now.saturating_sub(began);
                if board.standstill_us.fetch_max(lasts, Ordering::Relaxed) < lasts {
                    board.standstill_began.store(began, Ordering::Relaxed);
                }
                if is_looked_into && lasts > at_most && looked_at != Some(began) {
                    looked_at = Some(began);
                    looks.push(look(shared, target, servers));
                }
                Some((began, before))
            }
            _ => is_free.then_some((now, acquired)),
        };
    }
}

/// Signs while no contender is served: silent servers, or a first node of the queue that is no contender's.
async fn look(shared: &Shared, target: &Target, servers: &[String]) -> Vec<String> {
    // What is dropped on its way has not come to its end.
    shared.board.looking.fetch_add(1, Ordering::AcqRel);
    let silent = join_all(servers.iter().map(|server| async move {
        match admin::srvr(server, ANSWERS_WITHIN).await {
            Ok(Some(_)) => None,
            Ok(None) => Some(format!("{server} was not serving meanwhile: it had no quorum")),
            Err(why) => Some(format!("{server} did not answer meanwhile ({why})")),
        }
    }));
    let (silent, stranger) = join(silent, progress::strangers_first(shared, target)).await;
    shared.board.looking.fetch_sub(1, Ordering::AcqRel);
    silent.into_iter().flatten().chain(stranger).collect()
}

/// Whether a standstill is held to need an explanation: not of locks that promise nothing, nor where something is broken on
/// purpose, which explains it.
fn is_looked_into(shared: &Shared) -> bool {
    shared.entry.card.guarantees.exclusive && !shared.has_faults()
}

/// What is known of a trial that a standstill may be due to.
#[derive(Debug, Clone, Copy)]
pub struct Around<'a> {
    pub servers: &'a [ServerCounters],
    pub lost: u64,
}

pub fn judge(shared: &Shared, begin: Stamp, around: Around<'_>) -> Option<Standstill> {
    let lasted_us = shared.board.standstill_us.load(Ordering::Relaxed);
    if !is_looked_into(shared) || Duration::from_micros(lasted_us) <= at_most(shared) {
        return None;
    }
    let began = shared.board.standstill_began.load(Ordering::Relaxed);
    let seen = shared.board.signs.lock().unwrap_or_else(PoisonError::into_inner);
    let mut signs: Vec<String> = seen.iter().cloned().collect();
    signs.extend(around.signs());
    if signs.is_empty() {
        signs.extend(forgetful(around.servers, lasted_us));
    }
    let began_us = clock::signed_difference(began, begin);
    Some(Standstill { lasted_us, began_us, signs })
}

impl Around<'_> {
    fn signs(&self) -> impl Iterator<Item = String> {
        let lost = (self.lost > 0)
            .then(|| format!("{} lost their connection", counted(self.lost, "request", "requests")));
        of_servers(self.servers).chain(lost)
    }
}

fn at_most(shared: &Shared) -> Duration {
    FREE_AT_MOST + 2 * longest_pause(&shared.spec.strategy.params)
}

/// Servers that went away during the trial.
fn of_servers(servers: &[ServerCounters]) -> impl Iterator<Item = String> {
    servers.iter().filter_map(|server| {
        let address = &server.address;
        match &server.silent {
            Some(why) => Some(format!("{address} did not report its state ({why})")),
            None => {
                server.has_restarted().then(|| format!("{address} restarted or took part in an election"))
            }
        }
    })
}

/// Servers of versions that can forget a request until the next one comes. Not those that were kept awake: a request is
/// left aside until the next read at most, so that it explains nothing that lasted for longer.
fn forgetful(servers: &[ServerCounters], lasted_us: u64) -> Option<String> {
    let versions: std::collections::BTreeSet<&str> = servers
        .iter()
        .filter(|server| server.unread_us.is_none_or(|unread| unread >= lasted_us))
        .filter_map(|server| server.version.as_deref())
        .filter(|version| can_forget(version))
        .collect();
    let versions = versions.into_iter().collect::<Vec<_>>().join(" and ");
    (!versions.is_empty()).then(|| {
        format!("servers of {versions} can forget a request until the next one comes (ZOOKEEPER-4537)")
    })
}

/// ZOOKEEPER-4537 was mended in 3.6.4, 3.7.2 and 3.8.1.
fn can_forget(version: &str) -> bool {
    let numbers: Vec<u32> = version.split('.').map_while(|part| part.parse().ok()).collect();
    match numbers[..] {
        [3, 6, patch] => patch < 4,
        [3, 7, patch] => patch < 2,
        [3, 8, patch] => patch < 1,
        [3, minor, _] => minor < 6,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_versions_from_before_the_mend_can_forget_a_request() {
        let forget = ["3.4.14", "3.6.3", "3.7.1", "3.8.0"];
        assert!(forget.iter().all(|version| can_forget(version)));
        let sound = ["3.6.4", "3.7.2", "3.8.1", "3.9.3", "4.0.0", "unknown"];
        assert!(!sound.iter().any(|version| can_forget(version)));
    }

    #[test]
    fn a_server_that_was_started_anew_is_a_sign_and_its_version_is_not_blamed_beside_it() {
        let uptime = |value| [("zk_uptime".to_owned(), value)].into();
        let server = |before, after| ServerCounters {
            address: "zk1:2181".into(),
            version: Some("3.8.0".into()),
            before: uptime(before),
            after: uptime(after),
            ..ServerCounters::default()
        };
        assert_eq!(of_servers(&[server(100, 200)]).count(), 0);
        let signs: Vec<String> = of_servers(&[server(100, 20)]).collect();
        assert_eq!(signs, ["zk1:2181 restarted or took part in an election"]);
        assert!(forgetful(&[server(1, 2)], 1).unwrap().contains("servers of 3.8.0 can forget"));
    }

    #[test]
    fn a_version_that_forgets_is_blamed_for_no_longer_than_its_server_was_not_read() {
        let blamed = |unread_us| {
            let server =
                ServerCounters { version: Some("3.8.0".into()), unread_us, ..ServerCounters::default() };
            forgetful(&[server], 2_000_000).is_some()
        };
        assert_eq!((blamed(None), blamed(Some(40_000)), blamed(Some(9_000_000))), (true, false, true));
    }
}
