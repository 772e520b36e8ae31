//! Gates: conditions that a run must meet for a build to pass. They are three-valued, and an unknown gate never passes.
//!
//! [`zklockbench_scenario::gate`] defines their syntax. Outcomes are plain data, stored in `summary.json`, and the source of
//! every output.

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

/// What one gate came to, over every cell that it is about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Outcome {
    /// The gate as it is written, e.g. `wait.p99 of baton < 50ms`; of the gate that every run has,
    /// [`Outcome::EXCLUSION`].
    pub gate: String,
    /// Its name, where the scenario gives it one.
    pub name: Option<String>,
    /// Which cells it is about.
    pub scope: Scope,
    /// `held` when it passed, `violated` when it failed, `unknown` when that could not be decided.
    pub verdict: Verdict,
    /// One for each cell, the worst first. Where there is none, the verdict says why.
    pub checks: Vec<Check>,
}

/// What one gate came to in one cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Check {
    /// The strategy's label.
    pub strategy: String,
    /// Contenders.
    pub contenders: usize,
    /// `held` when it passed, `violated` when it failed, `unknown` when that could not be decided.
    pub verdict: Verdict,
    /// What was observed; `None` when nothing was, and of the gate that every run has.
    pub observed: Option<Observed>,
    /// What it was compared with; `None` when that is not known, of a baseline, and of the gate that every run has.
    pub limit: Option<Limit>,
    /// What was observed and what follows, in one sentence without a full stop.
    pub sentence: String,
}

/// A figure of a cell over its repetitions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Observed {
    /// The unit of the values.
    pub unit: Unit,
    /// What was compared: the median over the sound repetitions or, of a count, the one that is worst for the gate.
    pub value: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// `value` is a lower bound: waits that were not served, or trials that were cut short, could make it larger.
    pub at_least: bool,
    /// How many repetitions it is taken over.
    pub repetitions: usize,
    /// How many samples it rests on in all of them; `None` of what is no statistic of samples.
    pub samples: Option<u64>,
}

/// What a figure was compared with.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Limit {
    /// How the observed value must stand to it.
    pub relation: Relation,
    /// The value, in the unit of the observed one.
    pub value: f64,
    /// `value` is a lower bound, because the figure that it is taken from is one.
    pub at_least: bool,
}

impl Outcome {
    /// The text of the implicit gate of every run: the verdict on the run itself must be `held`.
    pub const EXCLUSION: &'static str = "every lock held";

    pub fn is_of_every_run(&self) -> bool {
        self.gate == Self::EXCLUSION
    }

    pub fn word(&self) -> &'static str {
        word(&self.verdict)
    }

    /// The gate's name or, without one, its text.
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

/// Sorts the outcomes that need attention first.
pub fn worst_first(outcomes: &mut [Outcome]) {
    outcomes.sort_by_key(|outcome| rank(&outcome.verdict));
}

/// Sort key of a verdict, worst first.
fn rank(verdict: &Verdict) -> u8 {
    match verdict {
        Verdict::Violated(_) => 0,
        Verdict::Unknown(_) => 1,
        Verdict::Held => 2,
    }
}

/// Combined verdict: violated if any is, else unknown if any is.
pub fn overall(outcomes: &[Outcome]) -> Verdict {
    let with_gate = |outcome: &Outcome| {
        let gate = outcome.title().to_owned();
        outcome.verdict.clone().with_reasons(|reason| format!("gate `{gate}`: {reason}"))
    };
    outcomes.iter().map(with_gate).fold(Verdict::Held, Verdict::and)
}
