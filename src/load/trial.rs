//! One trial from its first session to its last: connect, ramp, warm-up, measure, drain.

#![expect(clippy::disallowed_methods, reason = "when a trial began is a label")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use futures_util::future::{join, join_all};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::environment::{Environment, Event, Sink};
use super::health::{self, Vitals};
use super::observation::{self, Log, ThreadRecord};
use super::shared::{Board, Shared};
use super::worker::{self, Share};
use super::{accounting, batch, breaking, progress};
use crate::clock::{self, Stamp, WallClock};
use crate::error::Error;
use crate::lock::Entry;
use crate::measure::{Sheet, Window};
use crate::record::{
    Completeness, Evidence, Facts, FaultRecord, Health, Lives, Phase, Sessions, Stuck, Trial,
};
use crate::scenario::{Load, Stop, TrialSpec};
use crate::verdict::Verdict;
use crate::zk::nodelay;

/// How long a drain may take before everything still under way is given up.
const DRAIN_AT_MOST: Duration = Duration::from_secs(15);
/// The window opens a moment after it is announced, so that every thread knows of it in time.
const NOTICE: Duration = Duration::from_millis(20);
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// By how much two readings of a wall clock that nobody sets may differ.
const WALL_MAY_DIFFER: Duration = Duration::from_millis(1);
/// How often the conductor reports progress.
const TICK: Duration = Duration::from_millis(200);

/// Runs one trial. An interrupt or a lost ensemble ends it early; what was measured till then is in the
/// record, marked partial.
///
/// # Errors
/// When the trial could not begin: the ensemble refuses its nodes, or nobody could open a session.
pub async fn run_trial(
    environment: &Environment,
    spec: &TrialSpec,
    entry: &Entry,
    interrupt: &CancellationToken,
    sink: Sink<'_>,
) -> Result<Trial, Error> {
    let root = environment.workspace.prepare(spec.index, spec.locks).await?;
    let shared = Shared::new(spec.clone(), *entry, environment.for_contenders(), &root)
        .with_history(environment.keeps_history)
        .with_logs(environment.local.as_deref());
    let shared = Arc::new(shared);
    let mut conductor = Conductor::start(environment, Arc::clone(&shared), interrupt, sink)?;
    let trial = conductor.conduct().await?;
    if !matches!(&trial.completeness, Completeness::Partial(why) if why.starts_with(LOST)) {
        environment.workspace.clear(&root).await?;
    }
    Ok(trial)
}

/// How the reason of a trial begins whose ensemble went away.
pub const LOST: &str = "the ensemble was lost";

struct Conductor<'a> {
    environment: &'a Environment,
    shared: Arc<Shared>,
    interrupt: &'a CancellationToken,
    sink: Sink<'a>,
    threads: Vec<oneshot::Receiver<ThreadRecord>>,
    started_at: SystemTime,
    wall: WallClock,
    phases: Vec<Phase>,
    cut_short: Option<String>,
    faults: Vec<FaultRecord>,
    stuck: Vec<Stuck>,
}

impl<'a> Conductor<'a> {
    fn start(
        environment: &'a Environment,
        shared: Arc<Shared>,
        interrupt: &'a CancellationToken,
        sink: Sink<'a>,
    ) -> Result<Self, Error> {
        let seconds = expected_seconds(&shared.spec);
        let threads = environment.threads.clamp(1, shared.spec.contenders.max(1));
        let spawned: std::io::Result<Vec<_>> = (0..threads)
            .map(|thread| {
                let contenders = (thread..shared.spec.contenders).step_by(threads).collect();
                let every = environment.keep_awake.filter(|_| thread == 0);
                let awake = environment.single_servers().filter(|_| every.is_some()).collect();
                let every = every.unwrap_or_default();
                worker::spawn(Arc::clone(&shared), Share { contenders, awake, every }, seconds)
            })
            .collect();
        let threads =
            spawned.map_err(|e| Error::environment(format!("cannot start a generator thread: {e}")))?;
        let (started_at, wall) = (SystemTime::now(), WallClock::read());
        let (phases, faults, stuck) = (Vec::new(), Vec::new(), Vec::new());
        let cut_short = None;
        Ok(Self {
            environment,
            shared,
            interrupt,
            sink,
            threads,
            started_at,
            wall,
            phases,
            cut_short,
            faults,
            stuck,
        })
    }

