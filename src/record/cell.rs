//! What repetitions repeat: one strategy at one number of contenders.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Trial;
use crate::scenario::TrialSpec;
use crate::words::units::contenders;

/// A strategy at a number of contenders.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct CellKey {
    /// The strategy's label.
    pub strategy: String,
    /// Contenders.
    pub contenders: usize,
}

impl CellKey {
    pub fn of(spec: &TrialSpec) -> Self {
        Self { strategy: spec.strategy.label.clone(), contenders: spec.contenders }
    }

    pub fn is_of(&self, trial: &Trial) -> bool {
        trial.spec.strategy.label == self.strategy && trial.spec.contenders == self.contenders
    }

    /// As messages call it: `baton, 20 contenders`.
    pub fn name(&self) -> String {
        format!("{}, {}", self.strategy, contenders(self.contenders))
    }
}
