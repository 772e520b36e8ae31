//! Latencies as shown in tables, including samples that had not ended by the end of the measured phase.
//!
//! A wait that timed out, or was still in progress when the phase ended, lasted at least as long as observed.
//! Omitting such waits would flatter a lock that starves some contenders, and so would counting them as
//! complete. The product-limit estimator avoids both errors. For each length, the estimator computes the
//! share of waits that ended at that length, among all waits that lasted at least that long. If the longest
//! waits were not served, percentiles beyond these waits have only a lower bound.
//!
//! Waits that began before the measured phase are known only if they lasted until its start, so long waits
//! are overrepresented. Each of these waits counts from its length at that time (delayed entry), because it
//! contains no information about shorter waits.
//!
//! Sources: E. L. Kaplan and P. Meier, Nonparametric Estimation from Incomplete Observations, 1958; W. Y.
//! Tsai, N. P. Jewell and M. C. Wang, A note on the product-limit estimator under right censoring and left
//! truncation, 1987.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Histogram, Measure};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quantile {
    pub us: u64,
    /// Whether `us` is a lower bound, because some samples had not ended.
    pub at_least: bool,
}

/// Samples of a measure, including samples without an observed end.
#[derive(Debug, Clone, Copy)]
pub struct Samples<H> {
    ended: Option<H>,
    /// Lengths of samples that had not ended.
    not_ended: Option<H>,
    /// Lengths, at the start of the measured phase, of samples that started earlier.
    begun_before: Option<H>,
    /// Whether samples that had not ended are missing, as in files of older versions.
    lacks_unserved: bool,
}

