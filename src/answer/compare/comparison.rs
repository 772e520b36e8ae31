//! Two sides, compared: the document that every output is made from.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, schema_for};
use serde::Serialize;

use super::cell::{CellUnderLoad, NoReadings, readings, sound};
use super::differences::{Difference, FloorRise, differences, takes_time, unsound};
use super::family::{VIOLATIONS, is_determined, usual};
use super::faster::{Faster, faster};
use super::generator::{ShareApart, shares, unless_generator};
use super::judge::{Compared, Method, Sample, Scale, exactly};
use super::losses;
use super::lost::{Repetitions, doubt, unless};
use super::side::{Loaded, Side};
use super::terms::Terms;
use super::test::{Runs, Test, judge};
use super::verdict::{ComparisonVerdict, Regression};
use crate::answer::stats::holm;
use crate::results::record::{Better, Figure, Reading, Statistic, Trial, Unit};
use crate::words::error::{Error, Exit};
use crate::words::units::{counted, grouped, shown};

/// The version of the document that this program writes.
pub const COMPARISON_SCHEMA_VERSION: u32 = 2;

/// What is asked of a comparison.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Ask {
    /// The figures to compare in every cell; the usual ones of its load where there is none.
    pub figures: Vec<Figure>,
    pub terms: Terms,
    /// Whether to compare what cannot be compared.
    pub force: bool,
}

/// Two sides, compared.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Comparison {
    /// The version of this layout: 2.
    pub schema_version: u32,
    /// What it comes to.
    pub conclusion: Conclusion,
    /// What the verdicts rest on.
    pub terms: Terms,
    /// What they are about: these runs alone, or what runs of either kind would give.
    pub about: About,
    /// How many comparisons were corrected together. What takes no test is not among them: violations, and counts that the
    /// load determines.
    pub family: usize,
    /// The base.
    pub base: SideInfo,
    /// The new.
    pub new: SideInfo,
    /// Each figure of each cell that the base has.
    pub rows: Vec<Row>,
    /// Usual figures that neither side has, because they do not apply or have too few samples.
    pub left_out: Vec<LeftOut>,
    /// Cells that only the new has: there is nothing to compare them with.
    pub only_new: Vec<CellUnderLoad>,
    /// Which strategies of the new are shown to be faster than others of it.
    pub faster: Vec<Faster>,
    /// What else differs between the sides.
    pub differences: Vec<Difference>,
    /// Trials that do not count, because they are invalid or partial.
    pub unsound: Vec<String>,
    /// What makes the comparison meaningless, and was forced all the same; empty unless it was.
    pub forced: Vec<String>,
}

/// What the verdicts of a comparison are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum About {
    /// These runs: how much others would differ was not measured.
    TheseRuns,
    /// Runs of either kind: at least one figure had enough of them for the run to be the unit.
    SuchRuns,
}

/// What a comparison comes to.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Conclusion {
    /// Whether anything is worse by more than the margin.
    pub regression: Regression,
    /// The same in a sentence, with how many comparisons came to what.
    pub sentence: String,
    /// How many comparisons came to each verdict.
    pub counts: BTreeMap<ComparisonVerdict, usize>,
    /// The exit code that it means.
    pub exit_code: u8,
}

/// One side, as the document names it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SideInfo {
    /// The directory that was named.
    pub path: String,
    /// Its runs.
    pub runs: Vec<RunInfo>,
}

/// A run, as the document names it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct RunInfo {
    /// Its directory.
    pub path: String,
    /// The scenario's name.
    pub scenario: String,
    /// When it began, in UTC.
    pub started_at: String,
    /// Version of the program.
    pub tool_version: String,
    /// Commit of the program.
    pub tool_commit: Option<String>,
    /// The generator's host.
    pub host: String,
    /// The SHA-256 of its `run.json`.
    pub digest: String,
}

/// One figure of one cell.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Row {
    /// Where.
    pub cell: CellUnderLoad,
    /// The figure's name, such as `wait.p99`.
    pub figure: String,
    /// Its unit.
    pub unit: &'static str,
    /// Which way it is better: `lower`, `higher` or `neither`.
    pub better: &'static str,
    /// What it came to.
    #[serde(flatten)]
    pub compared: Compared,
    /// The same unit, for renderers.
    #[serde(skip)]
    pub measured_in: Option<Unit>,
}

