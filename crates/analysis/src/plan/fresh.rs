//! Cost of a lock per request: a path that does not exist before, as programs with a lock per object use.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use zklockbench_core::measure::{Figure, Measure, Statistic};
use zklockbench_record::Trial;
use zklockbench_record::figures::{NODES_LEFT, REQUESTS_PER_ACQUISITION};

const DAY_S: f64 = 86_400.0;

/// Cost of a strategy if each request takes its own lock.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FreshCost {
    /// The strategy.
    pub strategy: String,
    /// Median duration of an acquire, in microseconds, including the creation of missing directories.
    pub acquire_p50_us: Option<f64>,
    /// Requests per acquisition; `None` if they could not be counted.
    pub requests: Option<f64>,
    /// Persistent nodes left per acquisition; `None` if they could not be counted.
    pub nodes_left: Option<f64>,
    /// Persistent nodes added per day at the planned rate.
    pub nodes_a_day: Option<f64>,
}

impl FreshCost {
    /// The cost in a trial with fresh locks, at a planned rate of requests per second.
    pub fn of(trial: &Trial, rate: f64) -> Self {
        let acquire = trial.reading(Figure::Latency(Measure::Uncontended, Statistic::percent(50)));
        let nodes_left = NODES_LEFT.of(trial);
        Self {
            strategy: trial.spec.strategy.label.clone(),
            acquire_p50_us: acquire.ok().map(|found| found.value),
            requests: REQUESTS_PER_ACQUISITION.of(trial),
            nodes_left,
            nodes_a_day: nodes_left.map(|nodes| nodes * rate * DAY_S),
        }
    }
}
