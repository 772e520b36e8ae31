//! State of one lock, shared by the contenders of this process: contenders inside, order of arrival, and
//! release times for handoffs and notifications. Exclusion is judged later, from the contenders' recorded
//! moments.
//!
//! Uses atomics, and mutexes only in trials with faults or histories.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};

use super::fence::Fence;
use super::unserved::UnservedTime;
use zklockbench_core::catalog::Mode;
use zklockbench_core::clock::Stamp;
use zklockbench_core::ring::Ring;
use zklockbench_locks::Held;
use zklockbench_record::LockClaim;
use zklockbench_record::history::LockKind;
use zklockbench_zk::changes::ChangeLog;

/// Number of releases kept by node number. Notifications are never delayed by this many releases.
const REMEMBERED: usize = 1 << 14;
/// Number of recent releases kept for notifications that do not identify their release. A contender that
/// loses many races processes its notifications only after it enters.
const LATEST: usize = 1 << 12;
/// Maximum number of positions by which simultaneous releases may be recorded out of order.
const NEARBY: usize = 16;
/// Tolerance for rounding in the total hold time.
const ROUNDED_US: u64 = 1_000;
/// Stands for the node number of a holder without a queue node.
const NO_NUMBER: i64 = i64::MIN;
/// Stands for the node number of a holder that crashed instead of releasing.
const CRASHED: i64 = i64::MIN + 1;

/// Lock number of a contender that is not inside any lock.
const NOWHERE: usize = usize::MAX;

/// The lock that each contender is inside, if any. A contender is inside at most one of the trial's locks.
#[derive(Debug)]
pub struct Presences(Box<[AtomicUsize]>);

impl Presences {
    pub fn of(contenders: usize) -> Self {
        Self((0..contenders).map(|_| AtomicUsize::new(NOWHERE)).collect())
    }

    /// Returns the lock number and the contender, for each contender inside a lock.
    pub fn inside(&self) -> impl Iterator<Item = (usize, usize)> {
        let all =
            self.0.iter().enumerate().map(|(contender, lock)| (lock.load(Ordering::Acquire), contender));
        all.filter(|(lock, _)| *lock != NOWHERE)
    }
}

#[derive(Debug)]
pub struct LockState {
    pub path: String,
    /// Number of the lock within the trial.
    pub number: usize,
    /// Directory of the nodes that represent holds; empty if it is the lock's own directory.
    queue: String,
    /// Order of creates and deletes, reconstructed from listings.
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
    /// Whether more contenders were ever inside together than the lock allows.
    was_crowded: AtomicBool,
    /// Time of the latest release call at which more leases were wanted than the lock has.
    handed_over: AtomicU64,
    writer_left: AtomicU64,
    /// Time of the latest crash of a holder, and of the first acquisition after it.
    crashed: AtomicU64,
    recovered: AtomicU64,
    /// Time of the latest acquisition.
    entered: AtomicU64,
    arrivals: AtomicU64,
    /// Latest served arrivals in descending order: one for each contender that the lock admits at once.
    latest_served: Box<[AtomicU64]>,
    latest_served_writer: AtomicU64,
    pub fence: Fence,
    pub unserved: UnservedTime,
    /// Releases by the number of the holder's node.
    released: Ring<Release>,
    /// Latest releases, in call order.
    latest: Ring<Release>,
    releases: AtomicUsize,
    /// Time for which the lock was held or handed over in the measured phase.
    busy_us: AtomicU64,
    /// Total requested time of the exclusive holds in the measured phase, each multiplied by its leases.
    asked_us: AtomicU64,
    /// Whether contenders of other workers, which this state does not cover, also use the lock.
    pub has_strangers: bool,
}

