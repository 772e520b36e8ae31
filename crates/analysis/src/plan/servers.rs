//! The same load on ensembles of other sizes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::question::{predicted, wait_of};
use super::{Answer, Headroom};
use crate::model::Predicted;
use crate::objective::Objective;
use zklockbench_core::verdict::Verdict;

/// Results of the load on this number of servers, with one lock.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ByServers {
    /// Number of servers.
    pub servers: usize,
    /// Label of the strategy.
    pub strategy: String,
    /// Whether the load meets the objective.
    pub verdict: Verdict,
    /// The wait of the objective or, if that is about something else, its 99th percentile, in microseconds.
    pub wait: Option<Predicted>,
    /// Highest rate that meets the objective.
    pub headroom: Option<Headroom>,
    /// Median time of a synced write through the leader without other load, in microseconds.
    pub write_us: Option<u64>,
    /// Synced writes per second at saturation.
    pub writes_per_s: Option<f64>,
    /// Longest time in microseconds without an acquisition after the leader was killed; `None` for a single server.
    pub outage_us: Option<u64>,
}

impl ByServers {
    /// The row of an answer that was measured on this number of servers.
    pub fn of(servers: usize, answer: &Answer, objective: &Objective) -> Self {
        let wait = answer.prediction.as_ref().and_then(|one| predicted(wait_of(objective), one));
        Self {
            servers,
            strategy: answer.strategy.clone(),
            verdict: answer.verdict.clone(),
            wait,
            headroom: answer.headroom,
            write_us: None,
            writes_per_s: None,
            outage_us: answer.outage_us,
        }
    }
}
