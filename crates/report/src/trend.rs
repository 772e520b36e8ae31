//! A figure over the runs of a store of baselines: from which run on it was another one, what makes the runs hard to compare,
//! and, for `baseline check`, whether the newest are worse than those before a change.

use std::collections::BTreeSet;
use std::time::SystemTime;

use schemars::JsonSchema;
use serde::Serialize;
use toml::Table;

use super::View;
use super::summary::Aggregate;
use zklockbench_analysis::gate::Scope;
use zklockbench_core::error::Error;
use zklockbench_core::measure::{Better, Figure, Unit};
use zklockbench_core::units::{as_utc, cell_name, counted, grouped, number, shown};
use zklockbench_core::verdict::Verdict;
use zklockbench_record::Run;
use zklockbench_results::StoredRun;
use zklockbench_stats::{change_points, median, values_at_least};

/// By which series are shuffled: the same runs always give the same answer.
const SEED: u64 = 1;

/// A figure of the cells of a scenario, run by run.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Trend {
    /// The figure's name.
    pub figure: String,
    /// Its unit.
    pub unit: Unit,
    /// The runs, in the order in which they were added.
    pub runs: Vec<TrendRun>,
    /// One for each cell.
    pub lines: Vec<TrendLine>,
    /// From which run on a cell was another one, the oldest first.
    pub changes: Vec<TrendChange>,
    /// Of how many runs on a change can be told, with so many cells.
    pub runs_at_least: usize,
    /// What makes the runs hard to compare, each in one sentence without a full stop.
    pub notes: Vec<String>,
    #[serde(skip)]
    of: Figure,
    #[serde(skip)]
    scope: Scope,
    /// What should be the same in all runs.
    #[serde(skip)]
    conditions: Vec<Conditions>,
}

/// One run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TrendRun {
    /// The commit of what was measured.
    pub commit: String,
    /// When it began; a label.
    #[serde(with = "as_utc")]
    #[schemars(with = "String")]
    pub started_at: SystemTime,
    /// The name of the generator's host.
    pub host: String,
}

/// One strategy at one number of contenders.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TrendLine {
    /// The strategy's label.
    pub strategy: String,
    /// Contenders.
    pub contenders: usize,
    /// What the sound repetitions of each run gave, in the order of the runs; `None` where they gave nothing.
    pub points: Vec<Option<Aggregate>>,
    /// Whether the newest run has such a cell.
    #[serde(skip)]
    pub is_current: bool,
}

/// From a run on, a figure of a cell was another one.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TrendChange {
    /// The strategy's label.
    pub strategy: String,
    /// Contenders.
    pub contenders: usize,
    /// The place of that run among all, counted from 0.
    pub run: usize,
    /// Its commit.
    pub commit: String,
    /// When it began; a label.
    #[serde(with = "as_utc")]
    #[schemars(with = "String")]
    pub started_at: SystemTime,
    /// The median of the runs from then on, until the next change, divided by that of those before; null where that is 0.
    #[schemars(with = "Option<f64>")]
    pub times: f64,
    /// The median of the runs since the last change of that cell, divided by that of those before this one: what is left of
    /// it; null where that is 0.
    #[schemars(with = "Option<f64>")]
    pub now: f64,
    /// The probability of a change as clear or clearer where nothing changes.
    pub p: f64,
    /// Whether no change of that cell came after it.
    pub is_last: bool,
}

impl TrendChange {
    /// Whether the figure is worse by more than that share than it was before, and still is: a later change may have mended it,
    /// and several that are small by themselves may come to more.
    pub fn is_worse(&self, better: Better, margin: f64) -> bool {
        match better {
            Better::Lower => self.now > 1.0 + margin,
            Better::Higher => self.now < 1.0 / (1.0 + margin),
            Better::Neither => false,
        }
    }

