//! Explores one lock within a time budget: undisturbed runs, every single fault, request orders, and pairs of faults.
//! New failures are repeated before they are reported.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Add;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use tokio::time::Instant;

use super::candidates::{
    OpenOrder, abandoned_waits, delays_past_acquisitions, ends_of_others, immediate, moves, outages, pairs,
    single_faults, stale_moves,
};
use super::names::contender_name;
use super::outcome::{Fault, Nodes, Outcome};
use super::play::HOLDS;
use super::pool::{Pool, Runs, Site};
use super::schedule::{Act, Decision, Move, Schedule, TraceStep};
use super::world::{CONFIRMS, Pace};
use zklockbench_core::catalog::Holders;
use zklockbench_core::error::Error;
use zklockbench_core::measure::added_up;
use zklockbench_locks::{blocks, leases_of};

/// Maximum number of undisturbed runs, which end once two successive runs agree.
const UNDISTURBED: usize = 6;
/// Maximum number of contenders when adding a waiter behind another waiter.
const MOST_WITH_A_MIDDLE: usize = 8;
/// Number of repetitions of each new failure.
const REPEATED: usize = 2;
/// Time by which repetitions may exceed the budget, as a multiple of `stuck_after`.
const REPEATS_WITHIN: u32 = 3 * CONFIRMS;
const ORDERS: &str = "orders";
const READERS: &str = "readers";
const PAIRS: &str = "pairs of faults";
const NO_FAULT: &str = "undisturbed";
const DIFFERED: &str = "undisturbed runs differed; the lock's clients depend on timing";
const STOPPED: &str = "the exploration was stopped";
const OUT_OF_TIME: &str = "the budget ran out";

/// Outcome counts for one class of schedules.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Tally {
    pub held: u64,
    /// Schedules in which a zombie overlapped another holder, which no lock can prevent. They also count as held.
    pub zombies: u64,
    pub violated: u64,
    pub stuck: u64,
    pub refused: u64,
    pub out_of_order: u64,
    pub node_left: u64,
    /// Failures that did not recur with the same schedule.
    pub flaky: u64,
    /// Schedules with an impossible fault or order, e.g. a message delayed until an event that depends on it.
    pub impossible: u64,
    /// Schedules that could not run or did not fit into the budget.
    pub unexplored: u64,
}

added_up!(Tally {
    held,
    zombies,
    violated,
    stuck,
    refused,
    out_of_order,
    node_left,
    flaky,
    impossible,
    unexplored
});

impl Tally {
    pub fn failed(&self) -> u64 {
        self.violated + self.stuck + self.refused + self.out_of_order + self.node_left
    }
}

/// Recurrence of a failure over repeated runs of its schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Seen {
    pub times: u64,
    pub runs: u64,
}

impl Seen {
    const ONCE: Self = Self { times: 1, runs: 1 };

    /// Returns whether the failure counts as a finding. A violation is proved by its trace alone. Other
    /// failures may be due to timing, so they must recur in every run.
    fn proves(self, fault: Fault) -> bool {
        fault == Fault::Violated || (self.runs > 1 && self.times == self.runs)
    }
}

/// A schedule in which the lock breaks a promise.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Finding {
    pub fault: Fault,
    pub sentence: String,
    pub schedule: Schedule,
    pub trace: Vec<TraceStep>,
    /// Index in the trace of the first violating acquisition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entry: Option<usize>,
    /// Number of schedules of this class that reveal the same broken promise.
    pub alike: u64,
    pub seen: Seen,
    /// Number of decisions taken before the first violation; all decisions if there was none.
    pub needs: usize,
}

impl Finding {
    /// Returns the sort key: kind of failure, number of decisions, whether an order was chosen, length of the trace.
    fn rank(&self) -> (Fault, usize, bool, usize) {
        (self.fault, self.needs, self.schedule.order.is_some(), self.trace.len())
    }
}

/// Result of an exploration.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Explored {
    pub lock: String,
    pub contenders: usize,
    /// Events of the undisturbed run, in order.
    pub events: Vec<String>,
    /// Counts by class of schedules.
    pub classes: BTreeMap<String, Tally>,
    /// The shortest schedule for each broken promise and class.
    pub findings: Vec<Finding>,
    /// Reasons why schedules were not explored, with counts.
    pub unexplored: Vec<String>,
    /// Kinds of schedules outside the scope.
    pub not_tried: Vec<String>,
    pub took_us: u64,
    pub schedules_per_minute: f64,
}

