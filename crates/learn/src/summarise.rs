//! Summarises cycles by families of locks.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::time::Duration;

use crate::cycle::{Cycle, Ending, Overlap, TIMEOUT_LEAST_MS, TRY_REQUESTS, UNKNOWN_SESSION};
use crate::family::families;
use crate::fit::{WindowCounts, zipf};
use crate::recipe::Recipe;
use crate::reconstruct::{Lock, Observed, Staying};
use crate::summary::{
    Endings, Family, FamilyKind, Key, LearnedLoad, LongWait, OverTime, StayingNode, Writes,
};
use crate::times::{Handoff, HandoffBasis, Shift, Times, Values};
use zklockbench_core::clock::micros;

const KEYS_SHOWN: usize = 20;
const WAITS_SHOWN: usize = 20;
const STAYING_SHOWN: usize = 20;
/// Number of intervals into which the whole period is divided.
const BINS: i64 = 120;
const BIN_LEAST_MS: i64 = 100;
/// Shortest period over which a rate is computed.
const ACTIVE_LEAST_MS: i64 = 1_000;
const WINDOWS_MS: [i64; 3] = [100, 1_000, 10_000];
/// Longest time from a release to the next request that may consist only of a commit and round trips.
const SHORT_MS: u32 = 10;
/// Handoff to assume if the logs do not reveal it: typical of servers in one data centre.
const ASSUMED_US: u64 = 2_000;
/// Minimum share of cycles that must have the usual number of requests before conclusions are drawn from that
/// number.
const USUAL: f64 = 0.95;
/// Minimum number of cycles for a conclusion from request counts or handoffs.
const CYCLES_LEAST: u64 = 20;

/// Minimum number of abandoned requests from which a timeout is inferred.
const TIMEOUTS_LEAST: u64 = 5;
/// Maximum time by which a wait may exceed the timeout, e.g. because the client is busy.
const TIMEOUT_LATE_MS: u32 = 50;

#[derive(Debug, Clone, Copy, Default)]
pub struct Asked {
    /// The handoff, if specified by the user.
    pub handoff: Option<Duration>,
    /// Whether names are replaced by hashes.
    pub is_anonymous: bool,
}

/// Families, and the index of each lock's family.
#[derive(Debug)]
pub struct Summarised {
    pub families: Vec<Family>,
    pub of_lock: Vec<usize>,
    pub values: Vec<FamilyValues>,
}

/// Values of a family from which its scenario is written.
#[derive(Debug)]
pub struct FamilyValues {
    /// Logged holds.
    pub holds: Values,
    /// Times from a release to the next request.
    pub since: Values,
    /// Largest number of sessions at the same time.
    pub contenders: usize,
    /// Whether brief holds after another client's are failed tries.
    pub has_tries: bool,
    /// Creates and deletes of nodes within the scope.
    pub writes: u64,
}

/// Cycles of a session.
#[derive(Debug, Clone, Copy)]
struct Presence {
    cycles: u32,
    /// The session's first lock.
    lock: u32,
    first_ms: i64,
    last_ms: i64,
}

/// Sums over a family's cycles.
#[derive(Debug, Default)]
struct Sums {
    arrivals: u64,
    reads: u64,
    granted: u64,
    endings: Endings,
    waits: Values,
    holds: Values,
    /// Waits and holds of contended cycles, by number of requests; some may be timeouts at the grant.
    contended: BTreeMap<u32, (Values, Values)>,
    /// Waits and holds of contended cycles that may be failed tries.
    perhaps_tries: (Values, Values),
    /// Whether these cycles are failed tries.
    has_tries: bool,
    since: Values,
    handoffs: Values,
    /// Number of uncontended acquisitions, and how many of them used the usual two requests.
    plain: (u64, u64),
    /// Number of cycles that timed out, by the number of requests.
    gave_up: BTreeMap<u32, u64>,
    timeouts: Values,
    sessions: HashMap<i64, Presence>,
    /// Whether a session used several locks.
    are_sessions_roaming: bool,
    /// Number of cycles with a known number of requests, and how many sent none between the create and the delete.
    immediate: (u64, u64),
    /// Number of acquisitions after a wait.
    contended_grants: u64,
    keys: HashMap<u32, u64>,
    bins: Vec<(f64, f64)>,
    windows: [WindowCounts; 3],
    longest: BTreeMap<(u32, i64, i64, u64), (u32, bool)>,
    writes: u64,
    waited_ms: f64,
    /// Latest end of a wait.
    waited_until_ms: i64,
    /// First and last arrival.
    active_ms: Option<(i64, i64)>,
}

