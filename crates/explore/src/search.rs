//! The exploration of one lock: an undisturbed run, every single fault, the orders, and pairs of faults within the
//! budget. Failures are repeated before they are reported.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Add;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use tokio::time::Instant;

use super::candidates::{OpenOrder, ends_of_others, pairs, single_faults};
use super::play::{Fault, Outcome};
use super::pool::{Pool, Site};
use super::schedule::{Act, Decision, Schedule, TraceStep};
use super::world::Pace;
use zklockbench_core::error::Error;
use zklockbench_core::measure::added_up;

/// Number of undisturbed runs.
const UNDISTURBED: usize = 2;
/// A holder, a waiter that disappears, and the waiter behind it.
const WITH_A_MIDDLE: usize = 3;
/// Number of repetitions that must agree with the first run before a finding is reported.
const REPEATED: usize = 2;
/// Time for the repetitions of a finding, and for all findings together, which may exceed the budget; as a multiple of
/// `stuck_after`.
const REPEATS_WITHIN: u32 = 8;
const ALL_REPEAT_WITHIN: u32 = 16;
const ORDERS: &str = "orders";
const PAIRS: &str = "pairs of faults";
const NO_FAULT: &str = "undisturbed";
const OUT_OF_TIME: &str = "the budget ended first";

/// Counts of one class of schedules.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Tally {
    pub held: u64,
    /// Schedules in which a zombie was inside with another holder, which no lock prevents. They also count as held.
    pub zombies: u64,
    pub violated: u64,
    pub stuck: u64,
    pub node_left: u64,
    /// Failures that did not recur with the same schedule.
    pub flaky: u64,
    /// Schedules with an impossible fault or order, e.g. a message delayed until an event that depends on it.
    pub impossible: u64,
    /// Schedules that could not run, or for which no time was left.
    pub unexplored: u64,
}

added_up!(Tally { held, zombies, violated, stuck, node_left, flaky, impossible, unexplored });

impl Tally {
    pub fn schedules(&self) -> u64 {
        self.held + self.failed() + self.flaky
    }

    pub fn failed(&self) -> u64 {
        self.violated + self.stuck + self.node_left
    }
}

/// A schedule that breaks a promise each time it runs.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Finding {
    pub fault: Fault,
    pub sentence: String,
    pub schedule: Schedule,
    pub trace: Vec<TraceStep>,
    /// Index in the trace of the first entry that was a violation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entry: Option<usize>,
    /// Number of schedules that break the promise in the same way.
    pub alike: u64,
}

/// Result of an exploration.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Explored {
    pub lock: String,
    pub contenders: usize,
    /// Events of the undisturbed run, in their order.
    pub events: Vec<String>,
    /// Counts by kind of fault, and for orders.
    pub classes: BTreeMap<String, Tally>,
    /// The shortest schedule for each broken promise and class.
    pub findings: Vec<Finding>,
    /// Reasons why schedules could not run.
    pub unexplored: Vec<String>,
    pub took_us: u64,
    pub schedules_per_minute: f64,
}

impl Explored {
    pub fn total(&self) -> Tally {
        self.classes.values().copied().fold(Tally::default(), Tally::add)
    }
}

/// What to explore beyond single faults and orders, and for how long.
#[derive(Debug, Clone, Copy)]
pub struct Scope {
    pub budget: Duration,
    pub pairs: bool,
}

/// Explores a lock. `is_stopped` ends it early, with the findings so far.
///
/// # Errors If the ensemble refuses, or if an undisturbed run fails.
pub fn explore(site: &Site, scope: Scope, is_stopped: impl Fn() -> bool) -> Result<Explored, Error> {
    let began = Instant::now();
    let most = site.contenders.max(WITH_A_MIDDLE);
    let mut search = Search {
        pool: Pool::start(&Site { contenders: most, ..site.clone() }),
        deadline: began + scope.budget,
        ends_at_last: began + scope.budget + ALL_REPEAT_WITHIN * Pace::of(&site.lock).stuck_after,
        is_stopped: &is_stopped,
        site,
        usually_left: HashMap::new(),
        runs: 0,
        classes: BTreeMap::new(),
        findings: HashMap::new(),
        unexplored: BTreeMap::new(),
    };
    let undisturbed = search.undisturbed(site.contenders)?.ok_or_else(|| {
        Error::environment("no time was left for an undisturbed run; allow more with --budget")
    })?;
    // Delays come last: there are many, and they find the fewest failures.
    let (delays, faults): (Vec<_>, Vec<_>) = single_faults(&undisturbed.events)
        .into_iter()
        .partition(|decision| matches!(decision.act, Act::Delay { .. }));
    let mut singles = search.single_faults(site.contenders, faults)?;
    let with_a_middle =
        if most == site.contenders { Some(undisturbed.clone()) } else { search.undisturbed(most)? };
    match with_a_middle {
        Some(run) => drop(search.single_faults(most, ends_of_others(&run.events, most))?),
        None => {
            search.tally(NO_FAULT).unexplored += 1;
            search.not_explored(&format!("{OUT_OF_TIME}: no fault with {most} contenders was tried"), 1);
        }
    }
    search.orders()?;
    singles.extend(search.single_faults(site.contenders, delays)?);
    if scope.pairs {
        search.pairs(&singles, &undisturbed)?;
    }
    let took = began.elapsed();
    let mut findings: Vec<Finding> = search.findings.into_values().collect();
    findings.sort_by_key(|finding| (finding.fault, finding.schedule.decisions.len(), finding.trace.len()));
    Ok(Explored {
        lock: site.lock.label.clone(),
        contenders: site.contenders,
        events: undisturbed.events.into_iter().map(|(_, event)| event).collect(),
        classes: search.classes,
        findings,
        unexplored: search.unexplored.into_iter().map(|(why, count)| format!("{why} ({count}×)")).collect(),
        took_us: u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
        schedules_per_minute: search.runs as f64 * 60.0 / took.as_secs_f64().max(1e-3),
    })
}

