//! A cell: one strategy at one contender count, with all its repetitions and its metrics.

use std::borrow::Cow;

use crate::document::Value;
use zklockbench_core::measure::{Histogram, Measure, Quantile, RequestKind, Survival, Woken};
use zklockbench_core::units::grouped;
use zklockbench_core::verdict::Verdict;
use zklockbench_record::figures::REQUESTS_PER_ACQUISITION;
use zklockbench_record::{Counting, FigureEntry, Steady, Trial};
use zklockbench_stats::median;

/// One strategy at one contender count.
///
/// Metrics come from the valid trials. If none is valid, they come from all trials, and [`Cell::is_sound`] is
/// false.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell<'a> {
    /// Position in [`super::View::strategies`].
    pub strategy: usize,
    pub contenders: usize,
    pub trials: Vec<Cow<'a, Trial>>,
}

/// Median and range over the repetitions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    pub median: f64,
    pub min: f64,
    pub max: f64,
    pub count: usize,
}

impl Spread {
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        let all = || values.iter().copied();
        let (min, max) = (all().reduce(f64::min)?, all().reduce(f64::max)?);
        Some(Self { median: median(&values)?, min, max, count: values.len() })
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Percentile {
    pub us: f64,
    /// Whether the value is a lower bound, because of unserved waits.
    pub at_least: bool,
}

impl Percentile {
    /// Returns the text for tables: `12 ms`, or `≥ 12 ms`.
    pub fn shown(self) -> String {
        Value::from(self).shown()
    }
}

impl From<Percentile> for Value {
    fn from(value: Percentile) -> Self {
        Self::Duration(value.us).at_least(value.at_least)
    }
}

impl Cell<'_> {
    pub fn all(&self) -> impl Iterator<Item = &Trial> {
        self.trials.iter().map(AsRef::as_ref)
    }

    /// Returns whether any trial is valid, i.e. neither invalid nor partial.
    pub fn is_sound(&self) -> bool {
        self.all().any(Trial::is_sound)
    }

    /// Returns the trials from which metrics come: the valid trials, or all trials if none is valid.
    pub fn counting(&self) -> impl Iterator<Item = &Trial> {
        let any_sound = self.is_sound();
        self.all().filter(move |trial| trial.is_sound() || !any_sound)
    }

    /// Returns the spread of a metric over the valid trials (all trials if none is valid); `None` if none of
    /// them measured it.
    pub fn spread(&self, figure: impl Fn(&Trial) -> Option<f64>) -> Option<Spread> {
        Spread::of(self.counting().filter_map(figure))
    }

    /// Returns the median of a table metric over the valid trials (all trials if none is valid).
    pub fn figure(&self, entry: &FigureEntry) -> Option<f64> {
        self.median(|one| entry.of(one))
    }

    /// Returns the median of a metric over the valid trials (all trials if none is valid).
    pub fn median(&self, figure: impl Fn(&Trial) -> Option<f64>) -> Option<f64> {
        self.spread(figure).map(|spread| spread.median)
    }

    /// Returns the samples of a measure in the valid trials (all trials if none is valid).
    fn samples(&self, measure: Measure) -> impl Iterator<Item = &Histogram> {
        self.counting().filter_map(move |one| one.histograms.get(&measure))
    }

    pub fn has_samples(&self, measure: Measure) -> bool {
        let unserved = measure.open_parts().map(|parts| self.samples(parts.not_ended));
        self.samples(measure).chain(unserved.into_iter().flatten()).any(|samples| !samples.is_empty())
    }

    /// Returns whether the queue grew in a valid trial (in any trial if none is valid).
    pub fn is_unstable(&self) -> bool {
        self.counting().any(Trial::is_unstable)
    }

    /// Returns a percentile of a measure: the median over the valid trials (all trials if none is valid). It
    /// is a lower bound if any trial's value is one. `None` if there are no samples, and for waits if the
    /// queue grew.
    pub fn percentile(&self, measure: Measure, quantile: f64) -> Option<Percentile> {
        if measure.is_of_the_queue() && self.is_unstable() {
            return None;
        }
        let each: Vec<Quantile> =
            self.counting().filter_map(|one| Some(one.survival(measure)?.quantile(quantile))).collect();
        let us = Spread::of(each.iter().map(|one| one.us as f64))?.median;
        Some(Percentile { us, at_least: each.iter().any(|one| one.at_least) })
    }

