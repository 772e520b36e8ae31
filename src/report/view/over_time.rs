//! The course of trials, in steps that fit how long they are and how often the lock was acquired.

use super::cell::{Cell, Spread};
use crate::results::record::{Steady, Trial};

/// Acquisitions of one measured phase, in bins of equal length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bins {
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

#[derive(Debug, Clone, PartialEq)]
pub struct RateOverTime {
    pub bin_us: u64,
    /// Acquisitions a second in each bin: the median over the repetitions that count and lasted that long.
    pub per_second: Vec<f64>,
}

/// With fewer acquisitions in a bin, on average, a course goes up and down between none and one.
const PER_BIN: f64 = 8.0;
/// More bins than this cannot be told apart.
const BINS_AT_MOST: u64 = 150;
const BINS_AT_LEAST: usize = 2;

impl Cell<'_> {
    /// Its course, in steps of which each has some acquisitions; `None` where that leaves no two of them.
    pub fn over_time(&self) -> Option<RateOverTime> {
        RateOverTime::of(&self.counting().map(Bins::of).collect::<Vec<_>>())
    }
}

impl RateOverTime {
    fn of(all: &[Bins]) -> Option<Self> {
        let all: Vec<&Bins> = all.iter().filter(|bins| !bins.acquired.is_empty()).collect();
        let coarsest = all.iter().map(|bins| bins.bin_us).max().filter(|us| *us > 0)?;
        let (lasted, acquired) = all.iter().fold((0, 0), |(lasted, acquired), bins| {
            (lasted + bins.lasted_us(), acquired + bins.acquired.iter().sum::<u64>())
        });
        let longest = all.iter().map(|bins| bins.lasted_us()).max()?;
        let by_count = if acquired == 0 { 0.0 } else { lasted as f64 / acquired as f64 * PER_BIN };
        let wanted = by_count.max((longest / BINS_AT_MOST) as f64);
        let times = STEPS.into_iter().find(|times| (times * coarsest) as f64 >= wanted)?;
        let bin_us = times * coarsest;
        let merged: Vec<Bins> = all.iter().map(|bins| bins.merged(bin_us / bins.bin_us.max(1))).collect();
        let most = merged.iter().map(|bins| bins.acquired.len()).max()?;
        let at = |bin: usize| {
            let rate = |bins: &Bins| Some(*bins.acquired.get(bin)? as f64 / (bin_us as f64 / 1e6));
            Spread::of(merged.iter().filter_map(rate)).map(|spread| spread.median)
        };
        let per_second: Vec<f64> = (0..most).filter_map(at).collect();
        (per_second.len() >= BINS_AT_LEAST).then_some(RateOverTime { bin_us, per_second })
    }
}

/// How many times as long as it was recorded a bin may become.
const STEPS: [u64; 16] =
    [1, 2, 4, 10, 20, 40, 100, 200, 400, 1_000, 2_000, 4_000, 10_000, 20_000, 40_000, 100_000];

#[cfg(test)]
mod tests {
    use super::*;

    fn course(bin_us: u64, acquired: Vec<u64>) -> Option<RateOverTime> {
        RateOverTime::of(&[Bins { bin_us, acquired }])
    }

    #[test]
    fn below_one_acquisition_a_second_the_steps_are_long_enough_to_have_several() {
        // Given a minute in which every other second has an acquisition
        let course = course(1_000_000, (0..60).map(|at| at % 2).collect()).unwrap();
        assert_eq!(course.bin_us, 20_000_000);
        assert_eq!(course.per_second, [0.5, 0.5, 0.5]);
    }

    #[test]
    fn a_fast_lock_has_steps_that_show_an_outage_of_half_a_second() {
        // Given three seconds at 400 a second, in slots of 25 ms, with half a second of nothing
        let acquired = (0..120).map(|slot| if (40..60).contains(&slot) { 0 } else { 10 }).collect();
        let course = course(25_000, acquired).unwrap();
        assert_eq!(course.bin_us, 25_000);
        assert_eq!(course.per_second.iter().filter(|rate| **rate == 0.0).count(), 20);
    }

    #[test]
    fn what_was_not_recorded_has_no_course() {
        assert_eq!(course(1_000_000, Vec::new()), None);
        assert_eq!(RateOverTime::of(&[]), None);
    }
}
