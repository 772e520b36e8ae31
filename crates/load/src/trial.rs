//! One trial, from opening its sessions to closing them: measurements around the load, and the workers' meetings.
//! `phases` contains the load, and `outcome` contains the trial's record.

#![expect(clippy::disallowed_methods, reason = "the start time of a trial is only a label")]

mod outcome;
mod phases;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use futures_util::future::{join, join3};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tracing::info;
use zookeeper_client::Client;

use super::breaking::Elections;
use super::counters::{self, NearEnd};
use super::drivers::Drivers;
use super::health::Vitals;
use super::keeper::{Keeper, ServerLogs};
use super::orphans::{self, Orphans};
use super::rendezvous::{Meeting, Rendezvous};
use super::shared::{Board, LAST_TURNS, Shared};
use super::worker::{Share, ThreadRecord};
use super::{Environment, EnvironmentEvent, Sink, accounting, batch, fresh, progress, worker};
use zklockbench_core::clock::{self, Stamp, WallClock};
use zklockbench_core::error::Error;
use zklockbench_core::measure::Window;
use zklockbench_core::units::contenders;
use zklockbench_ensemble::proxy::Wire;
use zklockbench_locks::Entry;
use zklockbench_record::{Beside, Cause, CutShort, FaultRecord, Phase, ServerCounters, Steady, Stuck, Trial};
use zklockbench_scenario::{Load, Stop, TrialSpec};
use zklockbench_zk::{Target, reach, sessions_not_resumed};

/// Minimum time limit for a drain. The limit is longer if a contender may wait for a reply that never arrives.
const DRAIN_AT_LEAST: Duration = Duration::from_secs(15);
/// Time for a contender to notice the end of its session after reconnecting.
const SESSION_ENDS: Duration = Duration::from_secs(5);
/// Time limit for opening a session for checks around a load.
const SESSION_WITHIN: Duration = Duration::from_secs(5);
/// Time limit for opening a session for checks after faults, when servers may still be recovering.
const RECOVERS_WITHIN: Duration = Duration::from_secs(15);
/// Time without service after which a single server that has ended counts as lost.
const LOST_AFTER: Duration = Duration::from_secs(3);
/// Time without service after which several servers, which may be electing a leader, count as lost.
const ELECTED_WITHIN: Duration = Duration::from_secs(10);
/// Time for a generator thread to return its record after an abort.
const ABORT_AT_MOST: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(5);
const INTERRUPTED: &str = "interrupted";
const TICK: Duration = Duration::from_millis(200);
/// Maximum spread of the workers' starts, as a share of the shortest phase.
const SPREAD_AT_MOST: f64 = 0.1;

/// Runs one trial. If an interrupt or a lost ensemble ends the trial early, its record contains the
/// measurements so far and is marked as partial.
///
/// # Errors
/// Fails if the trial cannot start: the ensemble rejects its nodes, or no session can be opened.
pub async fn run_trial(
    environment: &Environment,
    spec: &TrialSpec,
    entry: &Entry,
    interrupt: &CancellationToken,
    sink: Sink<'_>,
) -> Result<Trial, Error> {
    run(environment, spec, entry, interrupt, sink, None).await
}