    /// Returns the longest sample in the valid trials (all trials if none is valid).
    pub fn longest(&self, measure: Measure) -> Option<Percentile> {
        let each = self.counting().filter_map(|one| Some(one.survival(measure)?.longest));
        let longest = each.max_by_key(|one| (one.us, one.at_least))?;
        Some(Percentile { us: longest.us as f64, at_least: longest.at_least })
    }

    /// Returns the pooled samples of the valid trials (all trials if none is valid); `None` if there are no
    /// samples.
    pub fn pooled(&self, measure: Measure) -> Option<Survival> {
        Survival::of_pooled(measure, |part| self.samples(part).collect())
    }

    /// Returns the delays from a release to its notifications by class of ranks: medians over the valid
    /// trials (all trials if none is valid). Empty if nothing was recorded.
    pub fn herd(&self) -> Vec<Woken> {
        let all = self.counting().flat_map(|one| one.herd.iter().flatten());
        let mut classes = grouped(all.map(|woken| (woken.from_rank, woken)));
        classes.sort_by_key(|(rank, _)| *rank);
        let median = |all: &[&Woken], us: fn(&Woken) -> u64| {
            let spread = Spread::of(all.iter().map(|woken| us(woken) as f64));
            spread.map_or(0, |spread| spread.median.round() as u64)
        };
        let pooled = |all: Vec<&Woken>| Woken {
            count: all.iter().map(|woken| woken.count).sum(),
            p50_us: median(&all, |woken| woken.p50_us),
            p99_us: median(&all, |woken| woken.p99_us),
            ..*all[0]
        };
        classes.into_iter().map(|(_, all)| pooled(all)).collect()
    }

    /// Returns the requests per acquisition by kind, from the trial with the median total, so that the kinds
    /// add up to the total in the table. With an even number of trials, averages the middle two.
    pub fn requests(&self) -> Vec<(RequestKind, f64)> {
        let mut counting: Vec<(f64, &Trial)> =
            self.counting().filter_map(|one| Some((REQUESTS_PER_ACQUISITION.of(one)?, one))).collect();
        counting.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        let Some(last) = counting.len().checked_sub(1) else { return Vec::new() };
        let middle = [counting[last / 2].1, counting[counting.len() / 2].1].map(Trial::requests_by_kind);
        let amount = |kind| {
            let counted = middle.iter().flatten();
            counted.map(|(requests, acquired)| requests.get(kind) as f64 / *acquired as f64).sum::<f64>()
                / 2.0
        };
        let kinds = RequestKind::ALL.into_iter().map(|kind| (kind, amount(kind)));
        kinds.filter(|(_, amount)| *amount > 0.0).collect()
    }

    /// Returns the throughput over time, in steps long enough to contain several acquisitions on average; `None`
    /// if there are fewer than two steps.
    pub fn over_time(&self) -> Option<RateOverTime> {
        RateOverTime::of(&self.counting().map(Bins::of).collect::<Vec<_>>())
    }

    pub fn on_the_wire(&self) -> Option<&Counting> {
        self.counting().find_map(Trial::on_the_wire)
    }

    /// Returns the verdict over all trials; never held if one of them is partial. A single contender has no
    /// verdict unless a promise was broken.
    pub fn verdict(&self) -> Option<Verdict> {
        verdict(self.all(), self.contenders)
    }

    /// Returns the verdict as a value, with a special word if contenders were only stuck.
    pub fn judged(&self) -> Option<Value> {
        self.verdict().map(|verdict| Value::judged(&verdict, self.is_only_stuck()))
    }

    /// Returns whether a promise was broken in any trial.
    pub fn is_violated(&self) -> bool {
        self.all().any(Trial::is_violated)
    }

    /// Returns whether stuck contenders are the only violations in all trials.
    pub fn is_only_stuck(&self) -> bool {
        let mut violated = self.all().filter(|one| one.is_violated());
        self.is_violated() && violated.all(|one| one.judged.is_only_stuck())
    }

    /// Returns the reason for the first violation.
    pub fn why_violated(&self) -> Option<String> {
        self.all().find(|one| one.is_violated())?.judged.why.clone()
    }

    /// Returns the number of contenders that took part in the trial with the fewest.
    pub fn took_part(&self) -> u64 {
        self.all().map(Trial::took_part).min().unwrap_or(0)
    }

    pub fn sum(&self, count: impl Fn(&Trial) -> u64) -> u64 {
        self.all().map(count).sum()
    }

    pub fn violations(&self) -> u64 {
        self.sum(|trial| trial.violation_count)
    }
}

