//! State of one lock path, shared by the contenders of this process: the exclusion oracle, arrival order, and
//! release stamps for handoffs and notifications. Uses atomics; mutexes are limited to trials with faults or
//! histories.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use super::fence::Fence;
use super::unserved::UnservedTime;
use zklockbench_core::catalog::Mode;
use zklockbench_core::clock::Stamp;
use zklockbench_core::ring::Ring;
use zklockbench_locks::Held;
use zklockbench_record::history::LockKind;
use zklockbench_record::{LockClaim, Occupant};
use zklockbench_zk::changes::ChangeLog;

/// Number of release stamps kept; a notification is never later than this many releases.
const REMEMBERED: usize = 1 << 14;
/// Number of recent releases kept for notifications that do not identify their release. A contender that
/// loses race after race only processes its notifications when it enters at last.
const LATEST: usize = 1 << 12;
/// Maximum number of positions by which simultaneous releases may be recorded out of order.
const NEARBY: usize = 16;
/// Tolerance for rounded stamps in the holds of a measured phase.
const ROUNDED_US: u64 = 1_000;
/// Placeholder for a lock without a queue node.
const NO_NUMBER: i64 = i64::MIN;

/// Time for which others were blocked, while they could run and would have been seen entering.
#[derive(Debug, Default)]
struct ShutTime {
    /// Time since which no other may enter; 0 while entry is possible.
    since: AtomicU64,
    /// Total of the periods that have ended.
    total_us: AtomicU64,
}

impl ShutTime {
    fn begins(&self, now: Stamp) {
        self.since.store(now, Ordering::Release);
    }

    /// Ends the period. It counts unless it was a stay that began at `alone_since` and during which no other
    /// could run.
    fn ends(&self, now: Stamp, alone_since: Option<Stamp>) {
        let since = self.since.swap(0, Ordering::AcqRel);
        if since > 0 && alone_since != Some(since) {
            self.total_us.fetch_add(now.saturating_sub(since), Ordering::AcqRel);
        }
    }

