//! What was acquired in the course of one trial, as finely as it was recorded.

use crate::results::record::{Steady, Trial};

/// Acquisitions of one measured phase, in bins of equal length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bins {
    /// The length of a bin, in microseconds.
    pub bin_us: u64,
    pub acquired: Vec<u64>,
}

impl Bins {
    /// As finely as the trial was recorded: in slots of some milliseconds or, by older versions, in seconds.
    pub fn of(trial: &Trial) -> Self {
        let seconds = || Self {
            bin_us: 1_000_000,
            acquired: trial.timeline.iter().map(|second| second.acquisitions).collect(),
        };
        let slots = |steady: &Steady| {
            // Slots begin with the load, of which the warm-up is not measured.
            let before = steady.warm_up_us.checked_div(steady.slot_us)?;
            let after = steady.acquired.get(usize::try_from(before).ok()?..)?;
            let acquired: Vec<u64> = after.iter().map(|count| u64::from(*count)).collect();
            (!acquired.is_empty()).then_some(Self { bin_us: steady.slot_us, acquired })
        };
        let bins = trial.steady.as_ref().and_then(slots).unwrap_or_else(seconds);
        // Without the last where that was cut short: it would look like a collapse.
        let full = usize::try_from(trial.measured_us / bins.bin_us.max(1)).unwrap_or(usize::MAX);
        Self { acquired: bins.acquired.into_iter().take(full).collect(), ..bins }
    }

    /// In bins that are so many times as long.
    pub(super) fn merged(&self, times: u64) -> Self {
        let times = usize::try_from(times.max(1)).unwrap_or(usize::MAX);
        Self {
            bin_us: self.bin_us * times as u64,
            acquired: self.acquired.chunks_exact(times).map(|bins| bins.iter().sum()).collect(),
        }
    }

    /// How long the full bins are together, in microseconds.
    pub(super) fn lasted_us(&self) -> u64 {
        self.bin_us * self.acquired.len() as u64
    }
}
