//! What the contenders of one trial share with the conductor: atomics and signals; times in which nobody got a lock; and
//! of each contender, what can be done to it from outside while it contends, and what can be seen of it and of its
//! connection.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::arrivals::Arrivals;
use super::drivers::Drivers;
use super::gaps::Gaps;
use super::lock_states::{LockStates, LockTemplate, WITNESS};
use super::series::SlotSeries;
use zklockbench_core::catalog::{Holders, Params};
use zklockbench_core::clock::{self, Stamp};
use zklockbench_core::locked::locked;
use zklockbench_core::measure::Window;
use zklockbench_ensemble::Started;
use zklockbench_ensemble::fault::{Admission, CrashOrders};
use zklockbench_ensemble::proxy::Wire;
use zklockbench_locks::driver::{HELD_BACK, Processes};
use zklockbench_locks::{DeadlineClock, Entry, LockConfig, PERMITS, Strategy, WaitGauge, count_of};
use zklockbench_record::history::LockKind;
use zklockbench_record::{FencingCounts, Utilisation, history};
use zklockbench_scenario::schedule::{Coming, coming};
use zklockbench_scenario::{Load, Settling, Slice, Stop, TrialSpec};
use zklockbench_zk::gate::Gate;
use zklockbench_zk::throttle::Throttle;
use zklockbench_zk::{Session, SessionKey, SessionState, Target, reactor};

#[derive(Debug, Clone)]
pub struct Signals {
    /// When contenders may start, in process time; `None` before.
    pub start: watch::Sender<Option<Stamp>>,
    pub window: watch::Sender<Window>,
    /// Batch: contenders with a lower number may arrive.
    pub arrivals: watch::Sender<usize>,
    pub releases: watch::Sender<Option<usize>>,
    /// Stop acquiring: waits are cancelled, holders release.
    pub drain: CancellationToken,
    /// Begin no new turn, and end the one that is under way.
    pub last_turns: CancellationToken,
    pub close: CancellationToken,
    /// Give up at once, whatever is under way.
    pub abort: CancellationToken,
}

impl Default for Signals {
    fn default() -> Self {
        let drain = CancellationToken::new();
        Self {
            start: watch::Sender::new(None),
            window: watch::Sender::new(Window::CLOSED),
            arrivals: watch::Sender::new(0),
            releases: watch::Sender::new(None),
            last_turns: drain.child_token(),
            drain,
            close: CancellationToken::new(),
            abort: CancellationToken::new(),
        }
    }
}

/// The first contender that has acquired as often as it should.
#[derive(Debug, Clone, Copy)]
pub struct FirstDone {
    pub at: Stamp,
    pub acquired: u64,
}

/// What contenders tell the conductor.
#[derive(Debug, Default)]
pub struct Board {
    pub connected: AtomicUsize,
    /// Contenders that could not open one.
    pub unconnected: AtomicUsize,
    pub finished: AtomicUsize,
    pub acquired: AtomicU64,
    pub released: AtomicU64,
    /// The longest negotiated session timeout, in milliseconds.
    pub negotiated_ms: AtomicU64,
    pub acquired_before: AtomicU64,
    /// When the first contender had acquired as often as it should, and how often all had by then.
    pub first_done: OnceLock<FirstDone>,
    /// The longest time so far that the lock was free and one waited for it.
    pub standstill_us: AtomicU64,
    pub standstill_began: AtomicU64,
    /// What was seen in standstills that lasted.
    pub signs: Mutex<BTreeSet<String>>,
    /// Reads by which the suite looked at the lock meanwhile: the servers count them, and the lock did not ask for them.
    pub looked: AtomicU64,
    /// Such looks that have begun and not ended: how many of their reads the servers have counted is not known.
    pub looking: AtomicU64,
    /// The first breach of the protocol by a server.
    pub breach: OnceLock<String>,
    /// Notified when a session has another connection.
    pub connections: tokio::sync::Notify,
}

impl Board {
    pub fn read(counter: &AtomicUsize) -> usize {
        counter.load(Ordering::Acquire)
    }
}

