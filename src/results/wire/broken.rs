//! What was broken on purpose in a trial, and what became of the lock.

use serde::{Deserialize, Serialize};

use crate::catalog::fault::Proof;
use crate::record::{EnsembleOrder, Excused, FaultRecord, FencingCounts, Stuck, Trial};

/// All that a trial with faults yields beside the others.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredBroken {
    /// The faults in the order of firing.
    pub faults: Vec<StoredFault>,
    /// What a fenced resource saw.
    pub fencing: StoredFencing,
    /// Exclusion as the ensemble saw it; `None` where its logs could not be read or say nothing.
    pub ensemble_order: Option<StoredEnsembleOrder>,
    /// Contenders that did not get the lock although nothing was broken any more.
    pub stuck: Vec<StoredStuck>,
    /// Ephemeral nodes that were left when all had released; `None` when the ensemble could not be asked.
    pub orphans: Option<u64>,
}

impl StoredBroken {
    /// Of a trial; `None` when nothing was to be broken.
    #[must_use]
    pub fn of(trial: &Trial) -> Option<Self> {
        (!trial.faults.is_empty()).then(|| Self {
            faults: trial.faults.iter().map(Into::into).collect(),
            fencing: (&trial.fencing).into(),
            ensemble_order: trial.ensemble_order.as_ref().map(Into::into),
            stuck: trial.stuck.iter().map(Into::into).collect(),
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

/// One fault. Times are microseconds since the measured phase began.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredFault {
    /// Its place in the order of firing, from 1.
    pub number: usize,
    /// Its name in the catalog.
    pub kind: String,
    /// Kind, target and parameters, as the scenario says them.
    pub label: String,
    /// Whom it hit.
    pub target: String,
    /// When it was asked for.
    pub asked_us: i64,
    /// When its effect was seen.
    pub effective_us: Option<i64>,
    /// When it was undone.
    pub ended_us: Option<i64>,
    /// Whether its effect was seen.
    pub proved: bool,
    /// How it was seen, or why not.
    pub proof: String,
    /// Why it could not be undone.
    pub left: Option<String>,
    /// From when it was asked for to the first sight of a leader elected since; `None` when none was seen.
    #[serde(default)]
    pub elected_us: Option<u64>,
    /// The longest time between two acquisitions that reaches into the fault's time or begins in it.
    pub longest_gap_us: Option<u64>,
    /// From when its effect was seen to the next acquisition.
    pub recovered_us: Option<u64>,
}

impl From<&FaultRecord> for StoredFault {
    fn from(fault: &FaultRecord) -> Self {
        let (proved, proof) = match &fault.proof {
            Proof::Proved(how) => (true, how),
            Proof::NotProved(why) => (false, why),
        };
        Self {
            number: fault.number,
            kind: fault.kind.clone(),
            label: fault.label.clone(),
            target: fault.target.clone(),
            asked_us: fault.asked_us,
            effective_us: fault.effective_us,
            ended_us: fault.ended_us,
            proved,
            proof: proof.clone(),
            left: fault.left.clone(),
            elected_us: fault.elected_us,
            longest_gap_us: fault.longest_gap_us,
            recovered_us: fault.recovered_us,
        }
    }
}

/// What a fenced resource saw, all locks together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredFencing {
    /// Writes in all.
    pub writes: u64,
    /// Writes of a holder after another had entered.
    pub stale: u64,
    /// Of those, the ones turned away by the czxid.
    pub stale_rejected: u64,
    /// The ones that the node's number would have turned away.
    pub stale_rejected_by_number: u64,
    /// Writes turned away although nobody had entered since.
    pub sound_rejected: u64,
}

impl From<&FencingCounts> for StoredFencing {
    fn from(counts: &FencingCounts) -> Self {
        Self {
            writes: counts.writes,
            stale: counts.stale,
            stale_rejected: counts.stale_rejected,
            stale_rejected_by_number: counts.stale_rejected_by_number,
            sound_rejected: counts.sound_rejected,
        }
    }
}

/// A contender that did not get the lock although nothing was broken any more.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredStuck {
    /// The contender.
    pub contender: usize,
    /// Which of the trial's lock paths.
    pub lock: usize,
    /// How long it had waited by then.
    pub waited_us: u64,
    /// Its own node.
    pub node: Option<String>,
    /// How many nodes are before its own.
    pub position: Option<usize>,
    /// The first node of the queue, and whose it is.
    pub blocked_by: Option<String>,
    /// What its session watches.
    pub watches: Vec<String>,
}

impl From<&Stuck> for StoredStuck {
    fn from(stuck: &Stuck) -> Self {
        Self {
            contender: stuck.contender,
            lock: stuck.lock,
            waited_us: stuck.waited_us,
            node: stuck.node.clone(),
            position: stuck.position,
            blocked_by: stuck.blocked_by.clone(),
            watches: stuck.watches.clone(),
        }
    }
}

/// Overlaps that are no violations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredExcused {
    /// Somebody inside whose session was suspended or had expired.
    pub zombies: u64,
    /// The outcome of a request is not known.
    pub uncertain: u64,
    /// The longest time for which a zombie was inside beside another.
    pub longest_unsafe_us: u64,
}