impl Sums {
    fn new(bins: usize) -> Self {
        Self { bins: vec![(0.0, 0.0); bins], windows: WINDOWS_MS.map(WindowCounts::of), ..Self::default() }
    }

    fn add(&mut self, cycle: &Cycle, span: &Span) {
        self.add_ending(cycle);
        self.writes += u64::from(cycle.writes);
        if cycle.is_carried_over {
            return;
        }
        self.arrivals += 1;
        self.reads += u64::from(cycle.is_read);
        self.granted += u64::from(cycle.is_granted);
        self.contended_grants += u64::from(cycle.is_granted && cycle.is_contended);
        if cycle.session != UNKNOWN_SESSION {
            let (lock, at_ms) = (cycle.lock, cycle.arrived_ms);
            let unseen = Presence { cycles: 0, lock, first_ms: at_ms, last_ms: at_ms };
            let session = self.sessions.entry(cycle.session).or_insert(unseen);
            session.cycles = session.cycles.saturating_add(1);
            self.are_sessions_roaming |= session.lock != lock;
            session.last_ms = session.last_ms.max(cycle.until_ms());
        }
        *self.keys.entry(cycle.lock).or_default() += 1;
        self.active_ms.get_or_insert((cycle.arrived_ms, 0)).1 = cycle.arrived_ms;
        let after_ms = cycle.arrived_ms - span.first_ms;
        self.windows.iter_mut().for_each(|window| window.add(after_ms));
        if let Some((arrivals, _)) = self.bins.get_mut(span.bin(cycle.arrived_ms)) {
            *arrivals += 1.0;
        }
        self.add_times(cycle, span);
    }

    fn add_ending(&mut self, cycle: &Cycle) {
        let of = &mut self.endings;
        let count = match (cycle.ending, cycle.is_granted) {
            (Ending::Released, _) => &mut of.released,
            (Ending::GaveUp, _) => &mut of.gave_up,
            (Ending::SessionEnded, true) => &mut of.session_ended_holding,
            (Ending::SessionEnded, false) => &mut of.session_ended_waiting,
            (Ending::Broken, _) => &mut of.broken,
            (Ending::Open, _) => &mut of.open,
            (Ending::Unobserved, _) => &mut of.unobserved,
        };
        *count += 1;
    }

    fn add_times(&mut self, cycle: &Cycle, span: &Span) {
        if let Some(ms) = cycle.since_ms {
            self.since.add(ms);
        }
        if let Some(ms) = cycle.handoff_ms {
            self.handoffs.add(ms);
        }
        if cycle.is_plain() {
            self.plain = (self.plain.0 + 1, self.plain.1 + u64::from(cycle.requests == 2));
        }
        if cycle.requests > 0 {
            self.immediate = (self.immediate.0 + 1, self.immediate.1 + u64::from(cycle.requests == 1));
        }
        if cycle.ending == Ending::GaveUp && cycle.requests > 0 {
            *self.gave_up.entry(limited(cycle.requests)).or_default() += 1;
        }
        if let Some(ms) = cycle.unserved_ms.filter(|_| cycle.ending == Ending::GaveUp) {
            self.timeouts.add(ms);
        }
        let is_clear = cycle.ending != Ending::Released || !cycle.is_contended || cycle.requests == 0;
        let (waits, holds) = if is_clear {
            (&mut self.waits, &mut self.holds)
        } else if cycle.may_be_try() {
            (&mut self.perhaps_tries.0, &mut self.perhaps_tries.1)
        } else {
            let (waits, holds) = self.contended.entry(limited(cycle.requests)).or_default();
            (waits, holds)
        };
        if let Some(ms) = cycle.waited_ms {
            waits.add(ms);
        }
        if let Some(ms) = cycle.held_ms.filter(|_| cycle.ending == Ending::Released) {
            holds.add(ms);
        }
        let waited_ms = cycle.waited_ms.or(cycle.unserved_ms).or_else(|| {
            let until_the_end = u32::try_from(span.last_ms - cycle.arrived_ms).ok();
            until_the_end.filter(|_| cycle.ending == Ending::Open && !cycle.is_granted)
        });
        if let Some(ms @ 1..) = waited_ms {
            self.add_wait(cycle, ms, span);
        }
    }