/// A figure that was not compared in a cell.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct LeftOut {
    /// Where.
    pub cell: CellUnderLoad,
    /// The figure's name.
    pub figure: String,
    /// Why, in a sentence without a full stop.
    pub why: String,
}

/// The JSON Schema of the document.
pub fn comparison_schema() -> Schema {
    schema_for!(Comparison)
}

/// Compares two sides.
///
/// # Errors
/// [`Error::Usage`] when what differs makes the comparison meaningless and it isn't forced, and when no cell is on both
/// sides.
pub fn compare(base: &Side, new: &Side, ask: &Ask) -> Result<Comparison, Error> {
    let differences = differences(base, new);
    let meaningless: Vec<String> =
        differences.iter().filter(|one| one.meaningless).map(Difference::describe).collect();
    if !meaningless.is_empty() && !ask.force {
        return Err(Error::usage(format!(
            "{} and {} cannot be compared:\n  {}\nuse --force to compare them anyway; the output will say so",
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
            "the runs share no strategy and contender count: the base has e.g. {}, the new e.g. {}",
            names(&was),
            names(&is)
        )));
    }
    let mut family = Family::default();
    for (key, repetitions) in &was {
        family.take(key, repetitions, &find(&is, key), ask);
    }
    let (rows, tested, left_out) = family.conclude(FloorRise::between(base, new));
    let about = match rows.iter().any(|row| row.compared.method == Some(Method::Runs)) {
        true => About::SuchRuns,
        false => About::TheseRuns,
    };
    Ok(Comparison {
        schema_version: COMPARISON_SCHEMA_VERSION,
        conclusion: Conclusion::of(&rows, &only_new, &about.said([base.runs.len(), new.runs.len()])),
        terms: ask.terms.clone(),
        about,
        family: tested,
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

/// Compares one figure of one cell, whose trials these are, as one of `family` comparisons: for callers that ask for no more,
/// such as a gate. Trials that are not sound do not count, and what they leave unknown is.
pub fn figure_of_cell(
    base: &Repetitions<'_>,
    new: &Repetitions<'_>,
    figure: Figure,
    terms: &Terms,
    family: usize,
) -> Compared {
    let found = match planned(figure, base, new, terms) {
        Planned::Done(compared) => *compared,
        Planned::Tested(test) => test.alone(family),
    };
    unless(doubt(base, new).as_deref(), found)
}

/// The repetitions of each cell, in the order in which the scenario names strategies, then by contenders.
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

fn find<'a>(cells: &[(CellUnderLoad, Repetitions<'a>)], key: &CellUnderLoad) -> Repetitions<'a> {
    let found = cells.iter().find(|(other, _)| other == key);
    found.map(|(_, repetitions)| repetitions.clone()).unwrap_or_default()
}

/// What there is of a figure in a cell before the family is corrected.
enum Planned {
    Done(Box<Compared>),
    Tested(Test),
}

impl Planned {
    fn done(compared: Compared) -> Self {
        Self::Done(Box::new(compared))
    }

    fn p(&self) -> Option<f64> {
        match self {
            Self::Done(_) => None,
            Self::Tested(test) => test.p(),
        }
    }

    /// Whether it is one of those that chance can make differ. A test that could not be made is.
    fn takes_a_test(&self, figure: Figure) -> bool {
        let is_exact = matches!(self, Self::Done(compared) if compared.method == Some(Method::Exact));
        figure != VIOLATIONS && !is_exact
    }
}

fn planned(figure: Figure, base: &Repetitions<'_>, new: &Repetitions<'_>, terms: &Terms) -> Planned {
    let (were, are) = (base.trials(), new.trials());
    if figure == VIOLATIONS {
        return Planned::done(violations(&were, &are, terms));
    }
    let (was, is) = (readings(&were, figure), readings(&are, figure));
    let why = match (&was, &is) {
        (Ok(was), Ok(is)) => {
            let determined =
                sound(&were).into_iter().chain(sound(&are)).all(|trial| is_determined(figure, trial));
            if determined && is_constant(was) && is_constant(is) {
                return Planned::done(exactly(was, is, figure.better()));
            }
            let runs = Runs { base: base.by_run(was), new: new.by_run(is) };
            let (better, limits) = (figure.better(), terms.of(figure));
            let scale = if losses::has(figure) { Scale::SharesLost } else { Scale::Values };
            return Planned::Tested(Test::of_runs(&runs, worse_if_more(figure, better), limits, scale));
        }
        (Err(was), Err(is)) if was == is => was.why(),
        (Err(was), Err(is)) => format!("base: {}; new: {}", was.why(), is.why()),
        (Err(why), Ok(_)) => format!("base: {}", why.why()),
        (Ok(_), Err(why)) => format!("new: {}", why.why()),
    };
    let [was, is] = [was, is].map(|side| side.map(|readings| Sample::of(&readings)).unwrap_or_default());
    Planned::done(Compared::not_measured(was, is, why))
}

