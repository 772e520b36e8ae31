//! Whether a gate can still pass, while its run goes on.

use std::collections::BTreeMap;

use super::evaluate::floor_of;
use crate::results::record::{CellKey, Floor, Trial, figures};
use crate::scenario::gate::{Across, Condition, Gate, Limit, Reference, Relation, Rule};
use crate::words::verdict::Verdict;

/// What the trials so far leave of the gates of a run.
#[derive(Debug)]
pub struct GateWatch {
    gates: Vec<Gate>,
    /// How many repetitions of each cell there will be; `None` where more may be added: no median is known before the end.
    repetitions: Option<usize>,
    /// The floor before the trials; `None` where none was measured.
    floor: Option<Floor>,
    /// How many repetitions are on the wrong side, by gate and cell.
    wrong: BTreeMap<(usize, CellKey), usize>,
    lost: Option<String>,
}

impl GateWatch {
    pub fn new(gates: Vec<Gate>, repetitions: Option<usize>) -> Self {
        Self { gates, repetitions, floor: None, wrong: BTreeMap::new(), lost: None }
    }

    /// The same of a run on an ensemble with that floor. That it moves later makes no gate pass.
    pub fn with_floor(self, floor: Option<Floor>) -> Self {
        Self { floor: floor.filter(|floor| floor.missing.is_none()), ..self }
    }

    /// Takes a trial, with its histograms. Why some gate can no longer pass, whatever follows; `None` while all can.
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
        let cell = CellKey { strategy: trial.spec.strategy.label.clone(), contenders: trial.spec.contenders };
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

/// What a trial shows, where that is surely on the wrong side of the number, or of so many times the floor, that a gate names.
fn misses(condition: &Condition, floor: Option<&Floor>, cell: &CellKey, trial: &Trial) -> Option<String> {
    let figure = condition.subject.figure;
    let Rule::Compare(relation, limit) = &condition.rule else { return None };
    let limit = match limit {
        Limit::Value(limit) => limit.value(),
        Limit::Times(factor, Reference::Floor) => {
            factor * floor_of(floor?, figure).filter(|us| *us > 0)? as f64
        }
        Limit::Times(_, Reference::Figure(_)) => return None,
    };
    let counts = trial.is_sound() || figure == figures::VIOLATIONS.figure();
    if !counts || !condition.subject.scope.covers(&cell.strategy, cell.contenders) {
        return None;
    }
    let reading = figure.of(trial).ok().filter(|reading| reading.value.is_finite())?;
    // What is only known to be so large at least may be larger.
    let open = reading.at_least && matches!(relation, Relation::More | Relation::AtLeast | Relation::Equal);
    let wrong = !open && !relation.holds(reading.value, limit);
    wrong.then(|| figure.unit().show(reading.value))
}
