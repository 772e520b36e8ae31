//! State that one trial's contenders share with the conductor: atomics, signals, gaps, and each contender's
//! controls and visible state.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::arrivals::Arrivals;
use super::drivers::Drivers;
use super::gaps::Gaps;
use super::lock_state::LockTemplate;
use super::lock_states::{LockStates, WITNESS};
use super::overlaps::Overlaps;
use super::series::SlotSeries;
use zklockbench_core::catalog::{Holders, Params};
use zklockbench_core::clock::{self, Stamp};
use zklockbench_core::locked::locked;
use zklockbench_core::measure::Window;
use zklockbench_ensemble::fault::{Admission, CrashOrders};
use zklockbench_ensemble::proxy::Wire;
use zklockbench_locks::driver::Processes;
use zklockbench_locks::{DeadlineClock, Entry, LockConfig, PERMITS, Strategy, WaitGauge, leases_of};
use zklockbench_record::history::LockKind;
use zklockbench_record::{FencingCounts, Utilisation, history};
use zklockbench_scenario::schedule::{Coming, coming};
use zklockbench_scenario::{Load, Settling, Slice, Stop, TrialSpec};
use zklockbench_zk::gate::Gate;
use zklockbench_zk::throttle::Throttle;
use zklockbench_zk::{Session, SessionKey, SessionState, Target, runtime};

#[derive(Debug, Clone)]
pub struct Signals {
    /// Time at which contenders may start, on the process clock; `None` until known.
    pub start: watch::Sender<Option<Stamp>>,
    pub window: watch::Sender<Window>,
    /// In a batch, the contenders with numbers below this value may arrive.
    pub arrivals: watch::Sender<usize>,
    pub releases: watch::Sender<Option<usize>>,
    /// Signal to stop acquiring, cancel waits and release holds.
    pub drain: CancellationToken,
    /// Signal to complete the current cycle and start no new one.
    pub last_turns: CancellationToken,
    pub close: CancellationToken,
    /// Signal to stop immediately.
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

/// Time at which the first contender completed its acquisitions, and the measured total of all contenders at that time.
#[derive(Debug, Clone, Copy)]
pub struct FirstDone {
    pub at: Stamp,
    pub acquired: u64,
}

/// Counters and flags that the contenders set for the conductor.
#[derive(Debug, Default)]
pub struct Board {
    pub connected: AtomicUsize,
    /// Number of contenders that could not open a session.
    pub unconnected: AtomicUsize,
    pub finished: AtomicUsize,
    pub acquired: AtomicU64,
    pub released: AtomicU64,
    /// Longest negotiated session timeout, in milliseconds.
    pub negotiated_ms: AtomicU64,
    /// Acquisitions in the measured phase.
    pub measured: AtomicU64,
    /// Set when the first contender reaches its number of acquisitions.
    pub first_done: OnceLock<FirstDone>,
    /// Longest time so far for which the lock was free while a contender waited for it.
    pub standstill_us: AtomicU64,
    pub standstill_began: AtomicU64,
    /// Signs of the causes of long outages.
    pub signs: Mutex<BTreeSet<String>>,
    /// Number of the suite's own reads during outages, which are part of the servers' counts.
    pub looked: AtomicU64,
    /// Number of searches in progress. While there are any, the number of the suite's own reads is unknown.
    pub looking: AtomicU64,
    /// First protocol violation by a server.
    pub breach: OnceLock<String>,
    /// Times at which contenders noticed lost connections or ended sessions, in trials that keep evidence.
    pub losses: Mutex<Vec<(Stamp, history::SessionState)>>,
}

impl Board {
    pub fn read(counter: &AtomicUsize) -> usize {
        counter.load(Ordering::Acquire)
    }

