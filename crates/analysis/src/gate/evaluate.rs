//! Evaluates a scenario's gates against its run, and checks during the run whether each gate can still pass.

use std::collections::BTreeMap;

use super::baseline::{ComparedFigure, GateFamily, Sides};
use super::observe::{CellReadings, Worst};
use super::{Check, Limit, Observed, Outcome, rank};
use crate::compare::{Block, Compared, Limits, Test};
use crate::objective;
use zklockbench_core::measure::{Better, Figure, Measure};
use zklockbench_core::units::{cell_name, counted, distinct, format_micros, number};
use zklockbench_core::verdict::Verdict;
use zklockbench_record::{CellKey, Floor, Reading, Trial, figures};
use zklockbench_results::StoredRun;
use zklockbench_scenario::gate::{
    Across, Condition, Gate, Limit as Written, Reference, Relation, Rule, Scope, Subject,
};
use zklockbench_stats::{Design, Interval, Position};

/// A run's gates, and the results that decide them.
pub struct Evaluation<'a> {
    pub gates: &'a [Gate],
    /// Every cell of the scenario, including those that never ran.
    pub cells: &'a [CellKey],
    /// Planned minimum number of repetitions of each cell.
    pub repetitions: usize,
    pub stored: &'a StoredRun,
    /// The run and its baseline; `None` if there is no baseline.
    pub baseline: Option<Sides<'a>>,
}