#[derive(Debug)]
pub struct Shared {
    pub spec: TrialSpec,
    /// Which of its contenders, arrivals and faults are made here.
    pub slice: Slice,
    pub entry: Entry,
    /// What takes the locks, where that are processes of another program.
    pub drivers: Drivers,
    driver_holds: OnceLock<bool>,
    /// Where sessions are opened: by each contender at its own, or by all at the only one.
    targets: Vec<Target>,
    /// Where it is counted what the lock sends and receives, if it is; and the way to the servers past that.
    pub wire: Option<(Arc<Wire>, Target)>,
    pub opening: tokio::sync::Semaphore,
    pub kind: LockKind,
    pub leases: u32,
    pub lock_states: Arc<LockStates>,
    pub gauge: WaitGauge,
    pub pulse: Arc<AtomicU64>,
    pub last_reply: Arc<AtomicU64>,
    pub signals: Signals,
    pub board: Board,
    pub controls: Vec<Arc<Control>>,
    pub series: SlotSeries,
    pub open: Option<Arrivals>,
    pub keeps_history: bool,
    /// Whether the servers' logs can be read, so that the ensemble's own order of holders is known.
    pub reads_logs: bool,
    pub gaps: Gaps,
    /// What holds back cycles, where the load's rate is limited.
    pub throttle: Option<Arc<Throttle>>,
}

/// Where it is counted what locks send and receive, contenders begin new turns for so long, at most.
pub const COUNTING_LASTS: Duration = Duration::from_secs(2);
/// So long they may then take to end those that they have begun.
pub const LAST_TURNS: Duration = Duration::from_secs(3);

/// Sessions that are being opened at the same time. A server accepts one connection after the other, and a
/// thousand at once would only queue there, against their own connection timeout.
const OPENING_AT_ONCE: usize = 64;

/// Longer holds end when the suite says so.
const LEFT_TO_DRIVER_AT_MOST: Duration = Duration::from_millis(5);

pub fn kind_of(entry: &Entry, params: &Params) -> LockKind {
    match entry.card.guarantees.holders {
        Holders::One => LockKind::Mutex,
        Holders::ReadersOrOneWriter => LockKind::ReadWrite,
        Holders::Leases(param) => LockKind::Semaphore(leases_of(params, param)),
    }
}

fn leases_of(params: &Params, param: &str) -> u32 {
    u32::try_from(count_of(params, param, 1)).unwrap_or(u32::MAX).max(1)
}

/// From the beginning of the load to the end of the measured phase, at most.
fn lasts_at_most(spec: &TrialSpec) -> Duration {
    let Stop::After(duration) = spec.stop else { return Duration::ZERO };
    spec.warm_up_at_most.max(spec.warm_up) + duration
}

impl Shared {
    pub fn new(spec: TrialSpec, entry: Entry, targets: Vec<Target>, root: &str, slice: Slice) -> Self {
        let kind = kind_of(&entry, &spec.strategy.params);
        let leases = match kind {
            LockKind::Semaphore(_) => leases_of(&spec.strategy.params, PERMITS),
            LockKind::Mutex | LockKind::ReadWrite => 1,
        };
        let below = entry.card.guarantees.queue;
        let template = LockTemplate { kind, leases, below, has_strangers: slice.is_part() };
        let gaps = Gaps::of(spec.locks, spec.load == Load::Closed);
        let lock_states = Arc::new(LockStates::of(template, root, spec.locks, spec.contenders));
        let controls = (0..spec.contenders).map(|id| Arc::new(Control::at(id % spec.locks.max(1)))).collect();
        let open = spec.load.open().map(|open| {
            let of = spec.clone();
            let own = move || -> Coming {
                let all = coming(&of, lasts_at_most(&of)).enumerate();
                Box::new(all.filter(move |(ordinal, _)| slice.has(*ordinal)).map(|(_, arrival)| arrival))
            };
            Arrivals::new(own, open.late)
        });
        let series = SlotSeries::of(&spec);
        Self {
            series,
            spec,
            slice,
            entry,
            drivers: Drivers::default(),
            driver_holds: OnceLock::new(),
            targets,
            wire: None,
            opening: tokio::sync::Semaphore::new(OPENING_AT_ONCE),
            kind,
            leases,
            lock_states,
            gauge: WaitGauge::default(),
            pulse: Arc::default(),
            last_reply: Arc::default(),
            signals: Signals::default(),
            board: Board::default(),
            controls,
            open,
            keeps_history: false,
            reads_logs: false,
            gaps,
            throttle: None,
        }
    }

