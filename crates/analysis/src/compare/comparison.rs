//! Comparison of two sides, from which every output is rendered.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::both_sides::{BothSides, PlannedRow, together};
use super::differences::{Difference, FloorRise, differences, unsound};
use super::faster::{Faster, faster};
use super::figures::{
    Chosen, NoReadings, Role, VIOLATIONS, better_of, chosen, counts_losses, losses_in_family, readings,
    unit_of,
};
use super::judge::{
    Compared, ComparisonVerdict, Method, Regression, Scale, Terms, farthest_from_one, more_lost,
};
use super::side::{CellUnderLoad, LINE, Loaded, Repetitions, Side};
use zklockbench_core::error::{Error, Exit};
use zklockbench_core::units::{self, counted, grouped, shown};
use zklockbench_record::{Figure, Statistic, Trial, Unit};

const SCHEMA_VERSION: u32 = 3;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Ask {
    /// Metrics to compare in every cell; empty for the load's default metrics.
    pub figures: Vec<Figure>,
    pub terms: Terms,
    /// Whether to compare the sides despite differences that make the comparison meaningless.
    pub force: bool,
}

/// A comparison of two sides.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Comparison {
    /// The version of this layout: 3.
    pub schema_version: u32,
    /// Overall result.
    pub conclusion: Conclusion,
    /// Rules of the verdicts.
    pub terms: Terms,
    /// Scope of the verdicts: only these runs, or runs like these in general.
    pub about: About,
    /// Number of deciding comparisons, which are corrected together. Violations, and counts that the load
    /// determines, need no test and are excluded. Losses and informational metrics are corrected separately.
    pub family: usize,
    /// The base side.
    pub base: SideInfo,
    /// The new side.
    pub new: SideInfo,
    /// One row for each metric of each base cell.
    pub rows: Vec<Row>,
    /// Default metrics that were not compared, because they do not apply or have too few samples.
    pub left_out: Vec<LeftOut>,
    /// Cells that only the new side has, which cannot be compared.
    pub only_new: Vec<CellUnderLoad>,
    /// Strategies of the new side that are proven to be faster than others of that side.
    pub faster: Vec<Faster>,
    /// Other differences between the sides.
    pub differences: Vec<Difference>,
    /// Trials that do not count, because they are invalid or partial.
    pub unsound: Vec<String>,
    /// Differences that make a forced comparison meaningless; empty otherwise.
    pub forced: Vec<String>,
}

/// Scope of the verdicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum About {
    /// Only these runs: the variation of other runs was not measured.
    TheseRuns,
    /// Runs like these in general: there were enough runs to use the run as the unit of every deciding test.
    SuchRuns,
}

/// Overall result of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Conclusion {
    /// Whether anything is worse by more than the margin.
    pub regression: Regression,
    /// The outcome in a sentence, with the number of comparisons for each verdict.
    pub sentence: String,
    /// Number of deciding comparisons for each verdict.
    pub counts: BTreeMap<ComparisonVerdict, usize>,
    /// Exit code for this result.
    pub exit_code: u8,
}

/// One side in the document.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SideInfo {
    /// Directory of the side.
    pub path: String,
    /// Runs of the side.
    pub runs: Vec<RunInfo>,
}

/// A run in the document.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct RunInfo {
    /// Directory of the run.
    pub path: String,
    /// Name of the scenario.
    pub scenario: String,
    /// Start time, in UTC.
    pub started_at: String,
    /// Version of the program.
    pub tool_version: String,
    /// Commit of the program.
    pub tool_commit: Option<String>,
    /// Host of the generator.
    pub host: String,
    /// SHA-256 of the run's `run.json`.
    pub digest: String,
}

/// One metric of one cell, or of several cells together.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Row {
    /// The cell.
    pub cell: CellUnderLoad,
    /// Strategies in the geometric mean; empty for a single strategy.
    pub strategies: Vec<String>,
    /// Name of the metric, such as `wait.p99`.
    pub figure: String,
    pub unit: &'static str,
    /// Better direction: `lower`, `higher` or `neither`.
    pub better: &'static str,
    /// Whether the metric affects the conclusion.
    pub role: Role,
    /// Comparison of both sides.
    #[serde(flatten)]
    pub compared: Compared,
    /// The unit, for renderers.
    #[serde(skip)]
    pub measured_in: Unit,
}

