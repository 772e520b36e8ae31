//! Gates: conditions that a run must meet for a build to pass. An unknown gate never passes.
//!
//! [`zklockbench_scenario::gate`] defines their syntax. Outcomes are stored in `summary.json`.

mod baseline;
mod evaluate;
mod observe;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use zklockbench_core::measure::Unit;
use zklockbench_core::verdict::Verdict;
use zklockbench_scenario::gate::Relation;

pub use baseline::Sides;
pub use evaluate::{Evaluation, GateWatch};
pub use zklockbench_scenario::gate::Scope;

/// Outcome of one gate over all its cells.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Outcome {
    /// The gate as written, e.g. `wait.p99 of baton < 50ms`; [`Outcome::EXCLUSION`] for the implicit gate of
    /// every run.
    pub gate: String,
    /// Name; `None` if the scenario does not name the gate.
    pub name: Option<String>,
    /// Cells that the gate covers.
    pub scope: Scope,
    /// `held` if the gate passed, `violated` if it failed, `unknown` otherwise.
    pub verdict: Verdict,
    /// One check for each cell, worst first. If there are none, the verdict states the reason.
    pub checks: Vec<Check>,
}

/// Outcome of one gate in one cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Check {
    /// Label of the strategy.
    pub strategy: String,
    /// Number of contenders.
    pub contenders: usize,
    /// `held` if the gate passed, `violated` if it failed, `unknown` otherwise.
    pub verdict: Verdict,
    /// Observed value; `None` if unknown, and for the implicit gate of every run.
    pub observed: Option<Observed>,
    /// Limit; `None` if it is unknown or a baseline, and for the implicit gate of every run.
    pub limit: Option<Limit>,
    /// The observation and its conclusion, in one sentence without a full stop.
    pub sentence: String,
}

/// A metric of a cell, over the cell's repetitions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Observed {
    /// Unit of the values.
    pub unit: Unit,
    /// Compared value: the median over the valid repetitions; for a count, the worst repetition.
    pub value: f64,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
    /// Whether `value` is a lower bound, because of unserved waits or trials that were cut short.
    pub at_least: bool,
    /// Number of repetitions.
    pub repetitions: usize,
    /// Number of samples in all repetitions; `None` if the metric is not a statistic of samples.
    pub samples: Option<u64>,
}

/// Limit of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Limit {
    /// Required relation of the observed value to the limit.
    pub relation: Relation,
    /// Value, in the unit of the observed value.
    pub value: f64,
    /// Whether `value` is a lower bound, because it derives from another lower bound.
    pub at_least: bool,
}

impl Outcome {
    /// Text of the implicit gate of every run: the run's own verdict must be `held`.
    pub const EXCLUSION: &'static str = "every lock held";

    pub fn is_of_every_run(&self) -> bool {
        self.gate == Self::EXCLUSION
    }

    pub fn word(&self) -> &'static str {
        word(&self.verdict)
    }

    /// Returns the name of the gate, or its text if it has no name.
    pub fn title(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.gate)
    }
}

impl Check {
    pub fn word(&self) -> &'static str {
        word(&self.verdict)
    }
}

fn word(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Held => "passed",
        Verdict::Violated(_) => "FAILED",
        Verdict::Unknown(_) => "unknown",
    }
}

/// Sorts outcomes, worst first.
pub fn worst_first(outcomes: &mut [Outcome]) {
    outcomes.sort_by_key(|outcome| rank(&outcome.verdict));
}

/// Returns the sort key of a verdict, worst first.
fn rank(verdict: &Verdict) -> u8 {
    match verdict {
        Verdict::Violated(_) => 0,
        Verdict::Unknown(_) => 1,
        Verdict::Held => 2,
    }
}

/// Returns the combined verdict: violated if any outcome is, else unknown if any outcome is.
pub fn overall(outcomes: &[Outcome]) -> Verdict {
    let with_gate = |outcome: &Outcome| {
        let gate = outcome.title().to_owned();
        outcome.verdict.clone().with_reasons(|reason| format!("gate `{gate}`: {reason}"))
    };
    outcomes.iter().map(with_gate).fold(Verdict::Held, Verdict::and)
}