    /// In a sentence without a full stop.
    pub fn sentence(&self, figure: &str) -> String {
        let by_now =
            if self.is_last { String::new() } else { format!("; by now {} times", number(self.now)) };
        format!(
            "{}: {figure} is {} times what it was from {} of {} on (p {}){by_now}",
            cell_name(&self.strategy, self.contenders),
            number(self.times),
            shown(&self.commit, 12),
            date(self.started_at),
            number(self.p)
        )
    }
}

pub fn date(time: SystemTime) -> String {
    humantime::format_rfc3339_seconds(time).to_string().chars().take(10).collect()
}

/// What should be the same in all runs, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Conditions {
    host: String,
    zookeeper: String,
    placement: String,
    tool: String,
    scenario: String,
}

impl Conditions {
    fn of(run: &Run) -> Self {
        let host = &run.host;
        let cpu = if host.cpu.is_empty() { "an unknown processor" } else { host.cpu.as_str() };
        Self {
            host: format!("{} ({} x {cpu})", host.hostname, host.cores),
            zookeeper: run.ensemble.versions().join(", "),
            placement: run.ensemble.placement.clone(),
            tool: run.tool_version.clone(),
            scenario: without_gates(&run.scenario_text),
        }
    }
}

/// What a scenario asks to be measured: gates judge it afterwards, and a store's first run has none about a baseline.
fn without_gates(scenario: &str) -> String {
    let Ok(mut table) = scenario.parse::<Table>() else { return scenario.to_owned() };
    table.remove("gate");
    table.to_string()
}

impl Trend {
    /// How often a change may be named where there is none, over all cells of a figure.
    pub const ALPHA: f64 = 0.05;

    /// Of a figure in those cells, over no run yet.
    pub fn new(figure: Figure, scope: Scope) -> Self {
        Self {
            figure: figure.to_string(),
            unit: figure.unit(),
            runs: Vec::new(),
            lines: Vec::new(),
            changes: Vec::new(),
            runs_at_least: values_at_least(Self::ALPHA),
            notes: Vec::new(),
            of: figure,
            scope,
            conditions: Vec::new(),
        }
    }

    /// Adds the run after all others.
    pub fn add(&mut self, commit: &str, stored: &StoredRun) {
        let before = self.runs.len();
        self.lines.iter_mut().for_each(|line| line.is_current = false);
        self.runs.push(TrendRun {
            commit: commit.to_owned(),
            started_at: stored.run.started_at,
            host: stored.run.host.hostname.clone(),
        });
        self.conditions.push(Conditions::of(&stored.run));
        let view = View::of(stored);
        for cell in &view.cells {
            let (strategy, contenders) = (view.label(cell), cell.contenders);
            if !self.scope.covers(strategy, contenders) {
                continue;
            }
            let own = |line: &TrendLine| line.strategy == strategy && line.contenders == contenders;
            let at = self.lines.iter().position(own).unwrap_or_else(|| {
                let points = vec![None; before];
                let strategy = strategy.to_owned();
                self.lines.push(TrendLine { strategy, contenders, points, is_current: true });
                self.lines.len() - 1
            });
            let sound = cell.all().filter(|trial| trial.is_sound());
            self.lines[at].points.push(Aggregate::of_figure(self.of, sound));
            self.lines[at].is_current = true;
        }
        // Cells that this run does not have.
        self.lines.iter_mut().for_each(|line| line.points.resize(before + 1, None));
        self.notes = self.differences();
    }

    /// Says, once all runs are there, from which on a cell was another one. There are as many chances to be wrong as cells, so
    /// that each has its part of `alpha`.
    pub fn concluded(mut self, alpha: f64) -> Self {
        let each = alpha / self.lines.len().max(1) as f64;
        self.runs_at_least = values_at_least(each);
        self.changes = self.lines.iter().flat_map(|line| self.changes_of(line, each)).collect();
        self.changes.sort_by_key(|change| change.run);
        self
    }

