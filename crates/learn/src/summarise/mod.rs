//! Summarises cycles by families of locks.

mod kind;
mod timeouts;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::time::Duration;

use crate::cycle::{Cycle, Ending, Overlap, UNKNOWN_SESSION};
use crate::family::families;
use crate::fit::{WindowCounts, zipf};
use crate::recipe::Recipe;
use crate::reconstruct::{Lock, Observed, Staying};
use crate::summary::{Endings, Family, FamilyKind, Key, LongWait, OverTime, StayingNode, Writes};
use crate::times::{Handoff, HandoffBasis, Shift, Times, Values};
use kind::{kind, load};
use timeouts::Late;
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
/// Minimum number of cycles for a conclusion from request counts or handoffs.
const CYCLES_LEAST: u64 = 20;

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
    /// Whether clients waited as long as they may have waited.
    pub are_late: bool,
    /// Creates and deletes of nodes within the scope.
    pub writes: u64,
}

/// Cycles of a session.
#[derive(Debug, Clone, Copy)]
struct Presence {
    cycles: u64,
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
    /// Latest end of the contended cycles with an even number of requests, and earliest end of those with an odd one.
    last_even_ms: Option<i64>,
    first_odd_ms: Option<i64>,
    /// Waits and holds of contended cycles that may be failed tries.
    perhaps_tries: (Values, Values),
    /// Whether the cycles in `perhaps_tries` are failed tries.
    has_tries: bool,
    late: Late,
    /// Whether the clients in `late` waited as long as they may have waited.
    are_late: bool,
    since: Values,
    after_releases: BTreeMap<u32, u64>,
    handoffs: Values,
    /// Number of uncontended acquisitions, and how many of them used the usual two requests.
    plain: (u64, u64),
    /// Number of cycles that timed out, by the number of requests.
    gave_up: BTreeMap<u32, u64>,
    timeouts: Values,
    sessions: HashMap<i64, Presence>,
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
            let unseen = Presence { cycles: 0, first_ms: cycle.arrived_ms, last_ms: cycle.arrived_ms };
            let session = self.sessions.entry(cycle.session).or_insert(unseen);
            session.cycles += 1;
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
        if let Some(ms) = cycle.after_release_ms {
            *self.after_releases.entry(ms).or_default() += 1;
        }
        if let Some(ms) = cycle.handoff_ms {
            self.handoffs.add(ms);
        }
        if cycle.is_plain() {
            self.plain = (self.plain.0 + 1, self.plain.1 + u64::from(cycle.requests == 2));
        }
        if cycle.ending == Ending::GaveUp && cycle.requests > 0 {
            *self.gave_up.entry(limited(cycle.requests)).or_default() += 1;
        }
        if let Some(ms) = cycle.unserved_ms.filter(|_| cycle.ending == Ending::GaveUp) {
            self.timeouts.add(ms);
        }
        let is_clear = cycle.ending != Ending::Released || !cycle.is_contended || cycle.requests == 0;
        if !is_clear {
            self.note_parity(cycle);
        }
        let (waits, holds) = if cycle.late_ms.is_some() {
            self.late.add(cycle, if is_clear { 0 } else { limited(cycle.requests) })
        } else if is_clear {
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
        let Sums { holds, since, has_tries, are_late, writes, .. } = sums;
        let values = FamilyValues { holds, since, contenders, has_tries, are_late, writes };
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
        sums.settle_late(recipe);
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
            most_by_one_session: sums.sessions.values().map(|session| session.cycles).max().unwrap_or(0),
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
        for (ms, count) in &sums.after_releases {
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
