//! Distinguishes timeouts and failed tries from acquisitions.

use std::collections::BTreeMap;

use super::{CYCLES_LEAST, Sums};
use crate::cycle::{Cycle, TIMEOUT_LEAST_MS, TRY_REQUESTS};
use crate::recipe::Recipe;
use crate::times::Values;

/// Minimum share of cycles that must have the usual number of requests before conclusions are drawn from that
/// number.
const USUAL: f64 = 0.95;
/// Minimum number of abandoned requests from which a timeout is inferred.
const TIMEOUTS_LEAST: u64 = 5;
/// Maximum time by which a wait may exceed the timeout, e.g. because the client is busy.
const TIMEOUT_LATE_MS: u32 = 50;
/// Time within which the last requests of a load are cancelled.
const CANCELLED_WITHIN_MS: i64 = 1_000;

/// Waits and holds of clients that may have waited after the presumed grant.
#[derive(Debug, Default)]
pub(super) struct Late {
    /// Waits and holds if they did not, by number of requests; 0 if the number is irrelevant.
    as_granted: BTreeMap<u32, (Values, Values)>,
    /// Waits and holds if they did.
    as_late: (Values, Values),
    /// Waits of those that then gave up.
    unserved: Values,
}

impl Late {
    /// Adds a cycle under the assumption that the client waited. Returns the waits and holds of clients that did not
    /// wait.
    pub fn add(&mut self, cycle: &Cycle, requests: u32) -> (&mut Values, &mut Values) {
        let late = cycle.clone().at_latest();
        late.unserved_ms.into_iter().for_each(|ms| self.unserved.add(ms));
        late.waited_ms.into_iter().for_each(|ms| self.as_late.0.add(ms));
        late.held_ms.into_iter().for_each(|ms| self.as_late.1.add(ms));
        let (waits, holds) = self.as_granted.entry(requests).or_default();
        (waits, holds)
    }
}

impl Sums {
    /// Notes the end of a contended cycle that was released.
    pub(super) fn note_parity(&mut self, cycle: &Cycle) {
        let ended_ms = cycle.until_ms();
        match is_odd(cycle.requests) {
            true => self.first_odd_ms = Some(self.first_odd_ms.unwrap_or(ended_ms).min(ended_ms)),
            false => self.last_even_ms = self.last_even_ms.max(Some(ended_ms)),
        }
    }

    /// Decides whether the clients in `late` waited, and adds their cycles.
    pub(super) fn settle_late(&mut self, recipe: Recipe) {
        let late = std::mem::take(&mut self.late);
        self.are_late = match recipe {
            // If some readers did not wait for their session's writer, the others held it, too.
            Recipe::CuratorReadWrite => {
                10 * late.as_late.0.count <= late.unserved.count && self.are_timeouts(&late.unserved)
            }
            Recipe::KazooReadWrite => self.has_usual_requests() && self.are_long_timeouts(&late.unserved),
            _ => false,
        };
        if self.are_late {
            self.waits.take(&late.as_late.0);
            self.holds.take(&late.as_late.1);
            self.timeouts.take(&late.unserved);
            self.granted -= late.unserved.count;
            self.endings.released -= late.unserved.count;
            self.endings.gave_up += late.unserved.count;
            return;
        }
        for (requests, (waits, holds)) in late.as_granted {
            let (all_waits, all_holds) = match requests {
                0 => (&mut self.waits, &mut self.holds),
                _ => {
                    let (waits, holds) = self.contended.entry(requests).or_default();
                    (waits, holds)
                }
            };
            all_waits.take(&waits);
            all_holds.take(&holds);
        }
    }

    /// Returns whether uncontended cycles take two requests, so that clients with a lock rarely send other requests.
    fn has_usual_requests(&self) -> bool {
        let (plain, usual) = self.plain;
        plain >= CYCLES_LEAST && is_usual(usual, plain)
    }

    /// Returns whether these waits, if any, are timeouts and longer than most holds.
    fn are_long_timeouts(&self, waits: &Values) -> bool {
        let is_long = waits.quantile(0.1) > self.holds.quantile(0.9);
        waits.count == 0 || is_long && self.are_timeouts(waits)
    }

    /// Returns whether these waits are as long as the other timeouts or, if there are hardly any, equally long.
    fn are_timeouts(&self, waits: &Values) -> bool {
        let early = self.timeouts.quantile(0.1).filter(|_| self.timeouts.count >= TIMEOUTS_LEAST);
        match (waits.quantile(0.5), early) {
            (Some(usual), Some(early)) => are_as_long(usual, early.max(TIMEOUT_LEAST_MS)),
            _ => one_timeout(waits).is_some(),
        }
    }

    /// Returns the clients' timeout, if most abandoned requests waited for about the same time, and hardly any
    /// request waited longer.
    pub(super) fn timeout_us(&self) -> Option<u64> {
        let (usual, late) = one_timeout(&self.timeouts)?;
        let longer = self.waits.above(late.saturating_add(TIMEOUT_LATE_MS));
        (10 * longer <= self.timeouts.count).then_some(u64::from(usual) * 1_000)
    }

