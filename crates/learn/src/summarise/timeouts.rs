//! Distinguishes timeouts and failed tries from acquisitions, by their numbers of requests and their times.

use std::collections::BTreeMap;

use super::{CYCLES_LEAST, Sums};
use crate::cycle::{Cycle, Ending, TIMEOUT_LEAST_MS, TRY_REQUESTS};
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
/// Longest time of a failed try.
const TRY_MOST_MS: u32 = 60_000;

/// How a family's doubtful cycles ended.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rule {
    /// Whether clients waited as long as they may have waited.
    are_late: bool,
    /// Longest time of a failed try; `None` if clients do not try the lock without waiting.
    tries_until_ms: Option<u32>,
    timeouts: Option<Timeouts>,
}

/// Recognises clients that gave up just as they got the lock.
#[derive(Debug, Clone, Copy)]
struct Timeouts {
    /// Number of requests of an acquisition, which is more than those of a timeout; `None` if a timeout has an odd
    /// number of requests.
    fewer_than: Option<u32>,
    /// Shortest and longest wait that ended about when other clients gave up.
    within_ms: (u32, u32),
    /// Time from which the last requests of the load may have been cancelled after any wait.
    cancelled_from_ms: i64,
}

impl Rule {
    /// Returns the cycle as it probably was, and whether its client gave up just as it got the lock.
    pub fn read(&self, cycle: Cycle) -> (Cycle, bool) {
        if self.are_late && cycle.late_ms.is_some() {
            return (cycle.at_latest(), false);
        }
        let is_timeout = |timeouts: Timeouts| {
            let (least, most) = timeouts.within_ms;
            let is_then = cycle.longest_wait_ms().is_some_and(|ms| (least..=most).contains(&ms));
            let is_cancelled = cycle.until_ms() >= timeouts.cancelled_from_ms;
            (is_then || is_cancelled) && timeouts.have(cycle.requests)
        };
        let gave_up = cycle.is_doubtful() && (self.is_try(&cycle) || self.timeouts.is_some_and(is_timeout));
        (if gave_up { cycle.abandoned() } else { cycle }, gave_up)
    }

    /// Returns whether the client probably only tried to get the lock, in vain.
    pub fn is_try(&self, cycle: &Cycle) -> bool {
        let is_brief = |most: u32| cycle.lasts_ms().is_some_and(|ms| ms <= most);
        let may_have_failed = cycle.ending == Ending::GaveUp || cycle.is_doubtful();
        may_have_failed && cycle.requests == TRY_REQUESTS && self.tries_until_ms.is_some_and(is_brief)
    }

    /// Returns whether the rule can recognise clients that gave up just as they got the lock.
    pub(super) fn is_conclusive(&self) -> bool {
        self.tries_until_ms.is_some() || self.timeouts.is_some()
    }
}

impl Timeouts {
    /// Returns whether timeouts have this number of requests.
    fn have(self, requests: u32) -> bool {
        self.fewer_than.map_or(is_odd(requests), |usual| requests < usual)
    }

    /// Counts the waits that this rule takes for timeouts, given waits by number of requests.
    fn count(self, waits: &BTreeMap<u32, Values>) -> u64 {
        let (least, most) = self.within_ms;
        let timeouts = waits.iter().filter(|(requests, _)| self.have(**requests));
        timeouts.map(|(_, waits)| waits.within(least, most)).sum()
    }
}

/// Facts about a family's cycles from which its rule is inferred.
#[derive(Debug, Default)]
pub(super) struct Evidence {
    /// Number of uncontended acquisitions.
    plain: u64,
    /// Holds of uncontended acquisitions that used the usual two requests.
    usual: Values,
    /// Holds of cycles that were certainly acquisitions.
    holds: Values,
    /// Waits of contended acquisitions by number of requests; some may be timeouts at the grant. If a failed try
    /// has as many requests, times from the arrival to the end.
    contended: BTreeMap<u32, Values>,
    /// Latest end of the contended cycles with an even number of requests, and earliest end of those with an odd one.
    last_even_ms: Option<i64>,
    first_odd_ms: Option<i64>,
    /// Waits of abandoned requests by number of requests; 0 if unknown.
    abandoned: BTreeMap<u32, Values>,
    late: Late,
}

/// Clients that may have waited after the presumed grant.
#[derive(Debug, Default)]
struct Late {
    /// Waits if they did, by number of requests.
    contended: BTreeMap<u32, Values>,
    /// Number of clients that got the lock later if they waited.
    served: u64,
    /// Waits of those that gave up if they waited.
    unserved: Values,
}

