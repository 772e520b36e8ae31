//! How the load of a trial went: how it came to its steady state, and whether it was one; and of an open load, what
//! became of the arrivals, how unevenly they came, and whether the generator issued them as they were scheduled.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use zklockbench_core::measure::{Growth, added_up, growth};

/// Arrivals that were due in the measured phase, whenever they ended: each was served, dropped, or not served.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Arrived {
    /// Arrivals that were due.
    pub offered: u64,
    /// Arrivals for which acquire was called.
    pub started: u64,
    /// Arrivals that got the lock.
    pub served: u64,
    /// Arrivals that did not, because acquire failed or timed out, or because the backlog was given up.
    pub unserved: u64,
    /// Arrivals that found no free session and were dropped, as the scenario says.
    pub dropped: u64,
    /// How long it took after the measured phase until all had ended, in microseconds.
    pub backlog_us: u64,
}

impl Arrived {
    /// Who achieves less than this share of what was offered has missed it; the rest may be chance.
    pub const ACHIEVED: f64 = 0.98;
}

added_up!(Arrived { offered, started, served, unserved, dropped, backlog_us });

/// The index of dispersion of counts, in windows of one width: the variance of how many arrive in a window, divided by their
/// mean. 1 for a Poisson process, nearly 0 where they come evenly, more where they come in bursts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Dispersion {
    /// The width of a window, in microseconds.
    pub width_us: u64,
    /// How many windows the measured phase has.
    pub windows: usize,
    /// Of the arrivals as they were due.
    pub scheduled: f64,
    /// Of the arrivals as the generator issued them. One that waited in the client for a free session counts as issued when
    /// it was due: that is the lock's doing.
    pub issued: f64,
}

impl Dispersion {
    /// The widths: a tenth of a second, a second, ten seconds.
    pub const WIDTHS_US: [u64; 3] = [100_000, 1_000_000, 10_000_000];
    /// Of fewer windows a variance says little.
    pub const WINDOWS_AT_LEAST: usize = 20;
    /// The largest difference between the two, as a share of the scheduled one or, where that is less, of a Poisson process'.
    pub const OFF_AT_MOST: f64 = 0.1;

    /// Of the counts in each window of that width; `None` of too few windows, or where nothing was due.
    pub fn of(width_us: u64, scheduled: &[u64], issued: &[u64]) -> Option<Self> {
        let windows = scheduled.len();
        if windows < Self::WINDOWS_AT_LEAST {
            return None;
        }
        let (scheduled, issued) = (index_of_dispersion(scheduled)?, index_of_dispersion(issued)?);
        Some(Self { width_us, windows, scheduled, issued })
    }

    /// Whether the arrivals were not issued as they were scheduled: more evenly, or in bursts of the generator's own.
    pub fn is_off(&self) -> bool {
        (self.issued - self.scheduled).abs() > Self::OFF_AT_MOST * self.scheduled.max(1.0)
    }
}

/// Variance over mean; `None` where the mean is 0.
fn index_of_dispersion(counts: &[u64]) -> Option<f64> {
    let number = counts.len() as f64;
    let mean = counts.iter().sum::<u64>() as f64 / number;
    let squares: f64 = counts.iter().map(|count| (*count as f64 - mean).powi(2)).sum();
    (mean > 0.0).then(|| squares / (number - 1.0) / mean)
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn even_counts_have_none_and_all_in_one_window_as_much_as_there_are() {
        let even = Dispersion::of(100_000, &[5; 20], &[5; 20]).unwrap();
        assert_eq!((even.scheduled, even.windows), (0.0, 20));
        let mut burst = [0; 20];
        burst[7] = 100;
        // The mean is 5, the squares are 19 × 25 + 95² = 9500: 9500 / 19 / 5 = 100.
        let issued = Dispersion::of(100_000, &[5; 20], &burst).unwrap().issued;
        assert!((issued - 100.0).abs() < 1e-9, "{issued}");
    }

    #[test]
    fn of_too_few_windows_and_of_no_arrival_nothing_is_said() {
        assert_eq!(Dispersion::of(100_000, &[5; 19], &[5; 19]), None);
        assert_eq!(Dispersion::of(100_000, &[0; 20], &[0; 20]), None);
    }

    #[test]
    fn it_is_off_beyond_a_tenth() {
        let of = |scheduled, issued| Dispersion { width_us: 100_000, windows: 50, scheduled, issued };
        assert!(!of(1.0, 1.09).is_off() && of(1.0, 1.11).is_off() && of(1.0, 0.8).is_off());
        assert!(!of(0.0, 0.05).is_off(), "even arrivals can't be met to the microsecond");
        assert!(of(0.0, 0.2).is_off());
        assert!(!of(10.0, 10.9).is_off() && of(10.0, 11.1).is_off());
    }
}