impl Explored {
    pub fn total(&self) -> Tally {
        self.classes.values().copied().fold(Tally::default(), Tally::add)
    }
}

/// Time budget and optional parts of an exploration.
#[derive(Debug, Clone, Copy)]
pub struct Scope {
    pub budget: Duration,
    pub pairs: bool,
}

/// Explores a lock. Once `is_stopped` returns true, the exploration ends early with the findings so far.
///
/// # Errors
///
/// If a world cannot be opened, or if no undisturbed run succeeds in time.
pub fn explore(site: &Site, scope: Scope, is_stopped: impl Fn() -> bool) -> Result<Explored, Error> {
    let began = Instant::now();
    let most = with_a_middle(site);
    let deadline = began + scope.budget;
    let ends_at_last = deadline + REPEATS_WITHIN * Pace::of(&site.lock).stuck_after;
    let pool = Pool::start(&Site { contenders: most, ..site.clone() });
    let mut search = Search::of(pool, site, deadline, ends_at_last, &is_stopped);
    let undisturbed = search.undisturbed(site.contenders, &[])?.ok_or_else(|| {
        Error::environment("the budget is too short for an undisturbed run; increase --budget")
    })?;
    if let Err(error) = search.disturbed(&undisturbed, most, scope) {
        if search.findings.is_empty() {
            return Err(error);
        }
        search.tally(NO_FAULT).unexplored += 1;
        search.not_explored(&format!("the exploration ended early: {error}"), 1);
    }
    let took = began.elapsed();
    let mut findings: Vec<Finding> = search.findings.into_values().collect();
    findings.sort_by_key(Finding::rank);
    Ok(Explored {
        lock: site.lock.label.clone(),
        contenders: site.contenders,
        events: undisturbed.events.into_iter().map(|(_, event)| event).collect(),
        classes: search.classes,
        findings,
        unexplored: search.unexplored.into_iter().map(|(why, count)| format!("{why} ({count}×)")).collect(),
        not_tried: not_tried(site, scope),
        took_us: u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
        schedules_per_minute: search.runs as f64 * 60.0 / took.as_secs_f64().max(1e-3),
    })
}

impl<P: Runs> Search<'_, P> {
    /// Runs every schedule that differs from the undisturbed run.
    fn disturbed(&mut self, undisturbed: &Outcome, most: usize, scope: Scope) -> Result<(), Error> {
        let lock = &self.site.lock;
        let (last, ways) = (self.site.contenders - 1, lock.gives_up());
        let with_readers = if lock.has_readers() { self.with_readers(most)? } else { Vec::new() };
        // Delays run last: there are many of them, and they reveal the fewest failures.
        let (delays, faults): (Vec<_>, Vec<_>) =
            single_faults(&undisturbed.events).into_iter().partition(|decision| decision.act.is_delay());
        let mut singles = self.single_faults(undisturbed, faults)?;
        let waits = abandoned_waits(&undisturbed.events, last, &[], &ways);
        singles.extend(self.single_faults(undisturbed, waits)?);
        self.moves(undisturbed)?;
        let with_a_middle = if most > self.site.contenders {
            self.undisturbed_later(most, &[], &format!("no faults were tried with {most} contenders"))?
        } else {
            Some(undisturbed.clone())
        };
        if let Some(run) = &with_a_middle {
            self.single_faults(run, ends_of_the_middle(run, &ways))?;
        }
        // The orders of three contenders can use up the budget, so faults are explored first.
        let has_many_orders = self.site.contenders > 2;
        if !has_many_orders {
            self.orders(&[])?;
        }
        self.readers(&with_readers)?;
        if let Some(run) = with_a_middle.filter(|run| run.schedule.contenders > self.site.contenders) {
            self.single_faults(&run, immediate(&run.events))?;
            self.single_faults(&run, delays_past_acquisitions(&run.events))?;
        }
        singles.extend(self.single_faults(undisturbed, outages(&undisturbed.events))?);
        singles.extend(self.single_faults(undisturbed, delays)?);
        if has_many_orders {
            self.orders(&[])?;
        }
        if scope.pairs { self.pairs(&singles, undisturbed) } else { Ok(()) }
    }
}

