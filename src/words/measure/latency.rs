//! What a table says of a histogram.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::survival::ROUNDING;
use super::{Histogram, Survival};

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
    /// bounds; see [`super::Survival`]. 1 where all were served.
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
            min_us: waits.shortest_us(),
            mean_us: waits.mean_us(),
            p50_us: at(0.5),
            p90_us: at(0.9),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us: waits.longest().us,
            known: waits.known(),
            max_at_least: waits.longest().at_least,
        }
    }
}

impl Latency {
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
    use super::*;
    use crate::words::measure::{Samples, new_histogram};

    #[test]
    fn no_sample_is_no_latency_and_not_zero() {
        assert_eq!(Latency::of(&new_histogram()), None);
    }

    #[test]
    fn of_waits_it_says_from_where_on_percentiles_are_lower_bounds() {
        let of = |values: &[u64]| {
            let mut histogram = new_histogram();
            values.iter().for_each(|value| histogram.record(*value).unwrap());
            histogram
        };
        let (served, unserved) = (of(&[10, 20, 30, 40]), of(&[900]));
        let waits = |samples| Latency::of_waits(&Survival::of(samples).unwrap());
        let all = waits(Samples { ended: Some(&served), not_ended: Some(&unserved), begun_before: None });
        assert_eq!((all.count, all.p50_us, all.p99_us, all.max_us), (5, 30, 900, 900));
        assert!((all.known - 0.8).abs() < 1e-9 && all.max_at_least);
        assert_eq!(
            [0.5, 0.8, 0.9, 1.0].map(|quantile| all.is_at_least(quantile)),
            [false, false, true, true]
        );
        let none = waits(Samples { ended: Some(&served), ..Samples::default() });
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