    /// Finds out whether the servers' logs can be read: only those of servers of our own, and elsewhere than on this host only
    /// where more is noted of each hold.
    pub fn with_logs(self, own: Option<&dyn Started>) -> Self {
        // The servers' logs tell nothing of another system's lock.
        let own = own.filter(|_| self.entry.card.other_system().is_none());
        let reads_logs =
            own.is_some_and(|own| own.logs_at_hand().is_some() || (own.has_logs() && self.keeps_evidence()));
        Self { reads_logs, ..self }
    }

    pub fn own(&self) -> impl Iterator<Item = usize> + Clone {
        self.slice.below(self.spec.contenders)
    }

    pub fn count_own(&self) -> usize {
        self.own().count()
    }

    pub fn has_faults(&self) -> bool {
        !self.spec.faults.is_empty()
    }

    /// Whether the holds of this worker are put in one order with those of others, by the ensemble's transactions.
    pub fn orders_holds(&self) -> bool {
        self.slice.is_part() && self.keeps_history
    }

    /// Whether more is noted of each hold than its length: its session, its writes, as of which transaction it was found.
    pub fn keeps_evidence(&self) -> bool {
        self.has_faults() || self.keeps_history
    }

    /// Decides whether holds are left to the driver: it can, and they are so short that the way to it would be most of what
    /// separates two holders. Faults, readers, several inside, and holds within holds need the suite in between.
    pub fn decide_who_holds(&self) {
        let spec = &self.spec;
        let is_simple = !self.has_faults()
            && !self.slice.is_part()
            // What is counted is counted from grant to release.
            && self.wire.is_none()
            && self.kind == LockKind::Mutex
            && spec.depth == 1
            && match &spec.load {
                Load::Closed => true,
                Load::Open(open) => !matches!(open.arrivals, zklockbench_scenario::Arrivals::Replay(_)),
                Load::Batch => false,
            };
        let is_short = spec.kinds().iter().all(|kind| kind.hold.rarely_exceeded() <= LEFT_TO_DRIVER_AT_MOST);
        let can = self.drivers.all_can_hold();
        let driver_holds = is_simple && is_short && can;
        let _ = self.driver_holds.set(driver_holds);
        if driver_holds && self.is_one_turn_after_the_other() {
            self.drivers.send_ahead(self.count_own());
        }
    }

    /// Whether a contender does nothing between its acquires, and it makes no difference when they are sent.
    fn is_one_turn_after_the_other(&self) -> bool {
        let spec = &self.spec;
        let is_endless = matches!((&spec.load, spec.stop), (Load::Closed, Stop::After(_)));
        let without_pause = |kind: &zklockbench_scenario::ClientKind| {
            kind.hold.rarely_exceeded().is_zero() && kind.think.rarely_exceeded().is_zero()
        };
        // A history has when each acquire was asked for, in the order of what the suite does.
        is_endless
            && spec.acquire_timeout.is_none()
            && self.throttle.is_none()
            && spec.locks == 1
            && !self.keeps_history
            && spec.kinds().iter().all(without_pause)
    }

    /// Up to when all acquisitions are known: answers to those that are sent ahead may be held back.
    pub fn known_until(&self) -> Stamp {
        let sent_ahead = self.drivers.all().any(|driver| driver.processes.ahead().is_some());
        let late = if sent_ahead { 2 * HELD_BACK } else { Duration::ZERO };
        clock::now().saturating_sub(clock::micros(late))
    }

    pub fn leaves_holds_to_driver(&self) -> bool {
        self.driver_holds.get().copied().unwrap_or(false)
    }

    /// The lock that a contender uses now: always the same, unless arrivals say which.
    pub fn lock_of(&self, contender: usize) -> usize {
        self.controls[contender].lock()
    }

    /// The lock on whose behalf a node is there.
    pub fn lock_of_node(&self, path: &str) -> Option<usize> {
        self.lock_states.lock_of_node(path)
    }

    pub fn target_of(&self, contender: usize) -> &Target {
        &self.targets[contender % self.targets.len()]
    }