    async fn conduct(&mut self) -> Result<Trial, Error> {
        let connect_us = self.connect().await?;
        let before = accounting::read_at_rest(&self.environment.servers, &self.environment.namespace).await;
        let (window, begin, end) = self.load().await;
        self.drain().await;
        let after = accounting::read_at_rest(&self.environment.servers, &self.environment.namespace).await;
        let orphans = self.orphans().await;
        let threads = self.collect().await;
        let start = self.shared.signals.start.borrow().unwrap_or(0);
        let sheet = observation::merge_sheets(&threads);
        let mut health = self.with_standstill(health::judge(&begin, &sheet, &threads, &end));
        let mut log = observation::merge_logs(threads);
        let wall = WallClock::read();
        let lives = self.lives(wall).await.unwrap_or_else(|why| {
            health.invalid.get_or_insert(why);
            Lives::new()
        });
        let deletions = if self.shared.keeps_history { deletions(&lives) } else { BTreeMap::new() };
        let grants = std::mem::take(&mut log.grants);
        let facts = Facts { kind: self.shared.kind, grants, lives, all_gone: orphans == Some(0), wall };
        log.overlaps.learn(&facts);
        let overlaps = std::mem::take(&mut log.overlaps).classed(start);
        let evidence = Evidence {
            entries: log.kept_out.entries,
            waited: log.kept_out.waited,
            seen_inside: log.kept_out.as_many_as(),
            given_up_early: log.given_up_early,
            ..Evidence::default()
        };
        let counters = accounting::pair(before, after);
        let spec = &self.shared.spec;
        let accounting = accounting::compare(&self.shared, &sheet.whole, &log, &counters);
        Ok(Trial {
            index: spec.index,
            strategy: spec.strategy.name.clone(),
            label: spec.strategy.label.clone(),
            params: spec
                .strategy
                .params
                .iter()
                .map(|(key, value)| (key.clone(), value.to_string()))
                .collect(),
            contenders: spec.contenders,
            locks: spec.locks,
            repetition: spec.repetition,
            load: spec.load.name(),
            started_at: self.started_at,
            measured_us: window.end.saturating_sub(window.start),
            phases: std::mem::take(&mut self.phases),
            histograms: observation::histograms(&sheet),
            measured: sheet.measured,
            whole: sheet.whole,
            timeline: timeline(&sheet, window),
            tallies: observation::tallies(&log, self.shared.spec.contenders),
            most_inside: self.shared.most_inside(),
            sessions: self.sessions(connect_us, &log),
            errors: log.errors,
            violations: overlaps.violations,
            violation_count: overlaps.violation_count,
            excused: overlaps.excused,
            facts: Some(facts),
            ensemble_order: None,
            evidence: Some(evidence),
            history: std::mem::take(&mut log.history),
            deletions,
            fencing: self.shared.fencing(),
            faults: std::mem::take(&mut self.faults),
            stuck: std::mem::take(&mut self.stuck),
            orphans,
            accounting,
            servers: counters,
            health,
            completeness: self.cut_short.take().map_or(Completeness::Complete, Completeness::Partial),
            exclusion: Verdict::Unknown(vec!["not checked yet".into()]),
        })
    }

    fn with_standstill(&self, mut health: Health) -> Health {
        health.standstill_us = self.shared.board.standstill_us.load(Ordering::Relaxed);
        // While something is broken on purpose it is part of the result that nobody is served.
        if !self.shared.has_faults() {
            health.invalid = health::judge_standstill(&self.shared).or(health.invalid);
        }
        health
    }