    fn add_wait(&mut self, cycle: &Cycle, ms: u32, span: &Span) {
        self.waited_ms += f64::from(ms);
        let (from, to) = (cycle.arrived_ms, cycle.arrived_ms + i64::from(ms));
        self.waited_until_ms = self.waited_until_ms.max(to);
        for bin in span.bin(from)..=span.bin(to) {
            let begins = span.first_ms + bin as i64 * span.bin_ms;
            let overlap = to.min(begins + span.bin_ms) - from.max(begins);
            if let Some((_, waiting)) = self.bins.get_mut(bin) {
                *waiting += overlap.max(0) as f64;
            }
        }
        // The number of the arrival distinguishes requests whose sessions are unknown.
        self.longest.insert((ms, -from, cycle.session, self.arrivals), (cycle.lock, cycle.is_granted));
        if self.longest.len() > WAITS_SHOWN {
            self.longest.pop_first();
        }
    }

    /// Returns the largest number of sessions at the same time, from the first request to the last end of each.
    fn contenders(&self) -> usize {
        let mut sessions: Vec<(i64, i64)> =
            self.sessions.values().map(|session| (session.first_ms, session.last_ms)).collect();
        sessions.sort_unstable();
        let mut overlap = Overlap::default();
        sessions.iter().for_each(|(first_ms, last_ms)| overlap.add(*first_ms, *last_ms));
        overlap.most
    }

    /// Returns whether each of several sessions has a node of its own, without contention, and rarely creates it
    /// again. Members of a barrier or a party do so; clients that lock different keys request them more often.
    fn are_members(&self) -> bool {
        let sessions = self.sessions.len() as u64;
        let own = !self.are_sessions_roaming && self.sessions.len() == self.keys.len();
        sessions > 1 && own && self.contended_grants == 0 && self.arrivals < CYCLES_LEAST * sessions
    }

    /// Returns the clients' timeout, if most abandoned requests waited for about the same time, and hardly any
    /// request waited longer.
    fn timeout_us(&self) -> Option<u64> {
        let at = |share| self.timeouts.quantile(share);
        let (early, usual, late) = (at(0.1)?, at(0.5)?, at(0.9)?);
        let is_one = self.timeouts.count >= TIMEOUTS_LEAST && late - early <= (usual / 5).max(10);
        let longer = self.waits.above(late.saturating_add(TIMEOUT_LATE_MS));
        let is_timeout = usual >= TIMEOUT_LEAST_MS && 10 * longer <= self.timeouts.count;
        (is_one && is_timeout).then_some(u64::from(usual) * 1_000)
    }

    /// Removes and counts the cycles that timed out just as the lock became free; `None` if inconclusive.
    fn take_given_up_at_grant(&mut self) -> Option<u64> {
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
        let tries = self.gave_up.get(&TRY_REQUESTS).copied().unwrap_or(0);
        let shortest = self.holds.quantile(0.01).filter(|_| self.holds.count >= CYCLES_LEAST);
        tries >= CYCLES_LEAST && shortest.is_some_and(|ms| ms >= TIMEOUT_LEAST_MS)
    }