    pub fn driver_of(&self, contender: usize) -> Option<&Arc<Processes>> {
        self.drivers.of_contender(contender)
    }

    /// Where a contender opens the suite's own session. Beside that of a driver it is none of the lock's, and is not counted.
    pub fn own_target_of(&self, contender: usize) -> &Target {
        let direct =
            self.wire.as_ref().filter(|_| self.driver_of(contender).is_some()).map(|(_, direct)| direct);
        direct.unwrap_or_else(|| self.target_of(contender))
    }

    pub fn build(&self, contender: usize, lock: usize) -> Box<dyn Strategy> {
        let path = self.lock_states.path(lock);
        let (entry, params) =
            zklockbench_locks::member_of(&self.entry, &self.spec.strategy.params, contender);
        let drivers = self.driver_of(contender).cloned();
        (entry.build)(&LockConfig { path, params, contender, drivers })
    }

    /// The path that all lock paths are below, with a slash at its end.
    pub fn root(&self) -> &str {
        self.lock_states.root()
    }

    pub fn witness(&self, lock: usize) -> String {
        format!("{}{WITNESS}{lock}", self.root())
    }

    pub fn most_inside(&self) -> u64 {
        self.lock_states.used().map(|lock_state| lock_state.most_inside() as u64).max().unwrap_or(0)
    }

    /// How busy the locks were in a measured phase of that length; `None` where several may hold one.
    pub fn utilisation(&self, measured_us: u64) -> Option<Utilisation> {
        if self.kind != LockKind::Mutex || measured_us == 0 || !self.entry.card.guarantees.exclusive {
            return None;
        }
        let busy = || self.lock_states.used().map(|lock_state| (lock_state.number, lock_state.busy_us()));
        let (busiest_lock, busiest_us) = busy().max_by_key(|(_, busy_us)| *busy_us).unwrap_or((0, 0));
        let share = |busy_us: u64| busy_us as f64 / measured_us as f64;
        let mean = share(busy().map(|(_, busy_us)| busy_us).sum()) / self.spec.locks.max(1) as f64;
        Some(Utilisation { mean, busiest: share(busiest_us), busiest_lock })
    }

    pub fn fencing(&self) -> FencingCounts {
        self.lock_states
            .used()
            .fold(FencingCounts::default(), |sum, lock_state| sum + lock_state.fence.counts())
    }

    /// By how much sessions live longer than the scenario says: servers have a least timeout, and some drivers one of their own.
    pub fn sessions_outlast(&self) -> Duration {
        self.negotiated().saturating_sub(self.spec.session_timeout)
    }

    /// The longest session timeout that was negotiated; zero as long as none was.
    pub fn negotiated(&self) -> Duration {
        Duration::from_millis(self.board.negotiated_ms.load(Ordering::Acquire))
    }

    /// How long is waited at the end of the trial, with the sessions that there are.
    pub fn settling(&self) -> Settling {
        self.spec.settling.and_for(self.sessions_outlast())
    }

    pub fn open_deadline(&self) -> Duration {
        self.spec.session_timeout.max(Duration::from_secs(10))
    }
}

/// One contender as faults and conductor see it.
#[derive(Debug, Default)]
pub struct Control {
    /// Before all that it runs.
    pub gate: Arc<Gate>,
    pub admission: Arc<Admission>,
    pub clock: DeadlineClock,
    /// To die in the middle of what it does, and to come back as another process.
    pub crashes: Arc<CrashOrders>,
    waits_since: AtomicU64,
    lock: AtomicUsize,
    key: Mutex<Option<SessionKey>>,
    /// All sessions that it has had.
    sessions: Mutex<BTreeSet<i64>>,
    closings: Mutex<BTreeMap<i64, Closing>>,
}

/// How far the closing of another's session has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closing {
    /// It may be over at any moment, and may never be.
    Begun,
    /// A server has said that it is over.
    Answered,
}

impl Control {
    pub fn at(lock: usize) -> Self {
        Self { lock: AtomicUsize::new(lock), ..Self::default() }
    }

    pub fn lock(&self) -> usize {
        self.lock.load(Ordering::Acquire)
    }

    pub fn uses(&self, lock: usize) {
        self.lock.store(lock, Ordering::Release);
    }