/// Returns the faults after which a waiter behind another waiter is alone: the end of its process or of its wait.
fn ends_of_the_middle(run: &Outcome, ways: &[Act]) -> Vec<Decision> {
    let contenders = run.schedule.contenders;
    let mut faults = ends_of_others(&run.events, contenders);
    faults.extend(abandoned_waits(&run.events, contenders - 2, &[contenders - 1], ways));
    faults
}

/// Returns the number of contenders needed for the holders, a waiter that disappears, and a waiter behind it.
fn with_a_middle(site: &Site) -> usize {
    let holders = match site.lock.entry.card.guarantees.holders {
        Holders::Leases(leases) => leases_of(&site.lock.params, leases) as usize,
        Holders::One | Holders::ReadersOrOneWriter => 1,
    };
    site.contenders.max((holders + 2).min(MOST_WITH_A_MIDDLE))
}

/// Returns the numbers of contenders and the readers among them, for locks with readers.
fn readers(contenders: usize, most: usize) -> impl Iterator<Item = (usize, &'static [usize])> {
    let all: [(usize, &'static [usize]); 6] = [
        (contenders, &[1]),
        (contenders, &[0]),
        (most, &[2]),
        (most, &[1, 2]),
        (most, &[0, 2]),
        (most, &[0, 1]),
    ];
    all.into_iter().filter(|(count, readers)| readers.iter().all(|reader| reader < count))
}

/// Lists the kinds of schedules that an exploration does not try.
fn not_tried(site: &Site, scope: Scope) -> Vec<String> {
    let guarantees = &site.lock.entry.card.guarantees;
    let (has_others, ways) = (site.servers.other.is_some(), site.lock.gives_up());
    let stale = site.servers.held.as_ref().err().filter(|_| has_others);
    let stale = stale.map(|why| format!("moves to a stale server ({why})"));
    let parts = [
        (!scope.pairs, "two faults in one run"),
        (scope.pairs, "three faults in one run, and two faults among readers or more contenders"),
        (!ways.contains(&Act::TimeOut), "acquires that time out"),
        (!ways.contains(&Act::GiveUp), "acquires that are cancelled"),
        (blocks(&site.lock.params), "acquires that must not wait"),
        (true, "waits that are needlessly long but end"),
        (true, "several locks in one session"),
        (true, "crashes and restarts of servers"),
        (site.lock.has_readers(), "orders with several readers"),
        (matches!(guarantees.holders, Holders::Leases(_)), "several leases at once"),
        (guarantees.reentrant, "reentrant acquisitions"),
        (true, "third acquisitions, and orders of second acquisitions"),
        (!has_others, "moves between servers"),
        (has_others, "moves combined with other faults, and moves by readers"),
        (has_others && site.servers.held.is_ok(), "lagging followers"),
        (true, "session timeouts, and holds of several seconds"),
        (guarantees.fifo, "the order of grants after faults, among readers, and after simultaneous starts"),
        (true, "leaked watches"),
    ];
    let parts = parts.into_iter().filter(|(is_left_out, _)| *is_left_out);
    let more = format!("more than {} contenders", with_a_middle(site));
    parts.map(|(_, what)| what.to_owned()).chain(stale).chain([more]).collect()
}

/// Replays one schedule, up to three times. Ends once a run breaks a promise, or once a run equals `expected` up to the
/// schedule's last fault. The schedule is unexplored if no run does.
///
/// # Errors
/// If the world cannot be opened, an undisturbed run fails, a run takes too long, or `is_stopped` returns true.
pub fn replay(
    site: &Site,
    schedule: &Schedule,
    expected: &[TraceStep],
    is_stopped: impl Fn() -> bool,
) -> Result<Outcome, Error> {
    let within = Duration::from_secs(120).max(15 * Pace::of(&site.lock).stuck_after);
    let deadline = Instant::now() + within;
    // Like an exploration, learn how long the clients pause before the faults.
    let pool = Pool::start(&Site { worlds: 1, ..site.clone() });
    let mut search = Search::of(pool, site, deadline, deadline, &is_stopped);
    let late = || Error::environment(format!("the schedule did not end within {within:?}"));
    let base = search.learn(schedule.contenders, &schedule.readers)?.pop().ok_or_else(late)?;
    if !schedule.acquires_again && base.fault.is_none() {
        let twice = search.twice(&base.schedule)?.ok_or_else(late)?;
        if twice.fault == Some(Fault::NodeLeft) {
            search.expect_left(twice);
        }
    }
    let mut runs = 0;
    loop {
        search.add(schedule.clone());
        let mut outcome = search.next()?.ok_or_else(late)?;
        runs += 1;
        if outcome.fault.is_some() || !outcome.differs_from(expected) {
            return Ok(outcome);
        }
        if runs > REPEATED {
            let why = "the run differed from the case before its last fault".to_owned();
            outcome.unexplored = outcome.unexplored.or(Some(why));
            return Ok(outcome);
        }
    }
}

/// Returns whether the last two undisturbed runs were equal.
fn agree(runs: &[Outcome]) -> bool {
    matches!(runs, [.., one, other] if one.class() == other.class())
}

/// Returns an undisturbed run, or an error if no contender got the lock or if the run failed without a violation.
fn carried_out(run: Outcome) -> Result<Outcome, Error> {
    if run.fault != Some(Fault::Violated)
        && let Some(why) = run.unexplored
    {
        return Err(Error::environment(format!("an undisturbed run failed: {why}")));
    }
    if run.trace.iter().any(|step| step.what == HOLDS) {
        return Ok(run);
    }
    Err(Error::environment(match run.fault {
        Some(_) => format!("no contender got the lock in an undisturbed run: {}", run.sentence),
        None => "no contender got the lock in an undisturbed run".to_owned(),
    }))
}

struct Search<'a, P> {
    pool: P,
    deadline: Instant,
    /// Deadline for repetitions of failures.
    ends_at_last: Instant,
    is_stopped: &'a dyn Fn() -> bool,
    site: &'a Site,
    /// Nodes that remain after an undisturbed run, by number of contenders and list of readers.
    usually_left: HashMap<(usize, Vec<usize>), Nodes>,
    runs: u64,
    classes: BTreeMap<String, Tally>,
    findings: HashMap<(&'static str, Fault), Finding>,
    unexplored: BTreeMap<String, u64>,
}

impl<'a, P: Runs> Search<'a, P> {
    fn of(
        pool: P,
        site: &'a Site,
        deadline: Instant,
        ends_at_last: Instant,
        is_stopped: &'a dyn Fn() -> bool,
    ) -> Self {
        Self {
            pool,
            deadline,
            ends_at_last,
            is_stopped,
            site,
            usually_left: HashMap::new(),
            runs: 0,
            classes: BTreeMap::new(),
            findings: HashMap::new(),
            unexplored: BTreeMap::new(),
        }
    }

    fn tally(&mut self, class: &str) -> &mut Tally {
        self.classes.entry(class.to_owned()).or_default()
    }

    /// Returns the next outcome, or `None` if time ran out.
    fn next(&mut self) -> Result<Option<Outcome>, Error> {
        self.next_until(self.deadline)
    }

    fn next_until(&mut self, deadline: Instant) -> Result<Option<Outcome>, Error> {
        const STEP: Duration = Duration::from_millis(200);
        while Instant::now() < deadline && !(self.is_stopped)() {
            if let Some(outcome) = self.pool.next(deadline.min(Instant::now() + STEP))? {
                self.runs += 1;
                return Ok(Some(outcome));
            }
        }
        Ok(None)
    }

    /// Queues a schedule for the next free world.
    fn add(&self, schedule: Schedule) {
        self.queue(schedule, false);
    }

    /// Like `add`. `confirms` means that the schedule is rerun to confirm that a contender is stuck, with more time.
    fn queue(&self, schedule: Schedule, confirms: bool) {
        let usually_left = self.usually_left.get(&(schedule.contenders, schedule.readers.clone())).cloned();
        self.pool.add(schedule, usually_left, confirms);
    }

    /// Repeats an undisturbed run until two successive runs agree, then runs it with second acquisitions. Counts all
    /// violations and returns the last single outcome; `None` if no run ended in time. The first run may differ, because
    /// nothing is known yet about the clients' pauses.
    fn undisturbed(&mut self, contenders: usize, readers: &[usize]) -> Result<Option<Outcome>, Error> {
        let mut runs = self.learn(contenders, readers)?;
        let (agrees, all_ran) = (agree(&runs), runs.len() == UNDISTURBED);
        let Some(base) = runs.pop() else { return Ok(None) };
        let class = class_of(&base.schedule);
        if !agrees {
            let why = if all_ran { DIFFERED } else { self.ended() };
            self.tally(class).unexplored += 1;
            self.not_explored(why, 1);
        }
        // Other failures may be accidents of a cold start; if they recur, the last run has them too.
        runs.retain(|run| run.fault == Some(Fault::Violated));
        runs.push(base.clone());
        let mut leak = None;
        if agrees && base.fault.is_none() {
            if let Some(twice) = self.twice(&base.schedule)? {
                leak = (twice.fault == Some(Fault::NodeLeft)).then(|| twice.clone());
                runs.push(twice);
            } else {
                self.tally(class).unexplored += 1;
                self.not_explored(self.ended(), 1);
            }
        }
        self.count(runs.into_iter().map(|run| (class, run)).collect())?;
        if let Some(leak) = leak.filter(|_| self.findings.contains_key(&(class, Fault::NodeLeft))) {
            self.expect_left(leak);
        }
        Ok(Some(base))
    }

    /// Runs an undisturbed schedule in which every contender acquires twice; `None` if it did not end in time. A lock
    /// may keep nodes for its next acquisition, but their number must not grow.
    fn twice(&mut self, undisturbed: &Schedule) -> Result<Option<Outcome>, Error> {
        self.add(Schedule { acquires_again: true, ..undisturbed.clone() });
        self.next()
    }

    /// Expects the nodes that second acquisitions leave, so that no fault is blamed for them.
    fn expect_left(&mut self, twice: Outcome) {
        self.usually_left.insert((twice.schedule.contenders, twice.schedule.readers), twice.left);
    }

    /// Repeats an undisturbed run until two successive runs agree or time runs out, and returns all runs.
    fn learn(&mut self, contenders: usize, readers: &[usize]) -> Result<Vec<Outcome>, Error> {
        let mut runs = Vec::new();
        while runs.len() < UNDISTURBED && !agree(&runs) {
            self.add(Schedule::undisturbed(contenders).read_by(readers));
            let Some(run) = self.next()? else { break };
            match carried_out(run) {
                Ok(run) => runs.push(run),
                Err(error) if runs.iter().all(|run| run.fault != Some(Fault::Violated)) => return Err(error),
                Err(error) => {
                    self.not_explored(&error.to_string(), 1);
                    break;
                }
            }
        }
        if let Some(base) = runs.last() {
            self.usually_left.insert((contenders, readers.to_vec()), base.left.clone());
        }
        Ok(runs)
    }

    /// Runs the schedule of an undisturbed run once with each fault.
    fn single_faults(&mut self, run: &Outcome, decisions: Vec<Decision>) -> Result<Vec<Outcome>, Error> {
        let with = |decision| Schedule { decisions: vec![decision], ..run.schedule.clone() };
        self.all(decisions.into_iter().map(with).collect())
    }

    /// Tries moves between servers, if there is more than one.
    fn moves(&mut self, undisturbed: &Outcome) -> Result<(), Error> {
        let servers = &self.site.servers;
        let (others, stale) = (servers.other.is_some(), servers.held.is_ok());
        if others {
            self.single_faults(undisturbed, moves(&undisturbed.events))?;
        }
        if others && stale {
            self.single_faults(undisturbed, stale_moves(&undisturbed.events))?;
        }
        Ok(())
    }

    /// Like `undisturbed`, but a failed run only leaves out the part of the exploration that depends on it, as does the
    /// end of the budget.
    fn undisturbed_later(
        &mut self,
        contenders: usize,
        readers: &[usize],
        what: &str,
    ) -> Result<Option<Outcome>, Error> {
        let why = match self.undisturbed(contenders, readers) {
            Ok(None) => self.ended().to_owned(),
            Err(error) => error.to_string(),
            done => return done,
        };
        self.tally(class_of(&Schedule::undisturbed(contenders).read_by(readers))).unexplored += 1;
        self.not_explored(&format!("{why}: {what}"), 1);
        Ok(None)
    }

    /// Runs undisturbed schedules with one reader of two contenders, and with one or two readers of three contenders.
    fn with_readers(&mut self, most: usize) -> Result<Vec<Outcome>, Error> {
        let mut runs = Vec::new();
        for (contenders, readers) in readers(self.site.contenders, most) {
            let names: Vec<String> = readers.iter().copied().map(contender_name).collect();
            let what =
                format!("{contenders} contenders with {} as readers were not tried", names.join(" and "));
            runs.extend(self.undisturbed_later(contenders, readers, &what)?);
        }
        Ok(runs)
    }

    /// Tries faults and request orders in runs with readers.
    fn readers(&mut self, runs: &[Outcome]) -> Result<(), Error> {
        let (contenders, ways) = (self.site.contenders, self.site.lock.gives_up());
        for run in runs {
            let mut faults = immediate(&run.events);
            if run.schedule.contenders > 2 {
                faults.extend(ends_of_the_middle(run, &ways));
            }
            self.single_faults(run, faults)?;
        }
        let has_orders =
            |run: &&Outcome| run.schedule.readers.len() == 1 && run.schedule.contenders == contenders;
        runs.iter().filter(has_orders).try_for_each(|run| self.orders(&run.schedule.readers))
    }

    fn pairs(&mut self, singles: &[Outcome], undisturbed: &Outcome) -> Result<(), Error> {
        let mut schedules: Vec<Vec<Schedule>> =
            singles.iter().map(|first| pairs(first, &undisturbed.events)).collect();
        // `pop` takes from the end, so reverse the lists to try the most promising second faults first.
        schedules.iter_mut().for_each(|of_one| of_one.reverse());
        let mut in_turns = Vec::new();
        while schedules.iter().any(|of_one| !of_one.is_empty()) {
            in_turns.extend(schedules.iter_mut().filter_map(Vec::pop));
        }
        self.all(in_turns).map(drop)
    }

    /// Runs schedules in parallel and returns their outcomes.
    fn all(&mut self, schedules: Vec<Schedule>) -> Result<Vec<Outcome>, Error> {
        let mut open: HashSet<Schedule> = schedules.iter().cloned().collect();
        let mut outcomes = Vec::with_capacity(schedules.len());
        schedules.into_iter().for_each(|schedule| self.add(schedule));
        while !open.is_empty() {
            let Some(outcome) = self.next()? else { break };
            if open.remove(&outcome.schedule) {
                outcomes.push(outcome);
            }
        }
        self.pool.forget();
        for schedule in &open {
            self.tally(class_of(schedule)).unexplored += 1;
            self.not_explored(self.ended(), 1);
        }
        self.count(outcomes.iter().map(|outcome| (class_of(&outcome.schedule), outcome.clone())).collect())?;
        Ok(outcomes)
    }

    /// Tries orders of the contenders' requests, without faults.
    fn orders(&mut self, readers: &[usize]) -> Result<(), Error> {
        let class = if readers.is_empty() { ORDERS } else { READERS };
        let contenders = self.site.contenders;
        let mut under_way: HashMap<Vec<String>, OpenOrder> = HashMap::new();
        let mut runs = Vec::new();
        let mut open = vec![OpenOrder::start()];
        loop {
            for order in open.drain(..) {
                self.add(Schedule::in_order(contenders, order.prefix.clone()).read_by(readers));
                under_way.insert(order.prefix.clone(), order);
            }
            if under_way.is_empty() {
                break;
            }
            let Some(run) = self.next()? else {
                self.pool.forget();
                let count = under_way.len() as u64;
                self.tally(class).unexplored += count;
                self.not_explored(self.ended(), count);
                break;
            };
            // Schedules that were abandoned when the budget ran out may still finish.
            if run.schedule.readers != readers {
                continue;
            }
            let Some(order) = run.schedule.order.as_ref().and_then(|prefix| under_way.remove(prefix)) else {
                continue;
            };
            let (further, is_new) = order.alternatives(&run.choices);
            open = further;
            if !is_new && run.fault.is_none() && run.unexplored.is_none() {
                continue;
            }
            runs.push((class, run));
        }
        self.count(runs)
    }

    /// Returns why the exploration ended before all schedules had run.
    fn ended(&self) -> &'static str {
        if (self.is_stopped)() { STOPPED } else { OUT_OF_TIME }
    }

    fn not_explored(&mut self, why: &str, count: u64) {
        *self.unexplored.entry(why.to_owned()).or_default() += count;
    }

    /// Counts outcomes. The first failure of each class and kind is repeated.
    fn count(&mut self, outcomes: Vec<(&'static str, Outcome)>) -> Result<(), Error> {
        let mut failed = Vec::new();
        for (class, outcome) in outcomes {
            match outcome.fault {
                Some(fault) => failed.push((class, Finding::of(outcome, fault))),
                None => self.count_kept(class, outcome),
            }
        }
        failed.sort_by_key(|(_, failure)| failure.rank());
        while !failed.is_empty() {
            let (mut new, mut later) = (Vec::<(&'static str, Finding)>::new(), Vec::new());
            for (class, failure) in failed {
                let is_alike = |(other, new): &(&str, Finding)| *other == class && new.fault == failure.fault;
                if self.findings.contains_key(&(class, failure.fault)) {
                    self.keep(class, failure);
                } else if new.iter().any(is_alike) {
                    later.push((class, failure));
                } else {
                    new.push((class, failure));
                }
            }
            self.repeat(&mut new)?;
            for (class, failure) in new {
                if failure.seen.proves(failure.fault) {
                    self.keep(class, failure);
                    continue;
                }
                self.tally(class).flaky += 1;
                let (word, sentence) = (failure.fault.word(), &failure.sentence);
                let why = match failure.seen {
                    Seen::ONCE => format!("{word}, but not repeated in time: {sentence}"),
                    Seen { times, runs } => format!("{word} in only {times} of {runs} runs: {sentence}"),
                };
                self.not_explored(&why, 1);
            }
            failed = later;
        }
        Ok(())
    }

    /// Counts a schedule in which the lock broke no promise.
    fn count_kept(&mut self, class: &'static str, outcome: Outcome) {
        let tally = self.tally(class);
        match (outcome.unexplored, outcome.impossible) {
            (Some(why), _) => {
                tally.unexplored += 1;
                self.not_explored(&why, 1);
            }
            (None, Some(_)) => tally.impossible += 1,
            (None, None) => {
                tally.held += 1;
                tally.zombies += u64::from(outcome.zombies > 0);
            }
        }
    }

    /// Repeats failures in parallel. The repetitions may slightly exceed the budget.
    fn repeat(&mut self, failures: &mut [(&'static str, Finding)]) -> Result<(), Error> {
        for (_, failure) in &*failures {
            let confirms = failure.fault == Fault::Stuck;
            (0..REPEATED).for_each(|_| self.queue(failure.schedule.clone(), confirms));
        }
        let mut left = failures.len() * REPEATED;
        while left > 0 {
            let Some(again) = self.next_until(self.ends_at_last)? else {
                self.pool.forget();
                break;
            };
            let repeated = failures.iter_mut().find(|(_, failure)| {
                failure.schedule == again.schedule && failure.seen.runs <= REPEATED as u64
            });
            let Some((_, failure)) = repeated else { continue };
            left -= 1;
            failure.seen.runs += 1;
            if again.fault == Some(failure.fault) {
                failure.seen.times += 1;
                // A repetition gives a stuck contender more time, so report the longer limit.
                if failure.fault == Fault::Stuck {
                    *failure = Finding { seen: failure.seen, ..Finding::of(again, Fault::Stuck) };
                }
            }
        }
        Ok(())
    }

    fn keep(&mut self, class: &'static str, new: Finding) {
        let fault = new.fault;
        let tally = self.tally(class);
        match fault {
            Fault::Violated => tally.violated += 1,
            Fault::Stuck => tally.stuck += 1,
            Fault::Refused => tally.refused += 1,
            Fault::OutOfOrder => tally.out_of_order += 1,
            Fault::NodeLeft => tally.node_left += 1,
        }
        match self.findings.entry((class, fault)) {
            Entry::Vacant(place) => drop(place.insert(new)),
            Entry::Occupied(mut place) => place.get_mut().alike += 1,
        }
    }
}

impl Finding {
    fn of(outcome: Outcome, fault: Fault) -> Self {
        let Outcome { sentence, schedule, trace, entry, needs, .. } = outcome;
        Self { fault, sentence, schedule, trace, entry, alike: 1, seen: Seen::ONCE, needs }
    }
}

/// Returns the class of a schedule that has no request order.
fn class_of(schedule: &Schedule) -> &'static str {
    match schedule.decisions.as_slice() {
        _ if !schedule.readers.is_empty() => READERS,
        [] => NO_FAULT,
        [one] => one.class(),
        _ => PAIRS,
    }
}

/// Returns the names of all classes in table order.
pub fn class_names() -> Vec<&'static str> {
    [NO_FAULT].into_iter().chain(Act::NAMES).chain(Move::NAMES).chain([ORDERS, READERS, PAIRS]).collect()
}

#[cfg(test)]
mod tests;