    /// Returns a rule that recognises a timeout by the number of requests; `None` if inconclusive.
    fn is_timeout(&self) -> Option<Box<dyn Fn(u32) -> bool>> {
        let is_usual = |usual: u64, all: u64| usual as f64 >= USUAL * all as f64;
        let is_odd = |requests: u32| requests % 2 == 1;
        let contended = || self.contended.iter().map(|(requests, (waits, _))| (*requests, waits.count));
        let all: u64 = contended().map(|(_, count)| count).sum();
        let even: u64 = contended().filter(|(requests, _)| !is_odd(*requests)).map(|(_, count)| count).sum();
        let gave_up: u64 = self.gave_up.values().sum();
        let gave_up_odd: u64 =
            self.gave_up.iter().filter(|(requests, _)| is_odd(**requests)).map(|(_, count)| count).sum();
        let (plain, plain_usual) = self.plain;
        let is_even = all >= CYCLES_LEAST && is_usual(even, all);
        let is_known = plain >= CYCLES_LEAST && is_usual(plain_usual, plain)
            || is_even
            || gave_up >= CYCLES_LEAST && 2 * even > all && self.wait_like_timeouts(&is_odd);
        let tries = self.gave_up.get(&TRY_REQUESTS).copied().filter(|_| is_even).unwrap_or(0);
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
        // More timeouts at the grant than before it must have another cause, unless they are rare.
        let at_grant: u64 = contended().filter(|(requests, _)| rule(*requests)).map(|(_, count)| count).sum();
        let most = gave_up.max(((1.0 - USUAL) * all as f64) as u64);
        (at_grant <= most).then_some(rule)
    }

    /// Returns whether these contended cycles waited about as long as abandoned requests. Otherwise, their clients also
    /// sent other requests, which makes the numbers of requests random.
    fn wait_like_timeouts(&self, is_timeout: &dyn Fn(u32) -> bool) -> bool {
        let mut all = Values::default();
        let timeouts = self.contended.iter().filter(|(requests, _)| is_timeout(**requests));
        timeouts.for_each(|(_, (waits, _))| all.take(waits));
        match (all.quantile(0.5), self.timeouts.quantile(0.1)) {
            (Some(usual), Some(early)) => 5 * u64::from(usual) >= 4 * u64::from(early),
            _ => true,
        }
    }
}

/// The observed period, divided into intervals.
struct Span {
    first_ms: i64,
    last_ms: i64,
    bin_ms: i64,
}

impl Span {
    fn of(observed: &Observed) -> Self {
        let lasts_ms = observed.last_ms - observed.first_ms + 1;
        let bin_ms = (lasts_ms / BINS + 1).max(BIN_LEAST_MS);
        Self { first_ms: observed.first_ms, last_ms: observed.last_ms, bin_ms }
    }

    fn bins(&self) -> usize {
        self.bin(self.last_ms) + 1
    }

    fn bin(&self, ms: i64) -> usize {
        usize::try_from((ms.min(self.last_ms) - self.first_ms) / self.bin_ms).unwrap_or(0)
    }

    fn lasts_ms(&self) -> i64 {
        (self.last_ms - self.first_ms).max(1)
    }
}

/// Returns the writes of the whole source. Only those of locks' families count as writes by locks.
pub fn writes(observed: &Observed, found: &Summarised) -> Writes {
    let counts = &observed.counts;
    let families = found.families.iter().zip(&found.values);
    let by_others =
        families.filter(|(family, _)| family.kind != FamilyKind::Lock).map(|(_, values)| values.writes);
    let by_locks = counts.lock_writes.saturating_sub(by_others.sum());
    Writes {
        transactions: counts.records,
        all: counts.writes,
        by_locks,
        lock_share: by_locks as f64 / counts.writes.max(1) as f64,
        sessions: counts.sessions,
        failed: counts.failed.clone(),
    }
}

