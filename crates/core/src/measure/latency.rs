//! How long things took, as tables say it; also where some had not ended when the last look was taken.
//!
//! A wait that timed out, or was still going on when the measured phase ended, is known to have lasted at least so long.
//! To leave it out would flatter a lock that lets some contenders starve; to count it as over would, too. The
//! product-limit estimator does neither: at each length it asks which share of the waits that were known to have lasted
//! that long ended then. Where waits that were not served are longer than all that were, the percentiles beyond have no
//! value, only a lower bound.
//!
//! A wait that had begun before the measured phase is only known of because it had not ended by then, so long waits are met
//! more often than they begin. It counts from the length that it had when the phase began (delayed entry): among those that
//! had lasted for less, it says nothing.
//!
//! Sources: E. L. Kaplan and P. Meier, Nonparametric Estimation from Incomplete Observations, 1958; W. Y. Tsai, N. P. Jewell
//! and M. C. Wang, A note on the product-limit estimator under right censoring and left truncation, 1987.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Histogram, Measure};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quantile {
    pub us: u64,
    /// It is at least this: what was not served could make it longer by any amount.
    pub at_least: bool,
}

/// The samples of a measure, those that were not seen to end among them.
#[derive(Debug, Clone, Copy)]
pub struct Samples<H> {
    ended: Option<H>,
    /// What had lasted so long and not ended.
    not_ended: Option<H>,
    /// How long some of these had lasted when the measured phase began.
    begun_before: Option<H>,
    /// Whether others that had not ended were not recorded, as in files of earlier versions.
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
    /// Each length that something took, in microseconds, and the share that took no longer; rising.
    pub steps: Vec<(u64, f64)>,
    /// The longest of all, and whether that one had not ended.
    pub longest: Quantile,
    pub shortest_us: u64,
    count: u64,
    /// Whether waits that were not served are missing, so that everything but the count is a lower bound.
    lacks_unserved: bool,
    /// Of lengths up to the longest that is known, so a lower bound where [`Survival::known`] is below 1.
    pub mean_us: f64,
}

impl Survival {
    /// How rare the rarest is that a curve shows, as one in so many: beyond it fewer than ten samples remain, or only those
    /// that had not ended. Of ten samples or fewer all are shown.
    pub fn rarest_shown(&self) -> f64 {
        let count = self.count() as f64;
        let shown = (count / 10.0).max(count.min(10.0));
        let unknown = 1.0 - self.known();
        (if unknown > 1e-9 { shown.min(1.0 / unknown) } else { shown }).clamp(1.1, 1e6)
    }

    /// Of samples that ended, and of others that had not; `None` when there is neither.
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
        // Those that last at least so long, and of them those that are not known of yet.
        let (mut lasting, mut entering) = (count, lengths.values().map(|at| at.entered).sum::<u64>());
        let (mut surviving, mut mean_us, mut before) = (1.0, 0.0, 0);
        let mut steps = Vec::new();
        for (us, LengthCounts { ended, open, entered }) in &lengths {
            mean_us += surviving * (us - before) as f64;
            before = *us;
            if *ended > 0 {
                // One that ends in the bucket in which it became known is among them.
                let known = lasting.saturating_sub(entering).max(*ended);
                // Where all that were known of have ended, and others went on for longer, these must not be hidden.
                let is_empty = known == *ended && lasting > ended + open;
                let at_risk = if is_empty { lasting } else { known };
                surviving *= (at_risk - ended) as f64 / at_risk as f64;
                steps.push((*us, 1.0 - surviving));
            }
            lasting -= ended + open;
            entering -= entered;
        }
        // A histogram's buckets end beyond their samples.
        let most =
            |samples: Option<&Histogram>| samples.filter(|all| !all.is_empty()).map_or(0, Histogram::max);
        let least =
            [ended, not_ended].into_iter().flatten().filter(|all| !all.is_empty()).map(Histogram::min).min();
        let at_least = *lacks_unserved || most(not_ended) > most(ended);
        let longest = Quantile { us: most(ended).max(most(not_ended)), at_least };
        let lacks_unserved = *lacks_unserved;
        Some(Self { steps, longest, shortest_us: least?, count, lacks_unserved, mean_us })
    }

    /// Of a measure of several trials, taken together.
    pub fn of_pooled<'a>(measure: Measure, each: impl Fn(Measure) -> Vec<&'a Histogram>) -> Option<Self> {
        Self::of(&Samples::of(measure, |part| each(part).into_iter().cloned().reduce(pooled)))
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    /// The share of which it is known how long they took: percentiles up to it have a value, and those beyond a lower
    /// bound.
    pub fn known(&self) -> f64 {
        self.steps.last().filter(|_| !self.lacks_unserved).map_or(0.0, |(_, share)| *share)
    }

    /// The length that so large a share takes at most.
    pub fn quantile(&self, quantile: f64) -> Quantile {
        let at = self.steps.partition_point(|(_, share)| *share < quantile - ROUNDING);
        match self.steps.get(at) {
            Some((us, _)) => Quantile { us: (*us).min(self.longest.us), at_least: self.lacks_unserved },
            None => Quantile { at_least: true, ..self.longest },
        }
    }
}