    /// Removes and counts the cycles that timed out just as the lock became free; `None` if inconclusive.
    pub(super) fn take_given_up_at_grant(&mut self) -> Option<u64> {
        self.has_tries = self.finds_tries();
        let (tries, brief_holds) = std::mem::take(&mut self.perhaps_tries);
        if !self.has_tries && brief_holds.count > 0 {
            let (waits, holds) = self.contended.entry(TRY_REQUESTS).or_default();
            waits.take(&tries);
            holds.take(&brief_holds);
        }
        let is_timeout = self.is_timeout();
        let mut given_up = if self.has_tries { tries.count } else { 0 };
        for (requests, (waits, holds)) in std::mem::take(&mut self.contended) {
            if is_timeout.as_ref().is_some_and(|is_timeout| is_timeout(requests)) {
                given_up += waits.count;
            } else {
                self.waits.take(&waits);
                self.holds.take(&holds);
            }
        }
        (self.has_tries || is_timeout.is_some()).then_some(given_up)
    }

    /// Returns whether clients try the lock without waiting and hold it much longer than a try takes. Then a brief hold
    /// after another client's is a failed try.
    fn finds_tries(&self) -> bool {
        let shortest = self.holds.quantile(0.01).filter(|_| self.holds.count >= CYCLES_LEAST);
        self.tries() >= CYCLES_LEAST && shortest.is_some_and(|ms| ms >= TIMEOUT_LEAST_MS)
    }

    /// Returns the number of abandoned requests that sent as many requests as a try without a wait.
    fn tries(&self) -> u64 {
        self.gave_up.get(&TRY_REQUESTS).copied().unwrap_or(0)
    }

    /// Returns a rule that recognises a timeout by the number of requests; `None` if inconclusive.
    fn is_timeout(&self) -> Option<Box<dyn Fn(u32) -> bool>> {
        let contended = || self.contended.iter().map(|(requests, (waits, _))| (*requests, waits.count));
        let all: u64 = contended().map(|(_, count)| count).sum();
        let even: u64 = contended().filter(|(requests, _)| !is_odd(*requests)).map(|(_, count)| count).sum();
        let gave_up: u64 = self.gave_up.values().sum();
        let gave_up_odd: u64 =
            self.gave_up.iter().filter(|(requests, _)| is_odd(**requests)).map(|(_, count)| count).sum();
        let is_even = all >= CYCLES_LEAST && is_usual(even, all);
        let is_known = self.has_usual_requests()
            || is_even
            || gave_up >= CYCLES_LEAST && 2 * even > all && self.odd_ones_wait_like_timeouts();
        let tries = if is_even { self.tries() } else { 0 };
        let is_by_parity =
            is_known && is_usual(gave_up_odd, gave_up - tries) && (all < CYCLES_LEAST || 2 * even > all);
        let rule: Box<dyn Fn(u32) -> bool> = if is_by_parity {
            Box::new(is_odd)
        } else {
            // Some clients send more requests before an acquisition than before a timeout.
            let (usual, count) = contended().max_by_key(|(_, count)| *count)?;
            let most = self.gave_up.keys().next_back()?;
            if all < CYCLES_LEAST || !is_usual(count, all) || *most >= usual {
                return None;
            }
            Box::new(move |requests| requests < usual)
        };
        // More timeouts at the grant than before it must have another cause, unless they are rare. Without any timeout
        // before it, rare ones have another cause too, e.g. retries after a lost connection, unless the load ended.
        let at_grant: u64 = contended().filter(|(requests, _)| rule(*requests)).map(|(_, count)| count).sum();
        let most = gave_up.max(((1.0 - USUAL) * all as f64) as u64);
        let has_cause = at_grant == 0 || gave_up > tries || self.are_odd_ones_last();
        (at_grant <= most && has_cause).then_some(rule)
    }

    /// Returns whether contended cycles with an odd number of requests ended only when the load did.
    fn are_odd_ones_last(&self) -> bool {
        let end_ms = self.last_even_ms.map_or(i64::MIN, |ms| ms - CANCELLED_WITHIN_MS);
        self.first_odd_ms.is_none_or(|first| first >= end_ms)
    }

    /// Returns whether contended cycles with an odd number of requests waited about as long as abandoned requests.
    /// Otherwise, their clients also sent other requests, which makes the numbers of requests random.
    fn odd_ones_wait_like_timeouts(&self) -> bool {
        let mut all = Values::default();
        let odd = self.contended.iter().filter(|(requests, _)| is_odd(**requests));
        odd.for_each(|(_, (waits, _))| all.take(waits));
        match (all.quantile(0.5), self.timeouts.quantile(0.1)) {
            (Some(usual), Some(early)) => are_as_long(usual, early),
            _ => true,
        }
    }
}

/// Returns whether waits that usually take this long may be timeouts, given an early timeout.
fn are_as_long(usual_ms: u32, early_ms: u32) -> bool {
    5 * u64::from(usual_ms) >= 4 * u64::from(early_ms)
}

/// Returns the median and the 90th percentile of these waits if they may all be one timeout.
fn one_timeout(waits: &Values) -> Option<(u32, u32)> {
    let at = |share| waits.quantile(share);
    let (early, usual, late) = (at(0.1)?, at(0.5)?, at(0.9)?);
    let is_one = waits.count >= TIMEOUTS_LEAST && late - early <= (usual / 5).max(10);
    (is_one && usual >= TIMEOUT_LEAST_MS).then_some((usual, late))
}

fn is_usual(usual: u64, all: u64) -> bool {
    usual as f64 >= USUAL * all as f64
}

fn is_odd(requests: u32) -> bool {
    requests % 2 == 1
}