pub fn summarise(observed: &Observed, asked: Asked) -> io::Result<Summarised> {
    let paths: Vec<&[u8]> = observed.locks.iter().map(|lock| &*lock.path).collect();
    let (names, name_of_lock) = families(&paths);
    let named = || name_of_lock.iter().copied().zip(observed.locks.iter().map(|lock| lock.recipes.one()));
    // Locks that no reader has used yet look like kazoo's plain locks.
    let with_readers: HashSet<usize> =
        named().filter(|(_, recipe)| *recipe == Recipe::KazooReadWrite).map(|(name, _)| name).collect();
    let mut numbers: BTreeMap<(usize, Recipe), usize> = BTreeMap::new();
    let of_lock: Vec<usize> = named()
        .map(|(name, recipe)| {
            let is_shared = recipe == Recipe::Kazoo && with_readers.contains(&name);
            let next = numbers.len();
            *numbers.entry((name, if is_shared { Recipe::KazooReadWrite } else { recipe })).or_insert(next)
        })
        .collect();
    let span = Span::of(observed);
    let mut sums: Vec<Sums> = (0..numbers.len()).map(|_| Sums::new(span.bins())).collect();
    for cycle in observed.cycles.iter()? {
        let cycle = cycle?;
        let family = of_lock.get(cycle.lock as usize).and_then(|family| sums.get_mut(*family));
        if let Some(family) = family {
            family.add(&cycle, &span);
        }
    }
    let context = Context { observed, span: &span, asked, names: Names::of(asked.is_anonymous) };
    let mut nodes: Vec<Nodes<'_>> = vec![Nodes::default(); numbers.len()];
    for (lock, number) in observed.locks.iter().zip(&of_lock) {
        nodes[*number].locks.push(lock);
    }
    for node in &observed.staying {
        if let Some(number) = of_lock.get(node.lock as usize) {
            nodes[*number].staying.push(node);
        }
    }
    let mut keyed: Vec<(usize, Family, FamilyValues)> = Vec::new();
    for ((name, recipe), number) in numbers {
        let mut sums = std::mem::take(&mut sums[number]);
        let family = context.family(&names[name], recipe, &nodes[number], &mut sums);
        let contenders = sums.contenders();
        let Sums { holds, since, has_tries, writes, .. } = sums;
        let values = FamilyValues { holds, since, contenders, has_tries, writes };
        keyed.push((number, family, values));
    }
    keyed.sort_by(|(_, one, _), (_, other, _)| {
        other.acquisitions.cmp(&one.acquisitions).then_with(|| one.name.cmp(&other.name))
    });
    let mut positions = vec![0; keyed.len()];
    for (at, (number, ..)) in keyed.iter().enumerate() {
        positions[*number] = at;
    }
    let of_lock = of_lock.iter().map(|number| positions[*number]).collect();
    let (families, values) = keyed.into_iter().map(|(_, family, values)| (family, values)).unzip();
    Ok(Summarised { families, of_lock, values })
}

/// Locks of a family, and their nodes that still exist.
#[derive(Debug, Clone, Default)]
struct Nodes<'a> {
    locks: Vec<&'a Lock>,
    staying: Vec<&'a Staying>,
}

struct Context<'a> {
    observed: &'a Observed,
    span: &'a Span,
    asked: Asked,
    names: Names,
}

