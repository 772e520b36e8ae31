//! Findings of a sweep for each strategy: which values meet the objective, and the collapse.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::next::Ask;
use super::over::Variable;
use super::series::{Decision, Point, Sample, Series, State};
use crate::objective::Objective;
use zklockbench_core::measure::Figure;
use zklockbench_stats::Position;

/// Boundary between the values that meet the objective and those that miss it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Edge {
    /// Between two measured values.
    Between {
        /// Last value that meets the objective.
        kept: f64,
        /// First value that misses the objective.
        missed: f64,
        /// Inconclusive values in between.
        undecided: Vec<f64>,
    },
    /// All points meet the objective.
    AllKept {
        /// Largest value.
        up_to: f64,
    },
    /// No point meets the objective.
    NoneKept {
        /// Smallest value.
        from: f64,
    },
    /// Inconclusive.
    Unknown {
        /// Largest value that meets the objective, if any; values above are inconclusive.
        kept: Option<f64>,
        /// Smallest value that misses the objective, if any; values below are inconclusive.
        missed: Option<f64>,
        /// Reason.
        why: String,
    },
}

/// Collapse of the lock: the queue grows, trials do not finish, or throughput falls below half of its best as
/// contenders or arrivals increase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Collapse {
    /// Between two measured values.
    Between {
        /// Last value before the collapse; `None` if the lock broke down at the first value.
        held: Option<f64>,
        /// First value that broke down.
        broke: f64,
        /// Description of the breakdown.
        why: String,
    },
    /// No collapse up to `up_to`.
    NotFound {
        /// Largest value with a valid point; `None` if there is none.
        up_to: Option<f64>,
        /// Smallest value at which the load generator could not keep up.
        saturated_at: Option<f64>,
    },
}

/// Findings for one strategy, at one value of the second variable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// Points of the strategy.
    #[serde(flatten)]
    pub series: Series,
    /// Values that meet the objective; `None` if there is no objective.
    pub objective: Option<Edge>,
    /// Collapse of the lock.
    pub collapse: Collapse,
}

pub fn find(ask: &Ask, samples: &[Sample]) -> Vec<Finding> {
    let found = |series: Series| Finding {
        objective: ask.objective.as_ref().map(|objective| edge(ask.over.variable, objective, &series)),
        collapse: collapse(ask.over.variable, &series),
        series,
    };
    ask.series(samples).into_iter().map(found).collect()
}

fn edge(variable: Variable, objective: &Objective, series: &Series) -> Edge {
    let all: Vec<(f64, Decision)> =
        series.points.iter().filter_map(|point| Some((point.at.x, point.decision?))).collect();
    let (Some(first), Some(last)) = (all.first(), all.last()) else {
        return Edge::Unknown { kept: None, missed: None, why: "no point was measured".into() };
    };
    let leans = |point: &Point| point.leaning.is_some_and(|side| side != Decision::Undecided);
    let why = if series.points.iter().any(|point| point.too_few_samples) {
        "trials have too few samples for the percentile; make them longer with --duration"
    } else if all.iter().all(|(_, decision)| *decision == Decision::Undecided)
        && series.points.iter().any(leans)
    {
        "no point has the five repetitions required for a decision"
    } else {
        "repetitions vary too much, or are too close to the limit"
    };
    let of = |decision| all.iter().filter(move |one| one.1 == decision).map(|one| one.0);
    let (kept, missed, open): (Vec<f64>, Vec<f64>, Vec<f64>) =
        (of(Decision::Kept).collect(), of(Decision::Missed).collect(), of(Decision::Undecided).collect());
    let unknown = |kept, missed| Edge::Unknown { kept, missed, why: why.into() };
    // Whether all values of the inconclusive points are on this side of the limit.
    // Under a greater burden, waits do not become shorter, so the decided points suffice.
    let is_monotone = variable.is_burden() && matches!(objective.figure, Figure::Latency(..));
    let all_lie = |is_side: fn(Position) -> bool| {
        let open = series.points.iter().filter(|point| point.decision == Some(Decision::Undecided));
        is_monotone
            || open
                .filter_map(|point| point.objective)
                .all(|found| is_side(found.against(&objective.range())))
    };
    match (kept.as_slice(), missed.as_slice()) {
        ([.., most], []) if open.iter().any(|x| x >= most) => unknown(Some(*most), None),
        ([], [least, ..]) if open.iter().any(|x| x <= least) => unknown(None, Some(*least)),
        ([_, ..], []) if all_lie(|side| side == Position::Within) => Edge::AllKept { up_to: last.0 },
        ([], [_, ..]) if all_lie(|side| matches!(side, Position::Below | Position::Above)) => {
            Edge::NoneKept { from: first.0 }
        }
        ([], _) | (_, []) => unknown(None, None),
        ([least_kept, .., most_kept], _) | ([least_kept @ most_kept], _) => {
            let (least_missed, most_missed) = (missed[0], missed[missed.len() - 1]);
            let between = |kept: f64, missed: f64| {
                let (low, high) = (kept.min(missed), kept.max(missed));
                let undecided = open.iter().copied().filter(|x| low < *x && *x < high).collect();
                Edge::Between { kept, missed, undecided }
            };
            if least_missed > *least_kept {
                // The first miss is the boundary, even if a higher value meets the objective by chance.
                let below = kept.iter().copied().filter(|x| *x < least_missed).fold(*least_kept, f64::max);
                between(below, least_missed)
            } else if most_missed < *most_kept {
                let above = kept.iter().copied().filter(|x| *x > most_missed).fold(*most_kept, f64::min);
                between(above, most_missed)
            } else {
                let [from, to] = [*least_kept, *most_kept].map(|value| variable.show(value));
                let why = format!("met from {from} to {to}, but missed below and above");
                Edge::Unknown { kept: None, missed: None, why }
            }
        }
    }
}

/// A strategy has collapsed if its throughput falls below this share of its best throughput.
const COLLAPSED: f64 = 0.5;

fn collapse(variable: Variable, series: &Series) -> Collapse {
    let held = |below: f64| series.sound().map(|point| point.at.x).rfind(|x| *x < below);
    if let Some(dead) = series.points.iter().find(|point| point.is_dead()) {
        let why = dead.why.clone().unwrap_or_else(|| dead.state.word().to_owned());
        return Collapse::Between { held: held(dead.at.x), broke: dead.at.x, why };
    }
    let measured = series.sound().filter_map(|point| Some((point.at.x, point.throughput?)));
    let mut best = 0.0;
    for (x, found) in measured {
        best = found.low.max(best);
        // A longer hold or round trip lowers throughput even if nothing collapses.
        let is_crowd = matches!(variable, Variable::Contenders | Variable::Rate);
        if is_crowd && found.high < COLLAPSED * best {
            let why = "throughput is less than half of its best".to_owned();
            return Collapse::Between { held: held(x), broke: x, why };
        }
    }
    let saturated = series.points.iter().find(|point| point.is_last() && point.state == State::Saturated);
    Collapse::NotFound { up_to: held(f64::INFINITY), saturated_at: saturated.map(|point| point.at.x) }
}