impl Evaluation<'_> {
    /// Returns the outcomes of the gates, worst first, including the implicit exclusion gate with `verdict`.
    pub fn outcomes(&self, verdict: &Verdict) -> Vec<Outcome> {
        let mut outcomes = vec![self.exclusion(verdict)];
        let family = self.baseline.map(|sides| GateFamily::of(sides, self.compared()));
        outcomes.extend(self.gates.iter().map(|gate| self.outcome(gate, family.as_ref())));
        super::worst_first(&mut outcomes);
        outcomes
    }

    /// Returns the outcome of the implicit exclusion gate.
    fn exclusion(&self, verdict: &Verdict) -> Outcome {
        let mut checks: Vec<Check> =
            self.cells.iter().filter_map(|cell| exclusion(cell, &self.stored.trials)).collect();
        checks.sort_by_key(|check| rank(&check.verdict));
        Outcome {
            gate: Outcome::EXCLUSION.into(),
            name: None,
            scope: Scope::default(),
            verdict: verdict.clone(),
            checks,
        }
    }

    /// Returns the number of comparisons with the baseline, without duplicates.
    fn compared(&self) -> usize {
        let conditions = self.gates.iter().map(|gate| &gate.condition).filter(|one| one.needs_baseline());
        let cells = conditions.flat_map(|condition| {
            let Subject { figure, scope } = &condition.subject;
            self.covered(scope).map(move |cell| (*figure, cell))
        });
        distinct(cells).len()
    }

    fn covered<'s>(&'s self, scope: &'s Scope) -> impl Iterator<Item = &'s CellKey> {
        self.cells.iter().filter(move |cell| scope.covers(&cell.strategy, cell.contenders))
    }

    fn outcome(&self, gate: &Gate, family: Option<&GateFamily<'_>>) -> Outcome {
        let subject = &gate.condition.subject;
        let covered = self.covered(&subject.scope);
        let mut checks: Vec<Weighed> =
            covered.filter_map(|cell| self.check(&gate.condition, cell, family)).collect();
        checks.sort_by(|a, b| {
            let by_verdict = rank(&a.check.verdict).cmp(&rank(&b.check.verdict));
            by_verdict.then(b.weight.total_cmp(&a.weight))
        });
        let with_place = |Weighed { check, .. }: &Weighed| {
            let place = cell_name(&check.strategy, check.contenders);
            check.verdict.clone().with_reasons(|reason| format!("{place}: {reason}"))
        };
        let verdict = checks.iter().map(with_place).reduce(Verdict::and);
        let about_nothing = || Verdict::unknown("nothing in the scenario matches the gate");
        Outcome {
            gate: gate.condition.to_string(),
            name: gate.name.clone(),
            scope: subject.scope.clone(),
            verdict: verdict.unwrap_or_else(about_nothing),
            checks: checks.into_iter().map(|weighed| weighed.check).collect(),
        }
    }

    /// Checks one cell; `None` for the cell with which the others are compared.
    fn check(
        &self,
        condition: &Condition,
        cell: &CellKey,
        family: Option<&GateFamily<'_>>,
    ) -> Option<Weighed> {
        let figure = condition.subject.figure;
        match &condition.rule {
            Rule::NotRegressed { percent } => Some(self.against_baseline(figure, cell, *percent, family)),
            Rule::Compare(relation, limit) => {
                let bound = self.bound(figure, cell, limit)?;
                let at = bound.limit.unwrap_or(0.0);
                let worst = match condition.across.unwrap_or(Across::usual(figure)) {
                    Across::Every => Worst::Of(*relation, at),
                    Across::Median => Worst::Median,
                };
                let seen = CellReadings::of(figure, cell, self.stored, self.repetitions, worst);
                let weighed = judge(cell, *relation, matches!(worst, Worst::Of(..)), seen, bound);
                Some(match limit {
                    Written::Times(factor, Reference::Figure(subject)) => {
                        let other = self.other_cell(cell, subject);
                        let other_figure = subject.figure;
                        let (relation, factor) = (*relation, *factor);
                        let cells = ComparedCells { cell, figure, other, other_figure, relation, factor };
                        self.beyond_chance(weighed, &cells)
                    }
                    Written::Value(_) | Written::Times(_, Reference::Floor) => weighed,
                })
            }
        }
    }

    /// Decides a relation between two interleaved cells of one run from the interval of their ratio. Constant
    /// values need no interval: two repetitions suffice for a count, but a measured metric needs three, because
    /// two measured values may be equal by chance.
    fn beyond_chance(&self, found: Weighed, cells: &ComparedCells<'_>) -> Weighed {
        let blocks = self.blocks(cells);
        let is_constant = |of: fn(&Block) -> f64| blocks.windows(2).all(|pair| of(&pair[0]) == of(&pair[1]));
        let enough = if cells.figure.is_count() && cells.other_figure.is_count() { 2 } else { 3 };
        let no_chance = blocks.len() >= enough
            && is_constant(|block| block.base.value)
            && is_constant(|block| block.new.value);
        if no_chance || matches!(found.check.verdict, Verdict::Unknown(_)) {
            return found;
        }
        let (limits, family) = (Limits::default(), self.between_cells());
        let compared = Test::of_blocks(&blocks, Better::Neither, limits, family).judge(family);
        let (holds, said) = cells.decide(&compared, blocks.len(), family);
        let sentence = format!("{}; {said}", found.check.sentence);
        Weighed { check: Check { verdict: verdict(holds, &sentence), sentence, ..found.check }, ..found }
    }

    fn blocks(&self, cells: &ComparedCells<'_>) -> Vec<Block> {
        let readings = |cell: &CellKey, figure: Figure| -> Vec<(u32, Reading)> {
            let sound = self.stored.trials.iter().filter(|trial| trial.is_sound() && cell.is_of(trial));
            sound.filter_map(|trial| Some((trial.spec.repetition, trial.reading(figure).ok()?))).collect()
        };
        Block::of_repetitions(readings(&cells.other, cells.other_figure), readings(cells.cell, cells.figure))
    }

    /// Returns the number of comparisons between cells of the same run.
    fn between_cells(&self) -> usize {
        let conditions = self.gates.iter().map(|gate| &gate.condition);
        let between = conditions
            .filter(|one| matches!(one.rule, Rule::Compare(_, Written::Times(_, Reference::Figure(_)))));
        between.flat_map(|one| self.covered(&one.subject.scope)).count()
    }

    fn against_baseline(
        &self,
        figure: Figure,
        cell: &CellKey,
        percent: f64,
        family: Option<&GateFamily<'_>>,
    ) -> Weighed {
        let seen = CellReadings::of(figure, cell, self.stored, self.repetitions, Worst::Median);
        let mut doubts: Vec<String> = seen.missing.into_iter().chain(seen.doubts).collect();
        let observed = seen.observed.map(|observed| observed.describe(None));
        let said = |more: String| observed.iter().cloned().chain([more]).collect::<Vec<_>>().join("; ");
        if family.is_none() {
            doubts.push("there is no baseline; specify one with --baseline".into());
        }
        let family = family.filter(|_| doubts.is_empty());
        let found = family.map(|family| family.judge(figure, cell, percent));
        let (verdict, sentence, weight) = match found {
            Some(ComparedFigure { regression, ratio, sentence }) => {
                let sentence = said(sentence);
                (regression.verdict(&sentence), sentence, ratio)
            }
            None => {
                let sentence = said(doubts.join("; "));
                (Verdict::unknown(sentence.clone()), sentence, 0.0)
            }
        };
        Weighed { check: check(cell, verdict, seen.observed, None, sentence), weight }
    }

    /// Returns the limit for a metric of this cell; `None` if the cell would be compared with itself.
    fn bound(&self, figure: Figure, cell: &CellKey, limit: &Written) -> Option<Bound> {
        match limit {
            Written::Value(quantity) => Some(Bound::of(quantity.value())),
            Written::Times(factor, Reference::Floor) => Some(self.floor(figure, *factor)),
            Written::Times(factor, Reference::Figure(subject)) => self.other(figure, cell, *factor, subject),
        }
    }

    fn floor(&self, figure: Figure, factor: f64) -> Bound {
        let Some(floor) = &self.stored.run.floor else { return Bound::missing("the floor was not measured") };
        if let Some(why) = &floor.missing {
            return Bound::missing(format!("the floor was not measured on all servers: {why}"));
        }
        let after = self.stored.run.floor_after.as_ref().and_then(|after| floor_of(after, figure));
        match floor_of(floor, figure) {
            Some(us @ 1..) if after.is_some_and(|after| Floor::are_apart(us, after)) => {
                let [before, after] = [us, after.unwrap_or(us)].map(format_micros);
                Bound::missing(format!(
                    "the floor moved from {before} before the trials to {after} after them"
                ))
            }
            Some(us @ 1..) => {
                let told = format!("{} times the floor of {}", factor, figure.unit().show(us as f64));
                Bound { told: Some(told), ..Bound::of(factor * us as f64) }
            }
            _ => Bound::missing("the floor was not measured"),
        }
    }

    fn other_cell(&self, cell: &CellKey, subject: &Subject) -> CellKey {
        CellKey {
            strategy: subject.scope.strategy.clone().unwrap_or_else(|| cell.strategy.clone()),
            contenders: subject.scope.contenders.unwrap_or(cell.contenders),
        }
    }

    fn other(&self, figure: Figure, cell: &CellKey, factor: f64, subject: &Subject) -> Option<Bound> {
        let other = self.other_cell(cell, subject);
        if other == *cell && subject.figure == figure {
            return None;
        }
        let seen = CellReadings::of(subject.figure, &other, self.stored, self.repetitions, Worst::Median);
        let doubts = seen
            .missing
            .into_iter()
            .chain(seen.doubts)
            .map(|why| format!("compared with {}: {why}", other.name()));
        let told = seen.observed.map(|observed| {
            let value = observed.describe(None);
            format!("{factor} times the {} of {}, {value}", subject.figure, other.name())
        });
        Some(Bound {
            limit: seen.observed.map(|observed| factor * observed.value),
            at_least: seen.observed.is_some_and(|observed| observed.at_least),
            told,
            doubts: doubts.collect(),
        })
    }
}