impl Context<'_> {
    fn family(&self, name: &str, recipe: Recipe, nodes: &Nodes<'_>, sums: &mut Sums) -> Family {
        let at_grant = sums.take_given_up_at_grant();
        let timeout_us = sums.timeout_us();
        let locks = &nodes.locks;
        let handoff = self.handoff(sums);
        let keys = self.keys(sums);
        let (first_ms, last_ms) = sums.active_ms.unwrap_or((self.span.first_ms, self.span.first_ms));
        let lasts_ms = (last_ms - first_ms).max(ACTIVE_LEAST_MS);
        let acquisitions = sums.granted - at_grant.unwrap_or(0);
        let mut endings = std::mem::take(&mut sums.endings);
        endings.released -= at_grant.unwrap_or(0);
        endings.gave_up_at_grant = at_grant;
        let mut counts: Vec<u64> = sums.keys.values().copied().collect();
        counts.sort_unstable_by(|one, other| other.cmp(one));
        let (staying_nodes, staying) = self.staying(sums, &nodes.staying);
        let windows = sums.windows.iter().filter_map(|window| window.clone().finish(self.span.lasts_ms()));
        Family {
            name: self.names.of_path(name),
            recipe,
            kind: kind(name, recipe, sums, &endings, timeout_us),
            locks: locks.len() as u64,
            empty_directories: Self::empty_directories(locks, recipe),
            sessions: sums.sessions.len() as u64,
            most_by_one_session: sums
                .sessions
                .values()
                .map(|session| session.cycles)
                .max()
                .unwrap_or(0)
                .into(),
            arrivals: sums.arrivals,
            reads: sums.reads,
            acquisitions,
            from_us: (first_ms - self.span.first_ms).unsigned_abs() * 1_000,
            lasts_us: lasts_ms.unsigned_abs() * 1_000,
            rate: acquisitions as f64 * 1e3 / lasts_ms as f64,
            hold: Times::of(&sums.holds, Shift::HoldsTooLong, &handoff),
            wait: Times::of(&sums.waits, Shift::WaitsTooShort, &handoff),
            timeout_us,
            handoff,
            longest_queue: locks.iter().map(|lock| u64::from(lock.longest)).max().unwrap_or(0),
            waiting_mean: sums.waited_ms / lasts_ms.max(sums.waited_until_ms - first_ms) as f64,
            keys,
            zipf: zipf(&counts),
            load: load(sums),
            dispersion: windows.collect(),
            over_time: self.over_time(sums),
            longest_waits: self.longest_waits(sums),
            staying_nodes,
            staying,
            endings,
        }
    }

    /// Estimates the part of a logged time that is handoff.
    fn handoff(&self, sums: &Sums) -> Handoff {
        let us = |ms: u32| u64::from(ms) * 1_000;
        let of = |least_us, estimate_us: u64, most_us, basis| Handoff {
            least_us,
            estimate_us,
            most_us,
            p99_us: estimate_us * Handoff::TAIL,
            basis,
        };
        if let Some(given) = self.asked.handoff.map(micros) {
            return of(given, given, given, HandoffBasis::Given);
        }
        let exact = |values: &Values, share| values.quantile_us(share).map_or(0, |us| us as u64);
        if sums.handoffs.count >= CYCLES_LEAST {
            let [least_us, estimate_us, most_us, p99_us] =
                [0.05, 0.5, 0.95, 0.99].map(|share| exact(&sums.handoffs, share));
            return Handoff { least_us, estimate_us, most_us, p99_us, basis: HandoffBasis::Measured };
        }
        let hold = |share: f64| sums.holds.quantile(share).map(us).unwrap_or(0);
        // Each logged hold contains a handoff. If holds vary, the shortest holds are mostly handoff.
        let (shortest, usual) = (hold(0.05), hold(0.5));
        let most_us = usual.min(3 * shortest);
        let (mut short, mut all) = (Values::default(), Values::default());
        for (ms, count) in &self.observed.after_releases {
            all.add_many(*ms, *count);
            if *ms <= SHORT_MS {
                short.add_many(*ms, *count);
            }
        }
        let is_short = 2 * short.count > all.count;
        // If most times include a long pause, consider only the short times.
        let times = if is_short { &all } else { &short };
        // If the short times are only the shortest of many long pauses, they are spread evenly up to the limit.
        let are_early = is_short || exact(&short, 0.5) < us(SHORT_MS) / 2;
        if times.count < CYCLES_LEAST || !are_early || !are_without_pause(times) {
            return of(0, (most_us / 2).min(ASSUMED_US), most_us, HandoffBasis::Bounded);
        }
        let estimate_us = exact(times, 0.5).min(shortest);
        let found = of(0, estimate_us, most_us, HandoffBasis::Estimated);
        match is_short {
            true => Handoff {
                most_us: most_us.min(4 * estimate_us + 1_000),
                p99_us: exact(&all, 0.99).max(estimate_us),
                ..found
            },
            false => found,
        }
    }

    fn keys(&self, sums: &Sums) -> Vec<Key> {
        let mut keys: Vec<(u64, &[u8])> = sums
            .keys
            .iter()
            .filter_map(|(lock, count)| Some((*count, &*self.observed.locks.get(*lock as usize)?.path)))
            .collect();
        keys.sort_unstable_by(|one, other| other.0.cmp(&one.0).then(one.1.cmp(other.1)));
        let key = |(arrivals, path): (u64, &[u8])| Key {
            lock: self.names.of_path(&String::from_utf8_lossy(path)),
            arrivals,
            share: arrivals as f64 / sums.arrivals.max(1) as f64,
        };
        keys.into_iter().take(KEYS_SHOWN).map(key).collect()
    }

    fn empty_directories(locks: &[&Lock], recipe: Recipe) -> u64 {
        if recipe.is_single() {
            return 0;
        }
        locks.iter().filter(|lock| lock.remains && !lock.is_in_use).count() as u64
    }

    fn over_time(&self, sums: &Sums) -> OverTime {
        let bin_ms = self.span.bin_ms as f64;
        OverTime {
            bin_us: self.span.bin_ms.unsigned_abs() * 1_000,
            arrivals: sums.bins.iter().map(|(arrivals, _)| arrivals * 1e3 / bin_ms).collect(),
            waiting: sums.bins.iter().map(|(_, waiting)| waiting / bin_ms).collect(),
        }
    }

    fn longest_waits(&self, sums: &Sums) -> Vec<LongWait> {
        let wait =
            |((ms, minus_at, session, _), (lock, is_granted)): (&(u32, i64, i64, u64), &(u32, bool))| {
                LongWait {
                    lock: self.name_of(*lock),
                    at_us: (-minus_at - self.span.first_ms).unsigned_abs() * 1_000,
                    waited_us: u64::from(*ms) * 1_000,
                    session: session_name(*session),
                    is_granted: *is_granted,
                }
            };
        sums.longest.iter().rev().map(wait).collect()
    }

    fn name_of(&self, lock: u32) -> String {
        let path = self.observed.locks.get(lock as usize).map(|lock| String::from_utf8_lossy(&lock.path));
        self.names.of_path(&path.unwrap_or_default())
    }

    /// Returns the number of nodes older than an hour and older than ten times the 99th percentile of the holds,
    /// and the oldest of them.
    fn staying(&self, sums: &Sums, nodes: &[&Staying]) -> (u64, Vec<StayingNode>) {
        const HOUR_MS: i64 = 3_600_000;
        let usual = sums.holds.quantile(0.99).map_or(0, |ms| 10 * i64::from(ms));
        let age = |arrived_ms: i64| self.observed.last_ms - arrived_ms;
        let old = nodes.iter().filter(|node| age(node.arrived_ms) > usual.max(HOUR_MS));
        let node = |node: &&Staying| StayingNode {
            lock: self.name_of(node.lock),
            session: session_name(node.session),
            age_us: age(node.arrived_ms).unsigned_abs() * 1_000,
            is_holder: node.is_holder,
        };
        (old.clone().count() as u64, old.take(STAYING_SHOWN).map(node).collect())
    }
}

