//! Data for CI: a [`CiReport`] of checks, metrics and the measurement environment, and a module for each
//! output format. The formats do not compute metrics.

pub mod github;
pub mod junit;
pub mod openmetrics;
pub mod remote_write;
pub mod trackers;

use std::time::{Duration, SystemTime};

use crate::comparison::in_words;
use crate::summary::{Aggregate, Repetitions, Totals};
use crate::table::{gate_check_told, gate_title};
use crate::view::{Cell, ended_early, trials_ran};
use crate::{RunReport, View};
use zklockbench_analysis::compare::{Compared, Comparison, Method, Regression, Role, Row};
use zklockbench_analysis::gate::Outcome;
use zklockbench_core::measure::Measure;
use zklockbench_core::units::{self, cell_name, counted, format_micros, harmless, joined};
use zklockbench_core::verdict::Verdict;
use zklockbench_core::worded;
use zklockbench_record::{Figure, Statistic, Trial, Unit, figures};
use zklockbench_results::StoredRun;

pub use openmetrics::Live;

#[derive(Debug, Clone, PartialEq)]
pub struct CiReport {
    /// Name of the scenario, or of the compared runs.
    pub title: String,
    /// The outcome in one line; `None` if the counts of the checks suffice.
    pub headline: Option<String>,
    pub began: SystemTime,
    pub took: Duration,
    pub facts: Vec<(&'static str, String)>,
    pub checks: Vec<Check>,
    pub cells: Vec<CellFigures>,
    pub notes: Vec<String>,
}

worded! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum CheckKind by name {
        Run = "run",
        /// A strategy's promises at one contender count.
        Lock = "lock",
        Gate = "gate",
        /// A metric, compared with another run.
        Comparison = "comparison",
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Check {
    pub kind: CheckKind,
    /// Name of the checked object, e.g. `curator-mutex, 5 contenders`; unique within a kind.
    pub name: String,
    /// `held` if the check passed, `violated` if it failed, `unknown` without enough evidence.
    pub verdict: Verdict,
    pub seen: Vec<String>,
    pub took: Duration,
}

impl Check {
    fn new(kind: CheckKind, name: &str, verdict: Verdict, seen: Vec<String>, took: Duration) -> Self {
        Self { kind, name: clean(name), verdict, seen, took }
    }

    pub fn word(&self) -> &'static str {
        match self.verdict {
            Verdict::Held => "passed",
            Verdict::Unknown(_) => "no evidence",
            Verdict::Violated(_) => "failed",
        }
    }

    /// Returns the severity; higher is worse.
    pub fn severity(&self) -> u8 {
        match self.verdict {
            Verdict::Held => 0,
            Verdict::Unknown(_) => 1,
            Verdict::Violated(_) => 2,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct CellFigures {
    pub strategy: String,
    pub contenders: usize,
    pub repetitions: Repetitions,
    /// Verdict over the strategy's trials; `None` for a single contender, which has no other contender to
    /// exclude.
    pub verdict: Option<Verdict>,
    pub totals: Totals,
    /// The [`tracked`] metrics that were measured, in that order.
    pub values: Vec<TrackedValue>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrackedValue {
    pub figure: Figure,
    pub over: Aggregate,
}

/// Returns the metrics reported to CI: a subset small enough to review.
pub fn tracked() -> impl Iterator<Item = Figure> {
    use Measure::{Handoff, Uncontended, Wait};
    let times = [(Wait, 50), (Wait, 99), (Handoff, 50), (Handoff, 99), (Uncontended, 50)];
    let times = times.map(|(measure, percent)| Figure::Latency(measure, Statistic::percent(percent)));
    let tracked = figures::ALL.iter().filter(|entry| entry.tracked).map(|entry| entry.figure());
    // Throughput comes first, because it is the main measure of speed.
    let (speed, others): (Vec<_>, Vec<_>) = tracked.partition(|figure| figure.unit() == Unit::PerSecond);
    speed.into_iter().chain(times).chain(others)
}

impl CiReport {
    /// Returns the report of a stored run, with its gates and the implicit gate on exclusion.
    pub fn of_run(stored: &StoredRun, report: &RunReport<'_>) -> Self {
        let RunReport { view, gated, headline, .. } = report;
        let run = &stored.run.run;
        let cells: Vec<CellFigures> = view.cells.iter().map(|cell| figures(view.label(cell), cell)).collect();
        let of_locks = view.cells.iter().zip(&cells).map(|(cell, figures)| of_lock(cell, figures));
        let took = run.ended_at.duration_since(run.started_at).unwrap_or_default();
        let of_gates = gated.gates.iter().map(|gate| of_gate(gate, took));
        Self {
            title: clean(&view.title),
            headline: Some(clean(&headline.text())),
            began: run.started_at,
            took,
            facts: facts(stored, view),
            checks: std::iter::once(of_whole(stored)).chain(of_locks).chain(of_gates).collect(),
            cells,
            notes: view.notes().iter().map(|note| clean(note)).collect(),
        }
    }

    /// Returns the report of a comparison. Metrics are in the reports of the compared runs.
    pub fn of_comparison(comparison: &Comparison) -> Self {
        let sides = [("base", &comparison.base), ("new", &comparison.new)];
        let scenario = comparison.new.runs.first().map_or("comparison", |run| run.scenario.as_str());
        let began =
            comparison.new.runs.first().and_then(|run| humantime::parse_rfc3339(&run.started_at).ok());
        let report = Self {
            headline: Some(clean(&comparison.conclusion.sentence)),
            facts: sides.map(|(name, side)| (name, clean(&side.path))).into(),
            notes: comparison.unsound.iter().chain(&comparison.forced).map(|note| clean(note)).collect(),
            ..Self::empty(scenario, began.unwrap_or(SystemTime::UNIX_EPOCH))
        };
        report.with_comparison(comparison)
    }

    /// Adds the verdicts of a comparison and its conclusion.
    pub fn with_comparison(self, comparison: &Comparison) -> Self {
        let conclusion = &comparison.conclusion;
        let name = "nothing regressed";
        let whole = compared(CheckKind::Run, name, conclusion.regression, &conclusion.sentence);
        let deciding = comparison.rows.iter().filter(|row| row.role == Role::Decides);
        self.with_checks(std::iter::once(whole).chain(deciding.map(of_row)))
    }

    /// Returns the report of a run that failed before any measurement, with the reason.
    pub fn of_failure(title: &str, began: SystemTime, why: &str) -> Self {
        let unknown = Verdict::Unknown(vec![clean(why)]);
        let report = Self::empty(title, began).with_fact("version", env!("CARGO_PKG_VERSION"));
        report.with_checks([Check::new(CheckKind::Run, EVERY_TRIAL, unknown, Vec::new(), Duration::ZERO)])
    }

    fn empty(title: &str, began: SystemTime) -> Self {
        let (facts, checks, cells, notes) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { title: clean(title), headline: None, began, took: Duration::ZERO, facts, checks, cells, notes }
    }

    pub fn fact(&self, wanted: &str) -> Option<&str> {
        self.facts.iter().find(|(name, _)| *name == wanted).map(|(_, value)| value.as_str())
    }

    pub fn with_checks(mut self, more: impl IntoIterator<Item = Check>) -> Self {
        self.checks.extend(more);
        self
    }

    pub fn with_fact(mut self, name: &'static str, value: &str) -> Self {
        self.facts.push((name, clean(value)));
        self
    }

    /// Returns the checks that did not pass, worst first.
    pub fn troubles(&self) -> Vec<&Check> {
        let mut troubles: Vec<&Check> = self.checks.iter().filter(|check| check.severity() > 0).collect();
        troubles.sort_by_key(|check| std::cmp::Reverse(check.severity()));
        troubles
    }

    /// Counts by verdict, such as `1 failed, 2 without evidence, 9 passed`.
    pub fn counts(&self) -> String {
        let count = |severity| self.checks.iter().filter(|check| check.severity() == severity).count();
        let [passed, unknown, failed] = [0, 1, 2].map(count);
        let told = [(failed, "failed"), (unknown, "without evidence"), (passed, "passed")].into_iter();
        let told = told.filter(|(count, word)| *count > 0 || *word == "passed");
        joined(told.map(|(count, word)| format!("{count} {word}")), ", ")
    }
}

impl CellFigures {
    pub fn name(&self) -> String {
        cell_name(&self.strategy, self.contenders)
    }

    /// Returns the metrics for services that store plain numbers, excluding lower bounds. Empty if no
    /// repetition is valid or the lock broke a promise.
    pub fn plain(&self) -> impl Iterator<Item = &TrackedValue> {
        let broken = matches!(self.verdict, Some(Verdict::Violated(_)));
        let tell = self.repetitions.sound > 0 && !broken;
        self.values.iter().filter(move |value| tell && !value.over.at_least)
    }
}

impl TrackedValue {
    /// Formats the median and the range.
    pub fn shown(&self) -> String {
        let Aggregate { median, min, max, count, at_least, .. } = self.over;
        let show = |value| self.figure.unit().show(value);
        let range = if count > 1 { format!(" ({} to {})", show(min), show(max)) } else { String::new() };
        units::at_least(show(median), at_least) + &range
    }
}

/// Returns a text without line breaks or control characters, for any output.
fn clean(text: &str) -> String {
    text.chars().map(|c| if matches!(c, '\n' | '\r' | '\t') { " ".to_owned() } else { harmless(c) }).collect()
}

const ALONE: &str = "a single contender has no other contender to exclude";
const EVERY_TRIAL: &str = "every planned trial ran";

/// Checks that all planned trials ran. No other check reports cells without trials.
fn of_whole(stored: &StoredRun) -> Check {
    let run = &stored.run;
    // A trial and its replacement count once.
    let (ran, is_short) = (trials_ran(stored), stored.trials.len() < run.planned_trials);
    let why = ended_early(stored).map(|why| clean(&why)).or_else(|| is_short.then(|| ran.clone()));
    let took = run.ended_at.duration_since(run.started_at).unwrap_or_default();
    Check::new(CheckKind::Run, EVERY_TRIAL, Verdict::unknown_if(why.into_iter().collect()), vec![ran], took)
}

fn of_row(row: &Row) -> Check {
    let word = row.compared.verdict.word();
    let said = joined(ratio(&row.compared).into_iter().chain(row.compared.why.clone()), "; ");
    let sentence = if said.is_empty() { word.to_owned() } else { format!("{word}: {said}") };
    let name = format!("{}: {}", row.cell.name(), row.figure);
    compared(CheckKind::Comparison, &name, row.compared.regression, &sentence)
}

fn compared(kind: CheckKind, name: &str, regression: Regression, said: &str) -> Check {
    let said = clean(said);
    Check::new(kind, name, regression.verdict(&said), vec![said], Duration::ZERO)
}

/// Returns the ratio as text; `None` if there is no finite ratio, or if counts are equal.
fn ratio(compared: &Compared) -> Option<String> {
    let ratio = compared.ratio.map(|ratio| ratio.value).filter(|ratio| ratio.is_finite())?;
    let is_equal = compared.method == Some(Method::Exact) && (ratio - 1.0).abs() < f64::EPSILON;
    (!is_equal).then(|| in_words(compared.scale, ratio))
}

fn of_gate(gate: &Outcome, took: Duration) -> Check {
    let seen = gate.checks.iter().map(|check| format!("{}: {}", check.word(), gate_check_told(check)));
    let kind = if gate.is_of_every_run() { CheckKind::Run } else { CheckKind::Gate };
    let verdict = gate.verdict.clone().with_reasons(|reason| clean(&reason));
    Check::new(kind, &gate_title(gate), verdict, seen.map(|line| clean(&line)).collect(), took)
}

/// Returns the verdict on a strategy's trials. For a single contender, checks only that it was measured.
fn of_lock(cell: &Cell<'_>, figures: &CellFigures) -> Check {
    let unsound = || cell.all().filter_map(Trial::unsound).map(|why| clean(&why)).collect();
    let Repetitions { ran, sound } = figures.repetitions;
    let Totals { acquired, unserved, violations, .. } = figures.totals;
    let ran = counted(ran, "repetition", "repetitions");
    let violations = counted(violations, "violation", "violations");
    let mut seen =
        vec![format!("{ran}, {sound} valid; {acquired} acquired, {unserved} unserved, {violations}")];
    let alone = || format!("{ALONE}, so the only check is that it was measured");
    seen.extend(figures.verdict.is_none().then(alone));
    seen.extend(figures.values.iter().map(|value| format!("{}: {}", value.figure, value.shown())));
    let took = Duration::from_micros(cell.sum(|one| one.measured_us));
    let verdict = figures.verdict.clone().unwrap_or_else(|| Verdict::unknown_if(unsound()));
    Check::new(CheckKind::Lock, &figures.name(), verdict, seen, took)
}

fn figures(label: &str, cell: &Cell<'_>) -> CellFigures {
    let value = |figure| Some(TrackedValue { figure, over: Aggregate::of_figure(figure, cell.counting())? });
    CellFigures {
        strategy: clean(label),
        contenders: cell.contenders,
        repetitions: Repetitions::of(cell),
        verdict: cell.verdict().map(|verdict| verdict.with_reasons(|reason| clean(&reason))),
        totals: Totals::of(cell),
        values: tracked().filter_map(value).collect(),
    }
}

fn facts(stored: &StoredRun, view: &View<'_>) -> Vec<(&'static str, String)> {
    let run = &stored.run.run;
    let facts = [
        ("scenario", run.scenario.clone()),
        ("seed", run.seed.to_string()),
        ("overrides", run.overrides.join(" ")),
        ("version", run.tool_version.clone()),
        ("commit", run.tool_commit.clone().unwrap_or_default()),
        ("host", run.host.hostname.clone()),
        ("os", run.host.os.clone()),
        ("cpu", run.host.cpu.clone()),
        ("cores", run.host.cores.to_string()),
        ("measured on", view.place_line()),
    ];
    let floor = view.floor.as_ref().and_then(|floor| floor.handoff);
    let floor = floor.map(|floor| ("floor of a handoff, p50", format_micros(floor.p50_us)));
    let told = facts.into_iter().chain(floor).filter(|(_, value)| !value.is_empty());
    told.map(|(name, value)| (name, clean(&value))).collect()
}
