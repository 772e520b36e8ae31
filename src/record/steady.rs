//! How a trial came to its steady state, and whether it was one.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::words::measure::{Growth, growth};

/// What ended the warm-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WarmUpEnd {
    /// The scenario gives it a fixed length.
    Fixed,
    /// Throughput and waits had become steady, by MSER-5.
    Steady,
    /// It had lasted as long as it may, and they had not.
    Cap,
    /// There were too few acquisitions to tell.
    TooFew,
}

/// The course of a trial in slots of equal length, from the beginning of its load; by it steadiness is judged, and can be
/// judged again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Steady {
    /// What ended the warm-up.
    pub warm_up_ended: WarmUpEnd,
    /// How long it took, in microseconds.
    pub warm_up_us: u64,
    /// The length of a slot, in microseconds.
    pub slot_us: u64,
    /// Locks acquired in each slot.
    pub acquired: Vec<u32>,
    /// The sum of the waits that ended in each slot, in microseconds.
    pub wait_us: Vec<u64>,
    /// Of an open load: arrivals of the measured phase that were due and had not ended, at the end of each of its slots.
    pub backlog: Vec<u64>,
    /// Whether that grew; `None` for other loads.
    pub queue: Option<Growth>,
}

impl Steady {
    /// Whether the backlog grew, so that there is no steady state to speak of, by its samples.
    pub fn growth(&self) -> Growth {
        let samples: Vec<f64> = self.backlog.iter().map(|waiting| *waiting as f64).collect();
        growth(&samples, Duration::from_micros(self.slot_us))
    }

    /// By how many arrivals a second the backlog grew; `None` where it did not, or nobody can tell.
    pub fn grows_per_s(&self) -> Option<f64> {
        match self.queue {
            Some(Growth::Growing(slope)) => Some(slope.per_second),
            _ => None,
        }
    }
}