    /// Whether any run has a value of it: a figure need not apply to a load.
    pub fn applies(&self) -> bool {
        self.lines.iter().any(|line| line.points.iter().any(Option::is_some))
    }

    /// The cells of the newest run that have fewer values than it takes to tell a change, each in one sentence without a full
    /// stop.
    pub(super) fn too_short(&self) -> Vec<String> {
        let current = self.lines.iter().filter(|line| line.is_current);
        let counts = current.map(|line| (line, line.points.iter().flatten().count()));
        let told = |(line, count): (&TrendLine, usize)| {
            let (has, needed) = (counted(count, "value", "values"), self.runs_at_least);
            format!("{} of {}: {has}, and it takes {needed} to tell a change", self.figure, line.label())
        };
        counts.filter(|(_, count)| *count < self.runs_at_least).map(told).collect()
    }

    fn changes_of(&self, line: &TrendLine, alpha: f64) -> Vec<TrendChange> {
        let there =
            line.points.iter().enumerate().filter_map(|(run, point)| Some((run, point.as_ref()?.median)));
        let (runs, medians): (Vec<usize>, Vec<f64>) = there.unzip();
        // A change is one by a factor, wherever there is one.
        let has_logs = medians.iter().all(|median| *median > 0.0);
        let values: Vec<f64> =
            medians.iter().map(|median| if has_logs { median.ln() } else { *median }).collect();
        let found = change_points(&values, alpha, SEED);
        let newest = found.last().and_then(|last| median(&medians[last.at..]));
        let ends = found.iter().skip(1).map(|change| change.at).chain([medians.len()]);
        let begins = std::iter::once(0).chain(found.iter().map(|change| change.at));
        let parts = found.iter().zip(begins.zip(ends));
        parts
            .enumerate()
            .filter_map(|(at, (change, (from, to)))| {
                let (before, after) = (median(&medians[from..change.at])?, median(&medians[change.at..to])?);
                let run = &self.runs[runs[change.at]];
                Some(TrendChange {
                    strategy: line.strategy.clone(),
                    contenders: line.contenders,
                    run: runs[change.at],
                    commit: run.commit.clone(),
                    started_at: run.started_at,
                    times: after / before,
                    now: newest? / before,
                    p: change.p,
                    is_last: at + 1 == found.len(),
                })
            })
            .collect()
    }