pub fn pooled(mut all: Histogram, more: Histogram) -> Histogram {
    // All histograms of the suite share their bounds, so this cannot fail; were it to, the rest would still be a true
    // sample.
    let _ = all.add(more);
    all
}

#[derive(Debug, Clone, Copy, Default)]
struct LengthCounts {
    ended: u64,
    open: u64,
    entered: u64,
}

/// By how much a product of fractions may be wrong.
const ROUNDING: f64 = 1e-9;

/// Count, mean and percentiles of one measure, in microseconds. The whole histogram lies in the trial's `.hlog`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    /// Samples.
    pub count: u64,
    /// The smallest.
    pub min_us: u64,
    /// The mean.
    pub mean_us: f64,
    /// The median.
    pub p50_us: u64,
    /// The 90th percentile.
    pub p90_us: u64,
    /// The 99th percentile.
    pub p99_us: u64,
    /// The 99.9th percentile.
    pub p999_us: u64,
    /// The largest.
    pub max_us: u64,
    /// Of waits: the share of which it is known how long they took. Percentiles beyond it, and below 1 the mean, are lower
    /// bounds; see [`Survival`]. 1 where all were served.
    pub known: f64,
    /// Whether the largest is one that was not served, and so a lower bound.
    pub max_at_least: bool,
}

impl Latency {
    /// The numbers of a histogram; `None` when it has no sample, because then nothing was measured.
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

    /// The numbers of all waits, those that were not served among them.
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

    /// Whether the percentile at that quantile, of waits, is a lower bound.
    pub fn is_at_least(&self, quantile: f64) -> bool {
        self.known < quantile - ROUNDING
    }
}