/// Properties that all locks of a trial share.
#[derive(Debug, Clone, Copy)]
pub struct LockTemplate {
    pub kind: LockKind,
    /// Number of leases that each contender requests.
    pub leases: u32,
    /// Directory of the holders' nodes, relative to the lock's path.
    pub below: &'static str,
    /// Whether contenders of other workers also use the locks.
    pub has_strangers: bool,
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

impl LockState {
    /// Creates a free lock of `kind`. For a semaphore, each contender requests `leases`.
    #[cfg(test)]
    pub fn new(path: String, contenders: usize, kind: LockKind, leases: u32) -> Self {
        let template = LockTemplate { kind, leases, below: "", has_strangers: false };
        Self::among(Arc::new(Presences::of(contenders)), 0, path, template)
    }

    /// Creates a free lock with this number among the trial's locks.
    pub fn among(presences: Arc<Presences>, number: usize, path: String, template: LockTemplate) -> Self {
        let LockTemplate { kind, leases, below, has_strangers } = template;
        let capacity = match kind {
            LockKind::Mutex | LockKind::ReadWrite => 1,
            LockKind::Semaphore(leases) => leases as usize,
        };
        Self {
            queue: if below.is_empty() { String::new() } else { format!("{path}{below}") },
            path,
            number,
            changes: ChangeLog::new(presences.0.len()),
            presences,
            capacity,
            wanted: leases as usize,
            taken: AtomicUsize::new(0),
            taken_by_writers: AtomicUsize::new(0),
            inside: AtomicUsize::new(0),
            most_inside: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            was_crowded: AtomicBool::new(false),
            handed_over: AtomicU64::new(0),
            writer_left: AtomicU64::new(0),
            crashed: AtomicU64::new(0),
            recovered: AtomicU64::new(0),
            entered: AtomicU64::new(0),
            arrivals: AtomicU64::new(0),
            latest_served: (0..(capacity / leases.max(1) as usize).max(1))
                .map(|_| AtomicU64::new(0))
                .collect(),
            latest_served_writer: AtomicU64::new(0),
            fence: Fence::default(),
            unserved: UnservedTime::default(),
            latest: Ring::of(LATEST),
            releases: AtomicUsize::new(0),
            busy_us: AtomicU64::new(0),
            asked_us: AtomicU64::new(0),
            has_strangers,
            released: Ring::of(REMEMBERED),
        }
    }

    pub fn queue(&self) -> &str {
        if self.queue.is_empty() { &self.path } else { &self.queue }
    }

    /// Returns whether a node represents a hold rather than an intermediate step.
    pub fn is_of_a_holder(&self, node: &str) -> bool {
        self.queue.is_empty() || node.rsplit_once('/').is_some_and(|(directory, _)| directory == self.queue)
    }

    pub fn has_room_for_two(&self) -> bool {
        self.capacity >= 2 * self.wanted
    }