/// Like [`run_trial`], but optionally with a wire that counts the lock's traffic, and a target that bypasses
/// it. With a wire, contenders complete the cycles that they have started.
pub(super) async fn run(
    environment: &Environment,
    spec: &TrialSpec,
    entry: &Entry,
    interrupt: &CancellationToken,
    sink: Sink<'_>,
    wire: Option<(Arc<Wire>, Target)>,
) -> Result<Trial, Error> {
    let root = match environment.slice().leads() {
        true => environment.workspace.prepare(spec.index, spec.locks, environment.slice()).await?,
        false => environment.workspace.trial_root(spec.index),
    };
    if zklockbench_locks::joins_by_count(&entry.card, &spec.strategy.params) && environment.slice().leads() {
        environment.workspace.check_counting(&spec.strategy.name).await?;
    }
    let targets = environment.for_contenders(spec.contenders)?;
    let drivers = Drivers::of(entry, spec, &environment.target)?;
    let mut shared = Shared::new(spec.clone(), *entry, targets, &root, environment.slice());
    shared.drivers = drivers.clone();
    shared.wire = wire;
    shared.keeps_history = environment.keeps_history;
    shared.throttle = environment.limits.throttle.clone();
    if let Some(proxy) = &environment.proxy {
        let traced: &[_] = if shared.drivers.are_there() { &shared.overlaps.messages } else { &[] };
        proxy.trace(traced);
    }
    let shared = Arc::new(shared.with_logs(environment.local.as_deref()));
    let mut conductor = Conductor::start(environment, Arc::clone(&shared), interrupt, sink)?;
    let trial = conductor.conduct().await;
    let failed = drivers.end(&spec.strategy.name, sink).await;
    let mut trial = trial?;
    trial.health.invalid = failed.or(trial.health.invalid);
    let is_lost = trial.cut_short.as_ref().is_some_and(|cut| cut.cause == Cause::EnsembleLost);
    if !is_lost && environment.slice().leads() {
        environment.workspace.clear(&root).await?;
    }
    Ok(trial)
}

/// Name of the meeting that the workers hold in each trial once all sessions are open.
const CONNECTED: &str = "connected";
/// Name of the timestamp at the load's start.
const STARTED: &str = "started";
/// Name of the meeting that the workers hold in each trial once all work has ended.
const DRAINED: &str = "drained";

fn meeting(trial: usize, what: &str) -> String {
    format!("t{trial:03}-{what}")
}

struct Conductor<'a> {
    environment: &'a Environment,
    shared: Arc<Shared>,
    interrupt: &'a CancellationToken,
    sink: Sink<'a>,
    threads: Vec<oneshot::Receiver<ThreadRecord>>,
    /// Keeper of the contenders' notes, until its data is taken.
    keeper: Option<Keeper>,
    started_at: SystemTime,
    /// `started_at` on the process clock.
    began: Stamp,
    wall: WallClock,
    phases: Vec<Phase>,
    /// Set if some contenders had no session and the others were measured without them.
    too_few: Option<CutShort>,
    cut_short: Option<CutShort>,
    /// Elections observed during the load.
    elections: Elections,
    faults: Vec<FaultRecord>,
    stuck: Vec<Stuck>,
    /// Number of sessions that were not resumed before this trial.
    not_resumed_before: u64,
    /// Whether opening a session for checks has failed.
    lacked_session: bool,
}

struct ObservedLoad {
    loaded: Loaded,
    given_up: Stamp,
    before: Vec<ServerCounters>,
    after: Vec<ServerCounters>,
    orphans: Option<Orphans>,
    nodes_left: Option<u64>,
    /// Lock directories whose counter is near its end.
    near_end: Vec<NearEnd>,
    /// Time between the workers' starts, if this worker measures it.
    spread: Option<Result<Duration, String>>,
    /// Requests of the workers' meetings during the load.
    met: Option<Beside>,
}

struct Loaded {
    window: Window,
    begin: Vitals,
    end: Vitals,
    backlog_us: u64,
    steady: Steady,
}

impl<'a> Conductor<'a> {
    fn start(
        environment: &'a Environment,
        shared: Arc<Shared>,
        interrupt: &'a CancellationToken,
        sink: Sink<'a>,
    ) -> Result<Self, Error> {
        let seconds = expected_seconds(&shared.spec);
        let threads = environment.threads.clamp(1, shared.count_own().max(1));
        let started_at = SystemTime::now();
        let keeper = keeper(environment, &shared, started_at, threads)?;
        let spawned: std::io::Result<Vec<_>> = (0..threads)
            .map(|thread| {
                let contenders = shared.own().skip(thread).step_by(threads).collect();
                let every = environment.keep_awake.filter(|_| thread == 0).into_iter().cycle();
                let awake = environment.single_servers().zip(every).collect();
                let notes = keeper.notes_of(thread);
                worker::spawn(Arc::clone(&shared), Share { contenders, awake, notes }, seconds)
            })
            .collect();
        let threads =
            spawned.map_err(|e| Error::environment(format!("cannot start a generator thread: {e}")))?;
        let (began, wall) = (clock::now(), WallClock::read());
        Ok(Self {
            environment,
            shared,
            interrupt,
            sink,
            threads,
            keeper: Some(keeper),
            started_at,
            began,
            wall,
            phases: Vec::new(),
            too_few: None,
            cut_short: None,
            elections: Elections::default(),
            faults: Vec::new(),
            stuck: Vec::new(),
            not_resumed_before: sessions_not_resumed(),
            lacked_session: false,
        })
    }