fn session_name(session: i64) -> String {
    if session == UNKNOWN_SESSION { "unknown".to_owned() } else { format!("{session:#x}") }
}

/// Caps a number of requests, keeping its parity. Threads that share a session may send any number of
/// requests between a create and its delete.
fn limited(requests: u32) -> u32 {
    const LIMIT: u32 = 1_000;
    if requests < LIMIT { requests } else { LIMIT + requests % 2 }
}

/// Returns whether these times from a release to the next request contain no pause. Pauses vary, so some are
/// much shorter than usual; a commit and round trips take a minimum time.
fn are_without_pause(times: &Values) -> bool {
    const FAST_US: f64 = 2_000.0;
    let at = |share| times.quantile_us(share).unwrap_or(0.0);
    at(0.5) <= FAST_US || at(0.1) >= 0.4 * at(0.5)
}

/// Classifies a family. Ephemeral nodes that are not reused, or not held alternately, are not locks. A client that
/// deletes a sequential node without a read in between, e.g. to draw a number, does not know its position in a queue.
fn kind(name: &str, recipe: Recipe, sums: &Sums, endings: &Endings, timeout_us: Option<u64>) -> FamilyKind {
    let ended = endings.released + endings.gave_up;
    let in_turns = 10 * endings.released >= 9 * ended
        || timeout_us.is_some()
        || sums.contended_grants > 0 && 2 * endings.released >= ended;
    let (requests_known, immediate) = sums.immediate;
    match recipe {
        recipe if recipe.is_election() => FamilyKind::Election,
        Recipe::SingleNode => kind_of_single_node(name, sums, endings),
        Recipe::Sequential
            if sums.arrivals < 2 || !in_turns || ended == 0 || 2 * immediate > requests_known =>
        {
            FamilyKind::Registry
        }
        Recipe::ClickHouse => FamilyKind::Registry,
        _ => FamilyKind::Lock,
    }
}