    /// Starts an acquire. Returns its position in the order of arrival, starting at 1.
    pub fn arrive(&self, claim: LockClaim) -> u64 {
        self.waiting.fetch_add(claim.leases as usize, Ordering::AcqRel);
        self.arrivals.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Ends an acquire, whether or not it succeeded.
    pub fn waits_no_longer(&self, claim: LockClaim) {
        self.waiting.fetch_sub(claim.leases as usize, Ordering::AcqRel);
    }

    /// Records that an acquire was served. Returns whether it was overtaken, i.e. whether later arrivals that
    /// together take all leases were served before it. Fewer would have left a lease for this acquire, and readers
    /// do not delay readers.
    pub fn serve(&self, arrival: u64, mode: Mode) -> bool {
        // Each position keeps the later of two arrivals and passes the earlier one on.
        let mut earlier = arrival;
        for place in &self.latest_served {
            earlier = place.fetch_max(earlier, Ordering::AcqRel).min(earlier);
            if earlier == 0 {
                break;
            }
        }
        match mode {
            Mode::Read => self.latest_served_writer.load(Ordering::Acquire) > arrival,
            Mode::Write => {
                self.latest_served_writer.fetch_max(arrival, Ordering::AcqRel);
                earlier == arrival
            }
        }
    }

    /// Records that a contender is inside. Returns whether more leases are taken than the lock has.
    pub fn enter(&self, contender: usize, claim: LockClaim, now: Stamp) -> bool {
        let leases = claim.leases as usize;
        self.presences.0[contender].store(self.number, Ordering::Release);
        self.unserved.acquired(now);
        let beside = self.taken.fetch_add(leases, Ordering::AcqRel);
        let in_the_way = match claim.mode {
            Mode::Read => self.taken_by_writers.load(Ordering::Acquire),
            Mode::Write => {
                self.taken_by_writers.fetch_add(leases, Ordering::AcqRel);
                beside
            }
        };
        self.note_crowd(self.inside.fetch_add(1, Ordering::AcqRel) + 1);
        let is_crowded = in_the_way + leases > self.capacity;
        if is_crowded {
            self.was_crowded.store(true, Ordering::Relaxed);
        }
        is_crowded
    }

    /// Returns whether more contenders were ever inside together than the lock allows. The judge determines why.
    pub fn was_crowded(&self) -> bool {
        self.was_crowded.load(Ordering::Relaxed)
    }

    /// Records the number of holders, without a write to shared memory in the usual case of a single holder.
    fn note_crowd(&self, inside: usize) {
        if inside > self.most_inside.load(Ordering::Relaxed) {
            self.most_inside.fetch_max(inside, Ordering::Relaxed);
        }
    }

    /// Adds time during which the lock was held or handed over.
    pub fn was_busy(&self, for_us: u64) {
        self.busy_us.fetch_add(for_us, Ordering::Relaxed);
    }

    pub fn busy_us(&self) -> u64 {
        self.busy_us.load(Ordering::Relaxed)
    }

    /// Adds the time requested for a hold that was completed in the measured phase.
    pub fn was_asked_to_hold(&self, claim: LockClaim, for_us: u64) {
        // Readers hold together, so their total may exceed the phase.
        if claim.mode == Mode::Write {
            self.asked_us.fetch_add(u64::from(claim.leases) * for_us, Ordering::Relaxed);
        }
    }

    /// Returns the requested and the possible total hold time in the measured phase; `None` if the holds fit.
    pub fn impossible_holds(&self, measured_us: u64) -> Option<(u64, u64)> {
        let asked_us = self.asked_us.load(Ordering::Relaxed);
        let possible_us = measured_us.saturating_mul(self.capacity as u64);
        (asked_us > possible_us + possible_us / 1_000 + ROUNDED_US).then_some((asked_us, possible_us))
    }

    pub fn is_held(&self) -> bool {
        self.inside.load(Ordering::Acquire) > 0
    }

    pub fn all_inside(&self) -> Vec<usize> {
        let inside = self.presences.inside().filter(|(lock, _)| *lock == self.number);
        inside.map(|(_, contender)| contender).collect()
    }

    pub fn most_inside(&self) -> usize {
        self.most_inside.load(Ordering::Relaxed)
    }

    /// Records that a contender leaves its critical section and is about to release.
    pub fn exit(&self, contender: usize, held: &Held, claim: LockClaim, now: Stamp) {
        let taken = self.vacate(contender, claim, now);
        if claim.mode == Mode::Write {
            self.writer_left.fetch_max(now, Ordering::AcqRel);
        }
        if taken + self.waiting.load(Ordering::Acquire) > self.capacity {
            self.handed_over.fetch_max(now, Ordering::AcqRel);
        }
        self.changes.ranks.released();
        let number = held.node.as_ref().map(|node| node.sequence);
        self.note_end(number.unwrap_or(NO_NUMBER), now);
        if let Some(number) = number {
            self.released.slot(number).note(number, now);
        }
    }

    /// Records that a holder crashes. Its node blocks the lock until its session ends.
    pub fn crash(&self, contender: usize, claim: LockClaim, now: Stamp) {
        self.vacate(contender, claim, now);
        self.crashed.fetch_max(now, Ordering::AcqRel);
        self.note_end(CRASHED, now);
    }

    /// Records that a contender is no longer inside. Returns the number of leases taken before.
    fn vacate(&self, contender: usize, claim: LockClaim, now: Stamp) -> usize {
        let leases = claim.leases as usize;
        self.presences.0[contender].store(NOWHERE, Ordering::Release);
        self.unserved.freed(now);
        self.inside.fetch_sub(1, Ordering::AcqRel);
        if claim.mode == Mode::Write {
            self.taken_by_writers.fetch_sub(leases, Ordering::AcqRel);
        }
        self.taken.fetch_sub(leases, Ordering::AcqRel)
    }

    fn note_end(&self, number: i64, now: Stamp) {
        let order = self.releases.fetch_add(1, Ordering::AcqRel);
        self.latest.slot(order as i64).note(number, now);
    }

    /// Returns the time of the last release call that could admit this request; 0 if there is none, and `None` if
    /// the request had to wait for the session of a crashed holder. A release admits no waiter if enough leases
    /// were free, and a reader's release admits no reader.
    ///
    /// Other workers' releases are unknown. If other workers use the lock, only the preceding node's release
    /// counts.
    pub fn handed_over(&self, mode: Mode, held: &Held, called: Stamp) -> Option<Stamp> {
        if self.has_strangers {
            let before = held.node.as_ref().and_then(|node| self.release_of(node.sequence - 1));
            return Some(before.unwrap_or(0));
        }
        let latest = if mode == Mode::Read { &self.writer_left } else { &self.handed_over };
        let [latest, crashed, recovered] =
            [latest, &self.crashed, &self.recovered].map(|stamp| stamp.load(Ordering::Acquire));
        Some(latest).filter(|latest| *latest >= crashed || called > recovered)
    }

    /// Records an acquisition. Returns the time of the previous acquisition if holders exclude each other.
    pub fn follows(&self, claim: LockClaim, now: Stamp) -> Option<Stamp> {
        let before = self.entered.swap(now, Ordering::AcqRel);
        if before <= self.crashed.load(Ordering::Acquire) {
            self.recovered.store(now, Ordering::Release);
        }
        let is_alone = claim.mode == Mode::Write && self.capacity == 1;
        Some(before).filter(|before| is_alone && *before > 0)
    }

    /// Returns the queue number and time of the last release call up to `at`; `None` if a holder has crashed since.
    pub fn release_before(&self, at: Stamp) -> Option<(i64, Stamp)> {
        let newest = self.releases.load(Ordering::Acquire);
        let oldest = newest.saturating_sub(LATEST);
        // Releases are recorded almost in order: bisection finds the position, then neighbours are compared.
        let (mut low, mut high) = (oldest, newest);
        while low < high {
            let middle = low.midpoint(high);
            if self.noted(middle).1 <= at { low = middle + 1 } else { high = middle }
        }
        let nearby = low.saturating_sub(NEARBY).max(oldest)..(low + NEARBY).min(newest);
        let before = nearby.map(|index| self.noted(index)).filter(|(_, stamp)| *stamp > 0 && *stamp <= at);
        before.max_by_key(|(_, stamp)| *stamp).filter(|(number, _)| *number != CRASHED)
    }

    /// Returns the number and time of the release with this index.
    fn noted(&self, index: usize) -> (i64, Stamp) {
        self.latest.get(index as i64).map_or((NO_NUMBER, 0), Release::noted)
    }

    pub fn releases(&self) -> usize {
        self.releases.load(Ordering::Acquire)
    }

    /// Returns the time at which the holder with this queue number called release; `None` if it has not.
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

    #[test]
    fn lock_with_more_holders_than_allowed_is_crowded() {
        type Stays<'a> = &'a [(LockClaim, bool)];
        let (write, read) = (LockClaim::WRITE, LockClaim::READ);
        let two = LockClaim { leases: 2, ..write };
        // Claims in the order in which they are entered, and whether the lock is crowded after each
        let cases: [(LockKind, Stays<'_>); 6] = [
            (LockKind::Mutex, &[(write, false), (write, true)]),
            (LockKind::ReadWrite, &[(read, false), (read, false), (write, true)]),
            (LockKind::ReadWrite, &[(write, false), (read, true)]),
            (LockKind::Semaphore(2), &[(write, false), (write, false), (write, true)]),
            (LockKind::Semaphore(4), &[(two, false), (write, false), (two, true)]),
            (LockKind::Semaphore(4), &[(two, false), (two, false)]),
        ];
        for (kind, stays) in cases {
            let lock_state = LockState::new("/l".into(), 3, kind, 1);
            for (contender, (claim, is_crowded)) in stays.iter().enumerate() {
                lock_state.enter(contender, *claim, 10);
                assert_eq!(lock_state.was_crowded(), *is_crowded, "{kind:?}: {stays:?}");
            }
            assert_eq!((lock_state.most_inside(), lock_state.all_inside().len()), (stays.len(), stays.len()));
        }
    }

    #[test]
    fn holds_beyond_the_measured_time_are_impossible() {
        let write = |leases| LockClaim { leases, ..LockClaim::WRITE };
        // 250 holds of 4 ms fit into a second with a mutex, 750 with three leases
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
    fn consecutive_holders_do_not_overlap() {
        let lock_state = LockState::new("/l".into(), 2, LockKind::ReadWrite, 1);
        lock_state.enter(0, LockClaim::WRITE, 1);
        lock_state.exit(0, &held(1), LockClaim::WRITE, 5);
        lock_state.enter(1, LockClaim::WRITE, 6);
        assert!(!lock_state.was_crowded() && lock_state.all_inside() == [1]);
        assert_eq!((lock_state.release_of(1), lock_state.release_of(2)), (Some(5), None));
    }

    #[test]
    fn release_before_finds_the_last_release_before_a_time() {
        let lock_state = LockState::new("/l".into(), 1, LockKind::ReadWrite, 1);
        assert_eq!(lock_state.release_before(50), None);
        for number in 1..=5000 {
            lock_state.enter(0, LockClaim::WRITE, 10 * number as u64 - 5);
            lock_state.exit(0, &held(number), LockClaim::WRITE, 10 * number as u64);
        }
        assert_eq!(lock_state.release_before(50_005), Some((5000, 50_000)));
        assert_eq!(lock_state.release_before(20_000), Some((2000, 20_000)));
        assert_eq!(lock_state.release_before(20_009), Some((2000, 20_000)));
        assert_eq!(lock_state.release_before(100), None, "an old release is forgotten");
    }

    #[test]
    fn acquire_is_overtaken_if_a_later_arrival_was_served_first() {
        let lock_state = LockState::new("/l".into(), 1, LockKind::ReadWrite, 1);
        let (first, second) = (lock_state.arrive(LockClaim::WRITE), lock_state.arrive(LockClaim::WRITE));
        assert!(!lock_state.serve(second, Mode::Write));
        assert!(lock_state.serve(first, Mode::Write));
    }

    #[test]
    fn reader_is_overtaken_only_by_a_writer() {
        let lock_state = LockState::new("/l".into(), 1, LockKind::ReadWrite, 1);
        let serve = |arrival, mode| lock_state.serve(arrival, mode);
        assert_eq!([serve(3, Mode::Read), serve(2, Mode::Read)], [false; 2]);
        assert!(serve(1, Mode::Write), "two readers overtook the writer");
        assert!(!serve(5, Mode::Write) && serve(4, Mode::Read), "a writer overtook the reader");
    }

    #[test]
    fn arrivals_admitted_together_do_not_overtake_each_other() {
        let arrivals = |lock_state: &LockState| [(); 4].map(|()| lock_state.arrive(LockClaim::WRITE));
        // Given a semaphore with two leases, entered by the second, fourth, first and third arrival
        let lock_state = LockState::new("/l".into(), 4, LockKind::Semaphore(2), 1);
        let [first, second, third, fourth] = arrivals(&lock_state);
        // Then two later arrivals overtook the first, and one overtook the third
        let found = [second, fourth, first, third].map(|one| lock_state.serve(one, Mode::Write));
        assert_eq!(found, [false, false, true, false]);
        // And if each contender takes two of three leases, a single later arrival is enough to overtake
        let lock_state = LockState::new("/l".into(), 4, LockKind::Semaphore(3), 2);
        let [first, second, third, fourth] = arrivals(&lock_state);
        let found = [first, third, second, fourth].map(|one| lock_state.serve(one, Mode::Write));
        assert_eq!(found, [false, false, true, false]);
    }

    #[test]
    fn release_is_a_handoff_only_if_a_waiter_was_blocked() {
        // Two leases and two contenders: neither is ever blocked.
        let lock_state = LockState::new("/l".into(), 3, LockKind::Semaphore(2), 1);
        for contender in [0, 1] {
            let _ = lock_state.arrive(LockClaim::WRITE);
            lock_state.enter(contender, LockClaim::WRITE, 10);
            lock_state.waits_no_longer(LockClaim::WRITE);
        }
        lock_state.exit(0, &held(1), LockClaim::WRITE, 20);
        let handed_over = |lock_state: &LockState, mode| lock_state.handed_over(mode, &held(2), 10);
        assert_eq!(handed_over(&lock_state, Mode::Write), Some(0));
        // A third contender waits for the next release.
        lock_state.enter(0, LockClaim::WRITE, 25);
        let _ = lock_state.arrive(LockClaim::WRITE);
        lock_state.exit(1, &held(2), LockClaim::WRITE, 30);
        assert_eq!(handed_over(&lock_state, Mode::Write), Some(30));
        // A reader's release admits no other reader.
        let lock_state = LockState::new("/l".into(), 3, LockKind::ReadWrite, 1);
        lock_state.enter(0, LockClaim::READ, 10);
        let _ = lock_state.arrive(LockClaim::WRITE);
        lock_state.exit(0, &held(1), LockClaim::READ, 20);
        assert_eq!([Mode::Read, Mode::Write].map(|mode| handed_over(&lock_state, mode)), [Some(0), Some(20)]);
    }

    #[test]
    fn crash_of_a_holder_is_neither_a_release_nor_a_handoff() {
        let write = LockClaim::WRITE;
        let lock_state = LockState::new("/l".into(), 2, LockKind::Mutex, 1);
        let enters = |contender, now| {
            lock_state.enter(contender, write, now);
            lock_state.follows(write, now);
        };
        // A contender has waited since 5 for a lock whose second holder enters at 21 and crashes at 30.
        let _ = lock_state.arrive(write);
        enters(0, 10);
        lock_state.exit(0, &held(1), write, 20);
        enters(0, 21);
        lock_state.crash(0, write, 30);
        assert_eq!((lock_state.release_before(25), lock_state.release_before(35)), (Some((1, 20)), None));
        assert_eq!((lock_state.release_of(2), lock_state.is_held()), (None, false));
        enters(1, 90);
        // No release admitted that contender, or a contender that called acquire after the crash.
        assert_eq!([5, 40].map(|called| lock_state.handed_over(Mode::Write, &held(3), called)), [None; 2]);
        // Later calls find a working lock.
        assert_eq!(lock_state.handed_over(Mode::Write, &held(4), 95), Some(20));
        lock_state.exit(1, &held(3), write, 99);
        assert_eq!(lock_state.handed_over(Mode::Write, &held(4), 40), Some(99));
    }
}