struct ComparedCells<'a> {
    cell: &'a CellKey,
    figure: Figure,
    other: CellKey,
    other_figure: Figure,
    relation: Relation,
    /// Multiplier of the other metric.
    factor: f64,
}

impl ComparedCells<'_> {
    /// Returns whether the relation holds, with a description. A violation requires that the interval,
    /// corrected for multiple comparisons, is entirely on the wrong side.
    fn decide(&self, compared: &Compared, repetitions: usize, family: usize) -> (Option<bool>, String) {
        let alone = compared.ratio.filter(Interval::is_bounded);
        let Some((alone, in_family)) = alone.zip(compared.in_family) else {
            let needed = Design::Independent.fewest(Limits::default().share(family));
            let needed = needed.map_or_else(String::new, |needed| format!(": that needs {needed}"));
            let has = counted(repetitions, "repetition is", "repetitions are");
            return (None, format!("{has} too few to rule out chance{needed}"));
        };
        let Interval { value, low, high, .. } = alone;
        let said = format!("the ratio is {}, between {} and {}", number(value), number(low), number(high));
        let range = objective::range(self.relation, self.factor);
        match (alone.against(&range), in_family.against(&range)) {
            (Position::Within, _) => (Some(true), said),
            (_, Position::Below | Position::Above) => (Some(false), said),
            _ => (None, format!("{said}, so it may be on either side; more repetitions would decide")),
        }
    }
}