/// A metric that was not compared in a cell.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct LeftOut {
    /// The cell.
    pub cell: CellUnderLoad,
    /// Name of the metric.
    pub figure: String,
    /// Reason, in a sentence without a full stop.
    pub why: String,
}

/// Compares two sides.
///
/// # Errors
/// [`Error::Usage`] if the sides share no cell, or are not comparable and `force` is not set.
pub fn compare(base: &Side, new: &Side, ask: &Ask) -> Result<Comparison, Error> {
    let differences = differences(base, new);
    let meaningless: Vec<String> =
        differences.iter().filter(|one| one.meaningless).map(Difference::describe).collect();
    if !meaningless.is_empty() && !ask.force {
        return Err(Error::usage(format!(
            "{} and {} cannot be compared:\n  {}\nuse --force to compare anyway; the output will mention it",
            base.path.display(),
            new.path.display(),
            meaningless.join("\n  ")
        )));
    }
    let (was, is) = (cells(base), cells(new));
    let key_of = |(key, _): &(CellUnderLoad, Repetitions<'_>)| key.clone();
    let only_new: Vec<CellUnderLoad> =
        is.iter().map(key_of).filter(|key| find(&was, key).trials().is_empty()).collect();
    if is.iter().all(|(key, _)| only_new.contains(key)) {
        let names = |cells: &[(CellUnderLoad, Repetitions<'_>)]| {
            cells.first().map_or_else(|| "no trial".to_owned(), |(key, _)| key.name())
        };
        return Err(Error::usage(format!(
            "the runs have no combination of strategy and contenders in common: the base has, for example, {}, \
             and the new run {}",
            names(&was),
            names(&is)
        )));
    }
    let floor = FloorRise::between(base, new, &differences);
    let pairs = was.into_iter().map(|(key, was)| {
        let is = find(&is, &key);
        (key, BothSides::of(was, is, floor))
    });
    let pairs: Vec<(CellUnderLoad, BothSides<'_>)> = pairs.collect();
    let mut planned = together(&pairs, &ask.figures, &ask.terms);
    let mut left_out = Vec::new();
    for (key, pair) in &pairs {
        plan(key, pair, ask, &mut planned, &mut left_out);
    }
    // A cell without a counterpart is not compared, but its violations still count.
    for (key, are) in is.iter().filter(|(key, are)| only_new.contains(key) && any_violation(are)) {
        let pair = BothSides::of(Repetitions::default(), are.clone(), None);
        planned.push(planned_row(key, &pair, DECIDING_VIOLATIONS, ask));
    }
    let losses = pairs.iter().map(|(key, _)| losses_in_family(&ask.figures, key)).sum();
    let (rows, deciding) = conclude(planned, losses);
    let about = About::of(&rows);
    Ok(Comparison {
        schema_version: SCHEMA_VERSION,
        conclusion: Conclusion::of(&rows, &only_new, &about.said([base.runs.len(), new.runs.len()])),
        terms: ask.terms.clone(),
        about,
        family: deciding,
        base: info(base),
        new: info(new),
        rows,
        left_out,
        only_new,
        faster: faster(new, ask.terms.alpha),
        differences,
        unsound: [unsound(base), unsound(new)].concat(),
        forced: meaningless,
    })
}

/// Returns the repetitions of each cell, in the scenario's order of strategies, then by contenders.
pub(super) fn cells(side: &Side) -> Vec<(CellUnderLoad, Repetitions<'_>)> {
    let keys = grouped(side.trials().map(|trial| (CellUnderLoad::of(trial), ()))).into_iter();
    let of = |(key, _): (CellUnderLoad, _)| {
        let repetitions = side.repetitions(|trial| CellUnderLoad::of(trial) == key);
        (key, repetitions)
    };
    let mut cells: Vec<_> = keys.map(of).collect();
    let labels: Vec<&String> = side.runs.iter().flat_map(|run| &run.stored.run.strategies).collect();
    let position = |key: &CellUnderLoad| labels.iter().position(|label| **label == key.strategy);
    cells.sort_by_key(|(key, _)| (position(key), key.contenders, key.load.clone(), key.locks));
    cells
}

fn any_violation(repetitions: &Repetitions<'_>) -> bool {
    repetitions.trials().iter().any(|trial| trial.violation_count > 0)
}

fn find<'a>(cells: &[(CellUnderLoad, Repetitions<'a>)], key: &CellUnderLoad) -> Repetitions<'a> {
    let found = cells.iter().find(|(other, _)| other == key);
    found.map(|(_, repetitions)| repetitions.clone()).unwrap_or_default()
}