    async fn conduct(&mut self) -> Result<Trial, Error> {
        let connect_us = self.connect().await?;
        self.shared.drivers.measure_at_rest().await;
        let observed = self.observe_load().await;
        let threads = self.collect().await;
        Ok(self.record(connect_us, observed, threads).await)
    }

    /// Runs the load, and reads the servers' counters before and after it. All workers start after the first
    /// reading and keep their sessions until the second reading.
    async fn observe_load(&mut self) -> ObservedLoad {
        let (environment, servers) = (self.environment, self.environment.observed_servers());
        let namespace = &environment.namespace;
        let session = match self.looks_for_orphans() {
            true => self.session_for_checks().await,
            false => None,
        };
        let beside = match &session {
            Some(client) => orphans::before(client, environment.workspace.root()).await,
            None => None,
        };
        // Ending this session is not part of the load.
        drop(session);
        let meeting = self.come_to(CONNECTED).await;
        // Discard the meetings' requests so far, because they precede the first reading.
        let _ = environment.rendezvous.as_ref().map(Rendezvous::take_beside);
        let before = accounting::read_at_rest(servers, namespace);
        let (before, elections, serving) =
            join3(before, Elections::from_now_on(servers), accounting::serving(servers)).await;
        self.elections = elections;
        self.go_on_from(meeting).await;
        let (loaded, given_up) = self.load_and_drain().await;
        let meeting = self.come_to(DRAINED).await;
        let spread = self.start_spread().await;
        let met = environment.rendezvous.as_ref().map(Rendezvous::take_beside);
        let after = accounting::read_at_rest(servers, namespace);
        let (after, ()) = join(after, self.elections.look_once()).await;
        self.report_lost_servers(&serving).await;
        let session = match self.checks_nodes() {
            true => self.session_for_checks().await,
            false => None,
        };
        let (mut orphans, mut nodes_left, mut near_end) = (None, None, Vec::new());
        if let Some(client) = &session {
            if self.wants_orphans() {
                orphans = orphans::find(&self.shared, client, environment.workspace.root(), &beside).await;
            }
            if self.shared.spec.fresh_locks {
                nodes_left = fresh::nodes_left(&self.shared, client).await;
            }
            if !self.has_fresh_counters() {
                near_end = counters::of_trial(&self.shared, client).await;
            }
        }
        self.go_on_from(meeting).await;
        ObservedLoad { loaded, given_up, before, after, orphans, nodes_left, near_end, spread, met }
    }

    /// Runs the load from start to end. Also returns the time at which waits were abandoned.
    async fn load_and_drain(&mut self) -> (Loaded, Stamp) {
        let shared = Arc::clone(&self.shared);
        let loading = async {
            let loaded = self.load().await;
            let given_up = clock::now();
            self.drain().await;
            (loaded, given_up)
        };
        tokio::select! {
            loaded = loading => loaded,
            never = shared.drivers.measure_until_measured(&shared.signals.window) => match never {},
        }
    }