    /// Starts the measured phase. Earlier outages and the earlier part of an outage do not count.
    pub fn begin_measured(&self) {
        self.standstill_us.store(0, Ordering::Relaxed);
        locked(&self.signs).clear();
    }
}

pub struct Shared {
    pub spec: TrialSpec,
    /// Share of the contenders, arrivals and faults that this worker handles.
    pub slice: Slice,
    pub entry: Entry,
    /// Drivers of the locks, if the locks are not the suite's own.
    pub drivers: Drivers,
    /// Targets of sessions: one per contender, or one for all.
    targets: Vec<Target>,
    /// Counter of the lock's traffic, if any, and the target that bypasses the counter.
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
    /// Whether the servers' logs, which contain the ensemble's order of holders, can be read.
    pub reads_logs: bool,
    pub gaps: Gaps,
    pub overlaps: Overlaps,
    /// Rate limiter for the load's cycles, if any.
    pub throttle: Option<Arc<Throttle>>,
}

/// Maximum time for which contenders start new cycles in a counting trial.
pub const COUNTING_LASTS: Duration = Duration::from_secs(2);
/// Time for completing the last cycles of a counting trial.
pub const LAST_TURNS: Duration = Duration::from_secs(3);

/// Maximum lateness of the end of a warm-up without a fixed length.
const WARM_UP_ENDS_WITHIN: Duration = Duration::from_secs(1);

/// Number of sessions opened at once. A server accepts connections one by one, so a thousand simultaneous
/// connections would only queue until they time out.
const OPENING_AT_ONCE: usize = 64;

fn kind_of(entry: &Entry, params: &Params) -> LockKind {
    match entry.card.guarantees.holders {
        Holders::One => LockKind::Mutex,
        Holders::ReadersOrOneWriter => LockKind::ReadWrite,
        Holders::Leases(param) => LockKind::Semaphore(leases_of(params, param)),
    }
}

/// Returns the maximum time from the start of the load to the end of the measured phase; zero if acquisitions
/// end the phase.
fn lasts_at_most(spec: &TrialSpec) -> Duration {
    let Stop::After(duration) = spec.stop else { return Duration::ZERO };
    let late = if spec.has_open_end() { WARM_UP_ENDS_WITHIN } else { Duration::ZERO };
    spec.warm_up_at_most.max(spec.warm_up) + late + duration
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
        let overlaps = Overlaps::of(spec.contenders);
        Self {
            series,
            spec,
            slice,
            entry,
            drivers: Drivers::default(),
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
            overlaps,
            throttle: None,
        }
    }

    /// Determines whether the servers' logs are read: only those of the suite's own servers and, if the logs must be
    /// copied first, only if evidence is kept.
    pub fn with_logs(self, own: Option<&dyn zklockbench_ensemble::Processes>) -> Self {
        // The servers' logs contain nothing about another system's locks.
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

    /// Returns whether transactions order this worker's holds relative to other workers' holds.
    pub fn orders_holds(&self) -> bool {
        self.slice.is_part() && self.keeps_history
    }

    /// Returns whether evidence is kept for each hold, such as its session's states and its writes.
    pub fn keeps_evidence(&self) -> bool {
        self.has_faults() || self.keeps_history
    }

    /// Returns the lock that a contender uses, which changes only if arrivals determine the lock.
    pub fn lock_of(&self, contender: usize) -> usize {
        self.controls[contender].lock()
    }

    pub fn target_of(&self, contender: usize) -> &Target {
        &self.targets[contender % self.targets.len()]
    }

    pub fn driver_of(&self, contender: usize) -> Option<&Arc<Processes>> {
        self.drivers.of_contender(contender)
    }

    /// Returns the target of a contender's own session. With a driver, this session is not part of the lock
    /// and bypasses the counter.
    pub fn own_target_of(&self, contender: usize) -> &Target {
        let direct =
            self.wire.as_ref().filter(|_| self.driver_of(contender).is_some()).map(|(_, direct)| direct);
        direct.unwrap_or_else(|| self.target_of(contender))
    }

    pub fn build(&self, contender: usize, lock: usize) -> Box<dyn Strategy> {
        self.build_at(contender, self.lock_states.path(lock))
    }

    pub fn build_at(&self, contender: usize, path: String) -> Box<dyn Strategy> {
        let (entry, params) =
            zklockbench_locks::member_of(&self.entry, &self.spec.strategy.params, contender);
        let drivers = self.driver_of(contender).cloned();
        (entry.build)(&LockConfig { path, params, contender, drivers })
    }

    pub fn witness(&self, lock: usize) -> String {
        format!("{}{WITNESS}{lock}", self.lock_states.root())
    }

    pub fn most_inside(&self) -> u64 {
        self.lock_states.used().map(|lock_state| lock_state.most_inside() as u64).max().unwrap_or(0)
    }

    /// Returns the utilisation of the locks over `measured_us`; `None` if several holders may share a lock.
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

    /// Returns how much longer sessions last than the scenario's timeout, because servers or drivers chose a longer
    /// one.
    pub fn sessions_outlast(&self) -> Duration {
        self.negotiated().saturating_sub(self.spec.session_timeout)
    }

    /// Returns the longest negotiated session timeout; zero before the first session.
    pub fn negotiated(&self) -> Duration {
        Duration::from_millis(self.board.negotiated_ms.load(Ordering::Acquire))
    }

    /// Returns the time limits at the end of the trial, extended by the negotiated session timeouts.
    pub fn settling(&self) -> Settling {
        self.spec.settling.and_for(self.sessions_outlast())
    }

    pub fn open_deadline(&self) -> Duration {
        self.spec.session_timeout.max(Duration::from_secs(10))
    }
}

/// Controls and visible state of one contender, for faults and the conductor.
#[derive(Debug, Default)]
pub struct Control {
    /// Gate for all work of the contender.
    pub gate: Arc<Gate>,
    pub admission: Arc<Admission>,
    pub clock: DeadlineClock,
    /// Orders to crash during an activity and to return as a new process.
    pub crashes: Arc<CrashOrders>,
    waits_since: AtomicU64,
    /// Time of the last grant by a driver; 0 before the first.
    served_at: AtomicU64,
    lock: AtomicUsize,
    key: Mutex<Option<SessionKey>>,
    /// All sessions that the contender has had.
    sessions: Mutex<BTreeSet<i64>>,
    closings: Mutex<BTreeMap<i64, Closing>>,
}

/// Progress of a fault that closes a contender's session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closing {
    /// The close was requested: the session may end at any moment, or never.
    Begun,
    /// A server has confirmed that the session is over.
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

