//! One trial from its first session to its last: connect, ramp, warm-up, measure, drain.

#![expect(clippy::disallowed_methods, reason = "when a trial began is a label")]

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use futures_util::future::{join, join_all};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::accounting::CounterReading;
use super::control::Closing;
use super::drivers::Drivers;
use super::elections::Elections;
use super::environment::{Environment, EnvironmentEvent, Sink};
use super::health::{self, Vitals};
use super::keeper::{Following, Keeper, Kept, Lost};
use super::observation::{self, ThreadRecord};
use super::rendezvous::{Meeting, Rendezvous};
use super::series::Steadiness;
use super::shared::{Board, COUNTING_LASTS, LAST_TURNS, Shared};
use super::worker::{self, Share};
use super::{accounting, batch, breaking, driven, progress, standstill};
use crate::lock::{self, Entry};
use crate::record::{
    Arrived, Beside, CLOCKS_DIFFER_MS, Cause, CutShort, Evidence, Excused, Facts, FaultRecord, FullCrew,
    Grant, Grants, Judged, Lives, Moments, Occurrences, Part, Phase, ServerCounters, Sessions, Steady, Stuck,
    Trial, WarmUpEnd,
};
use crate::scenario::{Load, Stop, TrialSpec};
use crate::words::clock::{self, Stamp, WallClock};
use crate::words::error::Error;
use crate::words::measure::{Measure, ThreadRecorder, Window};
use crate::words::spool::Sorted;
use crate::words::units::{contenders, counted};
use crate::world::proxy::Wire;
use crate::world::zk::keep_awake::Unread;
use crate::world::zk::{Failure, Target, nodelay};

/// A drain may take this long before everything still under way is given up, or as long as a reply that never comes keeps a
/// contender waiting.
const DRAIN_AT_LEAST: Duration = Duration::from_secs(15);
/// What a contender whose session is over needs to notice it, once it connects again.
const SESSION_ENDS: Duration = Duration::from_secs(5);
/// The window opens a moment after it is announced, so that every thread knows of it in time.
const NOTICE: Duration = Duration::from_millis(20);
const LOOK_EVERY: Duration = Duration::from_millis(5);
const INTERRUPTED: &str = "interrupted";
const SLOW_DISK: &str =
    "they came faster than the disk took them; use a faster one for --out, or a lower rate";
/// By how much the wall clock may be set during a trial. What the logs date is then taken to be uncertain by as much; beyond
/// this, too little would be left to compare.
const WALL_MAY_MOVE: Duration = Duration::from_millis(20);
/// How often it is looked whether the warm-up is over.
const LOOK_AT_WARM_UP_EVERY: Duration = Duration::from_millis(50);
/// For how long a server that is kept awake may be without a read until it is said.
const UNREAD_AT_MOST: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(200);

/// How far apart workers may begin, as a share of the shortest phase.
const SPREAD_AT_MOST: f64 = 0.1;

/// What the workers of a run meet for in each trial, and the stamp that they leave.
#[derive(Debug, Clone, Copy)]
enum Meets {
    /// All have their sessions: the load may begin.
    Connected,
    Started,
    /// Nothing is under way any more.
    Drained,
}

impl Meets {
    /// Its name among the meetings of a run.
    fn of_trial(self, trial: usize) -> String {
        let what = match self {
            Self::Connected => "connected",
            Self::Started => "started",
            Self::Drained => "drained",
        };
        format!("t{trial:03}-{what}")
    }
}