/// Which way a figure is better: it is worse to lose more, also where the figure by itself is that of the load.
fn worse_if_more(figure: Figure, better: Better) -> Better {
    if losses::has(figure) { Better::Lower } else { better }
}

fn is_constant(readings: &[Reading]) -> bool {
    readings.windows(2).all(|pair| pair[0].value == pair[1].value && !pair[0].at_least && !pair[1].at_least)
}

/// The violations in the trials of a cell, those that do not count otherwise among them. One is enough: where the base
/// has none, the new is worse by any.
fn violations(base: &[&Trial], new: &[&Trial], terms: &Terms) -> Compared {
    let readings = |trials: &[&Trial]| -> Vec<Reading> {
        trials.iter().filter_map(|trial| VIOLATIONS.of(trial).ok()).collect()
    };
    let (was, is) = (readings(base), readings(new));
    let any = |readings: &[Reading]| readings.iter().any(|reading| reading.value > 0.0);
    let judged = |trials: &[&Trial]| {
        use crate::words::verdict::Verdict as Judged;
        let unknown = |trial: &&Trial| matches!(trial.judged.exclusion, Judged::Unknown(_));
        sound(trials).into_iter().find(unknown).map(|trial| {
            let why = trial.judged.exclusion.why().unwrap_or_default();
            shown(&format!("whether {} excluded is not known: {why}", trial.name()), LINE)
        })
    };
    let total = |readings: &[Reading]| {
        let value = readings.iter().map(|reading| reading.value).sum();
        [Reading { value, at_least: false, samples: None }]
    };
    let [before, after] = [total(&was), total(&is)];
    match (any(&was), any(&is)) {
        _ if was.is_empty() || is.is_empty() => {
            let why =
                if was.is_empty() { "the base has no such cell" } else { "the new run has no such cell" };
            Compared::not_measured(Sample::of(&was), Sample::of(&is), why.into())
        }
        (false, true) => exactly(&before, &after, Better::Lower),
        (true, false) | (false, false) => match judged(new).filter(|_| judged(base).is_none()) {
            Some(why) => Compared::not_measured(Sample::of(&was), Sample::of(&is), why),
            None => exactly(&before, &after, Better::Lower),
        },
        // How often a lock fails that does not exclude is chance, so it takes a test to tell.
        (true, true) => {
            let found = judge(&was, &is, Better::Lower, terms.of(VIOLATIONS), 1);
            let broken = Some("the lock does not exclude on either side".to_owned());
            let why = [broken, found.why].into_iter().flatten().collect::<Vec<_>>().join("; ");
            Compared { why: Some(why), ..found }
        }
    }
}

/// What is compared, cell by cell.
#[derive(Default)]
struct Family {
    planned: Vec<(CellUnderLoad, Figure, Planned)>,
    /// What repetitions that are lost make doubtful of all figures of a cell.
    doubts: BTreeMap<CellUnderLoad, String>,
    /// What the load generator adds to the figures of a cell, on either side.
    generator: BTreeMap<CellUnderLoad, Vec<ShareApart>>,
    left_out: Vec<LeftOut>,
}

impl Family {
    fn take(&mut self, key: &CellUnderLoad, base: &Repetitions<'_>, new: &Repetitions<'_>, ask: &Ask) {
        self.doubts.extend(doubt(base, new).map(|why| (key.clone(), why)));
        let (were, are) = (base.trials(), new.trials());
        self.generator.insert(key.clone(), shares(&were, &are));
        let is_chosen = !ask.figures.is_empty();
        let figures = if is_chosen { ask.figures.clone() } else { usual(key, &were, &are) };
        for figure in figures {
            let why = (!is_chosen).then(|| applies_to_neither(figure, &were, &are)).flatten();
            match why {
                Some(why) => {
                    self.left_out.push(LeftOut { cell: key.clone(), figure: figure.to_string(), why });
                }
                None => self.planned.push((key.clone(), figure, planned(figure, base, new, &ask.terms))),
            }
        }
        // It can't be chosen away that a lock no longer excludes.
        if !ask.figures.contains(&VIOLATIONS) {
            self.planned.push((key.clone(), VIOLATIONS, planned(VIOLATIONS, base, new, &ask.terms)));
        }
    }

