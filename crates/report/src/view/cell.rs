//! One strategy at one contender count, over all its repetitions, and all that a table or chart may say of them together: their
//! figures, and their course in steps that fit how long they are and how often the lock was acquired.

use std::borrow::Cow;
use std::collections::BTreeMap;

use zklockbench_core::measure::{Histogram, Measure, Quantile, RequestKind, Survival, Woken};
use zklockbench_core::units::{at_least, format_micros};
use zklockbench_core::verdict::Verdict;
use zklockbench_record::figures::REQUESTS_PER_ACQUISITION;
use zklockbench_record::{Counting, EnsembleOrder, FigureEntry, Steady, Trial};
use zklockbench_stats::median;

/// One strategy at one contender count.
///
/// Figures are taken over the sound trials. Where there is none, they are taken over all, and
/// [`Cell::is_sound`] says so: a renderer then marks the figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell<'a> {
    /// Position in [`super::View::strategies`].
    pub strategy: usize,
    pub contenders: usize,
    pub trials: Vec<Cow<'a, Trial>>,
}

/// The middle and the ends of what the repetitions gave.
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
    /// Waits that were not served could make it longer: it is at least this.
    pub at_least: bool,
}

impl Percentile {
    /// As tables show it: `12 ms`, or `≥ 12 ms`.
    pub fn shown(&self) -> String {
        at_least(format_micros(self.us.round() as u64), self.at_least)
    }
}

impl Cell<'_> {
    pub fn all(&self) -> impl Iterator<Item = &Trial> {
        self.trials.iter().map(AsRef::as_ref)
    }

    /// Whether at least one trial is neither invalid nor partial.
    pub fn is_sound(&self) -> bool {
        self.all().any(Trial::is_sound)
    }

    /// The trials whose figures count: the sound ones or, where there is none, all.
    pub fn counting(&self) -> impl Iterator<Item = &Trial> {
        let any_sound = self.is_sound();
        self.all().filter(move |trial| trial.is_sound() || !any_sound)
    }

    /// The spread of a figure over the trials that count; `None` when none measured it.
    pub fn spread(&self, figure: impl Fn(&Trial) -> Option<f64>) -> Option<Spread> {
        Spread::of(self.counting().filter_map(figure))
    }

    /// The median of a figure of the table over the trials that count.
    pub fn figure(&self, entry: &FigureEntry) -> Option<f64> {
        self.median(|one| entry.of(one))
    }

    /// The median of a figure over the trials that count.
    pub fn median(&self, figure: impl Fn(&Trial) -> Option<f64>) -> Option<f64> {
        self.spread(figure).map(|spread| spread.median)
    }

    /// The samples of a measure in the trials that count.
    fn samples(&self, measure: Measure) -> impl Iterator<Item = &Histogram> {
        self.counting().filter_map(move |one| one.histograms.get(&measure))
    }

    pub fn has_samples(&self, measure: Measure) -> bool {
        let unserved = measure.open_parts().map(|parts| self.samples(parts.not_ended));
        self.samples(measure).chain(unserved.into_iter().flatten()).any(|samples| !samples.is_empty())
    }

    /// Whether the queue grew in a trial that counts.
    pub fn is_unstable(&self) -> bool {
        self.counting().any(Trial::is_unstable)
    }

    pub fn is_open(&self) -> bool {
        self.all().any(|one| one.arrived.is_some())
    }

    /// A percentile of a measure: the median over the trials that count of what it is in each; a lower bound as soon
    /// as it is one in any of them. `None` when none has a sample, and for the waits of a queue that grew: they would only say
    /// how long the trial was.
    pub fn percentile(&self, measure: Measure, quantile: f64) -> Option<Percentile> {
        if measure.is_of_the_queue() && self.is_unstable() {
            return None;
        }
        let each: Vec<Quantile> =
            self.counting().filter_map(|one| Some(one.survival(measure)?.quantile(quantile))).collect();
        let us = Spread::of(each.iter().map(|one| one.us as f64))?.median;
        Some(Percentile { us, at_least: each.iter().any(|one| one.at_least) })
    }

    /// The longest of all samples of the trials that count.
    pub fn longest(&self, measure: Measure) -> Option<Percentile> {
        let each = self.counting().filter_map(|one| Some(one.survival(measure)?.longest));
        let longest = each.max_by_key(|one| (one.us, one.at_least))?;
        Some(Percentile { us: longest.us as f64, at_least: longest.at_least })
    }

    /// The samples of all trials that count, pooled; `None` when there is none.
    pub fn pooled(&self, measure: Measure) -> Option<Survival> {
        Survival::of_pooled(measure, |part| self.samples(part).collect())
    }

    /// How long after a release its waiters heard of it, class of ranks by class: the medians over the trials that
    /// count, and how many notifications those had together. Empty where none was recorded.
    pub fn herd(&self) -> Vec<Woken> {
        let mut classes: BTreeMap<u32, Vec<&Woken>> = BTreeMap::new();
        for woken in self.counting().flat_map(|one| one.herd.iter().flatten()) {
            classes.entry(woken.from_rank).or_default().push(woken);
        }
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
        classes.into_values().map(pooled).collect()
    }

    /// Requests per acquisition, kind by kind, of the trial with the median total (or of the two in the middle, half
    /// of each), so that the kinds add up to the median that the table shows.
    pub fn requests(&self) -> Vec<(RequestKind, f64)> {
        let mut counting: Vec<(f64, &Trial)> =
            self.counting().filter_map(|one| Some((REQUESTS_PER_ACQUISITION.of(one)?, one))).collect();
        counting.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        let Some(last) = counting.len().checked_sub(1) else { return Vec::new() };
        let middle = [counting[last / 2].1, counting[counting.len() / 2].1];
        let of = |kind, one: &Trial| {
            let counted = one.requests_by_kind();
            counted.map_or(0.0, |(requests, acquired)| requests.get(kind) as f64 / acquired as f64)
        };
        let amount = |kind| middle.into_iter().map(|one| of(kind, one)).sum::<f64>() / 2.0;
        let kinds = RequestKind::ALL.into_iter().map(|kind| (kind, amount(kind)));
        kinds.filter(|(_, amount)| *amount > 0.0).collect()
    }

    /// Its course, in steps of which each has some acquisitions; `None` where that leaves no two of them.
    pub fn over_time(&self) -> Option<RateOverTime> {
        RateOverTime::of(&self.counting().map(Bins::of).collect::<Vec<_>>())
    }

    pub fn on_the_wire(&self) -> Option<&Counting> {
        self.counting().find_map(Trial::on_the_wire)
    }

    /// What its trials are judged as, all together. Trials whose figures do not count leave it unknown. A single contender
    /// has nobody to exclude, so there is no verdict on it.
    pub fn verdict(&self) -> Option<Verdict> {
        verdict(self.all(), self.contenders)
    }

    /// Whether a promise was broken in any trial.
    pub fn is_violated(&self) -> bool {
        self.all().any(Trial::is_violated)
    }

    /// Whether the one promise that was broken, in whatever trial, is that everybody is served.
    pub fn is_only_stuck(&self) -> bool {
        let mut violated = self.all().filter(|one| one.is_violated()).peekable();
        violated.peek().is_some() && violated.all(|one| one.judged.is_only_stuck())
    }

    /// Why: what was judged of the first trial in which one was.
    pub fn why_violated(&self) -> Option<String> {
        self.all().find(|one| one.is_violated())?.judged.why.clone()
    }

    /// How many of its contenders took part in the trial with the fewest.
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