fn kind_of_single_node(name: &str, sums: &Sums, endings: &Endings) -> FamilyKind {
    let ended = endings.released + endings.gave_up;
    let by_sessions = endings.session_ended_holding + endings.session_ended_waiting;
    let is_contended = sums.contended_grants > 0;
    let is_reused = sums.arrivals > 0 && sums.arrivals >= 2 * sums.keys.len() as u64;
    // Other sessions delete the nodes of barriers and tasks, but rarely break locks.
    let is_shared = 4 * endings.broken > ended;
    match name.rsplit('/').next() {
        _ if !is_reused && (!is_contended || by_sessions > ended) => FamilyKind::Registry,
        _ if by_sessions > ended && is_contended => FamilyKind::Election,
        _ if by_sessions > ended || is_shared || sums.are_members() => FamilyKind::Registry,
        Some("controller" | "leader" | "master") => FamilyKind::Election,
        _ => FamilyKind::Lock,
    }
}

/// Classifies a load: closed if its sessions request the lock again soon after a release.
fn load(sums: &Sums) -> LearnedLoad {
    const SOON_MS: f64 = 20.0;
    let cycle_ms = sums.waits.mean_ms() + sums.holds.mean_ms();
    let returns = sums.since.count as f64 >= 0.8 * sums.arrivals as f64;
    let one_lock = sums.keys.len() == 1;
    match (sums.since.quantile(0.5), sums.since.quantile(0.9)) {
        (Some(median), Some(late))
            if returns && one_lock && f64::from(late) <= SOON_MS.max(cycle_ms / 4.0) =>
        {
            LearnedLoad::Closed { think_p50_us: u64::from(median) * 1_000 }
        }
        _ => LearnedLoad::Open,
    }
}

/// Names to display, which may be hashed.
struct Names(Option<RandomState>);

impl Names {
    fn of(is_anonymous: bool) -> Self {
        Self(is_anonymous.then(RandomState::new))
    }

    /// Returns the path, or its components hashed with this run's key.
    fn of_path(&self, path: &str) -> String {
        let Some(key) = &self.0 else { return path.to_owned() };
        let hashed = |part: &str| match part {
            "" | "{id}" => part.to_owned(),
            part => format!("{:08x}", key.hash_one(part) as u32),
        };
        path.split('/').map(hashed).collect::<Vec<_>>().join("/")
    }
}