const DECIDING_VIOLATIONS: Chosen = Chosen { figure: VIOLATIONS, role: Role::Decides };

fn plan(
    key: &CellUnderLoad,
    pair: &BothSides<'_>,
    ask: &Ask,
    planned: &mut Vec<PlannedRow>,
    left_out: &mut Vec<LeftOut>,
) {
    let (were, are) = (pair.base.trials(), pair.new.trials());
    let is_asked_for = !ask.figures.is_empty();
    for chosen in chosen(&ask.figures, key, &were, &are) {
        let why = (!is_asked_for).then(|| applies_to_neither(chosen.figure, &were, &are)).flatten();
        match why {
            Some(why) => {
                let figure = chosen.figure.to_string();
                left_out.push(LeftOut { cell: key.clone(), figure, why });
            }
            None => planned.push(planned_row(key, pair, chosen, ask)),
        }
    }
    // Violations are always compared, even if other metrics were selected.
    if !ask.figures.contains(&VIOLATIONS) {
        planned.push(planned_row(key, pair, DECIDING_VIOLATIONS, ask));
    }
}

fn planned_row(key: &CellUnderLoad, pair: &BothSides<'_>, chosen: Chosen, ask: &Ask) -> PlannedRow {
    let planned = pair.plan(chosen.figure, &ask.terms);
    let (cell, caveats) = (key.clone(), pair.caveats.clone());
    PlannedRow { cell, strategies: Vec::new(), chosen, planned, caveats }
}

/// Returns the verdicts, and the number of deciding comparisons that were corrected together. The family of
/// `losses` comparisons also contains losses that no trial has, so that its size does not depend on the values.
fn conclude(planned: Vec<PlannedRow>, losses: usize) -> (Vec<Row>, usize) {
    // Losses and informational metrics form separate families, so that they do not weaken the deciding metrics.
    let [deciding, shown] = [Role::Decides, Role::Shown].map(|role| {
        let of_role = planned.iter().filter(|row| row.chosen.role == role);
        let tested = of_role.filter(|row| row.planned.takes_a_test(row.chosen.figure));
        tested.filter(|row| !counts_losses(row.chosen.figure)).count()
    });
    let row = |row: PlannedRow| {
        let family = match row.chosen {
            Chosen { figure, .. } if counts_losses(figure) => losses,
            Chosen { role: Role::Decides, .. } => deciding,
            Chosen { role: Role::Shown, .. } => shown,
        };
        row.conclude(family)
    };
    (planned.into_iter().map(row).collect(), deciding)
}

impl PlannedRow {
    fn conclude(self, family: usize) -> Row {
        let Chosen { figure, role } = self.chosen;
        let compared = self.planned.conclude(family);
        let unit = unit_of(figure);
        Row {
            cell: self.cell,
            strategies: self.strategies,
            figure: figure.to_string(),
            unit: unit.name(),
            better: better_of(figure).name(),
            role,
            compared: self.caveats.allow(figure, compared),
            measured_in: unit,
        }
    }
}

/// Explains why a default metric is omitted for a cell: neither side has the metric, or a side has too few
/// samples for it. A metric that only one side has is *not measured* instead.
fn applies_to_neither(figure: Figure, base: &[&Trial], new: &[&Trial]) -> Option<String> {
    match (readings(base, figure), readings(new, figure)) {
        (Err(NoReadings::NotApplicable), Err(NoReadings::NotApplicable)) => {
            Some("neither side measured this metric".into())
        }
        (Err(was @ NoReadings::TooFew(_)), Err(NoReadings::TooFew(_))) => Some(was.why()),
        // A tail percentile needs many samples, so one of two equal runs may have enough, and the other too
        // few.
        (Err(few @ NoReadings::TooFew(_)), Ok(_)) | (Ok(_), Err(few @ NoReadings::TooFew(_))) if matches!(figure, Figure::Latency(_, Statistic::Percentile(at)) if at >= 90_000) => {
            Some(few.why())
        }
        _ => None,
    }
}