    /// Joins a meeting of this trial, if there are several workers.
    async fn come_to(&mut self, what: &str) -> Option<Meeting<'a>> {
        let rendezvous = self.environment.rendezvous.as_ref()?;
        let name = meeting(self.shared.spec.index, what);
        let met = self.interrupt.run_until_cancelled(rendezvous.meet(&name)).await;
        if met.is_none() {
            self.cut_short(Cause::Interrupted, INTERRUPTED);
        }
        met
    }

    /// Waits until all workers have reached the meeting. Cuts the trial short if a worker is missing.
    async fn go_on_from(&mut self, meeting: Option<Meeting<'a>>) {
        let Some(meeting) = meeting else { return };
        match self.interrupt.run_until_cancelled(meeting.release()).await {
            Some(Ok(())) => {}
            Some(Err(failed)) => self.cut_short(Cause::WorkerLost, failed.to_string()),
            None => self.cut_short(Cause::Interrupted, INTERRUPTED),
        }
    }

    /// Returns the spread of the workers' starts on the leading server's clock, if this worker determines it.
    async fn start_spread(&self) -> Option<Result<Duration, String>> {
        let rendezvous = self.environment.rendezvous.as_ref().filter(|one| one.slice.leads())?;
        if self.cut_short.is_some() {
            return None;
        }
        Some(rendezvous.spread(&meeting(self.shared.spec.index, STARTED)).await)
    }

    /// Returns an error message if the workers' starts are too far apart to form a single load.
    fn too_far_apart(&self, spread: &Result<Duration, String>) -> Option<String> {
        let spread = match spread {
            Ok(spread) => *spread,
            Err(why) => return Some(format!("the spread of the workers' starts is unknown: {why}")),
        };
        let shortest = shortest_phase(&self.shared.spec)?;
        (spread > shortest.mul_f64(SPREAD_AT_MOST)).then(|| {
            format!(
                "the workers started {} apart, which is more than {:.0} % of the shortest phase ({}); use longer \
                 phases or less busy hosts",
                humantime::format_duration(spread),
                100.0 * SPREAD_AT_MOST,
                humantime::format_duration(shortest)
            )
        })
    }

    /// Records why the trial is cut short, unless a reason is already recorded.
    fn cut_short(&mut self, cause: Cause, why: impl Into<String>) {
        self.cut_short.get_or_insert_with(|| CutShort { cause, why: why.into() });
    }

    /// Waits until every contender has opened a session or failed to. Returns the elapsed time in microseconds.
    async fn connect(&mut self) -> Result<u64, Error> {
        let begin = self.phase_begins("connect", None);
        let shared = Arc::clone(&self.shared);
        let all = shared.count_own();
        let board = &shared.board;
        let connected = until(|| Board::read(&board.connected) + Board::read(&board.unconnected) >= all);
        if self.interrupt.run_until_cancelled(connected).await.is_none() {
            self.cut_short(Cause::Interrupted, INTERRUPTED);
        }
        let took = self.phase_ended("connect", begin);
        let unconnected = Board::read(&shared.board.unconnected);
        let limit = match unconnected {
            0 => None,
            _ => reach::connections_used_up(&self.environment.target).await,
        };
        let limit = limit.map_or_else(String::new, |limit| format!(". {limit}"));
        if unconnected == all {
            let mut none = format!("none of {} could open a session", contenders(all));
            if let Some(breach) = shared.board.breach.get() {
                none = format!("{breach}: {none}");
            }
            // If a driver cannot open a session, end only its trial.
            if shared.drivers.are_there() {
                self.cut_short(Cause::TooFewSessions, none);
                return Ok(took);
            }
            self.abandon().await;
            return Err(Error::environment(format!("{none} to {}{limit}", self.environment.target.connect)));
        }
        if unconnected > 0 {
            let why = format!(
                "only {} of {} took part: the others got no session{limit}",
                all - unconnected,
                contenders(all)
            );
            (self.sink)(EnvironmentEvent::Warning(&why));
            self.too_few = Some(CutShort { cause: Cause::TooFewSessions, why });
        }
        Ok(took)
    }

    /// Returns whether this worker searches for leftover nodes. Locks of other systems leave none.
    fn looks_for_orphans(&self) -> bool {
        self.shared.slice.leads() && self.shared.entry.card.other_system().is_none()
    }

    /// Returns whether this worker checks any nodes after the load.
    fn checks_nodes(&self) -> bool {
        let checks = self.wants_orphans() || self.shared.spec.fresh_locks || !self.has_fresh_counters();
        checks && self.shared.slice.leads() && !self.is_lost()
    }

    fn wants_orphans(&self) -> bool {
        let is_ended = self.cut_short.is_none() || self.shared.has_faults() || !self.stuck.is_empty();
        is_ended && self.looks_for_orphans()
    }

    /// Returns whether no counter can be near its end, because the servers are fresh and no fault advances counters.
    fn has_fresh_counters(&self) -> bool {
        self.environment.local.is_some() && !self.shared.has_faults()
    }

    /// Opens a session for checks around the load. Reports only the first failure.
    async fn session_for_checks(&mut self) -> Option<Client> {
        let within = if self.shared.has_faults() { RECOVERS_WITHIN } else { SESSION_WITHIN };
        match self.environment.workspace.session_for_checks(within).await {
            Ok(client) => Some(client),
            Err(why) => {
                if !std::mem::replace(&mut self.lacked_session, true) {
                    let why = format!("nodes left behind and sequence counters were not checked: {why}");
                    (self.sink)(EnvironmentEvent::Warning(&why));
                }
                None
            }
        }
    }

    /// Warns about servers that served before the load but no longer serve, unless faults explain this.
    async fn report_lost_servers(&self, serving: &[String]) {
        if self.shared.has_faults() || self.is_lost() {
            return;
        }
        let still = accounting::serving(serving).await;
        for server in serving.iter().filter(|server| !still.contains(server)) {
            let trial = self.shared.spec.index;
            let why = format!("{server} no longer serves; it served before trial {trial}");
            (self.sink)(EnvironmentEvent::Warning(&why));
        }
    }

    /// Runs work until it ends, the user interrupts it, or the trial is cut short.
    async fn until_cut_short(&mut self, work: impl Future<Output = ()>) {
        let Environment { target, servers, .. } = self.environment;
        let (cause, why) = tokio::select! {
            () = work => return,
            () = self.interrupt.cancelled() => (Cause::Interrupted, INTERRUPTED.to_owned()),
            why = ensemble_lost(self.environment, &self.shared) => (Cause::EnsembleLost, why),
            why = servers_ended(self.environment, &self.shared) => (Cause::EnsembleLost, why),
            why = self.environment.limits.alarm() => (Cause::EnsembleOverloaded, why),
            () = tick(&self.shared, self.sink) => return,
            () = progress::watch_standstills(&self.shared, target, servers) => return,
        };
        self.cut_short(cause, why);
    }

    /// Ends the load: cancels waits, releases holds, and stops all acquires.
    async fn drain(&mut self) {
        let begin = self.phase_begins("drain", None);
        let shared = Arc::clone(&self.shared);
        if shared.wire.is_some() && self.cut_short.is_none() {
            self.end_turns().await;
        }
        shared.signals.drain.cancel();
        if self.is_lost() {
            shared.signals.abort.cancel();
        } else {
            let all = shared.count_own();
            let drained = async {
                all_finished(&shared).await;
                batch::quiet(&shared).await;
            };
            let at_most = self.drain_at_most();
            let drained = tokio::select! {
                drained = tokio::time::timeout(at_most, drained) => drained,
                why = servers_ended(self.environment, &shared) => {
                    self.cut_short(Cause::EnsembleLost, why);
                    shared.signals.abort.cancel();
                    Ok(())
                }
            };
            if drained.is_err() {
                let late = all - Board::read(&shared.board.finished).min(all);
                self.cut_short(
                    Cause::DidNotEnd,
                    format!("{} did not finish within {at_most:?}", contenders(late)),
                );
            }
        }
        self.phase_ended("drain", begin);
    }

    /// Returns the time limit of a drain. After a session has expired, the server may leave the connection open
    /// without answering. The client then waits for its session timeout, which a driver may choose (`cli_mt`: 30 s).
    fn drain_at_most(&self) -> Duration {
        DRAIN_AT_LEAST.max(self.shared.negotiated() + SESSION_ENDS)
    }

    /// Gives contenders some time to complete the cycles that they have started.
    async fn end_turns(&self) {
        self.shared.signals.last_turns.cancel();
        let bounded = tokio::time::timeout(LAST_TURNS, all_finished(&self.shared));
        // Incomplete cycles are not counted.
        let _ = self.interrupt.run_until_cancelled(bounded).await;
    }

    fn is_lost(&self) -> bool {
        self.cut_short.as_ref().is_some_and(|cut| cut.cause == Cause::EnsembleLost)
    }

    async fn collect(&mut self) -> Vec<ThreadRecord> {
        self.shared.signals.close.cancel();
        let started = self.threads.len();
        let (abort, at_most) = (self.shared.signals.abort.clone(), self.drain_at_most());
        let threads = collect(&mut self.threads, &abort, at_most, ABORT_AT_MOST).await;
        let missing = started - threads.len();
        if missing > 0 {
            self.cut_short(
                Cause::DidNotEnd,
                format!("{missing} of {started} generator threads returned no record"),
            );
        }
        threads
    }

    async fn abandon(&mut self) {
        self.shared.signals.drain.cancel();
        self.shared.signals.abort.cancel();
        collect(&mut self.threads, &self.shared.signals.abort, Duration::ZERO, ABORT_AT_MOST).await;
    }

    fn phase_begins(&self, name: &'static str, expected: Option<Duration>) -> Stamp {
        info!("trial {}: {name}", self.shared.spec.index);
        (self.sink)(EnvironmentEvent::Phase { name, expected });
        clock::now()
    }

    fn phase_ended(&mut self, name: &'static str, begin: Stamp) -> u64 {
        let took_us = clock::now().saturating_sub(begin);
        self.phases.push(Phase { name: name.to_owned(), took_us });
        took_us
    }
}

