//! By which terms figures are compared: the margin of each, and how sure a verdict has to be.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::judge::Limits;
use super::losses;
use crate::results::record::figures::{REQUESTS_PER_ACQUISITION, THROUGHPUT};
use crate::results::record::{Figure, Statistic};
use crate::words::measure::Measure;

/// What is asked of a comparison of many figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Terms {
    /// The greatest probability that, where nothing is worse by more than its margin, any figure is found to be.
    pub alpha: f64,
    /// The margin of every figure that has none in `margins`, as a share: 0.05 for 5 %. Null where each has its own.
    #[serde(default)]
    pub margin: Option<f64>,
    /// Margins that were chosen, by the names of the figures.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub margins: BTreeMap<String, f64>,
}

impl Default for Terms {
    fn default() -> Self {
        Self { alpha: Limits::default().alpha, margin: None, margins: BTreeMap::new() }
    }
}

impl Terms {
    pub fn of_one_margin(margin: f64) -> Self {
        Self { margin: Some(margin), ..Self::default() }
    }

    pub fn of(&self, figure: Figure) -> Limits {
        self.with_margin(figure, usual_margin(figure))
    }

    /// What is asked of its mean over all strategies.
    pub fn of_all(&self, figure: Figure) -> Limits {
        self.with_margin(figure, OF_ALL_STRATEGIES)
    }

    fn with_margin(&self, figure: Figure, usual: f64) -> Limits {
        let chosen = self.margins.get(&figure.to_string()).copied().or(self.margin);
        Limits { margin: chosen.unwrap_or(usual), alpha: self.alpha }
    }
}

/// The margin of a figure unless another is chosen, as a share: by how much two equal runs may differ.
fn usual_margin(figure: Figure) -> f64 {
    match figure {
        Figure::Latency(Measure::Handoff | Measure::Uncontended, _) => 0.30,
        Figure::Latency(_, Statistic::Percentile(at)) if at > 75_000 => 0.25,
        Figure::Latency(_, Statistic::Max) => 0.50,
        Figure::Latency(..) => 0.10,
        figure if losses::has(figure) => 0.02,
        figure if figure == THROUGHPUT.figure() => 0.15,
        figure if figure == REQUESTS_PER_ACQUISITION.figure() => 0.10,
        Figure::Plain(_) => 0.05,
    }
}

/// The same of the mean over all strategies, which differs less.
const OF_ALL_STRATEGIES: f64 = 0.05;