struct Bound {
    limit: Option<f64>,
    /// Whether the limit is a lower bound.
    at_least: bool,
    /// Description of the limit, unless the limit is a number in the gate.
    told: Option<String>,
    /// Reasons why the limit supports no verdict.
    doubts: Vec<String>,
}

impl Bound {
    fn of(at: f64) -> Self {
        Self { limit: Some(at), at_least: false, told: None, doubts: Vec::new() }
    }

    fn missing(why: impl Into<String>) -> Self {
        Self { limit: None, at_least: false, told: None, doubts: vec![why.into()] }
    }
}

/// A check and, as a sort key, how close the check is to failing.
struct Weighed {
    check: Check,
    weight: f64,
}

fn judge(cell: &CellKey, relation: Relation, by_each: bool, seen: CellReadings, bound: Bound) -> Weighed {
    let mut doubts: Vec<String> = seen.doubts.into_iter().chain(bound.doubts).collect();
    let limit = bound.limit.map(|value| Limit { relation, value, at_least: bound.at_least });
    let both = seen.observed.zip(limit);
    let holds = both.and_then(|(value, limit)| decide(relation, &value, &limit));
    // A single miss decides a gate that every repetition must meet, even if other repetitions are missing.
    let is_lost = by_each && holds == Some(false);
    if !is_lost {
        doubts.splice(0..0, seen.missing);
    }
    let observed = seen.observed.map(|observed| observed.describe(limit.map(|limit| limit.value)));
    let said = observed.into_iter().chain(bound.told.map(|told| format!("the limit is {told}")));
    let said = said.collect::<Vec<_>>().join("; ");
    let because = |why: &str| if said.is_empty() { why.to_owned() } else { format!("{said}; {why}") };
    let sentence = match (both, holds) {
        (Some(_), Some(_)) if doubts.is_empty() => said,
        (Some(_), None) if doubts.is_empty() => {
            because("that is only a lower bound, so the result is inconclusive")
        }
        _ => because(&doubts.join("; ")),
    };
    let verdict = verdict(holds.filter(|_| doubts.is_empty()), &sentence);
    let weight = both.map_or(0.0, |(value, limit)| weight(relation, value.value, limit.value));
    Weighed { check: check(cell, verdict, seen.observed, limit, sentence), weight }
}

fn verdict(holds: Option<bool>, sentence: &str) -> Verdict {
    match holds {
        Some(true) => Verdict::Held,
        Some(false) => Verdict::violated(sentence),
        None => Verdict::unknown(sentence),
    }
}

fn check(
    cell: &CellKey,
    verdict: Verdict,
    observed: Option<Observed>,
    limit: Option<Limit>,
    sentence: String,
) -> Check {
    Check { strategy: cell.strategy.clone(), contenders: cell.contenders, verdict, observed, limit, sentence }
}

/// Returns whether the relation holds for all values above the lower bounds; `None` if the answer depends on
/// the true values.
fn decide(relation: Relation, observed: &Observed, limit: &Limit) -> Option<bool> {
    let (least, most) = (observed.value, if observed.at_least { f64::INFINITY } else { observed.value });
    let highest = if limit.at_least { f64::INFINITY } else { limit.value };
    if relation == Relation::Equal {
        // If a lower bound does not exceed the limit, the true value may equal the limit.
        let open = observed.at_least && least <= limit.value;
        return (!open).then(|| relation.holds(least, limit.value));
    }
    let ends = [(least, limit.value), (least, highest), (most, limit.value), (most, highest)];
    let holds = ends.map(|(value, limit)| relation.holds(value, limit));
    holds.iter().all(|end| *end == holds[0]).then_some(holds[0])
}

/// Returns how close a value is to violating its limit: 1 at the limit, more beyond it. For `Equal`, the difference.
fn weight(relation: Relation, value: f64, limit: f64) -> f64 {
    let share = match relation {
        Relation::Less | Relation::AtMost => value / limit,
        Relation::More | Relation::AtLeast => limit / value,
        Relation::Equal => (value - limit).abs(),
    };
    if share.is_nan() { 0.0 } else { share }
}

fn floor_of(floor: &Floor, figure: Figure) -> Option<u64> {
    let timing = match figure {
        Figure::Latency(Measure::Handoff, _) => floor.handoff,
        Figure::Latency(Measure::Uncontended, _) => floor.uncontended,
        _ => None,
    };
    Some(timing?.p50_us)
}

