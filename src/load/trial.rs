//! One trial from its first session to its last: connect, ramp, warm-up, measure, drain.

#![expect(clippy::disallowed_methods, reason = "when a trial began is a label")]

mod meets;
mod outcome;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use futures_util::future::{join, join_all};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::accounting::CounterReading;
use super::breaking::Elections;
use super::drivers::Drivers;
use super::health::Vitals;
use super::keeper::{Following, Keeper};
use super::rendezvous::Rendezvous;
use super::series::Steadiness;
use super::shared::{Board, COUNTING_LASTS, LAST_TURNS, Shared};
use super::worker::{Share, ThreadRecord};
use super::{Environment, EnvironmentEvent, Sink, accounting, batch, breaking, progress, worker};
use crate::lock::{self, Entry};
use crate::record::{Beside, Cause, CutShort, FaultRecord, Phase, Steady, Stuck, Trial, WarmUpEnd};
use crate::scenario::{Load, Stop, TrialSpec};
use crate::words::clock::{self, Stamp, WallClock};
use crate::words::error::Error;
use crate::words::measure::Window;
use crate::words::units::contenders;
use crate::world::proxy::Wire;
use crate::world::zk::{Target, nodelay};
use meets::Meets;

/// A drain may take this long before everything still under way is given up, or as long as a reply that never comes keeps a
/// contender waiting.
const DRAIN_AT_LEAST: Duration = Duration::from_secs(15);
/// What a contender whose session is over needs to notice it, once it connects again.
const SESSION_ENDS: Duration = Duration::from_secs(5);
/// The window opens a moment after it is announced, so that every thread knows of it in time.
const NOTICE: Duration = Duration::from_millis(20);
const LOOK_EVERY: Duration = Duration::from_millis(5);
const INTERRUPTED: &str = "interrupted";
/// Poll interval for the end of the warm-up.
const LOOK_AT_WARM_UP_EVERY: Duration = Duration::from_millis(50);
const TICK: Duration = Duration::from_millis(200);

/// Runs one trial. An interrupt or a lost ensemble ends it early; what was measured till then is in the
/// record, marked partial.
///
/// # Errors
/// When the trial could not begin: the ensemble refuses its nodes, or no session could be opened.
pub async fn run_trial(
    environment: &Environment,
    spec: &TrialSpec,
    entry: &Entry,
    interrupt: &CancellationToken,
    sink: Sink<'_>,
) -> Result<Trial, Error> {
    run(environment, spec, entry, interrupt, sink, None).await
}

/// The same, where what the lock sends and receives passes there and is counted. Contenders end the turns that they have begun.
pub(super) async fn run_counted(
    environment: &Environment,
    spec: &TrialSpec,
    entry: &Entry,
    interrupt: &CancellationToken,
    sink: Sink<'_>,
    wire: Arc<Wire>,
) -> Result<Trial, Error> {
    let wire = (wire, environment.target.clone());
    run(environment, spec, entry, interrupt, sink, Some(wire)).await
}

async fn run(
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
    if lock::joins_by_count(&entry.card, &spec.strategy.params) && environment.slice().leads() {
        environment.workspace.check_counting(&spec.strategy.name).await?;
    }
    let targets = environment.for_contenders(spec.contenders)?;
    let drivers = Drivers::of(entry, spec, &environment.target)?;
    let shared = Shared::new(spec.clone(), *entry, targets, &root, environment.slice())
        .with_drivers(drivers.clone())
        .with_wire(wire)
        .with_history(environment.keeps_history)
        .with_logs(environment.local.as_deref());
    let shared = Arc::new(shared);
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

struct Conductor<'a> {
    environment: &'a Environment,
    shared: Arc<Shared>,
    interrupt: &'a CancellationToken,
    sink: Sink<'a>,
    threads: Vec<oneshot::Receiver<ThreadRecord>>,
    /// Until what it has kept is taken; `None` where nothing is to be kept.
    keeper: Option<Keeper>,
    started_at: SystemTime,
    /// The same by our clock.
    began: Stamp,
    wall: WallClock,
    phases: Vec<Phase>,
    /// That some contenders had no session; the others measure all the same.
    too_few: Option<CutShort>,
    cut_short: Option<CutShort>,
    /// What is seen of the servers' elections, from the begin of the load to its end.
    elections: Elections,
    faults: Vec<FaultRecord>,
    stuck: Vec<Stuck>,
    /// Connections without TCP_NODELAY.
    delayed: u64,
}