    /// Waits until every contender has a session. Returns how long that took.
    async fn connect(&mut self) -> Result<u64, Error> {
        let begin = self.phase_begins("connect", None);
        let shared = Arc::clone(&self.shared);
        let all = shared.spec.contenders;
        let connected = async {
            while Board::read(&shared.board.connected) + Board::read(&shared.board.unconnected) < all {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        if self.interrupt.run_until_cancelled(connected).await.is_none() {
            self.cut_short = Some("interrupted".into());
        }
        let took = self.phase_ended("connect", begin);
        let unconnected = Board::read(&shared.board.unconnected);
        if unconnected == all {
            self.abandon().await;
            return Err(Error::environment(format!(
                "none of {all} contenders could open a session to {}",
                self.environment.target.connect
            )));
        }
        if unconnected > 0 {
            (self.sink)(Event::Warning(&format!("{unconnected} of {all} sessions could not be opened")));
        }
        let proxies = self.environment.proxy.as_ref().map_or(&[][..], |proxy| proxy.addresses());
        let _ = nodelay::apply(&[&self.environment.servers, proxies].concat());
        Ok(took)
    }

    /// Lets the contenders run until the measured phase is over.
    async fn load(&mut self) -> (Window, Vitals, Vitals) {
        let spec = self.shared.spec.clone();
        let start = clock::now() + clock::micros(NOTICE);
        let open = start + clock::micros(spec.ramp_up + spec.warm_up);
        let close = match (spec.load, spec.stop) {
            (Load::Closed, Stop::After(duration)) => open + clock::micros(duration),
            _ => Stamp::MAX,
        };
        self.shared.signals.window.send_replace(Window { start: open, end: close });
        self.shared.signals.start.send_replace(Some(start));
        // A batch goes by signals, not by the clock, and must not begin before the window.
        tokio::time::sleep(NOTICE + LOOK_EVERY).await;
        self.lead_in("ramp", spec.ramp_up).await;
        self.lead_in("warm-up", spec.warm_up).await;
        let expected = match spec.stop {
            Stop::After(duration) if spec.load == Load::Closed => Some(duration),
            _ => None,
        };
        let begin = self.phase_begins("measure", expected);
        // A standstill before the measured phase counts only as far as it reaches into it.
        self.shared.board.standstill_us.store(0, Ordering::Relaxed);
        let vitals = Vitals::now();
        self.measure_broken(open, close).await;
        let end = Vitals::now();
        self.phase_ended("measure", begin);
        let now = clock::now();
        let window = Window { start: open.min(now), end: close.min(now) };
        self.shared.signals.window.send_replace(window);
        self.settle(open).await;
        (window, vitals, end)
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
        let course = breaking::Course {
            begin: open,
            stop: stop.clone(),
            interrupt: self.interrupt.clone(),
            sink: self.sink,
        };
        let breaking = breaking::break_things(environment, &shared, course);
        let measuring = async {
            self.measure(close).await;
            stop.cancel();
        };
        let (faults, ()) = join(breaking, measuring).await;
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
                None => self.cut_short = Some("interrupted".into()),
            }
            self.phase_ended("settle", begin);
        }
        breaking::measure_gaps(&self.shared, open, &mut self.faults);
    }

    /// What the servers' logs tell of the trial's nodes; nothing where they are not ours, or nobody needs it.
    ///
    /// # Errors
    /// The wall clock was set since the trial began.
    async fn lives(&self, wall: WallClock) -> Result<Lives, String> {
        if !self.shared.reads_logs {
            return Ok(Lives::new());
        }
        let set_by = wall.set_since(self.wall);
        if set_by > WALL_MAY_DIFFER {
            return Err(format!(
                "the wall clock, by which the servers date their transactions, was set by {set_by:?} during the trial"
            ));
        }
        let lives = self.environment.lives(self.shared.root(), self.started_at).await;
        Ok(lives.unwrap_or_else(|why| {
            let missing = "so what contenders believed is not compared with what the ensemble saw";
            (self.sink)(Event::Warning(&format!("the servers' logs cannot be read, {missing}: {why}")));
            Lives::new()
        }))
    }

    async fn orphans(&self) -> Option<u64> {
        if !self.shared.has_faults() || self.is_lost() {
            return None;
        }
        progress::count_orphans(&self.shared, &self.environment.target).await
    }

    async fn measure(&mut self, close: Stamp) {
        if self.cut_short.is_some() {
            return;
        }
        let shared = Arc::clone(&self.shared);
        let ends = async {
            match shared.spec.load {
                Load::Batch => {
                    batch::conduct(&shared).await;
                    batch::quiet(&shared).await;
                }
                Load::Closed => closed_loop_ends(&shared, close).await,
            }
        };
        let mut given_up = None;
        let bounded = async {
            tokio::select! {
                () = ends => {}
                // What the clock ends needs no other bound.
                why = progress::give_up(&shared), if close == Stamp::MAX => given_up = Some(why),
            }
        };
        self.until_cut_short(bounded).await;
        self.cut_short = self.cut_short.take().or(given_up);
    }

    /// Does something unless the user interrupts or the ensemble goes away.
    async fn until_cut_short(&mut self, work: impl Future<Output = ()>) {
        let why = tokio::select! {
            () = work => return,
            () = self.interrupt.cancelled() => "interrupted".to_owned(),
            why = ensemble_lost(self.environment, &self.shared) => why,
            () = tick(&self.shared, self.sink) => return,
            () = health::watch_standstill(&self.shared) => return,
        };
        self.cut_short = Some(why);
    }

    /// Ends the load: waiters are cancelled, holders release, nobody acquires any more.
    async fn drain(&mut self) {
        let begin = self.phase_begins("drain", None);
        let shared = Arc::clone(&self.shared);
        shared.signals.drain.cancel();
        if self.is_lost() {
            shared.signals.abort.cancel();
        } else {
            let all = shared.spec.contenders;
            let drained = async {
                while Board::read(&shared.board.finished) < all {
                    tokio::time::sleep(LOOK_EVERY).await;
                }
                batch::quiet(&shared).await;
            };
            if tokio::time::timeout(DRAIN_AT_MOST, drained).await.is_err() {
                let late = all - Board::read(&shared.board.finished).min(all);
                self.cut_short
                    .get_or_insert(format!("{late} contenders did not end within {DRAIN_AT_MOST:?}"));
            }
        }
        self.phase_ended("drain", begin);
    }