/// Collects the records of all threads that end in time or soon after an abort.
async fn collect<R>(
    threads: &mut Vec<oneshot::Receiver<R>>,
    abort: &CancellationToken,
    at_most: Duration,
    after_abort: Duration,
) -> Vec<R> {
    let mut running: FuturesUnordered<_> = threads.drain(..).collect();
    let mut records = Vec::with_capacity(running.len());
    for patience in [at_most, after_abort] {
        let ended = async {
            while let Some(record) = running.next().await {
                records.extend(record);
            }
        };
        if tokio::time::timeout(patience, ended).await.is_ok() {
            break;
        }
        abort.cancel();
    }
    records
}

async fn all_finished(shared: &Shared) {
    until(|| Board::read(&shared.board.finished) >= shared.count_own()).await;
}

async fn until(holds: impl Fn() -> bool) {
    while !holds() {
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Waits until no server has accepted a connection for a session's lifetime, so that no contender can still hold
/// a lock, or until a server violates the protocol. Returns the reason for ending the load.
async fn ensemble_lost(environment: &Environment, shared: &Shared) -> String {
    let broken = shared.spec.faults.iter().filter_map(|fault| fault.duration).max().unwrap_or_default();
    let lives = shared.spec.session_timeout.max(shared.negotiated());
    let patience = lives.max(Duration::from_secs(2)) + 2 * broken;
    let unreachable = lasting(patience, async || {
        (!has_replied_lately(shared) && !environment.any_reachable().await).then_some(())
    });
    tokio::select! {
        () = unreachable => format!(
            "the ensemble was lost: none of its servers ({}) accepted a connection for {}",
            environment.servers.join(", "),
            humantime::format_duration(patience)
        ),
        breach = lasting(Duration::ZERO, async || shared.board.breach.get()) => {
            format!("the ensemble cannot be measured: {breach}")
        }
    }
}

/// Waits until servers started by the run have ended unexpectedly and no server has served for some time. Never
/// returns if the trial has faults: [`ensemble_lost`] allows time for them to heal.
async fn servers_ended(environment: &Environment, shared: &Shared) -> String {
    let Some(local) = environment.local.as_ref().filter(|_| !shared.has_faults()) else {
        return std::future::pending().await;
    };
    let patience = if environment.servers.len() > 1 { ELECTED_WITHIN } else { LOST_AFTER };
    let ended = lasting(patience, async || {
        let serves =
            has_replied_lately(shared) || !accounting::serving(&environment.servers).await.is_empty();
        if serves { None } else { local.ended_by_itself() }
    });
    format!("the ensemble was lost: {}", ended.await)
}

/// Polls `look` until it has returned `Some` for this long without interruption.
async fn lasting<T>(patience: Duration, look: impl AsyncFn() -> Option<T>) -> T {
    let mut since: Option<Stamp> = None;
    loop {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let Some(found) = look().await else {
            since = None;
            continue;
        };
        let now = clock::now();
        if now - *since.get_or_insert(now) >= clock::micros(patience) {
            return found;
        }
    }
}

/// Returns whether a server has answered a contender in the last second.
fn has_replied_lately(shared: &Shared) -> bool {
    clock::now().saturating_sub(shared.last_reply.load(Ordering::Relaxed)) < 1_000_000
}

async fn tick(shared: &Shared, sink: Sink<'_>) {
    let of = match (&shared.spec.load, shared.spec.stop) {
        (Load::Batch, _) => Some(shared.spec.contenders as u64),
        (Load::Closed, Stop::Acquisitions(each)) => Some(each * shared.count_own() as u64),
        (Load::Closed, Stop::After(_)) | (Load::Open(_), _) => None,
    };
    loop {
        sink(EnvironmentEvent::Tick { acquired: shared.board.acquired.load(Ordering::Relaxed), of });
        tokio::time::sleep(TICK).await;
    }
}

/// Returns the length of the timeline in seconds; generous if acquisitions end the phase.
fn expected_seconds(spec: &TrialSpec) -> usize {
    let guess = spec.stop.lasts().unwrap_or(Duration::from_secs(3_600));
    usize::try_from(guess.as_secs() + 2).unwrap_or(usize::MAX)
}

fn keeper(
    environment: &Environment,
    shared: &Shared,
    since: SystemTime,
    threads: usize,
) -> Result<Keeper, Error> {
    let scratch = &environment.scratch;
    let logs = environment
        .local
        .as_ref()
        .filter(|_| shared.reads_logs)
        .map(|local| ServerLogs::new(local.logs_at_hand(), shared.lock_states.root(), since, scratch));
    let started = Keeper::start(scratch, logs, threads);
    started.map_err(|error| Error::environment(format!("cannot start a thread: {error}")))
}

/// Returns the length of the shortest phase whose length is known; `None` if there is no such phase.
fn shortest_phase(spec: &TrialSpec) -> Option<Duration> {
    let measured = spec.stop.lasts().unwrap_or_default();
    [spec.ramp_up, spec.warm_up_at_most.max(spec.warm_up), measured]
        .into_iter()
        .filter(|phase| !phase.is_zero())
        .min()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_millis(50);

    #[tokio::test(start_paused = true)]
    async fn records_are_collected_when_another_thread_hangs_or_panics() {
        for (hung, panicked) in [(1, 0), (0, 1), (1, 1)] {
            let abort = CancellationToken::new();
            let (ended, record) = oneshot::channel();
            let (ends_on_abort, aborted) = oneshot::channel();
            let senders: Vec<_> = (0..hung + panicked).map(|_| oneshot::channel::<u8>()).collect();
            let (mut senders, mut threads): (Vec<_>, Vec<_>) = senders.into_iter().unzip();
            senders.truncate(hung);
            threads.extend([aborted, record]);
            ended.send(1).unwrap();
            let on_abort = abort.clone();
            tokio::spawn(async move {
                on_abort.cancelled().await;
                ends_on_abort.send(2).unwrap();
            });
            let collected = collect(&mut threads, &abort, SOON, SOON);
            let records = tokio::time::timeout(4 * SOON, collected).await.expect("the wait is bounded");
            assert_eq!(records, [1, 2], "{hung} hung, {panicked} panicked");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn threads_that_end_in_time_are_not_aborted() {
        let abort = CancellationToken::new();
        let (ended, record) = oneshot::channel();
        ended.send(()).unwrap();
        assert_eq!(collect(&mut vec![record], &abort, SOON, SOON).await.len(), 1);
        assert!(!abort.is_cancelled());
    }
}