/// A load, and what was looked at around it.
struct ObservedLoad {
    loaded: Loaded,
    given_up: Stamp,
    before: Vec<CounterReading>,
    after: Vec<CounterReading>,
    orphans: Option<u64>,
    /// How far apart workers began, where that is found out here.
    spread: Option<Result<Duration, String>>,
    /// What their meetings asked of the servers meanwhile.
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
        let keeper = keeper(environment, &shared, started_at)?;
        let spawned: std::io::Result<Vec<_>> = (0..threads)
            .map(|thread| {
                let contenders = shared.own().skip(thread).step_by(threads).collect();
                let every = environment.keep_awake.filter(|_| thread == 0);
                let awake = environment.single_servers().filter(|_| every.is_some()).collect();
                let every = every.unwrap_or_default();
                let notes = keeper.as_ref().map(|keeper| keeper.notes_of(thread)).unwrap_or_default();
                worker::spawn(Arc::clone(&shared), Share { contenders, awake, every, notes }, seconds)
            })
            .collect();
        let threads =
            spawned.map_err(|e| Error::environment(format!("cannot start a generator thread: {e}")))?;
        let (began, wall) = (clock::now(), WallClock::read());
        let (phases, faults, stuck) = (Vec::new(), Vec::new(), Vec::new());
        let cut_short = None;
        Ok(Self {
            environment,
            shared,
            interrupt,
            sink,
            threads,
            keeper,
            started_at,
            began,
            wall,
            phases,
            too_few: None,
            cut_short,
            elections: Elections::default(),
            faults,
            stuck,
            delayed: 0,
        })
    }

    async fn conduct(&mut self) -> Result<Trial, Error> {
        let connect_us = self.connect().await?;
        self.shared.drivers.measure_at_rest().await;
        self.shared.decide_who_holds();
        let observed = self.observe_load().await;
        let threads = self.collect().await;
        Ok(self.record(connect_us, observed, threads).await)
    }

    /// The load, between what the servers count before and after it. Where this worker is one of several, all of them begin
    /// once the first has been read, and none closes its sessions before the second has.
    async fn observe_load(&mut self) -> ObservedLoad {
        let (environment, servers) = (self.environment, self.environment.observed_servers());
        let namespace = &environment.namespace;
        let meeting = self.come_to(Meets::Connected).await;
        // What was asked before is not among what the servers count from here on.
        let _ = environment.rendezvous.as_ref().map(Rendezvous::take_beside);
        let before = accounting::read_at_rest(servers, namespace);
        let (before, elections) = join(before, Elections::from_now_on(servers)).await;
        self.elections = elections;
        self.go_on_from(meeting).await;
        let (loaded, given_up) = self.load_and_drain().await;
        let meeting = self.come_to(Meets::Drained).await;
        let spread = self.start_spread().await;
        let met = environment.rendezvous.as_ref().map(Rendezvous::take_beside);
        let after = accounting::read_at_rest(servers, namespace);
        let (after, ()) = join(after, self.elections.look_once()).await;
        let orphans = self.orphans().await;
        self.go_on_from(meeting).await;
        ObservedLoad { loaded, given_up, before, after, orphans, spread, met }
    }

    /// The load from its begin to its end, and when waits were given up. Connections that are made meanwhile are set like the
    /// first ones.
    async fn load_and_drain(&mut self) -> (Loaded, Stamp) {
        let (shared, connected_to) = (Arc::clone(&self.shared), self.connected_to());
        let loading = async {
            let loaded = self.load().await;
            let given_up = clock::now();
            self.drain().await;
            (loaded, given_up)
        };
        tokio::select! {
            loaded = loading => loaded,
            never = nodelay::keep(&connected_to, &shared.board.connections) => match never {},
            never = shared.drivers.measure_until_measured(&shared.signals.window) => match never {},
        }
    }

    /// Says what cuts the trial short, unless something has already.
    fn cut_short(&mut self, cause: Cause, why: impl Into<String>) {
        self.cut_short.get_or_insert_with(|| CutShort { cause, why: why.into() });
    }

    /// Waits until every contender has a session. Returns how long that took.
    async fn connect(&mut self) -> Result<u64, Error> {
        let begin = self.phase_begins("connect", None);
        let shared = Arc::clone(&self.shared);
        let all = shared.count_own();
        let connected = async {
            while Board::read(&shared.board.connected) + Board::read(&shared.board.unconnected) < all {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        if self.interrupt.run_until_cancelled(connected).await.is_none() {
            self.cut_short(Cause::Interrupted, INTERRUPTED);
        }
        let took = self.phase_ended("connect", begin);
        let unconnected = Board::read(&shared.board.unconnected);
        if unconnected == all {
            let none = format!("none of {} could open a session", contenders(all));
            // Of a driver that can open none, nothing follows for the other strategies.
            if shared.drivers.are_there() {
                self.cut_short(Cause::TooFewSessions, none);
                return Ok(took);
            }
            self.abandon().await;
            return Err(Error::environment(format!("{none} to {}", self.environment.target.connect)));
        }
        if unconnected > 0 {
            let why = format!(
                "only {} of {} took part: the others got no session",
                all - unconnected,
                contenders(all)
            );
            (self.sink)(EnvironmentEvent::Warning(&why));
            self.too_few = Some(CutShort { cause: Cause::TooFewSessions, why });
        }
        let reached = nodelay::apply(&self.connected_to());
        self.delayed = Board::read(&shared.board.connected).saturating_sub(reached) as u64;
        Ok(took)
    }

    fn connected_to(&self) -> Vec<String> {
        let proxies = self.environment.proxy.as_ref().map(|proxy| proxy.all_addresses());
        proxies.unwrap_or_else(|| self.environment.servers.clone())
    }

    /// Lets the contenders run until the measured phase is over.
    async fn load(&mut self) -> Loaded {
        let spec = self.shared.spec.clone();
        let start = clock::now() + clock::micros(NOTICE);
        self.shared.series.begin_at(start);
        if let Some(arrivals) = &self.shared.open {
            arrivals.begin_at(start);
        }
        // Where nothing but the clock ends the warm-up, everybody knows from the beginning when that is. Workers must know,
        // so that all of them measure the same part of the load.
        let warm_up = match self.environment.rendezvous {
            None => (!spec.has_open_end()).then_some(spec.warm_up),
            Some(_) => Some(spec.warm_up_at_most.max(spec.warm_up)),
        };
        let fixed = warm_up
            .map(|warm_up| (self.measures_from(start + clock::micros(spec.ramp_up + warm_up)), warm_up));
        self.shared.signals.start.send_replace(Some(start));
        // A batch goes by signals, not by the clock, and must not begin before the window.
        tokio::time::sleep(NOTICE + LOOK_EVERY).await;
        if let Some(rendezvous) = &self.environment.rendezvous {
            rendezvous.stamp(&Meets::Started.of_trial(spec.index)).await;
        }
        self.lead_in("ramp", spec.ramp_up).await;
        let (Window { start: open, end: close }, warm_up_ended) = match fixed {
            Some((window, warm_up)) => {
                self.lead_in("warm-up", warm_up).await;
                (window, WarmUpEnd::Fixed)
            }
            None => self.warm_up_until_steady(&spec).await,
        };
        let expected = match spec.stop {
            Stop::After(duration) if spec.load != Load::Batch => Some(duration),
            _ => None,
        };
        let begin = self.phase_begins("measure", expected);
        // A standstill before the measured phase counts only as far as it reaches into it.
        let board = &self.shared.board;
        board.standstill_us.store(0, Ordering::Relaxed);
        board.acquired_before.store(board.acquired.load(Ordering::Acquire), Ordering::Release);
        let vitals = Vitals::now();
        self.measure_broken(open, close).await;
        let end = Vitals::now();
        self.phase_ended("measure", begin);
        let now = clock::now();
        let window = Window { start: open.min(now), end: close.min(now) };
        self.measures_within(window);
        let backlog_us = self.serve_backlog().await;
        self.settle(open).await;
        let warm_up_us = open.saturating_sub(start + clock::micros(spec.ramp_up));
        let steady = self.course(window, warm_up_ended, warm_up_us);
        Loaded { window, begin: vitals, end, backlog_us, steady }
    }

    /// Measures from that time on, for as long as the scenario says.
    fn measures_from(&self, open: Stamp) -> Window {
        let spec = &self.shared.spec;
        let end = match (&spec.load, spec.stop) {
            (Load::Closed | Load::Open(_), Stop::After(duration)) => open + clock::micros(duration),
            _ => Stamp::MAX,
        };
        let window = Window { start: open, end };
        self.measures_within(window);
        window
    }

    /// A warm-up until throughput and waits are steady, within its least and its longest time.
    async fn warm_up_until_steady(&mut self, spec: &TrialSpec) -> (Window, WarmUpEnd) {
        let begin = self.phase_begins("warm-up", Some(spec.warm_up));
        let longest = begin + clock::micros(spec.warm_up_at_most);
        self.until_cut_short(tokio::time::sleep(spec.warm_up)).await;
        let ended = loop {
            match self.shared.series.steadiness(self.shared.known_until()) {
                Steadiness::Steady => break WarmUpEnd::Steady,
                Steadiness::TooFew => break WarmUpEnd::TooFew,
                Steadiness::NotYet if clock::now() >= longest || self.cut_short.is_some() => {
                    break WarmUpEnd::Cap;
                }
                Steadiness::NotYet => self.until_cut_short(tokio::time::sleep(LOOK_AT_WARM_UP_EVERY)).await,
            }
        };
        let window = self.measures_from(clock::now() + clock::micros(NOTICE));
        tokio::time::sleep(NOTICE).await;
        self.phase_ended("warm-up", begin);
        (window, ended)
    }

    /// The course of the load, and how many arrivals of an open one were waiting.
    fn course(&self, window: Window, warm_up_ended: WarmUpEnd, warm_up_us: u64) -> Steady {
        let (series, shared) = (&self.shared.series, &self.shared);
        let slots = series.ended(window.end);
        let slot_us = series.slot_us();
        let backlog =
            shared.open.as_ref().map(|arrivals| arrivals.backlog(window, slot_us)).unwrap_or_default();
        Steady {
            warm_up_ended,
            warm_up_us,
            slot_us,
            acquired: series.acquisitions(slots),
            wait_us: series.waits_us(slots),
            backlog,
            queue: None,
        }
    }

    /// Says what counts, and of an open load which arrivals are the last.
    fn measures_within(&self, window: Window) {
        self.shared.signals.window.send_replace(window);
        if let Some(arrivals) = &self.shared.open {
            arrivals.end_at(window.end);
        }
    }

    /// Of an open load: lets all that have come be served, within the time that they have. Returns how long that took.
    async fn serve_backlog(&mut self) -> u64 {
        let shared = Arc::clone(&self.shared);
        let (Some(arrivals), Some(open)) = (&shared.open, shared.spec.load.open()) else { return 0 };
        if self.cut_short.is_some() {
            return 0;
        }
        let begin = self.phase_begins("backlog", None);
        let served = async {
            while !arrivals.have_all_ended() {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        // What is left is counted; it is a result, and no failure.
        let bounded = async { drop(tokio::time::timeout(open.backlog_at_most, served).await) };
        self.until_cut_short(bounded).await;
        self.phase_ended("backlog", begin)
    }

    async fn lead_in(&mut self, name: &'static str, takes: Duration) {
        if takes.is_zero() || self.cut_short.is_some() {
            return;
        }
        let begin = self.phase_begins(name, Some(takes));
        self.until_cut_short(tokio::time::sleep(takes)).await;
        self.phase_ended(name, begin);
    }

    /// Measures while the trial's faults fire; when it is over, all of them have been undone.
    async fn measure_broken(&mut self, open: Stamp, close: Stamp) {
        let (environment, shared) = (self.environment, Arc::clone(&self.shared));
        let stop = CancellationToken::new();
        // What measures changes the conductor meanwhile.
        let elections = std::mem::take(&mut self.elections);
        let window = breaking::FaultWindow {
            begin: open,
            stop: stop.clone(),
            interrupt: self.interrupt.clone(),
            elections: &elections,
            sink: self.sink,
        };
        let breaking = breaking::break_things(environment, &shared, window);
        let measuring = async {
            self.measure(close).await;
            stop.cancel();
        };
        let faults = tokio::select! {
            (faults, ()) = join(breaking, measuring) => faults,
            () = elections.watch(&shared.spec) => Vec::new(),
        };
        self.elections = elections;
        self.faults = faults;
    }

    /// After faults: lets the load go on until all have been served that want the lock.
    async fn settle(&mut self, open: Stamp) {
        if self.cut_short.is_none() && self.shared.has_faults() {
            let begin = self.phase_begins("settle", None);
            let shared = Arc::clone(&self.shared);
            let Environment { target, servers, .. } = self.environment;
            let settled =
                self.interrupt.run_until_cancelled(progress::settle(&shared, target, servers)).await;
            match settled {
                Some(stuck) => self.stuck = stuck,
                None => self.cut_short(Cause::Interrupted, INTERRUPTED),
            }
            self.phase_ended("settle", begin);
        }
        breaking::measure_gaps(&self.shared, open, &mut self.faults);
    }

    async fn orphans(&self) -> Option<u64> {
        if !self.shared.has_faults() || self.is_lost() || !self.shared.slice.leads() {
            return None;
        }
        progress::count_orphans(&self.shared, &self.environment.target).await
    }

    async fn measure(&mut self, close: Stamp) {
        if self.cut_short.is_some() {
            return;
        }
        let shared = Arc::clone(&self.shared);
        let (counts, is_batch) = (shared.wire.is_some(), shared.spec.load == Load::Batch);
        let ends = async {
            match &shared.spec.load {
                Load::Batch => {
                    batch::conduct(&shared).await;
                    batch::quiet(&shared).await;
                }
                Load::Closed => closed_loop_ends(&shared, close).await,
                // Contenders that have no arrival left may end before the phase does.
                Load::Open(_) => {
                    let left = Duration::from_micros(close.saturating_sub(clock::now()));
                    tokio::time::sleep(left).await;
                }
            }
        };
        let mut given_up = None;
        let bounded = async {
            tokio::select! {
                () = ends => {}
                // What the clock ends needs no other bound.
                why = progress::give_up(&shared), if close == Stamp::MAX => given_up = Some(why),
                // Each contender has one turn in a batch, and all of them are counted.
                () = tokio::time::sleep(COUNTING_LASTS), if counts && !is_batch => {}
            }
        };
        self.until_cut_short(bounded).await;
        if let Some(why) = given_up {
            self.cut_short(Cause::NoProgress, why);
        }
    }

    /// Does something unless the user interrupts or the ensemble goes away.
    async fn until_cut_short(&mut self, work: impl Future<Output = ()>) {
        let Environment { target, servers, .. } = self.environment;
        let (cause, why) = tokio::select! {
            () = work => return,
            () = self.interrupt.cancelled() => (Cause::Interrupted, INTERRUPTED.to_owned()),
            why = ensemble_lost(self.environment, &self.shared) => (Cause::EnsembleLost, why),
            () = tick(&self.shared, self.sink) => return,
            () = progress::watch_standstills(&self.shared, target, servers) => return,
        };
        self.cut_short(cause, why);
    }

    /// Ends the load: waiters are cancelled, holders release, no contender acquires any more.
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
                while Board::read(&shared.board.finished) < all {
                    tokio::time::sleep(LOOK_EVERY).await;
                }
                batch::quiet(&shared).await;
            };
            let at_most = self.drain_at_most();
            if tokio::time::timeout(at_most, drained).await.is_err() {
                let late = all - Board::read(&shared.board.finished).min(all);
                self.cut_short(
                    Cause::DidNotEnd,
                    format!("{} did not end within {at_most:?}", contenders(late)),
                );
            }
        }
        self.phase_ended("drain", begin);
    }

    /// A server that has expired a session elsewhere may leave its connection open and answer nothing there. The client then
    /// notices after its session timeout, which a driver's client may choose itself (`cli_mt`: 30 s).
    fn drain_at_most(&self) -> Duration {
        DRAIN_AT_LEAST.max(self.shared.negotiated() + SESSION_ENDS)
    }

    /// Lets contenders end the turns that they have begun, for some time.
    async fn end_turns(&self) {
        let shared = &self.shared;
        shared.signals.last_turns.cancel();
        let ended = async {
            while Board::read(&shared.board.finished) < shared.count_own() {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        let bounded = tokio::time::timeout(LAST_TURNS, ended);
        // Turns that do not end by then are not counted.
        let _ = self.interrupt.run_until_cancelled(bounded).await;
    }

    fn is_lost(&self) -> bool {
        self.cut_short.as_ref().is_some_and(|cut| cut.cause == Cause::EnsembleLost)
    }

    /// Closes the sessions and takes the threads' records.
    async fn collect(&mut self) -> Vec<ThreadRecord> {
        self.shared.signals.close.cancel();
        let records = join_all(self.threads.drain(..));
        let abort = self.shared.signals.abort.clone();
        let at_most = self.drain_at_most();
        let give_up = async {
            tokio::time::sleep(at_most).await;
            abort.cancel();
            std::future::pending::<()>().await;
        };
        let records = tokio::select! {
            records = records => records,
            () = give_up => Vec::new(),
        };
        let threads: Vec<ThreadRecord> = records.into_iter().flatten().collect();
        if threads.is_empty() {
            self.cut_short(Cause::DidNotEnd, "the load generator's threads returned nothing");
        }
        threads
    }

    async fn abandon(&mut self) {
        self.shared.signals.drain.cancel();
        self.shared.signals.abort.cancel();
        let _ = join_all(self.threads.drain(..)).await;
    }

    fn phase_begins(&self, name: &'static str, expected: Option<Duration>) -> Stamp {
        (self.sink)(EnvironmentEvent::Phase { name, expected });
        clock::now()
    }

    fn phase_ended(&mut self, name: &'static str, begin: Stamp) -> u64 {
        let took_us = clock::now().saturating_sub(begin);
        self.phases.push(Phase { name: name.to_owned(), took_us });
        took_us
    }
}

/// Ends when the time is up, or when every contender has acquired as often as it should.
async fn closed_loop_ends(shared: &Shared, close: Stamp) {
    // With a time limit no contender finishes before it, save for those that cannot go on.
    let look_every = if close == Stamp::MAX { LOOK_EVERY } else { LOOK_EVERY * 20 };
    while clock::now() < close && Board::read(&shared.board.finished) < shared.count_own() {
        let left = Duration::from_micros(close.saturating_sub(clock::now()));
        tokio::time::sleep(look_every.min(left)).await;
    }
}

/// Returns when no server has accepted a connection for as long as a session lives: nobody can hold anything
/// any more. A server that comes back sooner is ridden through.
async fn ensemble_lost(environment: &Environment, shared: &Shared) -> String {
    let broken = shared.spec.faults.iter().filter_map(|fault| fault.duration).max().unwrap_or_default();
    let lives = shared.spec.session_timeout.max(shared.negotiated());
    let patience = lives.max(Duration::from_secs(2)) + 2 * broken;
    let mut unreachable_since = None;
    loop {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let since_reply = clock::now().saturating_sub(shared.last_reply.load(Ordering::Relaxed));
        let answers = since_reply < 1_000_000 || environment.any_reachable().await;
        let since = if answers { None } else { Some(unreachable_since.unwrap_or_else(clock::now)) };
        unreachable_since = since;
        if since.is_some_and(|since| clock::now() - since >= clock::micros(patience)) {
            return format!(
                "the ensemble was lost: none of its servers ({}) accepted a connection for {}",
                environment.servers.join(", "),
                humantime::format_duration(patience)
            );
        }
    }
}

/// Reports progress for as long as it is polled.
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

/// Seconds for which the timeline has room; a phase that ends by acquisitions gets a generous guess.
fn expected_seconds(spec: &TrialSpec) -> usize {
    let guess = match (&spec.load, spec.stop) {
        (Load::Closed | Load::Open(_), Stop::After(duration)) => duration,
        _ => Duration::from_secs(3_600),
    };
    usize::try_from(guess.as_secs() + 2).unwrap_or(usize::MAX)
}

/// What keeps things for the trial's judge, where there is anything to keep.
fn keeper(environment: &Environment, shared: &Shared, since: SystemTime) -> Result<Option<Keeper>, Error> {
    if !shared.reads_logs && !shared.keeps_history {
        return Ok(None);
    }
    let following = environment.local.as_ref().filter(|_| shared.reads_logs).map(|local| Following {
        logs: local.logs_at_hand(),
        below: shared.root().to_owned(),
        since,
    });
    let started = Keeper::start(&environment.scratch, following);
    started.map(Some).map_err(|error| Error::environment(format!("cannot start a thread: {error}")))
}
