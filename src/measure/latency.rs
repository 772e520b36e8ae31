//! What a table says of a histogram.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Histogram;

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
    /// Of waits: how long the shortest one lasted that was not served. It counts here as long as it lasted, so every
    /// percentile that is not shorter, and the mean, are lower bounds. `None` when all were served.
    pub at_least_from_us: Option<u64>,
}

impl Latency {
    /// The numbers of a histogram; `None` when it has no sample, because then nothing was measured.
    #[must_use]
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
            at_least_from_us: None,
        })
    }

    /// The numbers of all waits, those that were not served among them; `None` when there was none.
    #[must_use]
    pub fn of_waits(served: Option<&Histogram>, unserved: Option<&Histogram>) -> Option<Self> {
        let all = with_unserved(served, unserved)?;
        let from = unserved.filter(|unserved| !unserved.is_empty()).map(Histogram::min);
        Some(Self { at_least_from_us: from, ..Self::of(&all)? })
    }
}

/// All waits in one histogram, those that were not served as long as they lasted; `None` when there was none.
#[must_use]
pub fn with_unserved(served: Option<&Histogram>, unserved: Option<&Histogram>) -> Option<Histogram> {
    let all = [served, unserved].into_iter().flatten().cloned().reduce(pooled)?;
    (!all.is_empty()).then_some(all)
}

/// Two histograms as one.
#[must_use]
pub fn pooled(mut all: Histogram, more: Histogram) -> Histogram {
    // All histograms of the suite share their bounds, so this cannot fail; were it to, the rest would still be a true
    // sample.
    let _ = all.add(more);
    all
}

/// The value at a quantile. A histogram rounds up to the end of a bucket, which may lie above its largest sample.
#[must_use]
pub fn value_at(histogram: &Histogram, quantile: f64) -> u64 {
    histogram.value_at_quantile(quantile).min(histogram.max())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::new_histogram;

    #[test]
    fn no_sample_is_no_latency_and_not_zero() {
        assert_eq!(Latency::of(&new_histogram()), None);
    }

    #[test]
    fn waits_that_were_not_served_count_as_long_as_they_lasted_and_say_from_where_on() {
        let of = |values: &[u64]| {
            let mut histogram = new_histogram();
            values.iter().for_each(|value| histogram.record(*value).unwrap());
            histogram
        };
        let (served, unserved) = (of(&[10, 20, 30]), of(&[25, 900]));
        let all = Latency::of_waits(Some(&served), Some(&unserved)).unwrap();
        assert_eq!((all.count, all.p50_us, all.max_us, all.at_least_from_us), (5, 25, 900, Some(25)));
        let none = Latency::of_waits(Some(&served), Some(&new_histogram())).unwrap();
        assert_eq!((none.count, none.at_least_from_us), (3, None));
        assert_eq!(Latency::of_waits(None, Some(&unserved)).unwrap().count, 2);
        assert_eq!(Latency::of_waits(None, None), None);
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
