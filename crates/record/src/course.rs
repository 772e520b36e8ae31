//! How a trial's load behaved over time: whether and how it reached a steady state. For an open load, also what
//! happened to the arrivals, and whether the generator issued them on schedule.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use zklockbench_core::measure::{Growth, added_up, growth};

/// Arrivals that were due in the measured phase, whenever they ended. Each was served, unserved or dropped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Arrived {
    /// Arrivals that were due.
    pub offered: u64,
    /// Arrivals for which acquire was called.
    pub started: u64,
    /// Arrivals that got the lock.
    pub served: u64,
    /// Arrivals that did not get the lock, because acquire failed or timed out, or because the backlog was
    /// abandoned.
    pub unserved: u64,
    /// Arrivals that found no free session and were dropped, as the scenario specifies.
    pub dropped: u64,
    /// Time after the measured phase until all arrivals had ended, in microseconds.
    pub backlog_us: u64,
}

impl Arrived {
    /// Smallest ratio of achieved to offered load that counts as keeping up; a smaller shortfall may be chance.
    pub const ACHIEVED: f64 = 0.98;
}

added_up!(Arrived { offered, started, served, unserved, dropped, backlog_us });

/// Index of dispersion of counts in windows of one width: variance of the arrivals per window divided by
/// their mean. The index is 1 for a Poisson process, near 0 for even arrivals, and larger for bursts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Dispersion {
    /// Width of a window, in microseconds.
    pub width_us: u64,
    /// Number of windows in the measured phase.
    pub windows: usize,
    /// Index of the arrivals as scheduled.
    pub scheduled: f64,
    /// Index of the arrivals as issued by the generator. An arrival that waited for a free session counts at
    /// its due time, because the lock caused that wait.
    pub issued: f64,
}

impl Dispersion {
    /// Window widths: a tenth of a second, a second, ten seconds.
    pub const WIDTHS_US: [u64; 3] = [100_000, 1_000_000, 10_000_000];
    /// Minimum number of windows for a meaningful variance.
    pub const WINDOWS_AT_LEAST: usize = 20;
    /// Maximum difference between the two indices, relative to the scheduled index or to 1, whichever is
    /// larger.
    pub const OFF_AT_MOST: f64 = 0.1;

    /// Dispersion for one width; `None` if there are too few windows or no arrivals.
    pub fn of(width_us: u64, scheduled: &[u64], issued: &[u64]) -> Option<Self> {
        let windows = scheduled.len();
        if windows < Self::WINDOWS_AT_LEAST {
            return None;
        }
        let (scheduled, issued) = (index_of_dispersion(scheduled)?, index_of_dispersion(issued)?);
        Some(Self { width_us, windows, scheduled, issued })
    }

    /// Whether the issued arrivals deviate from the schedule: too even, or in bursts caused by the generator.
    pub fn is_off(&self) -> bool {
        (self.issued - self.scheduled).abs() > Self::OFF_AT_MOST * self.scheduled.max(1.0)
    }
}

/// Variance divided by mean; `None` if the mean is 0.
fn index_of_dispersion(counts: &[u64]) -> Option<f64> {
    let number = counts.len() as f64;
    let mean = counts.iter().sum::<u64>() as f64 / number;
    let squares: f64 = counts.iter().map(|count| (*count as f64 - mean).powi(2)).sum();
    (mean > 0.0).then(|| squares / (number - 1.0) / mean)
}

/// Why the warm-up ended.
// Sorted by the evidence of a steady state, strongest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WarmUpEnd {
    /// The scenario specifies a fixed length.
    Fixed,
    /// Throughput and waits had become steady, by MSER-5.
    Steady,
    /// There were too few acquisitions to decide.
    TooFew,
    /// The maximum length was reached without a steady state.
    Cap,
}

/// How a trial developed, in slots of equal length from the start of the load. Steadiness can be judged again
/// from this data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Steady {
    /// Why the warm-up ended.
    pub warm_up_ended: WarmUpEnd,
    /// Length of the warm-up, in microseconds.
    pub warm_up_us: u64,
    /// Length of a slot, in microseconds.
    pub slot_us: u64,
    /// Locks acquired in each slot.
    pub acquired: Vec<u32>,
    /// Total of the waits that ended in each slot, in microseconds.
    pub wait_us: Vec<u64>,
    /// Backlog of an open load at the end of each slot of the measured phase: arrivals that were due and had
    /// not ended.
    pub backlog: Vec<u64>,
    /// Growth of the backlog; `None` unless the load is open.
    pub queue: Option<Growth>,
}

impl Steady {
    /// Growth of the backlog, computed from its samples.
    pub fn growth(&self) -> Growth {
        let samples: Vec<f64> = self.backlog.iter().map(|waiting| *waiting as f64).collect();
        growth(&samples, Duration::from_micros(self.slot_us))
    }

    /// Growth of the backlog in arrivals per second; `None` if it did not grow or the result is inconclusive.
    pub fn grows_per_s(&self) -> Option<f64> {
        match self.queue {
            Some(Growth::Growing(slope)) => Some(slope.per_second),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dispersion_is_zero_for_even_counts_and_large_for_one_burst() {
        let even = Dispersion::of(100_000, &[5; 20], &[5; 20]).unwrap();
        assert_eq!((even.scheduled, even.windows), (0.0, 20));
        let mut burst = [0; 20];
        burst[7] = 100;
        // The mean is 5, the squares are 19 × 25 + 95² = 9500: 9500 / 19 / 5 = 100.
        let issued = Dispersion::of(100_000, &[5; 20], &burst).unwrap().issued;
        assert!((issued - 100.0).abs() < 1e-9, "{issued}");
    }

    #[test]
    fn dispersion_is_none_with_few_windows_or_no_arrivals() {
        assert_eq!(Dispersion::of(100_000, &[5; 19], &[5; 19]), None);
        assert_eq!(Dispersion::of(100_000, &[0; 20], &[0; 20]), None);
    }

    #[test]
    fn dispersion_is_off_if_the_indices_differ_by_more_than_a_tenth() {
        let of = |scheduled, issued| Dispersion { width_us: 100_000, windows: 50, scheduled, issued };
        assert!(!of(1.0, 1.09).is_off() && of(1.0, 1.11).is_off() && of(1.0, 0.8).is_off());
        assert!(!of(0.0, 0.05).is_off(), "even arrivals are not issued to the microsecond");
        assert!(of(0.0, 0.2).is_off());
        assert!(!of(10.0, 10.9).is_off() && of(10.0, 11.1).is_off());
    }
}
