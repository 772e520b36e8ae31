//! What was broken on purpose in a trial, and what became of the lock.

use serde::{Deserialize, Serialize};

use crate::record::{EnsembleOrder, FaultRecord, FencingCounts, Stuck, Trial};

/// All that a trial with faults yields beside the others.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredBroken {
    /// The faults in the order of firing.
    pub faults: Vec<FaultRecord>,
    /// What a fenced resource saw.
    pub fencing: FencingCounts,
    /// Exclusion as the ensemble saw it; `None` where its logs could not be read or say nothing.
    pub ensemble_order: Option<EnsembleOrder>,
    /// Contenders that did not get the lock although nothing was broken any more.
    pub stuck: Vec<Stuck>,
    /// Ephemeral nodes that were left when all had released; `None` when the ensemble could not be asked.
    pub orphans: Option<u64>,
}

impl StoredBroken {
    /// Of a trial; `None` when nothing was to be broken.
    #[must_use]
    pub fn of(trial: &Trial) -> Option<Self> {
        (!trial.faults.is_empty()).then(|| Self {
            faults: trial.faults.clone(),
            fencing: trial.fencing,
            ensemble_order: trial.ensemble_order.clone(),
            stuck: trial.stuck.clone(),
            orphans: trial.orphans,
        })
    }

    /// The longest time for which nobody got a lock around any of the faults.
    #[must_use]
    pub fn longest_gap_us(&self) -> Option<u64> {
        self.faults.iter().filter_map(|fault| fault.longest_gap_us).max()
    }

    /// The longest time from a fault's effect to the next acquisition; `None` when one was never followed by any.
    #[must_use]
    pub fn longest_recovery_us(&self) -> Option<u64> {
        let recovered: Option<Vec<u64>> = self.faults.iter().map(|fault| fault.recovered_us).collect();
        recovered?.into_iter().max()
    }

    /// Faults whose effect was seen.
    #[must_use]
    pub fn proved(&self) -> usize {
        self.faults.iter().filter(|fault| fault.proved).count()
    }
}