impl Evidence {
    pub fn add(&mut self, cycle: &Cycle) {
        if cycle.is_carried_over {
            return;
        }
        if let Some(ms) = cycle.held_ms.filter(|_| cycle.is_plain()) {
            self.plain += 1;
            if cycle.requests == TRY_REQUESTS {
                self.usual.add(ms);
            }
        }
        if let Some(ms) = cycle.unserved_ms.filter(|_| cycle.ending == Ending::GaveUp) {
            self.abandoned.entry(limited(cycle.requests)).or_default().add(ms);
        }
        if cycle.late_ms.is_some() {
            let late = cycle.clone().at_latest();
            late.unserved_ms.into_iter().for_each(|ms| self.late.unserved.add(ms));
            self.late.served += u64::from(late.waited_ms.is_some());
        }
        if cycle.is_doubtful() {
            self.add_doubtful(cycle);
        } else if let Some(ms) = cycle.held_ms.filter(|_| cycle.ending == Ending::Released)
            && cycle.late_ms.is_none()
        {
            self.holds.add(ms);
        }
    }

    fn add_doubtful(&mut self, cycle: &Cycle) {
        let ended_ms = cycle.until_ms();
        match is_odd(cycle.requests) {
            true => self.first_odd_ms = Some(self.first_odd_ms.unwrap_or(ended_ms).min(ended_ms)),
            false => self.last_even_ms = self.last_even_ms.max(Some(ended_ms)),
        }
        let is_brief = cycle.requests == TRY_REQUESTS;
        let ms = if is_brief { cycle.lasts_ms() } else { cycle.longest_wait_ms() };
        let all = if cycle.late_ms.is_some() { &mut self.late.contended } else { &mut self.contended };
        if let Some(ms) = ms {
            all.entry(limited(cycle.requests)).or_default().add(ms);
        }
    }

    /// Infers the rule.
    pub fn rule(mut self, recipe: Recipe) -> Rule {
        let late = std::mem::take(&mut self.late);
        let are_late = match recipe {
            // If some readers did not wait for their session's writer, the others held it, too.
            Recipe::CuratorReadWrite => {
                10 * late.served <= late.unserved.count && self.are_timeouts(&late.unserved)
            }
            Recipe::KazooReadWrite => self.has_usual_requests() && self.are_long_timeouts(&late.unserved),
            _ => false,
        };
        if !are_late {
            for (requests, waits) in &late.contended {
                self.contended.entry(*requests).or_default().take(waits);
            }
        }
        let tries_until_ms = self.tries_until_ms();
        if let (Some(ms), Some(brief)) = (tries_until_ms, self.contended.get_mut(&TRY_REQUESTS)) {
            *brief = brief.beyond(ms);
        }
        Rule { are_late, tries_until_ms, timeouts: self.timeouts(tries_until_ms.is_some()) }
    }

    /// Returns whether uncontended cycles take two requests, so that clients with a lock rarely send other requests.
    fn has_usual_requests(&self) -> bool {
        self.plain >= CYCLES_LEAST && is_usual(self.usual.count, self.plain)
    }

    /// Returns whether these waits, if any, are timeouts and longer than most holds.
    fn are_long_timeouts(&self, waits: &Values) -> bool {
        let is_long = waits.quantile(0.1) > self.holds.quantile(0.9);
        waits.count == 0 || is_long && self.are_timeouts(waits)
    }

    /// Returns whether these waits are as long as the other timeouts or, if there are hardly any, equally long.
    fn are_timeouts(&self, waits: &Values) -> bool {
        let all = merged(self.abandoned.values());
        let early = all.quantile(0.1).filter(|_| all.count >= TIMEOUTS_LEAST);
        match (waits.quantile(0.5), early) {
            (Some(usual), Some(early)) => 5 * u64::from(usual) >= 4 * u64::from(early.max(TIMEOUT_LEAST_MS)),
            _ => one_timeout(waits).is_some(),
        }
    }

    /// Returns the time that best separates failed tries from acquisitions with as many requests: as large a share of
    /// the tries takes longer as of the uncontended acquisitions takes less, so that the errors cancel out. `None`
    /// without tries, or if too many take as long as acquisitions.
    fn tries_until_ms(&self) -> Option<u32> {
        let (tries, usual) = (self.abandoned.get(&TRY_REQUESTS)?, &self.usual);
        if tries.count.min(usual.count) < CYCLES_LEAST {
            return None;
        }
        let shares = |ms: u32| (usual.within(0, ms) * tries.count, tries.above(ms) * usual.count);
        let is_balanced = |ms: u32| shares(ms).0 >= shares(ms).1;
        let is_beyond = |ms: u32| shares(ms).0 > shares(ms).1;
        let least = earliest(is_balanced);
        let most_ms = u32::midpoint(least, earliest(is_beyond).saturating_sub(1).max(least));
        let is_rare = |count: u64, of: &Values| 10 * count <= of.count;
        let is_clear = is_rare(tries.above(most_ms), tries) && is_rare(usual.within(0, most_ms), usual);
        is_clear.then_some(most_ms)
    }