    /// Total up to now. The ended periods are read first: a period that ends in between is then missed
    /// instead of counted twice.
    fn until(&self, now: Stamp) -> u64 {
        let total = self.total_us.load(Ordering::Acquire);
        let since = self.since.load(Ordering::Acquire);
        total + if since > 0 { now.saturating_sub(since) } else { 0 }
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Exit {
    pub claim: LockClaim,
    /// Whether any other contender could run during the stay; otherwise none could have been seen entering.
    pub was_open: bool,
    pub at: Stamp,
}

/// Placeholder for no lock.
const NOWHERE: usize = usize::MAX;

/// Activity of each contender. A contender is inside at most one lock, so all locks of a trial share this.
#[derive(Debug)]
pub struct Presences(Box<[Presence]>);

impl Presences {
    pub fn of(contenders: usize) -> Self {
        Self((0..contenders).map(|_| Presence::default()).collect())
    }

    /// Contenders inside a lock, with the lock's number.
    pub fn inside(&self) -> impl Iterator<Item = (usize, usize)> {
        let lock_of = |presence: &Presence| presence.inside.load(Ordering::Acquire);
        let all = self.0.iter().enumerate().map(move |(contender, presence)| (lock_of(presence), contender));
        all.filter(|(lock, _)| *lock != NOWHERE)
    }
}

/// A contender's request, and the time of its call.
#[derive(Debug, Clone, Copy)]
pub struct Request {
    pub claim: LockClaim,
    pub called: Stamp,
}

/// One contender's slot in the oracle.
#[derive(Debug)]
struct Presence {
    /// Number of the lock that the contender is inside.
    inside: AtomicUsize,
    /// Whether another contender has entered meanwhile.
    joined: AtomicBool,
    entered: AtomicU64,
    /// End of the latest stay, and its lock.
    left: AtomicU64,
    left_lock: AtomicUsize,
    asked: AtomicU64,
    reads: AtomicBool,
    leases: AtomicU32,
    sequence: AtomicI64,
    czxid: AtomicI64,
}

impl Default for Presence {
    fn default() -> Self {
        Self {
            inside: AtomicUsize::new(NOWHERE),
            joined: AtomicBool::new(false),
            entered: AtomicU64::new(0),
            left: AtomicU64::new(0),
            left_lock: AtomicUsize::new(NOWHERE),
            asked: AtomicU64::new(0),
            reads: AtomicBool::new(false),
            leases: AtomicU32::new(1),
            sequence: AtomicI64::new(NO_NUMBER),
            czxid: AtomicI64::new(NO_NUMBER),
        }
    }
}

impl Presence {
    fn stays(&self, held: &Held, request: Request, entered: Stamp) {
        let node = held.node.as_ref();
        self.entered.store(entered, Ordering::Relaxed);
        self.asked.store(request.called, Ordering::Relaxed);
        self.reads.store(request.claim.mode == Mode::Read, Ordering::Relaxed);
        self.leases.store(request.claim.leases, Ordering::Relaxed);
        self.sequence.store(node.map_or(NO_NUMBER, |node| node.sequence), Ordering::Relaxed);
        self.czxid.store(node.map_or(NO_NUMBER, |node| node.czxid), Ordering::Relaxed);
    }
}

#[derive(Debug)]
pub struct LockState {
    pub path: String,
    /// Number among the locks of the trial.
    pub number: usize,
    /// Directory of the nodes that represent holds; empty if all nodes of a holder have the same number.
    queue: String,
    /// Order of creates and deletes, as reconstructed from lists.
    pub changes: ChangeLog,
    presences: Arc<Presences>,
    /// Maximum number of leases, unless all holders are readers.
    capacity: usize,
    wanted: usize,
    /// Leases taken by the contenders inside.
    taken: AtomicUsize,
    taken_by_writers: AtomicUsize,
    inside: AtomicUsize,
    most_inside: AtomicUsize,
    /// Leases requested by acquires in progress.
    waiting: AtomicUsize,
    /// Time for which writers, or takers of a semaphore's leases, are blocked.
    shut: ShutTime,
    /// Time for which readers are blocked.
    shut_to_readers: ShutTime,
    /// Latest release that was called while more contenders wanted to enter than fit.
    handed_over: AtomicU64,
    writer_left: AtomicU64,
    /// Stamp of the latest entry.
    entered: AtomicU64,
    arrivals: AtomicU64,
    /// Latest arrivals that have been served, in descending order: as many as may be inside together.
    latest_served: Box<[AtomicU64]>,
    pub fence: Fence,
    pub unserved: UnservedTime,
    /// Releases by the number of the holder's node.
    released: Ring<Release>,
    /// Latest releases, in the order of their calls.
    latest: Ring<Release>,
    releases: AtomicUsize,
    /// Time for which the lock was held or being handed over in the measured phase.
    busy_us: AtomicU64,
    /// Total requested time of the exclusive holds in the measured phase, multiplied by their leases.
    asked_us: AtomicU64,
    /// Whether contenders of other workers use the lock, too.
    has_strangers: bool,
}

/// Number of the holder's node, and time of the release call.
#[derive(Debug)]
struct Release(AtomicI64, AtomicU64);

impl Default for Release {
    fn default() -> Self {
        Self(AtomicI64::new(NO_NUMBER), AtomicU64::new(0))
    }
}

impl Release {
    fn note(&self, number: i64, at: Stamp) {
        self.1.store(at, Ordering::Release);
        self.0.store(number, Ordering::Release);
    }

    fn noted(&self) -> (i64, Stamp) {
        (self.0.load(Ordering::Acquire), self.1.load(Ordering::Acquire))
    }
}

/// An entry beyond the limit, with all conflicting holders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrowdedEntry {
    pub entered: Occupant,
    pub inside: Vec<Occupant>,
}

impl CrowdedEntry {
    /// The entry with the latest stamp among the parties. If stamps become known late, it is not the entry
    /// that detects the overlap.
    fn latest(own: Occupant, mut inside: Vec<Occupant>) -> Self {
        let later = inside.iter_mut().filter(|other| other.entered > own.entered);
        let entered =
            later.max_by_key(|other| other.entered).map_or(own, |later| std::mem::replace(later, own));
        Self { entered, inside }
    }
}

impl LockState {
    /// A free lock of that kind; for a semaphore, each contender requests this many leases.
    #[cfg(test)]
    pub fn new(path: String, contenders: usize, kind: LockKind, leases: u32) -> Self {
        Self::among(Arc::new(Presences::of(contenders)), 0, path, kind, leases)
    }