fn info(side: &Side) -> SideInfo {
    let run = |Loaded { path, stored }: &Loaded| RunInfo {
        path: shown(&path.display().to_string(), LINE),
        scenario: shown(&stored.run.scenario, LINE),
        started_at: humantime::format_rfc3339_seconds(stored.run.started_at).to_string(),
        tool_version: shown(&stored.run.tool_version, LINE),
        tool_commit: stored.run.tool_commit.as_ref().map(|commit| shown(commit, LINE)),
        host: shown(&stored.run.host.hostname, LINE),
        digest: stored.run.digest.clone(),
    };
    SideInfo {
        path: shown(&side.path.display().to_string(), LINE),
        runs: side.runs.iter().map(run).collect(),
    }
}

impl About {
    fn of(rows: &[Row]) -> Self {
        // If all repetitions have the same value, for example zero, either unit gives the same result.
        let differs = |row: &&Row| row.compared.ratio.is_none_or(|ratio| ratio.low != ratio.high);
        let deciding = rows.iter().filter(|row| row.role == Role::Decides);
        let by_runs = deciding.clone().any(|row| row.compared.method == Some(Method::Runs));
        let by_repetitions =
            deciding.filter(differs).any(|row| row.compared.method == Some(Method::Repetitions));
        if by_runs && !by_repetitions { Self::SuchRuns } else { Self::TheseRuns }
    }

    /// Describes the scope, given the numbers of base and new runs.
    fn said(self, [base, new]: [usize; 2]) -> String {
        match (self, base + new) {
            (Self::TheseRuns, 2) => "between these two runs".to_owned(),
            (Self::TheseRuns, _) => "between these runs".to_owned(),
            (Self::SuchRuns, _) => format!("over {} against {new}", counted(base, "run", "runs")),
        }
    }
}

impl Conclusion {
    fn of(rows: &[Row], only_new: &[CellUnderLoad], about: &str) -> Self {
        let mut counts: BTreeMap<ComparisonVerdict, usize> = BTreeMap::new();
        let (deciding, shown): (Vec<&Row>, Vec<&Row>) =
            rows.iter().partition(|row| row.role == Role::Decides);
        for row in &deciding {
            *counts.entry(row.compared.verdict).or_default() += 1;
        }
        let worst = deciding.iter().map(|row| row.compared.regression).max();
        let regression = worst.unwrap_or(Regression::Unknown);
        let told: Vec<String> = counts.iter().map(|(verdict, count)| format!("{count} {verdict}")).collect();
        let shown = only_shown(&shown);
        let only_new = match only_new.len() {
            0 => String::new(),
            some => format!("; {} only in the new run", counted(some, "cell", "cells")),
        };
        let what = match regression {
            Regression::Yes => "Regressed",
            Regression::Unknown => "Unknown whether anything regressed",
            Regression::No if counts.contains_key(&ComparisonVerdict::Improved) => {
                "Nothing regressed, something improved"
            }
            Regression::No => "Nothing regressed",
        };
        let most = most_changed(&deciding, regression).map_or_else(String::new, |most| format!("{most}; "));
        let of = counted(deciding.len(), "comparison", "comparisons");
        Self {
            regression,
            sentence: format!("{what} {about}: {most}of {of}, {}{shown}{only_new}", told.join(", ")),
            counts,
            exit_code: regression.exit() as u8,
        }
    }

    pub fn exit(&self) -> Exit {
        self.regression.exit()
    }
}

/// Returns the metric that regressed most or, without a regression, improved most; `None` if the result is
/// unknown.
fn most_changed(deciding: &[&Row], regression: Regression) -> Option<String> {
    let wanted = match regression {
        Regression::Yes => ComparisonVerdict::Regressed,
        Regression::No => ComparisonVerdict::Improved,
        Regression::Unknown => return None,
    };
    let changed = deciding.iter().filter(|row| row.compared.verdict == wanted);
    let ratios = changed.filter_map(|row| Some((row, row.compared.ratio?.value)));
    let (row, ratio) = farthest_from_one(ratios)?;
    let change = match row.compared.scale {
        Scale::Values => units::changed(ratio),
        Scale::SharesLost => more_lost(ratio),
    };
    Some(format!("{} of {} {change}", row.figure, row.cell.name()))
}

/// Describes the number of informational metrics, and how many of them regressed.
fn only_shown(rows: &[&Row]) -> String {
    let worse = rows.iter().filter(|row| row.compared.regression == Regression::Yes).count();
    match (rows.len(), worse) {
        (0, _) => String::new(),
        (count, 0) => format!("; {count} more are informational"),
        (count, worse) => format!("; {count} more are informational, of which {worse} regressed"),
    }
}