    pub fn set_session(&self, key: Option<SessionKey>) {
        locked(&self.sessions).extend(key.as_ref().map(SessionKey::id));
        *locked(&self.key) = key;
    }

    pub fn session(&self) -> Option<SessionKey> {
        locked(&self.key).clone()
    }

    pub fn has_had(&self, session: i64) -> bool {
        locked(&self.sessions).contains(&session)
    }

    pub fn is_being_closed(&self, session: i64) {
        locked(&self.closings).insert(session, Closing::Begun);
    }

    pub fn was_closed(&self, session: i64) {
        locked(&self.closings).insert(session, Closing::Answered);
    }

    pub fn closing(&self, session: i64) -> Option<Closing> {
        locked(&self.closings).get(&session).copied()
    }

    pub fn waits(&self, since: Stamp) {
        self.waits_since.store(since.max(1), Ordering::Release);
    }

    pub fn waits_no_longer(&self) {
        self.waits_since.store(0, Ordering::Release);
    }

    pub fn waiting_since(&self) -> Option<Stamp> {
        Some(self.waits_since.load(Ordering::Acquire)).filter(|since| *since > 0)
    }
}

/// When a contender's connection was lost, and when it was back.
#[derive(Debug, Default)]
pub struct Connection(Rc<RefCell<Losses>>);

#[derive(Debug, Default)]
struct Losses {
    /// The latest that are over.
    over: VecDeque<(Stamp, Stamp)>,
    since: Option<Stamp>,
}

/// More losses than this in one hold are forgotten.
const LOSSES_KEPT: usize = 64;

impl Losses {
    fn note(&mut self, is_lost: bool, now: Stamp) {
        match (self.since, is_lost) {
            (None, true) => self.since = Some(now),
            (Some(since), false) => {
                self.since = None;
                self.over.push_back((since, now));
                while self.over.len() > LOSSES_KEPT {
                    self.over.pop_front();
                }
            }
            _ => {}
        }
    }
}

impl Connection {
    /// Follows a session until it is over, and notes what becomes of it, and when.
    pub fn follow(&mut self, session: &Session, note: impl Fn(Stamp, history::SessionState) + 'static) {
        // The end of the session before, which may come later, is no loss of this one.
        let losses: Rc<RefCell<Losses>> = Rc::default();
        self.0 = Rc::clone(&losses);
        let mut states = session.states();
        let following = async move {
            let mut state = states.peek_state();
            while !state.is_terminated() {
                state = states.changed().await;
                let (now, is_lost) = (clock::now(), state != SessionState::SyncConnected);
                losses.borrow_mut().note(is_lost, now);
                let told = match is_lost {
                    _ if state.is_terminated() => history::SessionState::Expired,
                    true => history::SessionState::Suspended,
                    false => history::SessionState::Connected,
                };
                note(now, told);
            }
        };
        reactor::spawn_local(following).detach();
    }

    /// When the connection was lost between two times, each time with its return; `Stamp::MAX` while it is not back.
    pub fn lost_within(&self, from: Stamp, to: Stamp) -> Vec<(Stamp, Stamp)> {
        let losses = self.0.borrow();
        let all = losses.over.iter().copied().chain(losses.since.map(|since| (since, Stamp::MAX)));
        all.filter(|(lost, back)| *lost <= to && *back > from).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_of_a_connection_are_told_with_their_return_as_far_as_they_touch_a_hold() {
        let connection = Connection::default();
        for (is_lost, at) in
            [(true, 10), (true, 12), (false, 20), (false, 22), (true, 30), (false, 40), (true, 50)]
        {
            connection.0.borrow_mut().note(is_lost, at);
        }
        assert_eq!(connection.lost_within(15, 35), [(10, 20), (30, 40)]);
        assert_eq!(connection.lost_within(20, 29), []);
        assert_eq!(connection.lost_within(45, 60), [(50, Stamp::MAX)]);
    }

    #[test]
    fn the_losses_that_are_kept_are_the_latest() {
        let mut losses = Losses::default();
        for at in (0..1000).step_by(2) {
            losses.note(true, at);
            losses.note(false, at + 1);
        }
        assert_eq!((losses.over.len(), losses.over.back()), (LOSSES_KEPT, Some(&(998, 999))));
    }
}