    /// A free lock with its number among several.
    pub fn among(
        presences: Arc<Presences>,
        number: usize,
        path: String,
        kind: LockKind,
        leases: u32,
    ) -> Self {
        let capacity = match kind {
            LockKind::Mutex | LockKind::ReadWrite => 1,
            LockKind::Semaphore(leases) => leases as usize,
        };
        Self {
            path,
            number,
            queue: String::new(),
            changes: ChangeLog::new(presences.0.len()),
            presences,
            capacity,
            wanted: leases as usize,
            taken: AtomicUsize::new(0),
            taken_by_writers: AtomicUsize::new(0),
            inside: AtomicUsize::new(0),
            most_inside: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            shut: ShutTime::default(),
            shut_to_readers: ShutTime::default(),
            handed_over: AtomicU64::new(0),
            writer_left: AtomicU64::new(0),
            entered: AtomicU64::new(0),
            arrivals: AtomicU64::new(0),
            latest_served: (0..(capacity / leases.max(1) as usize).max(1))
                .map(|_| AtomicU64::new(0))
                .collect(),
            fence: Fence::default(),
            unserved: UnservedTime::default(),
            latest: Ring::of(LATEST),
            releases: AtomicUsize::new(0),
            busy_us: AtomicU64::new(0),
            asked_us: AtomicU64::new(0),
            has_strangers: false,
            released: Ring::of(REMEMBERED),
        }
    }

    /// Sets the directory of the nodes that represent holds, relative to the lock's path.
    pub fn held_below(mut self, place: &str) -> Self {
        if !place.is_empty() {
            self.queue = format!("{}{place}", self.path);
        }
        self
    }

    /// Sets whether other workers' contenders may use the lock, too. The oracle then only knows a part of the
    /// holders.
    pub fn with_strangers(self, has_strangers: bool) -> Self {
        Self { has_strangers, ..self }
    }

    pub fn has_strangers(&self) -> bool {
        self.has_strangers
    }

    pub fn queue(&self) -> &str {
        if self.queue.is_empty() { &self.path } else { &self.queue }
    }

    /// Whether a node's number is that of a holder, instead of an intermediate step.
    pub fn is_of_a_holder(&self, node: &str) -> bool {
        self.queue.is_empty() || node.rsplit_once('/').is_some_and(|(directory, _)| directory == self.queue)
    }

    pub fn has_room_for_two(&self) -> bool {
        self.capacity >= 2 * self.wanted
    }

    /// Whether a writer is blocked while this many leases are taken.
    fn is_shut(&self, taken: usize) -> bool {
        taken > 0 && taken + self.wanted > self.capacity
    }