    /// Returns a rule that recognises timeouts at the grant; `None` if inconclusive.
    fn timeouts(&self, has_tries: bool) -> Option<Timeouts> {
        let all = count(&self.contended, |_| true);
        let even = count(&self.contended, |requests| !is_odd(requests));
        let gave_up = count(&self.abandoned, |requests| requests > 0);
        let is_even = all >= CYCLES_LEAST && is_usual(even, all);
        let tries = if is_even { count(&self.abandoned, |requests| requests == TRY_REQUESTS) } else { 0 };
        let is_mostly_even = 2 * even > all;
        let is_known = self.has_usual_requests() || is_even || gave_up >= CYCLES_LEAST && is_mostly_even;
        let is_by_parity = is_known
            && is_usual(count(&self.abandoned, is_odd), gave_up - tries)
            && (all < CYCLES_LEAST || is_mostly_even);
        let fewer_than = if is_by_parity {
            None
        } else {
            // Some clients send more requests before an acquisition than before a timeout.
            let (usual, waits) = self.contended.iter().max_by_key(|(_, waits)| waits.count)?;
            let most = self.abandoned.keys().next_back()?;
            if all < CYCLES_LEAST || !is_usual(waits.count, all) || *most == 0 || most >= usual {
                return None;
            }
            Some(*usual)
        };
        let cancelled_from_ms = self.last_even_ms.map_or(i64::MIN, |ms| ms - CANCELLED_WITHIN_MS);
        let rule = Timeouts { fewer_than, within_ms: self.within_ms(has_tries), cancelled_from_ms };
        // More timeouts at the grant than before it must have another cause, unless they are rare. Without any timeout
        // before it, rare ones have another cause too, e.g. retries after a lost connection, unless the load ended.
        let at_grant = rule.count(&self.contended);
        let most = gave_up.max(((1.0 - USUAL) * all as f64) as u64);
        // Whether contended cycles with an odd number of requests ended only when the load did.
        let are_odd_ones_last = self.first_odd_ms.is_none_or(|first| first >= cancelled_from_ms);
        let has_cause = at_grant == 0 || gave_up > tries || are_odd_ones_last;
        (at_grant <= most && has_cause).then_some(rule)
    }

    /// Returns the shortest and longest wait for which a client that is about to give up may get the lock.
    fn within_ms(&self, has_tries: bool) -> (u32, u32) {
        let is_wait = |requests: u32| !has_tries || requests != TRY_REQUESTS;
        let waits = self.abandoned.iter().filter(|(requests, _)| is_wait(**requests));
        let waits = merged(waits.map(|(_, waits)| waits));
        match waits.quantile(0.05).filter(|_| waits.count >= TIMEOUTS_LEAST) {
            Some(early) => {
                let least = early.saturating_sub(TIMEOUT_LATE_MS.max(early / 5));
                (least, waits.most().saturating_add(TIMEOUT_LATE_MS))
            }
            None => (0, u32::MAX),
        }
    }
}

impl Sums {
    /// Returns the clients' timeout, if most abandoned requests waited for about the same time, and hardly any
    /// request waited longer.
    pub(super) fn timeout_us(&self) -> Option<u64> {
        let (usual, late) = one_timeout(&self.timeouts)?;
        let longer = self.waits.above(late.saturating_add(TIMEOUT_LATE_MS));
        (10 * longer <= self.timeouts.count).then_some(u64::from(usual) * 1_000)
    }
}

/// Caps a number of requests, keeping its parity. Threads that share a session may send any number of
/// requests between a create and its delete.
fn limited(requests: u32) -> u32 {
    const LIMIT: u32 = 1_000;
    if requests < LIMIT { requests } else { LIMIT + requests % 2 }
}

/// Returns the earliest time for which the condition holds, if it holds for all later times.
fn earliest(condition: impl Fn(u32) -> bool) -> u32 {
    let (mut low, mut high) = (0, TRY_MOST_MS);
    while low < high {
        let middle = u32::midpoint(low, high);
        if condition(middle) { high = middle } else { low = middle + 1 }
    }
    low
}

fn merged<'a>(parts: impl Iterator<Item = &'a Values>) -> Values {
    let mut all = Values::default();
    parts.for_each(|part| all.take(part));
    all
}

/// Returns the number of values with such a number of requests.
fn count(values: &BTreeMap<u32, Values>, is_such: impl Fn(u32) -> bool) -> u64 {
    values.iter().filter(|(requests, _)| is_such(**requests)).map(|(_, values)| values.count).sum()
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