/// Returns the combined exclusion check of a cell's trials; `None` for a single contender without a violation,
/// or if no trial ran.
fn exclusion(cell: &CellKey, trials: &[Trial]) -> Option<Check> {
    let own: Vec<&Trial> = trials.iter().filter(|trial| cell.is_of(trial)).collect();
    let unsound = Verdict::unknown_if(own.iter().filter_map(|trial| trial.unsound()).collect());
    let judged = own.iter().map(|trial| trial.judged.verdict.clone()).reduce(Verdict::and)?;
    let verdict = match judged {
        Verdict::Held => unsound,
        judged => judged,
    };
    if cell.contenders < 2 && !matches!(verdict, Verdict::Violated(_)) {
        return None;
    }
    let held = || format!("held in {}", counted(own.len(), "trial", "trials"));
    let sentence = verdict.why().unwrap_or_else(held);
    Some(check(cell, verdict, None, None, sentence))
}

/// Detects during a run when a gate can no longer pass.
#[derive(Debug)]
pub struct GateWatch {
    gates: Vec<Gate>,
    /// Number of repetitions of each cell; `None` if repetitions may be added, which may change the median.
    repetitions: Option<usize>,
    /// Floor measured before the trials; `None` if it was not measured on all servers.
    floor: Option<Floor>,
    /// Number of repetitions on the wrong side, by gate and cell.
    wrong: BTreeMap<(usize, CellKey), usize>,
    lost: Option<String>,
}

impl GateWatch {
    pub fn new(gates: Vec<Gate>, repetitions: Option<usize>) -> Self {
        Self { gates, repetitions, floor: None, wrong: BTreeMap::new(), lost: None }
    }

    /// Sets the floor measured before the trials. If the floor moves later, gates become unknown, not passed.
    pub fn with_floor(self, floor: Option<Floor>) -> Self {
        Self { floor: floor.filter(|floor| floor.missing.is_none()), ..self }
    }

    /// Records a trial. Returns why a gate can no longer pass; `None` while all gates can.
    pub fn note(&mut self, trial: &Trial) -> Option<String> {
        if self.lost.is_none() {
            self.lost = self.broken(trial).or_else(|| self.gate_lost(trial));
        }
        self.lost.clone()
    }

    fn broken(&self, trial: &Trial) -> Option<String> {
        let why = trial.judged.verdict.why();
        matches!(trial.judged.verdict, Verdict::Violated(_))
            .then(|| format!("{}: {}", trial.name(), why.unwrap_or_default()))
    }

    fn gate_lost(&mut self, trial: &Trial) -> Option<String> {
        let cell = CellKey::of(&trial.spec);
        for (at, gate) in self.gates.iter().enumerate() {
            let condition = &gate.condition;
            let Some(shown) = misses(condition, self.floor.as_ref(), &cell, trial) else { continue };
            let wrong = self.wrong.entry((at, cell.clone())).or_default();
            *wrong += 1;
            let is_lost = match condition.across.unwrap_or(Across::usual(condition.subject.figure)) {
                Across::Every => true,
                Across::Median => self.repetitions.is_some_and(|all| 2 * *wrong > all),
            };
            if is_lost {
                return Some(format!("gate `{gate}` can no longer pass: {}: {shown}", trial.name()));
            }
        }
        None
    }
}

/// Describes the trial's value if it certainly misses the gate's limit, which is a number or a multiple of
/// the floor.
fn misses(condition: &Condition, floor: Option<&Floor>, cell: &CellKey, trial: &Trial) -> Option<String> {
    let figure = condition.subject.figure;
    let Rule::Compare(relation, limit) = &condition.rule else { return None };
    let limit = match limit {
        Written::Value(limit) => limit.value(),
        Written::Times(factor, Reference::Floor) => {
            factor * floor_of(floor?, figure).filter(|us| *us > 0)? as f64
        }
        Written::Times(_, Reference::Figure(_)) => return None,
    };
    let counts = trial.is_sound() || figure == figures::VIOLATIONS.figure();
    if !counts || !condition.subject.scope.covers(&cell.strategy, cell.contenders) {
        return None;
    }
    let reading = trial.reading(figure).ok().filter(|reading| reading.value.is_finite())?;
    // The true value may be larger than its lower bound.
    let open = reading.at_least && matches!(relation, Relation::More | Relation::AtLeast | Relation::Equal);
    let wrong = !open && !relation.holds(reading.value, limit);
    wrong.then(|| figure.unit().show(reading.value))
}