/// The shortest of the phases whose length is known before; `None` where acquisitions end the only one.
fn shortest_phase(spec: &TrialSpec) -> Option<Duration> {
    let measured = match spec.stop {
        Stop::After(duration) => duration,
        Stop::Acquisitions(_) => Duration::ZERO,
    };
    [spec.ramp_up, spec.warm_up_at_most.max(spec.warm_up), measured]
        .into_iter()
        .filter(|phase| !phase.is_zero())
        .min()
}

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
    let failed = driven::end(drivers, &spec.strategy.name, sink).await;
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
struct Observed {
    loaded: Loaded,
    /// When waits were given up.
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
        let Observed { loaded, given_up, before, after, orphans, spread, met } = self.observe_load().await;
        let threads = self.collect().await;
        let running = threads.len();
        let unread: Vec<Unread> = threads.iter().flat_map(|thread| thread.unread.clone()).collect();
        let lost_notes = threads.iter().map(|thread| thread.lost).fold(Lost::default(), Lost::and);
        let mut seen = Part::merged(threads.into_iter().map(|thread| thread.part));
        let arrived = self.arrived(&loaded, given_up, &mut seen.sheet);
        let Loaded { window, begin, end, steady, .. } = loaded;
        let mut health = health::judge(&begin, &seen, running, &end, self.hold_by_timers(), arrived.as_ref());
        let Part { sheet, occurrences: mut seen, .. } = seen;
        health.invalid = health.invalid.or(spread.as_ref().and_then(|spread| self.too_far_apart(spread)));
        health.standstill_us = self.shared.board.standstill_us.load(Ordering::Relaxed);
        let wall = WallClock::read();
        let wall_was_set = self.wall_was_set(wall);
        let (kept, unchecked) = self.kept(seen.kept_out.entries, lost_notes).await;
        self.settle_closings(&mut seen);
        let interference = kept.as_ref().map(|kept| kept.interference.clone()).unwrap_or_default();
        // What the logs tell is dated by that clock.
        let is_dated = wall_was_set.is_none();
        health.invalid = health.invalid.or(wall_was_set);
        let overlaps = std::mem::take(&mut seen.overlaps);
        let (grants, lives, history) = parts(kept, is_dated);
        let facts = Facts {
            kind: self.shared.kind,
            began: self.shared.signals.start.borrow().unwrap_or(0),
            overlaps,
            grants,
            lives,
            all_gone: orphans == Some(0),
            wall,
            clocks_differ_ms: CLOCKS_DIFFER_MS + whole_ms(wall.set_since(self.wall)),
            scratch: self.environment.scratch.clone(),
        };
        let evidence = Evidence {
            entries: seen.kept_out.entries,
            waited: seen.kept_out.waited,
            seen_inside: seen.kept_out.as_many_as(),
            given_up_early: seen.given_up_early,
            ..Evidence::default()
        };
        let counters = accounting::pair(before, after, &unread);
        self.warn_of_unread(&counters);
        let is_whole = self.cut_short.is_none() && self.too_few.is_none();
        let accounting = accounting::compare(&self.shared, &sheet.whole, &seen, &counters, is_whole);
        let lost = lost(&seen);
        let around = standstill::Around { servers: &counters, lost };
        let standstill = standstill::judge(&self.shared, window.start, around);
        Ok(Trial {
            spec: self.shared.spec.clone(),
            started_at: self.started_at,
            measured_from_us: window.start.saturating_sub(self.began),
            measured_us: window.end.saturating_sub(window.start),
            full_crew: self.full_crew(window),
            arrived,
            dispersion: self.shared.open.as_ref().map(|open| open.dispersion(window)).unwrap_or_default(),
            steady: Some(self.counted_anew(steady)),
            utilisation: self.shared.utilisation(window.end.saturating_sub(window.start)),
            judged: Judged::none_yet(),
            // Contenders that were missing were missing from all that was measured; what happened later comes second.
            cut_short: self.too_few.take().or(self.cut_short.take()),
            health,
            standstill,
            measured: sheet.measured,
            whole: sheet.whole,
            herd: (sheet.whole.unseen == 0 && !self.shared.drivers.are_there()).then(|| sheet.herd()),
            errors: std::mem::take(&mut seen.errors),
            // These follow from the facts.
            violation_count: 0,
            violations: Vec::new(),
            excused: Excused::default(),
            most_inside: self.shared.most_inside(),
            evidence,
            ensemble_order: None,
            facts: Some(facts),
            fencing: self.shared.fencing(),
            elections: self.elections.records(window.start, &self.faults),
            faults: std::mem::take(&mut self.faults),
            interference,
            stuck: std::mem::take(&mut self.stuck),
            orphans,
            accounting,
            servers: counters,
            sessions: self.sessions(connect_us, &seen),
            phases: std::mem::take(&mut self.phases),
            timeline: timeline(&sheet, window),
            tallies: observation::tallies(&seen, self.shared.spec.contenders),
            histograms: observation::histograms(&sheet),
            history: history.filter(|_| self.shared.keeps_history),
            unchecked,
            driver: driven::record_of(&self.shared),
            counting: None,
            beside: met.map(|met| Beside {
                reads: met.reads + seen.looks_beside,
                writes: met.writes + seen.writes_beside,
                ..met
            }),
            start_spread_us: spread.and_then(Result::ok).map(clock::micros),
        })
    }

    /// The load, between what the servers count before and after it. Where this worker is one of several, all of them begin
    /// once the first has been read, and none closes its sessions before the second has.
    async fn observe_load(&mut self) -> Observed {
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
        Observed { loaded, given_up, before, after, orphans, spread, met }
    }

    /// Where this worker is one of several, comes to one of their meetings of this trial.
    async fn come_to(&mut self, what: Meets) -> Option<Meeting<'a>> {
        let rendezvous = self.environment.rendezvous.as_ref()?;
        let name = what.of_trial(self.shared.spec.index);
        let met = self.interrupt.run_until_cancelled(rendezvous.meet(&name)).await;
        if met.is_none() {
            self.cut_short(Cause::Interrupted, INTERRUPTED);
        }
        met
    }

    /// Goes on from a meeting with the others, unless one is missing, which cuts the trial short.
    async fn go_on_from(&mut self, meeting: Option<Meeting<'a>>) {
        let Some(meeting) = meeting else { return };
        match self.interrupt.run_until_cancelled(meeting.release()).await {
            Some(Ok(())) => {}
            Some(Err(failed)) => self.cut_short(Cause::WorkerLost, failed.to_string()),
            None => self.cut_short(Cause::Interrupted, INTERRUPTED),
        }
    }

    /// How far apart the workers began, on the leading server's clock; `None` where another worker finds out, or of one only.
    async fn start_spread(&self) -> Option<Result<Duration, String>> {
        let rendezvous = self.environment.rendezvous.as_ref().filter(|one| one.slice.leads())?;
        if self.cut_short.is_some() {
            return None;
        }
        Some(rendezvous.spread(&Meets::Started.of_trial(self.shared.spec.index)).await)
    }

    /// Why the workers' parts don't make one load.
    fn too_far_apart(&self, spread: &Result<Duration, String>) -> Option<String> {
        let spread = match spread {
            Ok(spread) => *spread,
            Err(why) => return Some(format!("it is not known how far apart the workers began: {why}")),
        };
        let shortest = shortest_phase(&self.shared.spec)?;
        (spread > shortest.mul_f64(SPREAD_AT_MOST)).then(|| {
            format!(
                "the workers began {} apart, which is more than {:.0} % of the shortest phase ({}); use longer phases, or \
                 hosts that are not as busy",
                humantime::format_duration(spread),
                100.0 * SPREAD_AT_MOST,
                humantime::format_duration(shortest)
            )
        })
    }

    /// Decides, now that every fault has ended, which holds lost their session because another closed it.
    fn settle_closings(&self, seen: &mut Occurrences) {
        let closing = |contender: usize, session| self.shared.controls[contender].closing(session);
        seen.overlaps.settle(|contender, session| closing(contender, session) == Some(Closing::Answered));
    }

    /// Says which servers were not kept awake although they should be; not where faults of servers explain that.
    fn warn_of_unread(&self, servers: &[ServerCounters]) {
        if self.shared.has_faults() {
            return;
        }
        for server in servers {
            let Some(unread) =
                server.unread_us.map(Duration::from_micros).filter(|time| *time > UNREAD_AT_MOST)
            else {
                continue;
            };
            let (address, seconds) = (&server.address, unread.as_secs_f64());
            (self.sink)(EnvironmentEvent::Warning(&format!(
                "{address} answered no read for {seconds:.1} s: for that long it was not kept awake, and may have left a \
                 request aside (ZOOKEEPER-4537)"
            )));
        }
    }

    /// How long holds should be on average, where nothing but the generator's timers can make them longer.
    fn hold_by_timers(&self) -> Duration {
        if self.shared.has_faults() { Duration::ZERO } else { self.shared.spec.mean_hold() }
    }

    /// Of a phase that acquisitions end, what was done while none had finished.
    fn full_crew(&self, window: Window) -> Option<FullCrew> {
        let ends_itself =
            self.shared.spec.load == Load::Closed && matches!(self.shared.spec.stop, Stop::Acquisitions(_));
        let first = self.shared.board.first_done.get().filter(|_| ends_itself)?;
        let before = self.shared.board.acquired_before.load(Ordering::Acquire);
        Some(FullCrew {
            lasted_us: first.at.saturating_sub(window.start),
            acquired: first.acquired.saturating_sub(before),
        })
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
            never = driven::measure_until_measured(&shared) => match never {},
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

    /// The same course, of whose last acquisitions some have become known since, where acquires are sent ahead.
    fn counted_anew(&self, steady: Steady) -> Steady {
        let (series, slots) = (&self.shared.series, steady.acquired.len());
        Steady { acquired: series.acquisitions(slots), wait_us: series.waits_us(slots), ..steady }
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

    /// What became of the arrivals of an open load. Those that were not taken are among the waits that were not served.
    fn arrived(&self, loaded: &Loaded, given_up: Stamp, sheet: &mut ThreadRecorder) -> Option<Arrived> {
        let window = loaded.window;
        let arrivals = self.shared.open.as_ref()?;
        sheet.set_window(window);
        let (mut arrived, never_taken) = arrivals.due_within(window.start, window.end, given_up);
        for wait in never_taken {
            sheet.record(Measure::Unserved, window.start, wait);
        }
        for due in arrivals.due_times(window.start, window.end) {
            if let Some(second) = sheet.second(window.start + due) {
                second.offered += 1;
            }
        }
        sheet.settle();
        arrived.backlog_us = loaded.backlog_us;
        Some(arrived)
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

    /// Why the servers' logs, where they are read, don't say when it was by our clock.
    fn wall_was_set(&self, wall: WallClock) -> Option<String> {
        let set_by = wall.set_since(self.wall);
        (self.shared.reads_logs && set_by > WALL_MAY_MOVE).then(|| {
            format!(
                "the wall clock, which dates the servers' transactions, was changed by {set_by:?} during the trial"
            )
        })
    }

    /// What was kept for the judge, and what of it could not be.
    async fn kept(&mut self, entered: u64, lost: Lost) -> (Option<Kept>, Vec<String>) {
        let Some(keeper) = self.keeper.take() else { return (None, Vec::new()) };
        let logs = match self.environment.local.as_ref().filter(|_| self.shared.reads_logs) {
            Some(local) if local.logs_at_hand().is_none() => local.logs().await.map(Some),
            _ => Ok(None),
        };
        let (logs, uncopied) = match logs {
            Ok(logs) => (logs, None),
            Err(why) => (None, Some(why.to_string())),
        };
        let mut kept = match keeper.end(logs).await {
            Ok(kept) => kept,
            Err(why) => return (None, vec![format!("what the contenders noted could not be kept: {why}")]),
        };
        if let Some(why) = uncopied.or(kept.unread.take()) {
            let missing = "so what contenders believed is not compared with what the ensemble saw";
            (self.sink)(EnvironmentEvent::Warning(&format!(
                "the servers' logs cannot be read, {missing}: {why}"
            )));
        }
        let Lost { entries, moments } = lost.and(kept.lost);
        kept.moments.has_gaps = moments > 0;
        if moments > 0 {
            let lost = counted(moments, "event", "events");
            (self.sink)(EnvironmentEvent::Warning(&format!("the history lacks {lost}: {SLOW_DISK}")));
        }
        let entries = (entries > 0).then(|| {
            format!("{entries} of {entered} entries were not compared with the servers' logs: {SLOW_DISK}")
        });
        let missing = (kept.missing > 0).then(|| {
            let missing = counted(kept.missing, "transaction is", "transactions are");
            format!("the servers' logs are not complete: {missing} missing")
        });
        (Some(kept), entries.into_iter().chain(missing).collect())
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
        let (cause, why) = tokio::select! {
            () = work => return,
            () = self.interrupt.cancelled() => (Cause::Interrupted, INTERRUPTED.to_owned()),
            why = ensemble_lost(self.environment, &self.shared) => (Cause::EnsembleLost, why),
            () = tick(&self.shared, self.sink) => return,
            () = standstill::watch(&self.shared, &self.environment.target, &self.environment.servers) => return,
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

    fn sessions(&self, connect_us: u64, seen: &Occurrences) -> Sessions {
        Sessions {
            opened: seen.opened,
            connect_us,
            negotiated_timeout_us: clock::micros(self.shared.negotiated()),
            expired: seen.expired,
            rejoined: seen.rejoined,
            delayed: Some(self.delayed),
        }
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

fn lost(seen: &Occurrences) -> u64 {
    let losses = seen.errors.iter().filter(|(kind, _)| kind.ends_with(Failure::ConnectionLoss.kind()));
    losses.map(|(_, times)| times).sum()
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

/// Rounded up.
fn whole_ms(time: Duration) -> i64 {
    i64::try_from(time.as_micros().div_ceil(1_000)).unwrap_or(i64::MAX)
}

/// Who entered, what became of their nodes, and what the contenders did.
fn parts(kept: Option<Kept>, is_dated: bool) -> (Grants, Lives, Option<Moments>) {
    let Some(Kept { grants, lives, moments, .. }) = kept else {
        return (Sorted::of(Grant::by_node, Vec::new()), Lives::default(), None);
    };
    (grants, if is_dated { lives } else { Lives::default() }, Some(moments))
}

fn timeline(sheet: &ThreadRecorder, window: Window) -> Vec<crate::words::measure::Second> {
    let seconds = window.end.saturating_sub(window.start).div_ceil(1_000_000);
    let seconds = usize::try_from(seconds).unwrap_or(usize::MAX).min(sheet.timeline().len());
    sheet.timeline()[..seconds].to_vec()
}