    /// The rows, and how many comparisons were corrected together.
    fn conclude(self, rise: Option<FloorRise>) -> (Vec<Row>, usize, Vec<LeftOut>) {
        let p: Vec<Option<f64>> = self
            .planned
            .iter()
            .filter(|(_, figure, planned)| planned.takes_a_test(*figure))
            .map(|(.., planned)| planned.p())
            .collect();
        let family = p.len();
        let mut adjusted = holm(&p).into_iter();
        let row = |(cell, figure, planned): (CellUnderLoad, Figure, Planned)| {
            let takes_a_test = planned.takes_a_test(figure);
            let adjusted = if takes_a_test { adjusted.next().flatten() } else { None };
            let compared = match planned {
                Planned::Done(compared) => *compared,
                Planned::Tested(test) => test.conclude(adjusted, family),
            };
            let compared = match rise {
                Some(rise) => rise.unless(figure, compared),
                None => compared,
            };
            let compared = match self.generator.get(&cell) {
                Some(shares) if takes_time(figure) => unless_generator(shares, compared),
                _ => compared,
            };
            let compared = unless(self.doubts.get(&cell).map(String::as_str), compared);
            let unit = if losses::has(figure) { Unit::Share } else { figure.unit() };
            Row {
                cell,
                figure: figure.to_string(),
                unit: unit.name(),
                better: worse_if_more(figure, figure.better()).name(),
                compared,
                measured_in: Some(unit),
            }
        };
        (self.planned.into_iter().map(row).collect(), family, self.left_out)
    }
}

/// Why a usual figure is left out of a cell: sound repetitions on both sides, none of which has it, or not enough samples
/// on either. Where one side has it, it is not measured, which is another matter.
fn applies_to_neither(figure: Figure, base: &[&Trial], new: &[&Trial]) -> Option<String> {
    match (readings(base, figure), readings(new, figure)) {
        (Err(NoReadings::NotApplicable), Err(NoReadings::NotApplicable)) => {
            Some("neither side measured it".into())
        }
        (Err(was @ NoReadings::TooFew(_)), Err(NoReadings::TooFew(_))) => Some(was.why()),
        // Which tail is compared depends on how many samples there are, and whether any is does, too: of equal runs one may
        // have a sample more than it takes, and the other one less.
        (Err(few @ NoReadings::TooFew(_)), Ok(_)) | (Ok(_), Err(few @ NoReadings::TooFew(_)))
            if is_tail(figure) =>
        {
            Some(few.why())
        }
        _ => None,
    }
}

fn is_tail(figure: Figure) -> bool {
    matches!(figure, Figure::Latency(_, Statistic::Percentile(at)) if at >= 90_000)
}

/// Texts are no longer than this: a directory may have anything in it.
const LINE: usize = 300;

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
    /// In words, of so many runs of the base and of the new.
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
        for row in rows {
            *counts.entry(row.compared.verdict).or_default() += 1;
        }
        let worst = rows.iter().map(|row| row.compared.regression).max();
        let regression = worst.unwrap_or(Regression::Unknown);
        let told: Vec<String> = counts.iter().map(|(verdict, count)| format!("{count} {verdict}")).collect();
        let only_new = match only_new.len() {
            0 => String::new(),
            some => format!("; {} only the new has", counted(some, "cell", "cells")),
        };
        let what = match regression {
            Regression::Yes => "Regressed",
            Regression::Unknown => "Unknown whether anything regressed",
            Regression::No if counts.contains_key(&ComparisonVerdict::Improved) => {
                "Nothing regressed, something improved"
            }
            Regression::No => "Nothing regressed",
        };
        let of = counted(rows.len(), "comparison", "comparisons");
        Self {
            regression,
            sentence: format!("{what} {about}: of {of} {}{only_new}", told.join(", ")),
            counts,
            exit_code: regression.exit() as u8,
        }
    }

    pub fn exit(&self) -> Exit {
        self.regression.exit()
    }
}