impl From<&Excused> for StoredExcused {
    fn from(excused: &Excused) -> Self {
        Self {
            zombies: excused.zombies,
            uncertain: excused.uncertain,
            longest_unsafe_us: excused.longest_unsafe_us,
        }
    }
}

/// Exclusion as the ensemble saw it, by its transaction logs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredEnsembleOrder {
    /// Entries that could be compared with the logs.
    pub checked: u64,
    /// Entries while the node of an earlier holder was still there, by the servers' clock.
    pub overlaps: u64,
    /// Entries of which it is known as of which transaction the contender found that it holds.
    #[serde(default)]
    pub checked_by_zxid: u64,
    /// Of those, the ones as of a transaction before the one that deleted the node of an earlier holder.
    #[serde(default)]
    pub too_early: u64,
    /// Nodes of holders that are gone although no server's log tells of their end.
    #[serde(default)]
    pub forgotten: u64,
    /// The first that was wrong.
    pub first: Option<String>,
}

impl From<&EnsembleOrder> for StoredEnsembleOrder {
    fn from(order: &EnsembleOrder) -> Self {
        let EnsembleOrder { checked, overlaps, checked_by_zxid, too_early, forgotten, ref first } = *order;
        Self { checked, overlaps, checked_by_zxid, too_early, forgotten, first: first.clone() }
    }
}

impl From<&StoredFault> for FaultRecord {
    fn from(stored: &StoredFault) -> Self {
        let proof = stored.proof.clone();
        Self {
            number: stored.number,
            kind: stored.kind.clone(),
            label: stored.label.clone(),
            target: stored.target.clone(),
            asked_us: stored.asked_us,
            effective_us: stored.effective_us,
            ended_us: stored.ended_us,
            proof: if stored.proved { Proof::Proved(proof) } else { Proof::NotProved(proof) },
            left: stored.left.clone(),
            elected_us: stored.elected_us,
            longest_gap_us: stored.longest_gap_us,
            recovered_us: stored.recovered_us,
        }
    }
}

impl From<&StoredFencing> for FencingCounts {
    fn from(stored: &StoredFencing) -> Self {
        Self {
            writes: stored.writes,
            stale: stored.stale,
            stale_rejected: stored.stale_rejected,
            stale_rejected_by_number: stored.stale_rejected_by_number,
            sound_rejected: stored.sound_rejected,
        }
    }
}

impl From<&StoredStuck> for Stuck {
    fn from(stored: &StoredStuck) -> Self {
        Self {
            contender: stored.contender,
            lock: stored.lock,
            waited_us: stored.waited_us,
            node: stored.node.clone(),
            position: stored.position,
            blocked_by: stored.blocked_by.clone(),
            watches: stored.watches.clone(),
        }
    }
}

impl From<&StoredExcused> for Excused {
    fn from(stored: &StoredExcused) -> Self {
        Self {
            zombies: stored.zombies,
            uncertain: stored.uncertain,
            longest_unsafe_us: stored.longest_unsafe_us,
        }
    }
}

impl From<&StoredEnsembleOrder> for EnsembleOrder {
    fn from(stored: &StoredEnsembleOrder) -> Self {
        let StoredEnsembleOrder { checked, overlaps, checked_by_zxid, too_early, forgotten, ref first } =
            *stored;
        Self { checked, overlaps, checked_by_zxid, too_early, forgotten, first: first.clone() }
    }
}