pub(super) fn verdict<'t>(trials: impl Iterator<Item = &'t Trial>, contenders: usize) -> Option<Verdict> {
    let verdict = trials.map(|one| one.judged.verdict.clone()).reduce(Verdict::and)?;
    match verdict {
        Verdict::Violated(_) => Some(verdict),
        _ if contenders < 2 => None,
        Verdict::Held | Verdict::Unknown(_) => Some(verdict),
    }
}

/// Acquisitions of one measured phase, in bins of equal length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bins {
    pub bin_us: u64,
    pub acquired: Vec<u64>,
}

impl Bins {
    /// Returns bins at the recorded resolution: slots of a few milliseconds or, from older versions, seconds.
    pub fn of(trial: &Trial) -> Self {
        let seconds = || (1_000_000, trial.timeline.iter().map(|second| second.acquisitions).collect());
        let slots = |steady: &Steady| {
            // Slots start with the load, including the unmeasured warm-up.
            let before = steady.warm_up_us.checked_div(steady.slot_us)?;
            let after = steady.acquired.get(usize::try_from(before).ok()?..)?;
            let acquired: Vec<u64> = after.iter().map(|count| u64::from(*count)).collect();
            (!acquired.is_empty()).then_some((steady.slot_us, acquired))
        };
        let (bin_us, mut acquired) = trial.steady.as_ref().and_then(slots).unwrap_or_else(seconds);
        // An incomplete last bin is dropped, because it would look like a collapse.
        acquired.truncate(usize::try_from(trial.measured_us / bin_us.max(1)).unwrap_or(usize::MAX));
        Self { bin_us, acquired }
    }

    fn merged(&self, times: u64) -> Self {
        let times = usize::try_from(times.max(1)).unwrap_or(usize::MAX);
        let acquired = self.acquired.chunks_exact(times).map(|bins| bins.iter().sum()).collect();
        Self { bin_us: self.bin_us * times as u64, acquired }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct RateOverTime {
    pub bin_us: u64,
    /// Acquisitions per second in each bin: the median over the repetitions that lasted that long.
    pub per_second: Vec<f64>,
}

/// Minimum mean number of acquisitions per bin, to avoid a line that jumps between 0 and 1.
const PER_BIN: f64 = 8.0;
/// Maximum number of distinguishable bins.
const BINS_AT_MOST: u64 = 150;
const BINS_AT_LEAST: usize = 2;

impl RateOverTime {
    fn of(all: &[Bins]) -> Option<Self> {
        let all: Vec<&Bins> = all.iter().filter(|bins| !bins.acquired.is_empty()).collect();
        let coarsest = all.iter().map(|bins| bins.bin_us).max().filter(|us| *us > 0)?;
        let lengths = || all.iter().map(|bins| bins.bin_us * bins.acquired.len() as u64);
        let (lasted, longest) = (lengths().sum::<u64>(), lengths().max()?);
        let acquired: u64 = all.iter().flat_map(|bins| &bins.acquired).sum();
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

/// Factors by which a recorded bin may be lengthened.
const STEPS: [u64; 16] =
    [1, 2, 4, 10, 20, 40, 100, 200, 400, 1_000, 2_000, 4_000, 10_000, 20_000, 40_000, 100_000];

#[cfg(test)]
mod tests {
    use super::*;

    fn course(bin_us: u64, acquired: Vec<u64>) -> Option<RateOverTime> {
        RateOverTime::of(&[Bins { bin_us, acquired }])
    }

    #[test]
    fn steps_last_several_seconds_when_acquisitions_are_rare() {
        // Given a minute with an acquisition in every other second
        let course = course(1_000_000, (0..60).map(|at| at % 2).collect()).unwrap();
        assert_eq!(course.bin_us, 20_000_000);
        assert_eq!(course.per_second, [0.5, 0.5, 0.5]);
    }

    #[test]
    fn steps_of_a_fast_lock_reveal_a_half_second_outage() {
        // Given three seconds at 400 per second, in slots of 25 ms, with an outage of half a second
        let acquired = (0..120).map(|slot| if (40..60).contains(&slot) { 0 } else { 10 }).collect();
        let course = course(25_000, acquired).unwrap();
        assert_eq!(course.bin_us, 25_000);
        assert_eq!(course.per_second.iter().filter(|rate| **rate == 0.0).count(), 20);
    }

    #[test]
    fn trial_without_recorded_acquisitions_has_no_timeline() {
        assert_eq!(course(1_000_000, Vec::new()), None);
        assert_eq!(RateOverTime::of(&[]), None);
    }
}