    fn differences(&self) -> Vec<String> {
        let differ = |what: &str, of: fn(&Conditions) -> &String| {
            let all = grouped(self.conditions.iter().map(|one| (of(one), ())));
            let told = |runs: &Vec<()>| counted(runs.len(), "run", "runs");
            let each = all.iter().map(|(value, runs)| format!("{} on {value}", told(runs)));
            (all.len() > 1).then(|| format!("{what}: {}", each.collect::<Vec<_>>().join("; ")))
        };
        let scenarios: BTreeSet<&String> = self.conditions.iter().map(|one| &one.scenario).collect();
        let changed = (scenarios.len() > 1)
            .then(|| format!("the scenario was changed between runs: {} texts of it", scenarios.len()));
        let empty = self.lines.iter().flat_map(|line| &line.points).filter(|point| point.is_none()).count();
        let gaps = (empty > 0).then(|| {
            let gaps = counted(empty, "value is", "values are");
            format!("{gaps} missing: not run, not measured, or of trials that are invalid or partial")
        });
        [
            differ("the hosts differ, and with them everything that takes time", |one| &one.host),
            differ("the versions of ZooKeeper differ", |one| &one.zookeeper),
            differ("the servers' data were in different places", |one| &one.placement),
            differ("the versions of zklockbench differ", |one| &one.tool),
            changed,
            gaps,
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

impl TrendLine {
    pub fn label(&self) -> String {
        cell_name(&self.strategy, self.contenders)
    }
}

/// A change that `baseline check` found.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CheckedChange {
    /// The figure's name.
    pub figure: String,
    /// Whether the figure is worse by more than the margin since then, still is, and the change is not accepted.
    pub fails: bool,
    /// What changed.
    #[serde(flatten)]
    pub change: TrendChange,
}

/// What the trends of some figures over the same runs come to.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckedTrends {
    pub changes: Vec<CheckedChange>,
    /// What makes the runs hard to compare, and of what there are too few values, each in one sentence without a full stop.
    pub notes: Vec<String>,
    /// Held where nothing is worse and a change could have been told in every line of the newest run. What has no value is no
    /// evidence that nothing changed.
    pub verdict: Verdict,
    /// The same in one sentence without a full stop.
    pub sentence: String,
}

impl CheckedTrends {
    /// Of trends that are not concluded, over the same runs; the changes up to the run of that place are accepted.
    ///
    /// # Errors
    /// [`Error::Usage`] of a figure of which neither way is worse.
    pub fn of(trends: Vec<Trend>, accepted: usize, margin: f64) -> Result<Self, Error> {
        if let Some(of_load) = trends.iter().find(|trend| trend.of.better() == Better::Neither) {
            return Err(Error::usage(format!(
                "`{}` belongs to the load: neither more nor less of it is worse; name a figure of the lock, e.g. wait.p99",
                of_load.figure
            )));
        }
        let each = Trend::ALPHA / trends.len().max(1) as f64;
        let trends: Vec<Trend> = trends.into_iter().map(|trend| trend.concluded(each)).collect();
        let runs = trends.iter().map(|trend| trend.runs.len()).max().unwrap_or(0);
        let runs_at_least = trends.iter().map(|trend| trend.runs_at_least).max().unwrap_or(0);
        let all = trends.iter().flat_map(|trend| trend.changes.iter().map(move |change| (trend, change)));
        let checked = |(trend, change): (&Trend, &TrendChange)| CheckedChange {
            figure: trend.figure.clone(),
            fails: change.run >= accepted && change.is_worse(trend.of.better(), margin),
            change: change.clone(),
        };
        let changes: Vec<CheckedChange> = all.map(checked).collect();
        let has = counted(runs, "run", "runs");
        let is_long_enough = runs >= runs_at_least;
        let too_short = |trend: &Trend| if is_long_enough { trend.too_short() } else { Vec::new() };
        let too_short: Vec<String> = trends.iter().flat_map(too_short).collect();
        let has_lines = trends.iter().any(|trend| trend.lines.iter().any(|line| line.is_current));
        let unknown = if !is_long_enough {
            Some(format!("{has}, and it takes {runs_at_least} to tell a change"))
        } else if !has_lines {
            Some("the newest run has none of these figures".to_owned())
        } else {
            let lines = counted(too_short.len(), "line has", "lines have");
            (!too_short.is_empty()).then(|| format!("{lines} too few values over {has} to tell a change"))
        };
        let (verdict, sentence) = match (changes.iter().filter(|one| one.fails).count(), unknown) {
            (0, None) => (Verdict::Held, format!("No change for the worse over {has}")),
            (0, Some(why)) => (Verdict::Unknown(vec![why.clone()]), format!("Unknown: {why}")),
            (fails, _) => {
                let worse = format!("Worse than before {}", counted(fails, "change", "changes"));
                (Verdict::Violated(vec![worse.clone()]), worse)
            }
        };
        let of_runs = trends.first().map_or_else(Vec::new, |trend| trend.notes.clone());
        Ok(Self { changes, notes: [of_runs, too_short].concat(), verdict, sentence })
    }

    pub fn told(&self) -> String {
        let changes = self.changes.iter().map(|one| {
            let mark = if one.fails { "! " } else { "" };
            format!("{mark}{}.", one.change.sentence(&one.figure))
        });
        let notes = self.notes.iter().map(|note| format!("! {note}"));
        let first = std::iter::once(format!("{}.", self.sentence));
        first.chain(changes).chain(notes).collect::<Vec<_>>().join("\n")
    }
}