/// Runs one schedule again.
///
/// # Errors
/// If the ensemble refuses.
pub fn replay(site: &Site, schedule: &Schedule) -> Result<Outcome, Error> {
    let pool = Pool::start(&Site { worlds: 1, ..site.clone() });
    pool.add(Schedule::undisturbed(schedule.contenders), usize::MAX);
    let deadline = Instant::now() + Duration::from_secs(120);
    let late = || Error::environment("the schedule did not end within two minutes");
    let usually_left = carried_out(pool.next(deadline)?.ok_or_else(late)?)?.left.len();
    pool.add(schedule.clone(), usually_left);
    pool.next(deadline)?.ok_or_else(late)
}

/// The undisturbed run, or an error if it failed.
fn carried_out(run: Outcome) -> Result<Outcome, Error> {
    match run.unexplored {
        Some(why) => Err(Error::environment(format!("an undisturbed run failed: {why}"))),
        None => Ok(run),
    }
}

struct Search<'a> {
    pool: Pool,
    deadline: Instant,
    /// Deadline for repetitions of findings.
    ends_at_last: Instant,
    is_stopped: &'a dyn Fn() -> bool,
    site: &'a Site,
    /// Nodes that finished contenders keep in an undisturbed run, by the number of contenders.
    usually_left: HashMap<usize, usize>,
    runs: u64,
    classes: BTreeMap<String, Tally>,
    findings: HashMap<(String, Fault), Finding>,
    unexplored: BTreeMap<String, u64>,
}