/// The value at a quantile. A histogram rounds up to the end of a bucket, which may lie above its largest sample.
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
    fn a_curve_is_shown_as_far_as_ten_samples_remain_beyond_it() {
        let of = |count: u64| both(&(1..=count).collect::<Vec<_>>(), &[]);
        assert_eq!(
            [5, 10, 50, 1_000, 20_000].map(|count| of(count).rarest_shown()),
            [5.0, 10.0, 10.0, 100.0, 2_000.0]
        );
        // Nor further than waits that had not ended leave it known.
        assert!((both(&[10, 20, 30, 40], &[900]).rarest_shown() - 5.0).abs() < 1e-6);
    }

    #[test]
    fn a_wait_that_goes_on_for_longer_than_all_others_makes_the_last_percentiles_lower_bounds() {
        // Given four waits that ended, and one that did not
        let waits = both(&[10, 20, 30, 40], &[900]);
        assert_eq!([0.2, 0.5, 0.8].map(|q| waits.quantile(q)), [10, 30, 40].map(exactly));
        assert_eq!([0.81, 0.99, 1.0].map(|q| waits.quantile(q)), [at_least(900); 3]);
        assert_eq!((waits.count(), waits.longest), (5, at_least(900)));
        assert!((waits.known() - 0.8).abs() < 1e-9);
    }

    #[test]
    fn waits_that_were_under_way_when_the_phase_ended_leave_the_others_as_they_are() {
        // Given a fair queue in which each waits for about 200 us, and four that had waited for less when it ended
        let waits = both(&[198, 199, 200, 201, 202], &[40, 80, 120, 160]);
        assert_eq!([0.2, 0.5, 1.0].map(|q| waits.quantile(q)), [198, 200, 202].map(exactly));
        assert_eq!((waits.known(), waits.longest, waits.shortest_us), (1.0, exactly(202), 40));
    }

    #[test]
    fn the_textbooks_example_comes_out() {
        // Kaplan and Meier's own: deaths at 0.8, 3.1, 5.4, 9.2; losses at 1.0, 2.7, 7.0, 12.1 (times ten here).
        let waits = both(&[8, 31, 54, 92], &[10, 27, 70, 121]);
        let surviving: Vec<f64> = waits.steps.iter().map(|(_, share)| 1.0 - share).collect();
        let expected = [7.0 / 8.0, 7.0 / 8.0 * 4.0 / 5.0, 7.0 / 8.0 * 3.0 / 5.0, 7.0 / 8.0 * 3.0 / 10.0];
        assert!(
            surviving.iter().zip(expected).all(|(one, other)| (one - other).abs() < 1e-9),
            "{surviving:?}"
        );
    }

    #[test]
    fn where_nobody_was_served_all_are_lower_bounds_and_nothing_is_nothing() {
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
    fn waits_that_had_begun_before_the_phase_count_from_the_length_that_they_had() {
        // Given contenders that wait for 1 ms on average and as often for long as for short, and a phase of two turns each
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
        // When those that had begun before are taken for whole, then waits seem longer than they are
        assert!(both(&ended, &open).mean_us > 1_200.0);
        // And when they count from then on, not
        let all = begun(&ended, &open, &before);
        assert!((all.mean_us - 1_000.0).abs() < 30.0, "{}", all.mean_us);
        let (p50, p99) = (all.quantile(0.5).us as f64, all.quantile(0.99).us as f64);
        assert!((p50 - 693.0).abs() < 30.0 && (p99 - 4_605.0).abs() < 400.0, "{p50} {p99}");
    }

    #[test]
    fn what_starves_all_along_is_not_hidden_by_those_that_are_served_at_once() {
        // Given one that is served again and again, and two that had waited for long and went on waiting
        let waits = begun(&[1; 50], &[900, 950], &[300, 350]);
        // Then most waits are short, and the tail is theirs
        assert_eq!((waits.quantile(0.5), waits.quantile(0.99)), (exactly(1), at_least(950)));
        assert!((waits.known() - 50.0 / 52.0).abs() < 1e-9, "{}", waits.known());
    }

    proptest! {
        #[test]
        fn without_any_that_did_not_end_it_is_the_histogram_itself(
            values in prop::collection::vec(1..2_000_u64, 1..300), quantile in 0.001..1.0_f64,
        ) {
            let histogram = of(&values);
            let all = both(&values, &[]);
            prop_assert_eq!(all.quantile(quantile), exactly(crate::measure::value_at(&histogram, quantile)));
            prop_assert!((all.mean_us - histogram.mean()).abs() < 1.0);
            prop_assert_eq!(all.known(), 1.0);
        }

        #[test]
        fn what_did_not_end_never_makes_a_percentile_shorter(
            ended in prop::collection::vec(1..2_000_u64, 1..100),
            open in prop::collection::vec(1..2_000_u64, 0..100),
            quantile in 0.001..1.0_f64,
        ) {
            let (with, without) = (both(&ended, &open), both(&ended, &[]));
            prop_assert!(with.quantile(quantile).us >= without.quantile(quantile).us);
        }
    }

    #[test]
    fn every_part_of_the_wait_counts_what_was_not_served() {
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
            // Earlier versions did not keep which waits were not served.
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
    fn no_sample_is_no_latency_and_not_zero() {
        assert_eq!(Latency::of(&new_histogram()), None);
    }

    #[test]
    fn of_waits_it_says_from_where_on_percentiles_are_lower_bounds() {
        let (served, unserved) = (of(&[10, 20, 30, 40]), of(&[900]));
        let waits = |not_ended| {
            let samples =
                Samples { ended: Some(&served), not_ended, begun_before: None, lacks_unserved: false };
            Latency::of_waits(&Survival::of(&samples).unwrap())
        };
        let all = waits(Some(&unserved));
        assert_eq!((all.count, all.p50_us, all.p99_us, all.max_us), (5, 30, 900, 900));
        assert!((all.known - 0.8).abs() < 1e-9 && all.max_at_least);
        assert_eq!(
            [0.5, 0.8, 0.9, 1.0].map(|quantile| all.is_at_least(quantile)),
            [false, false, true, true]
        );
        let none = waits(None);
        assert_eq!(
            (none, none.known),
            (Latency { mean_us: none.mean_us, ..Latency::of(&served).unwrap() }, 1.0)
        );
    }

    #[test]
    fn percentiles_come_from_the_histogram() {
        let mut histogram = new_histogram();
        (1..=1000).for_each(|value| histogram.record(value).unwrap());
        let latency = Latency::of(&histogram).unwrap();
        assert_eq!((latency.count, latency.min_us, latency.p50_us, latency.p99_us), (1000, 1, 500, 990));
        assert_eq!((latency.p999_us, latency.max_us), (999, 1000));
        assert!((latency.mean_us - 500.5).abs() < 0.5);
    }
}