fn verdict<'t>(trials: impl Iterator<Item = &'t Trial>, contenders: usize) -> Option<Verdict> {
    let verdict = trials.map(|one| one.judged.verdict.clone()).reduce(Verdict::and)?;
    match verdict {
        Verdict::Violated(_) => Some(verdict),
        _ if contenders < 2 => None,
        Verdict::Held | Verdict::Unknown(_) => Some(verdict),
    }
}

/// What these trials are judged as in a word: `VIOLATED`, `held` or `unknown`.
pub(super) fn verdict_word<'t>(
    trials: impl Iterator<Item = &'t Trial>,
    contenders: usize,
) -> Option<&'static str> {
    let verdict = verdict(trials, contenders)?;
    Some(if matches!(verdict, Verdict::Violated(_)) { "VIOLATED" } else { verdict.word() })
}

/// Entries, compared with when the ensemble deleted the node of the holder before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EntryOrder {
    pub compared: u64,
    /// Those before the deletion: by the servers' clock or by their transactions, whichever tells more.
    pub too_early: u64,
}

impl From<&EnsembleOrder> for EntryOrder {
    fn from(stored: &EnsembleOrder) -> Self {
        Self { compared: stored.checked, too_early: stored.overlaps.max(stored.too_early) }
    }
}

impl EntryOrder {
    pub fn and(self, other: Self) -> Self {
        Self { compared: self.compared + other.compared, too_early: self.too_early + other.too_early }
    }
}

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

    fn merged(&self, times: u64) -> Self {
        let times = usize::try_from(times.max(1)).unwrap_or(usize::MAX);
        Self {
            bin_us: self.bin_us * times as u64,
            acquired: self.acquired.chunks_exact(times).map(|bins| bins.iter().sum()).collect(),
        }
    }

    /// How long the full bins are together, in microseconds.
    fn lasted_us(&self) -> u64 {
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
    fn unrecorded_values_have_no_timeline() {
        assert_eq!(course(1_000_000, Vec::new()), None);
        assert_eq!(RateOverTime::of(&[]), None);
    }
}