impl Search<'_> {
    fn tally(&mut self, class: &str) -> &mut Tally {
        self.classes.entry(class.to_owned()).or_default()
    }

    /// The next outcome; `None` if no time is left.
    fn next(&mut self) -> Result<Option<Outcome>, Error> {
        const STEP: Duration = Duration::from_millis(200);
        while Instant::now() < self.deadline && !(self.is_stopped)() {
            if let Some(outcome) = self.pool.next(self.deadline.min(Instant::now() + STEP))? {
                self.runs += 1;
                return Ok(Some(outcome));
            }
        }
        Ok(None)
    }

    /// Adds a schedule to those that wait for a world.
    fn add(&self, schedule: Schedule) {
        let usually_left = self.usually_left.get(&schedule.contenders).copied().unwrap_or(usize::MAX);
        self.pool.add(schedule, usually_left);
    }

    /// The first of the undisturbed runs; `None` if no time was left for them.
    fn undisturbed(&mut self, contenders: usize) -> Result<Option<Outcome>, Error> {
        let mut runs = Vec::new();
        for _ in 0..UNDISTURBED {
            self.add(Schedule::undisturbed(contenders));
            let Some(run) = self.next()? else { return Ok(None) };
            runs.push(carried_out(run)?);
        }
        let first = runs.remove(0);
        self.usually_left.insert(contenders, first.left.len());
        if first.class() != runs[0].class() {
            let note = "two undisturbed runs differed: the lock's clients act on their own clock".to_owned();
            self.not_explored(&note, 1);
        }
        self.count(NO_FAULT, first.clone())?;
        Ok(Some(first))
    }

    fn single_faults(&mut self, contenders: usize, decisions: Vec<Decision>) -> Result<Vec<Outcome>, Error> {
        let schedules = decisions.into_iter().map(|decision| Schedule::with(contenders, vec![decision]));
        self.all(schedules.collect())
    }

    fn pairs(&mut self, singles: &[Outcome], undisturbed: &Outcome) -> Result<(), Error> {
        let mut schedules: Vec<Vec<Schedule>> =
            singles.iter().map(|first| pairs(first, &undisturbed.events)).collect();
        // The most promising second faults of each first fault come first.
        schedules.iter_mut().for_each(|of_one| of_one.reverse());
        let mut in_turns = Vec::new();
        while schedules.iter().any(|of_one| !of_one.is_empty()) {
            in_turns.extend(schedules.iter_mut().filter_map(Vec::pop));
        }
        self.all(in_turns).map(drop)
    }

    /// Runs schedules with faults in parallel; returns their outcomes.
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
            self.not_explored(OUT_OF_TIME, 1);
        }
        for outcome in &outcomes {
            self.count(class_of(&outcome.schedule), outcome.clone())?;
        }
        Ok(outcomes)
    }

    /// Orders of the contenders' requests without faults.
    fn orders(&mut self) -> Result<(), Error> {
        let contenders = self.site.contenders;
        let mut under_way: HashMap<Vec<String>, OpenOrder> = HashMap::new();
        let mut failed = Vec::new();
        let mut open = vec![OpenOrder::start()];
        loop {
            for order in open.drain(..) {
                self.add(Schedule::in_order(contenders, order.prefix.clone()));
                under_way.insert(order.prefix.clone(), order);
            }
            if under_way.is_empty() {
                break;
            }
            let Some(run) = self.next()? else {
                self.pool.forget();
                let count = under_way.len() as u64;
                self.tally(ORDERS).unexplored += count;
                self.not_explored(OUT_OF_TIME, count);
                break;
            };
            // Schedules for which no time was left may still end.
            let Some(order) = run.schedule.order.as_ref().and_then(|prefix| under_way.remove(prefix)) else {
                continue;
            };
            let (further, is_new) = order.alternatives(&run.choices);
            open = further;
            if !is_new && run.fault.is_none() && run.unexplored.is_none() {
                continue;
            }
            if run.fault.is_some() { failed.push(run) } else { self.count(ORDERS, run)? }
        }
        failed.into_iter().try_for_each(|run| self.count(ORDERS, run))
    }

    fn not_explored(&mut self, why: &str, count: u64) {
        *self.unexplored.entry(why.to_owned()).or_default() += count;
    }

    /// Counts an outcome. A failure is repeated, and becomes a finding if it recurs each time.
    fn count(&mut self, class: &str, outcome: Outcome) -> Result<(), Error> {
        let Some(fault) = outcome.fault else {
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
            return Ok(());
        };
        let known = self.findings.contains_key(&(class.to_owned(), fault));
        if !known && !self.happens_again(&outcome, fault)? {
            self.tally(class).flaky += 1;
            self.not_explored(&format!("{}, but did not recur: {}", fault.word(), outcome.sentence), 1);
            return Ok(());
        }
        let tally = self.tally(class);
        match fault {
            Fault::Violated => tally.violated += 1,
            Fault::Stuck => tally.stuck += 1,
            Fault::NodeLeft => tally.node_left += 1,
        }
        self.keep(class, fault, outcome);
        Ok(())
    }

    fn happens_again(&mut self, outcome: &Outcome, fault: Fault) -> Result<bool, Error> {
        // Confirming a finding may exceed the budget.
        let enough = Instant::now() + REPEATS_WITHIN * Pace::of(&self.site.lock).stuck_after;
        self.deadline = self.deadline.max(enough.min(self.ends_at_last));
        (0..REPEATED).for_each(|_| self.add(outcome.schedule.clone()));
        let mut agreed = 0;
        while agreed < REPEATED {
            match self.next()? {
                Some(again) if again.schedule != outcome.schedule => {}
                Some(again) if again.fault == Some(fault) => agreed += 1,
                _ => return Ok(false),
            }
        }
        Ok(true)
    }

    fn keep(&mut self, class: &str, fault: Fault, outcome: Outcome) {
        let Outcome { sentence, schedule, trace, entry, .. } = outcome;
        let new = Finding { fault, sentence, schedule, trace, entry, alike: 1 };
        match self.findings.entry((class.to_owned(), fault)) {
            Entry::Vacant(place) => drop(place.insert(new)),
            Entry::Occupied(mut place) => {
                let found = place.get_mut();
                let alike = found.alike + 1;
                if new.trace.len() < found.trace.len() {
                    *found = new;
                }
                found.alike = alike;
            }
        }
    }
}

/// Class of a schedule with faults.
fn class_of(schedule: &Schedule) -> &'static str {
    match schedule.decisions.as_slice() {
        [one] => one.act.name(),
        _ => PAIRS,
    }
}

/// Names of all classes in the order of the table.
pub fn class_names() -> Vec<&'static str> {
    [NO_FAULT].into_iter().chain(Act::NAMES).chain([ORDERS, PAIRS]).collect()
}