    fn is_lost(&self) -> bool {
        self.cut_short.as_ref().is_some_and(|why| why.starts_with(LOST))
    }

    /// Closes the sessions and takes the threads' records.
    async fn collect(&mut self) -> Vec<ThreadRecord> {
        self.shared.signals.close.cancel();
        let records = join_all(self.threads.drain(..));
        let abort = self.shared.signals.abort.clone();
        let give_up = async {
            tokio::time::sleep(DRAIN_AT_MOST).await;
            abort.cancel();
            std::future::pending::<()>().await;
        };
        let records = tokio::select! {
            records = records => records,
            () = give_up => Vec::new(),
        };
        let threads: Vec<ThreadRecord> = records.into_iter().flatten().collect();
        if threads.is_empty() {
            self.cut_short.get_or_insert("the generator threads gave no record".into());
        }
        threads
    }

    async fn abandon(&mut self) {
        self.shared.signals.drain.cancel();
        self.shared.signals.abort.cancel();
        let _ = join_all(self.threads.drain(..)).await;
    }

    fn sessions(&self, connect_us: u64, log: &Log) -> Sessions {
        Sessions {
            opened: log.opened,
            connect_us,
            negotiated_timeout_us: self
                .shared
                .board
                .negotiated_ms
                .load(Ordering::Acquire)
                .saturating_mul(1000),
            expired: log.expired,
            rejoined: log.rejoined,
        }
    }

    fn phase_begins(&self, name: &'static str, expected: Option<Duration>) -> Stamp {
        (self.sink)(Event::Phase { name, expected });
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
    // With a time limit nobody finishes before it, save for those that cannot go on.
    let look_every = if close == Stamp::MAX { LOOK_EVERY } else { LOOK_EVERY * 20 };
    while clock::now() < close && Board::read(&shared.board.finished) < shared.spec.contenders {
        let left = Duration::from_micros(close.saturating_sub(clock::now()));
        tokio::time::sleep(look_every.min(left)).await;
    }
}

/// Returns when no server has accepted a connection for as long as a session lives: nobody can hold anything
/// any more. A server that comes back sooner is ridden through.
async fn ensemble_lost(environment: &Environment, shared: &Shared) -> String {
    let broken = shared.spec.faults.iter().filter_map(|fault| fault.duration).max().unwrap_or_default();
    let patience = shared.spec.session_timeout.max(Duration::from_secs(2)) + 2 * broken;
    let mut unreachable_since = None;
    loop {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let since_reply = clock::now().saturating_sub(shared.last_reply.load(Ordering::Relaxed));
        let answers = since_reply < 1_000_000 || environment.any_reachable().await;
        let since = if answers { None } else { Some(unreachable_since.unwrap_or_else(clock::now)) };
        unreachable_since = since;
        if since.is_some_and(|since| clock::now() - since >= clock::micros(patience)) {
            return format!(
                "{LOST}: none of its servers ({}) has accepted a connection for {}",
                environment.servers.join(", "),
                humantime::format_duration(patience)
            );
        }
    }
}

/// Reports progress for as long as it is polled.
async fn tick(shared: &Shared, sink: Sink<'_>) {
    let of = match (shared.spec.load, shared.spec.stop) {
        (Load::Batch, _) => Some(shared.spec.contenders as u64),
        (Load::Closed, Stop::Acquisitions(each)) => Some(each * shared.spec.contenders as u64),
        (Load::Closed, Stop::After(_)) => None,
    };
    loop {
        sink(Event::Tick { acquired: shared.board.acquired.load(Ordering::Relaxed), of });
        tokio::time::sleep(TICK).await;
    }
}

/// Seconds for which the timeline has room; a phase that ends by acquisitions gets a generous guess.
fn expected_seconds(spec: &TrialSpec) -> usize {
    let guess = match (spec.load, spec.stop) {
        (Load::Closed, Stop::After(duration)) => duration,
        _ => Duration::from_secs(3_600),
    };
    usize::try_from(guess.as_secs() + 2).unwrap_or(usize::MAX)
}

/// By the transaction that created each node, the one that deleted it.
fn deletions(lives: &Lives) -> BTreeMap<i64, i64> {
    lives.iter().filter_map(|(created, life)| Some((*created, life.deleted?))).collect()
}

fn timeline(sheet: &Sheet, window: Window) -> Vec<crate::measure::Second> {
    let seconds = window.end.saturating_sub(window.start).div_ceil(1_000_000);
    let seconds = usize::try_from(seconds).unwrap_or(usize::MAX).min(sheet.timeline().len());
    sheet.timeline()[..seconds].to_vec()
}