impl<H: Borrow<Histogram>> Samples<H> {
    pub fn of(measure: Measure, find: impl Fn(Measure) -> Option<H>) -> Self {
        let count =
            |part: &Measure| find(*part).map_or(0, |samples| Borrow::<Histogram>::borrow(&samples).len());
        let parts = measure.open_parts();
        Self {
            ended: find(measure),
            not_ended: parts.and_then(|parts| find(parts.not_ended)),
            begun_before: parts.and_then(|parts| find(parts.begun_before?)),
            lacks_unserved: parts
                .is_some_and(|parts| count(&Measure::Unserved) > parts.split.iter().map(count).sum::<u64>()),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Survival {
    /// Each observed length in microseconds with the share of samples that took no longer, in ascending
    /// order.
    pub steps: Vec<(u64, f64)>,
    /// Longest sample; a lower bound if it had not ended.
    pub longest: Quantile,
    pub shortest_us: u64,
    count: u64,
    /// Whether unserved waits are missing. If so, everything but the count is a lower bound.
    lacks_unserved: bool,
    /// Mean length, cut off at the longest sample; a lower bound if [`Survival::known`] is below 1.
    pub mean_us: f64,
}

impl Survival {
    /// Returns n for the rarest sample (one in n) that a curve shows. Beyond that sample, fewer than ten
    /// samples remain, or only unfinished samples. If there are at most ten samples, all are shown.
    pub fn rarest_shown(&self) -> f64 {
        let count = self.count() as f64;
        let shown = (count / 10.0).max(count.min(10.0));
        let unknown = 1.0 - self.known();
        (if unknown > 1e-9 { shown.min(1.0 / unknown) } else { shown }).clamp(1.1, 1e6)
    }

    /// Estimates the distribution from ended and open samples; `None` if there are no samples.
    pub fn of<H: Borrow<Histogram>>(samples: &Samples<H>) -> Option<Self> {
        let Samples { ended, not_ended, begun_before, lacks_unserved } = samples;
        let [ended, not_ended, begun_before] =
            [ended, not_ended, begun_before].map(|part| part.as_ref().map(Borrow::<Histogram>::borrow));
        let mut lengths: BTreeMap<u64, LengthCounts> = BTreeMap::new();
        let mut add = |samples: Option<&Histogram>, to: fn(&mut LengthCounts) -> &mut u64| {
            for step in samples.into_iter().flat_map(Histogram::iter_recorded) {
                *to(lengths.entry(step.value_iterated_to()).or_default()) += step.count_at_value();
            }
        };
        add(ended, |at| &mut at.ended);
        add(not_ended, |at| &mut at.open);
        add(begun_before, |at| &mut at.entered);
        let count: u64 = lengths.values().map(|at| at.ended + at.open).sum();
        // Number of samples at least as long as the current length, and how many of them enter later.
        let (mut lasting, mut entering) = (count, lengths.values().map(|at| at.entered).sum::<u64>());
        let (mut surviving, mut mean_us, mut before) = (1.0, 0.0, 0);
        let mut steps = Vec::new();
        for (us, LengthCounts { ended, open, entered }) in &lengths {
            mean_us += surviving * (us - before) as f64;
            before = *us;
            if *ended > 0 {
                // Samples that enter and end in the same bucket are also at risk.
                let known = lasting.saturating_sub(entering).max(*ended);
                // If all samples at risk ended here, the estimate would drop to zero and hide longer samples
                // that enter later.
                let is_empty = known == *ended && lasting > ended + open;
                let at_risk = if is_empty { lasting } else { known };
                surviving *= (at_risk - ended) as f64 / at_risk as f64;
                steps.push((*us, 1.0 - surviving));
            }
            lasting -= ended + open;
            entering -= entered;
        }
        // Steps are bucket ends, which may exceed the largest sample.
        let most =
            |samples: Option<&Histogram>| samples.filter(|all| !all.is_empty()).map_or(0, Histogram::max);
        let least =
            [ended, not_ended].into_iter().flatten().filter(|all| !all.is_empty()).map(Histogram::min).min();
        let at_least = *lacks_unserved || most(not_ended) > most(ended);
        let longest = Quantile { us: most(ended).max(most(not_ended)), at_least };
        let lacks_unserved = *lacks_unserved;
        Some(Self { steps, longest, shortest_us: least?, count, lacks_unserved, mean_us })
    }

    /// Estimates the distribution of a measure over several pooled trials.
    pub fn of_pooled<'a>(measure: Measure, each: impl Fn(Measure) -> Vec<&'a Histogram>) -> Option<Self> {
        Self::of(&Samples::of(measure, |part| each(part).into_iter().cloned().reduce(pooled)))
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the share of samples whose length is known. Percentiles beyond this share are lower bounds.
    pub fn known(&self) -> f64 {
        self.steps.last().filter(|_| !self.lacks_unserved).map_or(0.0, |(_, share)| *share)
    }

    /// Returns the estimated share of samples that take at most `us` microseconds.
    pub fn share_within(&self, us: f64) -> f64 {
        let beyond = self.steps.partition_point(|(step, _)| *step as f64 <= us);
        beyond.checked_sub(1).map_or(0.0, |last| self.steps[last].1)
    }

    /// Returns the length that this share of the samples does not exceed.
    pub fn quantile(&self, quantile: f64) -> Quantile {
        let at = self.steps.partition_point(|(_, share)| *share < quantile - ROUNDING);
        match self.steps.get(at) {
            Some((us, _)) => Quantile { us: (*us).min(self.longest.us), at_least: self.lacks_unserved },
            None => Quantile { at_least: true, ..self.longest },
        }
    }
}

pub fn pooled(mut all: Histogram, more: Histogram) -> Histogram {
    // All histograms have the same bounds, so the addition cannot fail. If it did, `all` would still be a
    // valid sample.
    let _ = all.add(more);
    all
}

#[derive(Debug, Clone, Copy, Default)]
struct LengthCounts {
    ended: u64,
    open: u64,
    entered: u64,
}

/// Tolerance for the rounding error of a product of fractions.
const ROUNDING: f64 = 1e-9;

/// Count, mean and percentiles of one measure, in microseconds. The full histogram is in the trial's `.hlog`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    /// Number of samples.
    pub count: u64,
    /// Smallest sample.
    pub min_us: u64,
    /// Arithmetic mean.
    pub mean_us: f64,
    /// 50th percentile.
    pub p50_us: u64,
    /// 90th percentile.
    pub p90_us: u64,
    /// 99th percentile.
    pub p99_us: u64,
    /// 99.9th percentile.
    pub p999_us: u64,
    /// Largest sample.
    pub max_us: u64,
    /// Share of the waits whose length is known; 1 if all were served. Percentiles beyond this share are
    /// lower bounds, and so is the mean if the share is below 1.
    pub known: f64,
    /// Whether the largest sample is a lower bound, because that wait was not served.
    pub max_at_least: bool,
}

impl Latency {
    /// Computes the statistics of a histogram; `None` if the histogram is empty.
    pub fn of(histogram: &Histogram) -> Option<Self> {
        let at = |quantile| value_at(histogram, quantile);
        (!histogram.is_empty()).then(|| Self {
            count: histogram.len(),
            min_us: histogram.min(),
            mean_us: histogram.mean(),
            p50_us: at(0.5),
            p90_us: at(0.9),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us: histogram.max(),
            known: 1.0,
            max_at_least: false,
        })
    }

    /// Computes the statistics of all waits, including unserved ones.
    pub fn of_waits(waits: &Survival) -> Self {
        let at = |quantile| waits.quantile(quantile).us;
        Self {
            count: waits.count(),
            min_us: waits.shortest_us,
            mean_us: waits.mean_us,
            p50_us: at(0.5),
            p90_us: at(0.9),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us: waits.longest.us,
            known: waits.known(),
            max_at_least: waits.longest.at_least,
        }
    }

    /// Returns whether this percentile of the waits is a lower bound.
    pub fn is_at_least(&self, quantile: f64) -> bool {
        self.known < quantile - ROUNDING
    }
}

/// Returns the value at a quantile, capped at the largest sample. A histogram rounds up to the end of a
/// bucket.
pub fn value_at(histogram: &Histogram, quantile: f64) -> u64 {
    histogram.value_at_quantile(quantile).min(histogram.max())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;
    use rand_distr::Exp1;

    use super::*;
    use crate::measure::new_histogram;

    fn of(values: &[u64]) -> Histogram {
        let mut histogram = new_histogram();
        values.iter().for_each(|value| histogram.record(*value).unwrap());
        histogram
    }

    fn both(ended: &[u64], not_ended: &[u64]) -> Survival {
        begun(ended, not_ended, &[])
    }

    fn begun(ended: &[u64], not_ended: &[u64], begun_before: &[u64]) -> Survival {
        let [ended, not_ended, begun_before] = [ended, not_ended, begun_before].map(of);
        let [ended, not_ended, begun_before] = [&ended, &not_ended, &begun_before].map(Some);
        Survival::of(&Samples { ended, not_ended, begun_before, lacks_unserved: false }).unwrap()
    }

    const fn exactly(us: u64) -> Quantile {
        Quantile { us, at_least: false }
    }

    const fn at_least(us: u64) -> Quantile {
        Quantile { us, at_least: true }
    }

    #[test]
    fn rarest_shown_sample_has_ten_samples_beyond_it() {
        let of = |count: u64| both(&(1..=count).collect::<Vec<_>>(), &[]);
        let found = [5, 10, 50, 1_000, 20_000].map(|count| of(count).rarest_shown());
        assert_eq!(found, [5.0, 10.0, 10.0, 100.0, 2_000.0]);
        // Unfinished waits limit the curve, too.
        assert!((both(&[10, 20, 30, 40], &[900]).rarest_shown() - 5.0).abs() < 1e-6);
    }

    #[test]
    fn highest_percentiles_are_lower_bounds_if_the_longest_wait_is_open() {
        // Given four waits that ended and a longer one that did not
        let waits = both(&[10, 20, 30, 40], &[900]);
        assert_eq!([0.2, 0.5, 0.8].map(|q| waits.quantile(q)), [10, 30, 40].map(exactly));
        assert_eq!([0.81, 0.99, 1.0].map(|q| waits.quantile(q)), [at_least(900); 3]);
        assert_eq!((waits.count(), waits.longest), (5, at_least(900)));
        assert!((waits.known() - 0.8).abs() < 1e-9);
    }

    #[test]
    fn share_within_a_limit_counts_waits_up_to_the_limit() {
        let waits = both(&[10, 20, 30, 40], &[900]);
        let shares = [5.0, 20.0, 25.0, 2_000.0].map(|limit| waits.share_within(limit));
        assert!(shares.iter().zip([0.0, 0.4, 0.4, 0.8]).all(|(is, wanted)| (is - wanted).abs() < 1e-9));
    }

    #[test]
    fn open_waits_shorter_than_ended_ones_leave_percentiles_unchanged() {
        // Given a fair queue with waits of about 200 µs, and four waits that were shorter when the phase
        // ended
        let waits = both(&[198, 199, 200, 201, 202], &[40, 80, 120, 160]);
        assert_eq!([0.2, 0.5, 1.0].map(|q| waits.quantile(q)), [198, 200, 202].map(exactly));
        assert_eq!((waits.known(), waits.longest, waits.shortest_us), (1.0, exactly(202), 40));
    }

    #[test]
    fn survival_reproduces_the_example_of_kaplan_and_meier() {
        // The example of Kaplan and Meier, times ten: deaths at 0.8, 3.1, 5.4, 9.2; losses at 1.0, 2.7, 7.0,
        // 12.1.
        let waits = both(&[8, 31, 54, 92], &[10, 27, 70, 121]);
        let surviving: Vec<f64> = waits.steps.iter().map(|(_, share)| 1.0 - share).collect();
        let expected = [7.0 / 8.0, 7.0 / 8.0 * 4.0 / 5.0, 7.0 / 8.0 * 3.0 / 5.0, 7.0 / 8.0 * 3.0 / 10.0];
        assert!(
            surviving.iter().zip(expected).all(|(one, other)| (one - other).abs() < 1e-9),
            "{surviving:?}"
        );
    }

    #[test]
    fn quantiles_are_lower_bounds_when_no_wait_was_served() {
        let none = both(&[], &[5, 7]);
        assert_eq!((none.quantile(0.5), none.known()), (at_least(7), 0.0));
        let empty = new_histogram();
        let of = |part: Measure, samples: Option<&Histogram>| {
            Survival::of(&Samples::of(Measure::Wait, |measure| if measure == part { samples } else { None }))
        };
        assert_eq!(of(Measure::Unserved, Some(&empty)), None);
        assert_eq!(of(Measure::Unserved, None), None);
    }

    #[test]
    fn waits_started_before_the_phase_are_treated_as_left_truncated() {
        // Given contenders with exponentially distributed waits of 1 ms on average, and a measured phase of 2
        // ms
        let (mut ended, mut open, mut before) = (Vec::new(), Vec::new(), Vec::new());
        let (begin, end) = (50_000, 52_000);
        let mut random = ChaCha8Rng::seed_from_u64(1);
        for _ in 0..3_000 {
            let mut at = 0;
            while at < end {
                let (began, took) = (at, (1_000.0 * random.sample::<f64, _>(Exp1)) as u64 + 1);
                at += took;
                if at < begin {
                    continue;
                }
                if began < begin {
                    before.push(begin - began);
                }
                if at < end { ended.push(took) } else { open.push(end - began) }
            }
        }
        // Counting earlier waits in full makes the mean too long
        assert!(both(&ended, &open).mean_us > 1_200.0);
        // Counting earlier waits from the start of the phase gives the right mean
        let all = begun(&ended, &open, &before);
        assert!((all.mean_us - 1_000.0).abs() < 30.0, "{}", all.mean_us);
        let (p50, p99) = (all.quantile(0.5).us as f64, all.quantile(0.99).us as f64);
        assert!((p50 - 693.0).abs() < 30.0 && (p99 - 4_605.0).abs() < 400.0, "{p50} {p99}");
    }

    #[test]
    fn short_waits_do_not_hide_starving_contenders() {
        // Given a contender that is served repeatedly, and two that started waiting before the phase and are
        // never served
        let waits = begun(&[1; 50], &[900, 950], &[300, 350]);
        // Then most waits are short, and the tail consists of the two long waits
        assert_eq!((waits.quantile(0.5), waits.quantile(0.99)), (exactly(1), at_least(950)));
        assert!((waits.known() - 50.0 / 52.0).abs() < 1e-9, "{}", waits.known());
    }

    proptest! {
        #[test]
        fn survival_equals_the_histogram_when_all_samples_ended(
            values in prop::collection::vec(1..2_000_u64, 1..300), quantile in 0.001..1.0_f64,
        ) {
            let histogram = of(&values);
            let all = both(&values, &[]);
            prop_assert_eq!(all.quantile(quantile), exactly(crate::measure::value_at(&histogram, quantile)));
            prop_assert!((all.mean_us - histogram.mean()).abs() < 1.0);
            prop_assert_eq!(all.known(), 1.0);
        }

        #[test]
        fn open_samples_never_shorten_a_percentile(
            ended in prop::collection::vec(1..2_000_u64, 1..100),
            open in prop::collection::vec(1..2_000_u64, 0..100),
            quantile in 0.001..1.0_f64,
        ) {
            let (with, without) = (both(&ended, &open), both(&ended, &[]));
            prop_assert!(with.quantile(quantile).us >= without.quantile(quantile).us);
        }
    }

    #[test]
    fn every_wait_measure_includes_unserved_waits() {
        for measure in Measure::all() {
            let Some(parts) = measure.open_parts() else { continue };
            let all = [(measure, of(&[69; 63])), (parts.not_ended, of(&[1_860; 64]))];
            let open = [(Measure::Unserved, of(&[1_860; 64]))];
            let survival = |measures: &[(Measure, Histogram)]| {
                let find = |part| measures.iter().find(|(of, _)| *of == part).map(|(_, samples)| samples);
                Survival::of(&Samples::of(measure, find)).unwrap()
            };
            assert_eq!(survival(&all).quantile(0.5).us, 1_860, "{measure:?}");
            assert!(survival(&all).quantile(0.5).at_least, "{measure:?}");
            assert_eq!(survival(&all[..1]).quantile(0.5), exactly(69), "{measure:?}");
            // Older versions recorded unserved waits only in total.
            let [served, _] = all;
            let [unserved] = open;
            let earlier = survival(&[served, unserved]);
            if measure != Measure::Wait {
                assert_eq!(earlier.quantile(0.5), at_least(69), "{measure:?}");
                assert_eq!((earlier.known(), earlier.longest.at_least), (0.0, true), "{measure:?}");
            }
        }
    }

    #[test]
    fn latency_of_waits_marks_percentiles_that_are_lower_bounds() {
        let (served, unserved) = (of(&[10, 20, 30, 40]), of(&[900]));
        let waits = |not_ended| {
            let samples =
                Samples { ended: Some(&served), not_ended, begun_before: None, lacks_unserved: false };
            Latency::of_waits(&Survival::of(&samples).unwrap())
        };
        let all = waits(Some(&unserved));
        assert_eq!((all.count, all.p50_us, all.p99_us, all.max_us), (5, 30, 900, 900));
        assert!((all.known - 0.8).abs() < 1e-9 && all.max_at_least);
        let found = [0.5, 0.8, 0.9, 1.0].map(|quantile| all.is_at_least(quantile));
        assert_eq!(found, [false, false, true, true]);
        let none = waits(None);
        assert_eq!(
            (none, none.known),
            (Latency { mean_us: none.mean_us, ..Latency::of(&served).unwrap() }, 1.0)
        );
    }

    #[test]
    fn latency_takes_percentiles_from_the_histogram() {
        let mut histogram = new_histogram();
        assert_eq!(Latency::of(&histogram), None, "without samples");
        (1..=1000).for_each(|value| histogram.record(value).unwrap());
        let latency = Latency::of(&histogram).unwrap();
        assert_eq!((latency.count, latency.min_us, latency.p50_us, latency.p99_us), (1000, 1, 500, 990));
        assert_eq!((latency.p999_us, latency.max_us), (999, 1000));
        assert!((latency.mean_us - 500.5).abs() < 0.5);
    }
}