    /// Begins an acquire; returns its position in the order of arrival, from 1.
    pub fn arrive(&self, claim: LockClaim) -> u64 {
        self.waiting.fetch_add(claim.leases as usize, Ordering::AcqRel);
        self.arrivals.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Ends an acquire, with or without the lock.
    pub fn waits_no_longer(&self, claim: LockClaim) {
        self.waiting.fetch_sub(claim.leases as usize, Ordering::AcqRel);
    }

    /// Total time for which such a request was blocked so far, while an entry would have been seen.
    pub fn kept_out_us(&self, mode: Mode, now: Stamp) -> u64 {
        if mode == Mode::Read { self.shut_to_readers.until(now) } else { self.shut.until(now) }
    }

    /// Records that an acquire was served. Returns whether it was overtaken by as many later arrivals as may
    /// be inside together. Fewer do not count, because there were enough leases for all of them.
    pub fn serve(&self, arrival: u64) -> bool {
        // Each position keeps the later of two arrivals, and passes the earlier one on.
        let mut earlier = arrival;
        for place in &self.latest_served {
            earlier = place.fetch_max(earlier, Ordering::AcqRel).min(earlier);
            if earlier == 0 {
                break;
            }
        }
        earlier == arrival
    }

    /// A contender enters its critical section. Returns the entry with all conflicting holders if the counts
    /// exceed the limit; the judge decides whether the lock is to blame.
    pub fn enter(&self, contender: usize, held: &Held, request: Request, now: Stamp) -> Option<CrowdedEntry> {
        let claim = request.claim;
        let leases = claim.leases as usize;
        let presence = self.presence(contender);
        presence.stays(held, request, now);
        presence.joined.store(false, Ordering::Relaxed);
        presence.inside.store(self.number, Ordering::Release);
        self.unserved.acquired(now);
        // The counts decide; presences only identify the holders. All four operations have one order, so at
        // least one of two simultaneous entries sees the other.
        let (beside, by_writers) = match claim.mode {
            Mode::Read => {
                let beside = self.taken.fetch_add(leases, Ordering::SeqCst);
                (beside, self.taken_by_writers.load(Ordering::SeqCst))
            }
            Mode::Write => {
                let by_writers = self.taken_by_writers.fetch_add(leases, Ordering::SeqCst);
                (self.taken.fetch_add(leases, Ordering::SeqCst), by_writers)
            }
        };
        self.note_crowd(self.inside.fetch_add(1, Ordering::AcqRel) + 1);
        if !self.is_shut(beside) && self.is_shut(beside + leases) {
            self.shut.begins(now);
        }
        if claim.mode == Mode::Write && by_writers == 0 {
            self.shut_to_readers.begins(now);
        }
        let in_the_way = match claim.mode {
            Mode::Read => by_writers,
            Mode::Write => beside,
        };
        if in_the_way + leases <= self.capacity {
            return None;
        }
        self.beside(contender, claim, now)
    }

    /// The entry of a contender alongside all that were inside at that time, if they are too many. One may
    /// have left between the counts and this check; its exit stamp reveals it.
    #[cold]
    fn beside(&self, contender: usize, claim: LockClaim, now: Stamp) -> Option<CrowdedEntry> {
        let others = self.presences.0.iter().enumerate();
        let others = others.filter(|(index, other)| *index != contender && self.was_inside(other, now));
        let inside: Vec<Occupant> = others
            .map(|(index, other)| (other, self.occupant(index)))
            .filter(|(_, other)| claim.mode == Mode::Write || other.claim.mode == Mode::Write)
            .inspect(|(presence, _)| presence.joined.store(true, Ordering::Release))
            .map(|(_, other)| other)
            .collect();
        let leases: usize = inside.iter().map(|other| other.claim.leases as usize).sum();
        let is_one_too_many = leases + claim.leases as usize > self.capacity;
        is_one_too_many.then(|| CrowdedEntry::latest(self.occupant(contender), inside))
    }

    /// A holder writes to the guarded resource; returns whether the write was accepted, or `None` without a
    /// token.
    pub fn write(&self, contender: usize, held: &Held) -> Option<bool> {
        self.fence.write(held, self.presence(contender).joined.load(Ordering::Acquire))
    }

    /// A single holder is the usual case, and needs no further write to shared memory.
    fn note_crowd(&self, inside: usize) {
        if inside > self.most_inside.load(Ordering::Relaxed) {
            self.most_inside.fetch_max(inside, Ordering::Relaxed);
        }
    }

    /// Adds time for which the lock was held or being handed over.
    pub fn was_busy(&self, for_us: u64) {
        self.busy_us.fetch_add(for_us, Ordering::Relaxed);
    }

    pub fn busy_us(&self) -> u64 {
        self.busy_us.load(Ordering::Relaxed)
    }

    /// Adds the requested time of a hold in the measured phase that nothing ended early.
    pub fn was_asked_to_hold(&self, claim: LockClaim, for_us: u64) {
        // Readers hold together, so their holds may add up to more than the phase.
        if claim.mode == Mode::Write {
            self.asked_us.fetch_add(u64::from(claim.leases) * for_us, Ordering::Relaxed);
        }
    }

    /// Requested and possible total hold time in a measured phase of that length; `None` if the holds are
    /// possible.
    pub fn impossible_holds(&self, measured_us: u64) -> Option<(u64, u64)> {
        let asked_us = self.asked_us.load(Ordering::Relaxed);
        let possible_us = measured_us.saturating_mul(self.capacity as u64);
        (asked_us > possible_us + possible_us / 1_000 + ROUNDED_US).then_some((asked_us, possible_us))
    }

    pub fn is_held(&self) -> bool {
        self.inside.load(Ordering::Acquire) > 0
    }

    pub fn all_inside(&self) -> Vec<usize> {
        let presences = self.presences.0.iter().enumerate();
        presences.filter(|(_, presence)| self.is_inside(presence)).map(|(index, _)| index).collect()
    }

    fn presence(&self, contender: usize) -> &Presence {
        &self.presences.0[contender]
    }

    /// Whether a contender is inside, or was at that time.
    fn was_inside(&self, presence: &Presence, at: Stamp) -> bool {
        let has_left = presence.left_lock.load(Ordering::Acquire) == self.number;
        self.is_inside(presence) || (has_left && presence.left.load(Ordering::Acquire) > at)
    }

    fn is_inside(&self, presence: &Presence) -> bool {
        presence.inside.load(Ordering::Acquire) == self.number
    }

    pub fn most_inside(&self) -> usize {
        self.most_inside.load(Ordering::Relaxed)
    }

    /// The oracle's data about a contender's present or latest stay.
    fn occupant(&self, contender: usize) -> Occupant {
        let presence = self.presence(contender);
        let number = |value: &AtomicI64| Some(value.load(Ordering::Relaxed)).filter(|n| *n != NO_NUMBER);
        let reads = presence.reads.load(Ordering::Relaxed);
        Occupant {
            contender,
            sequence: number(&presence.sequence),
            czxid: number(&presence.czxid),
            claim: LockClaim {
                mode: if reads { Mode::Read } else { Mode::Write },
                leases: presence.leases.load(Ordering::Relaxed),
            },
            asked: presence.asked.load(Ordering::Relaxed),
            entered: presence.entered.load(Ordering::Relaxed),
        }
    }

    /// A contender leaves its critical section and is about to release.
    pub fn exit(&self, contender: usize, held: &Held, exit: Exit) {
        let Exit { claim, was_open, at: now } = exit;
        let leases = claim.leases as usize;
        let presence = self.presence(contender);
        let alone_since = (!was_open).then(|| presence.entered.load(Ordering::Relaxed));
        presence.left.store(now, Ordering::Release);
        presence.left_lock.store(self.number, Ordering::Release);
        presence.inside.store(NOWHERE, Ordering::Release);
        self.unserved.freed(now);
        self.inside.fetch_sub(1, Ordering::AcqRel);
        let taken = self.taken.fetch_sub(leases, Ordering::SeqCst);
        if self.is_shut(taken) && !self.is_shut(taken - leases) {
            self.shut.ends(now, alone_since);
        }
        if claim.mode == Mode::Write {
            if self.taken_by_writers.fetch_sub(leases, Ordering::SeqCst) == leases {
                self.shut_to_readers.ends(now, alone_since);
            }
            self.writer_left.fetch_max(now, Ordering::AcqRel);
        }
        if taken + self.waiting.load(Ordering::Acquire) > self.capacity {
            self.handed_over.fetch_max(now, Ordering::AcqRel);
        }
        self.changes.ranks.released();
        let number = held.node.as_ref().map(|node| node.sequence);
        let order = self.releases.fetch_add(1, Ordering::AcqRel);
        self.latest.slot(order as i64).note(number.unwrap_or(NO_NUMBER), now);
        if let Some(number) = number {
            self.released.slot(number).note(number, now);
        }
    }

    /// Time of the last release call that admits such a request; 0 for never. A release with enough free
    /// leases, or by one of several readers, admits no contender.
    ///
    /// If other workers use the lock, their releases are unknown, and only the release of the preceding node
    /// counts.
    pub fn handed_over(&self, mode: Mode, held: &Held) -> Stamp {
        if self.has_strangers {
            let before = held.node.as_ref().and_then(|node| self.release_of(node.sequence - 1));
            return before.unwrap_or(0);
        }
        let latest = if mode == Mode::Read { &self.writer_left } else { &self.handed_over };
        latest.load(Ordering::Acquire)
    }

    /// Stamp of the previous entry; `None` for the first one, and if several may be inside.
    pub fn follows(&self, claim: LockClaim, now: Stamp) -> Option<Stamp> {
        let before = self.entered.swap(now, Ordering::AcqRel);
        let is_alone = claim.mode == Mode::Write && self.capacity == 1;
        Some(before).filter(|before| is_alone && *before > 0)
    }

    /// Last release called before that time: its queue number, and the time of its call.
    pub fn release_before(&self, at: Stamp) -> Option<(i64, Stamp)> {
        let newest = self.releases.load(Ordering::Acquire);
        let oldest = newest.saturating_sub(LATEST);
        // Releases are recorded in order, so bisection finds the position; then its neighbours are compared.
        let (mut low, mut high) = (oldest, newest);
        while low < high {
            let middle = low.midpoint(high);
            if self.noted(middle).1 <= at { low = middle + 1 } else { high = middle }
        }
        let nearby = low.saturating_sub(NEARBY).max(oldest)..(low + NEARBY).min(newest);
        let before = nearby.map(|index| self.noted(index)).filter(|(_, stamp)| *stamp > 0 && *stamp <= at);
        before.max_by_key(|(_, stamp)| *stamp)
    }

    /// Number and stamp of the release with that index.
    fn noted(&self, index: usize) -> (i64, Stamp) {
        self.latest.get(index as i64).map_or((NO_NUMBER, 0), Release::noted)
    }

    pub fn releases(&self) -> usize {
        self.releases.load(Ordering::Acquire)
    }

    /// Time at which the holder with that queue number called release; `None` if it did not hold or has not
    /// released.
    pub fn release_of(&self, number: i64) -> Option<Stamp> {
        let (noted, at) = self.released.get(number)?.noted();
        (noted == number).then_some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zklockbench_locks::QueueNode;

    fn held(sequence: i64) -> Held {
        Held::by(QueueNode { path: format!("/l/n-{sequence:010}"), sequence, czxid: 100 + sequence })
    }

    /// The entry, if it exceeds the limit. Each contender calls acquire just before it enters.
    fn enter(
        lock_state: &LockState,
        contender: usize,
        held: &Held,
        claim: LockClaim,
        now: Stamp,
    ) -> Option<CrowdedEntry> {
        lock_state.enter(contender, held, Request { claim, called: now - 1 }, now)
    }

    fn contenders(entry: Option<CrowdedEntry>) -> Vec<usize> {
        entry.map_or_else(Vec::new, |entry| entry.inside.iter().map(|other| other.contender).collect())
    }

    fn left(claim: LockClaim, at: Stamp) -> Exit {
        Exit { claim, was_open: true, at }
    }

    #[test]
    fn second_holder_is_reported_with_the_first() {
        let lock_state = LockState::new("/l".into(), 3, LockKind::ReadWrite, 1);
        assert_eq!(enter(&lock_state, 0, &held(7), LockClaim::WRITE, 10), None);
        let entry = enter(&lock_state, 2, &held(8), LockClaim::WRITE, 20).unwrap();
        let [inside] = entry.inside[..] else { panic!("one was inside") };
        assert_eq!((inside.contender, inside.sequence, inside.entered), (0, Some(7), 10));
        assert_eq!((entry.entered.contender, entry.entered.asked, entry.entered.czxid), (2, 19, Some(108)));
    }

    /// Plays steps like `+2w`, `+2r`, `+2.3` (contender 2 enters to write, to read, with three leases) and
    /// `-2`; returns each reported entry as `2:0,1`, with the holders it conflicts with.
    fn reported(kind: LockKind, wanted: u32, steps: &str) -> String {
        let lock_state = LockState::new("/l".into(), 6, kind, wanted);
        let (mut claims, mut reported) = ([LockClaim::WRITE; 6], Vec::new());
        for (now, step) in (10..).step_by(10).zip(steps.split(' ')) {
            let contender: usize = step[1..2].parse().unwrap();
            if step.starts_with('-') {
                lock_state.exit(contender, &held(1), left(claims[contender], now));
                continue;
            }
            claims[contender] = match &step[2..] {
                "r" => LockClaim::READ,
                "w" => LockClaim::WRITE,
                leases => LockClaim { leases: leases[1..].parse().unwrap(), ..LockClaim::WRITE },
            };
            let inside = contenders(enter(&lock_state, contender, &held(1), claims[contender], now));
            if !inside.is_empty() {
                let inside: Vec<String> = inside.iter().map(usize::to_string).collect();
                reported.push(format!("{contender}:{}", inside.join(",")));
            }
        }
        reported.join(" ")
    }

    #[test]
    fn entries_beyond_the_limit_are_reported_with_all_conflicting_holders() {
        use LockKind::{Mutex, ReadWrite, Semaphore};
        for (kind, wanted, steps, expected) in [
            (Mutex, 1, "+0w -0 +1w", ""),
            (Mutex, 1, "+0w +1w -1 +2w", "1:0 2:0"),
            (ReadWrite, 1, "+0r +1r +2w -0 +0r", "2:0,1 0:2"),
            (ReadWrite, 1, "+5w +1r +2r +0w", "1:5 2:5 0:1,2,5"),
            (Semaphore(2), 1, "+0w +1w +2w", "2:0,1"),
            (Semaphore(4), 2, "+0.2 +1.1 +2.2", "2:0,1"),
            // Two contenders are fewer than five leases, but take six.
            (Semaphore(5), 3, "+0.3 +1.3 -1 -0 +2.3 +1.2", "1:0"),
        ] {
            assert_eq!(reported(kind, wanted, steps), expected, "{kind:?}: {steps}");
        }
    }

    #[test]
    fn one_holder_of_most_leases_blocks_another() {
        let three = LockClaim { leases: 3, ..LockClaim::WRITE };
        let lock_state = LockState::new("/l".into(), 3, LockKind::Semaphore(5), 3);
        assert_eq!(enter(&lock_state, 0, &held(1), three, 10), None);
        assert_eq!((lock_state.kept_out_us(Mode::Write, 40), lock_state.has_room_for_two()), (30, false));
        assert_eq!((lock_state.all_inside().len(), lock_state.most_inside()), (1, 1));
    }

    #[test]
    fn holds_beyond_the_measured_time_are_impossible() {
        let write = |leases| LockClaim { leases, ..LockClaim::WRITE };
        // 550 holds of 4 ms in a second are impossible for a mutex, but possible with three leases
        for (kind, claim, holds, is_possible) in [
            (LockKind::Mutex, write(1), 550, false),
            (LockKind::Mutex, write(1), 250, true),
            (LockKind::ReadWrite, write(1), 251, false),
            (LockKind::ReadWrite, LockClaim::READ, 5_000, true),
            (LockKind::Semaphore(3), write(1), 750, true),
            (LockKind::Semaphore(3), write(1), 760, false),
            (LockKind::Semaphore(3), write(2), 380, false),
        ] {
            let lock_state = LockState::new("/l".into(), 3, kind, claim.leases);
            (0..holds).for_each(|_| lock_state.was_asked_to_hold(claim, 4_000));
            let impossible = lock_state.impossible_holds(1_000_000);
            assert_eq!(impossible.is_none(), is_possible, "{kind:?}, {holds} holds: {impossible:?}");
        }
    }

    #[test]
    fn release_before_finds_the_last_release_before_a_time() {
        let lock_state = LockState::new("/l".into(), 1, LockKind::ReadWrite, 1);
        assert_eq!(lock_state.release_before(50), None);
        for number in 1..=5000 {
            let _ = enter(&lock_state, 0, &held(number), LockClaim::WRITE, 10 * number as u64 - 5);
            lock_state.exit(0, &held(number), left(LockClaim::WRITE, 10 * number as u64));
        }
        assert_eq!(lock_state.release_before(50_005), Some((5000, 50_000)));
        assert_eq!(lock_state.release_before(20_000), Some((2000, 20_000)));
        assert_eq!(lock_state.release_before(20_009), Some((2000, 20_000)));
        assert_eq!(lock_state.release_before(100), None, "forgotten, not mistaken for another");
        assert_eq!((lock_state.release_of(5000), lock_state.release_of(5001)), (Some(50_000), None));
    }

    #[test]
    fn acquire_is_overtaken_if_a_later_arrival_was_served_first() {
        let lock_state = LockState::new("/l".into(), 1, LockKind::ReadWrite, 1);
        let (first, second) = (lock_state.arrive(LockClaim::WRITE), lock_state.arrive(LockClaim::WRITE));
        assert!(!lock_state.serve(second));
        assert!(lock_state.serve(first));
    }

    #[test]
    fn arrivals_admitted_together_do_not_overtake_each_other() {
        let arrivals = |lock_state: &LockState| [(); 4].map(|()| lock_state.arrive(LockClaim::WRITE));
        // Given a semaphore with two leases: the second, the fourth, the first and the third enter
        let lock_state = LockState::new("/l".into(), 4, LockKind::Semaphore(2), 1);
        let [first, second, third, fourth] = arrivals(&lock_state);
        // Then the first was overtaken by two, the third by one
        assert_eq!(
            [second, fourth, first, third].map(|one| lock_state.serve(one)),
            [false, false, true, false]
        );
        // And if each takes two of three leases, one is enough
        let lock_state = LockState::new("/l".into(), 4, LockKind::Semaphore(3), 2);
        let [first, second, third, fourth] = arrivals(&lock_state);
        assert_eq!(
            [first, third, second, fourth].map(|one| lock_state.serve(one)),
            [false, false, true, false]
        );
    }

    #[test]
    fn blocked_time_counts_only_stays_in_which_others_could_run() {
        let lock_state = LockState::new("/l".into(), 3, LockKind::ReadWrite, 1);
        let _ = enter(&lock_state, 0, &held(1), LockClaim::WRITE, 100);
        assert_eq!(lock_state.kept_out_us(Mode::Write, 130), 30);
        lock_state.exit(0, &held(1), left(LockClaim::WRITE, 150));
        assert_eq!(lock_state.kept_out_us(Mode::Write, 900), 50);
        let _ = enter(&lock_state, 1, &held(2), LockClaim::WRITE, 1_000);
        lock_state.exit(1, &held(2), Exit { was_open: false, ..left(LockClaim::WRITE, 1_020) });
        assert_eq!(lock_state.kept_out_us(Mode::Write, 2_000), 50, "nobody else could run in those 20 µs");
    }

    #[test]
    fn readers_block_writers_and_a_full_semaphore_blocks_all() {
        let lock_state = LockState::new("/l".into(), 3, LockKind::ReadWrite, 1);
        let _ = enter(&lock_state, 0, &held(1), LockClaim::READ, 100);
        let _ = enter(&lock_state, 1, &held(2), LockClaim::READ, 150);
        lock_state.exit(0, &held(1), left(LockClaim::READ, 200));
        lock_state.exit(1, &held(2), left(LockClaim::READ, 250));
        assert_eq!(
            (lock_state.kept_out_us(Mode::Read, 300), lock_state.kept_out_us(Mode::Write, 300)),
            (0, 150)
        );
        let lock_state = LockState::new("/l".into(), 3, LockKind::Semaphore(2), 1);
        let _ = enter(&lock_state, 0, &held(1), LockClaim::WRITE, 100);
        assert_eq!(lock_state.kept_out_us(Mode::Write, 200), 0, "one lease is left");
        let _ = enter(&lock_state, 1, &held(2), LockClaim::WRITE, 200);
        lock_state.exit(0, &held(1), left(LockClaim::WRITE, 230));
        assert_eq!(lock_state.kept_out_us(Mode::Write, 300), 30);
    }

    #[test]
    fn release_is_a_handoff_only_if_a_waiter_was_blocked() {
        // Two leases and two contenders: none is ever blocked.
        let lock_state = LockState::new("/l".into(), 3, LockKind::Semaphore(2), 1);
        for contender in [0, 1] {
            let _ = lock_state.arrive(LockClaim::WRITE);
            let _ = enter(&lock_state, contender, &held(1), LockClaim::WRITE, 10);
            lock_state.waits_no_longer(LockClaim::WRITE);
        }
        lock_state.exit(0, &held(1), left(LockClaim::WRITE, 20));
        assert_eq!(lock_state.handed_over(Mode::Write, &held(2)), 0);
        // A third contender waits for the next release.
        let _ = enter(&lock_state, 0, &held(3), LockClaim::WRITE, 25);
        let _ = lock_state.arrive(LockClaim::WRITE);
        lock_state.exit(1, &held(2), left(LockClaim::WRITE, 30));
        assert_eq!(lock_state.handed_over(Mode::Write, &held(2)), 30);
        // A reader that leaves admits no reader.
        let lock_state = LockState::new("/l".into(), 3, LockKind::ReadWrite, 1);
        let _ = enter(&lock_state, 0, &held(1), LockClaim::READ, 10);
        let _ = lock_state.arrive(LockClaim::WRITE);
        lock_state.exit(0, &held(1), left(LockClaim::READ, 20));
        assert_eq!(
            (lock_state.handed_over(Mode::Read, &held(2)), lock_state.handed_over(Mode::Write, &held(2))),
            (0, 20)
        );
    }
}