    pub fn served(&self, at: Stamp) {
        self.served_at.store(at, Ordering::Release);
    }

    pub fn served_at(&self) -> Stamp {
        self.served_at.load(Ordering::Acquire)
    }

    pub fn waiting_since(&self) -> Option<Stamp> {
        Some(self.waits_since.load(Ordering::Acquire)).filter(|since| *since > 0)
    }
}

/// Follows a session until its end, and reports its state changes with their times. A session closed by its
/// own contender is not reported as expired.
pub fn follow(session: &Session, note: impl Fn(Stamp, history::SessionState) + 'static) {
    let mut states = session.states();
    let following = async move {
        let mut state = states.peek_state();
        while !state.is_terminated() {
            state = states.changed().await;
            let change = match state {
                SessionState::SyncConnected => history::SessionState::Connected,
                SessionState::Closed => return,
                _ if state.is_terminated() => history::SessionState::Expired,
                _ => history::SessionState::Suspended,
            };
            note(clock::now(), change);
        }
    };
    runtime::spawn_local(following).detach();
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use zklockbench_scenario::{TrialPlan, parse};
    use zklockbench_zk::Access;

    #[test]
    fn arrivals_last_until_the_end_of_a_phase_that_starts_late() {
        let load = "load = \"open\"\nrate = 100\narrivals = \"constant\"";
        let shared =
            shared(&format!("{load}\nwarm_up = \"1s\"\nwarm_up_at_most = \"2s\"\nduration = \"3s\""));
        let arrivals = shared.open.unwrap();
        assert_eq!(arrivals.due_times(2_100_000, 5_100_000).count(), 300);
    }

    /// Returns the state of a trial of `baton` with two contenders and these lines of a scenario.
    pub fn shared(lines: &str) -> Shared {
        let text = format!("name = \"x\"\nstrategies = [\"baton\"]\ncontenders = 2\n{lines}\n");
        let parsed = parse("x.toml", &text, &crate::catalog()).unwrap_or_else(|wrong| panic!("{wrong}"));
        let spec = TrialPlan::of(&parsed.scenario).trials.remove(0);
        let target = Target { connect: "127.0.0.1:1".into(), access: Access::default() };
        Shared::new(spec, *zklockbench_locks::find("baton").unwrap(), vec![target], "/run", Slice::WHOLE)
    }
}
