//! By which terms figures are compared: the margin of each, and how sure a verdict has to be.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::judge::Limits;
use super::margins;
use crate::results::record::Figure;

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
    /// The same margin for all.
    pub fn of_one_margin(margin: f64) -> Self {
        Self { margin: Some(margin), ..Self::default() }
    }

    /// What is asked of that figure.
    pub fn of(&self, figure: Figure) -> Limits {
        let chosen = self.margins.get(&figure.to_string()).copied().or(self.margin);
        Limits { margin: chosen.unwrap_or_else(|| margins::of(figure)), alpha: self.alpha }
    }
}
