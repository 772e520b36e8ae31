//! A histogram in eight numbers; the whole of it lies in the trial's `.hlog`.

use serde::{Deserialize, Serialize};

use crate::measure::Histogram;

/// Count, mean and percentiles of one measure, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
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
}

impl Latency {
    /// The numbers of a histogram; `None` when it has no sample, because then nothing was measured.
    #[must_use]
    pub fn of(histogram: &Histogram) -> Option<Self> {
        (!histogram.is_empty()).then(|| Self {
            count: histogram.len(),
            min_us: histogram.min(),
            mean_us: histogram.mean(),
            p50_us: histogram.value_at_quantile(0.5),
            p90_us: histogram.value_at_quantile(0.9),
            p99_us: histogram.value_at_quantile(0.99),
            p999_us: histogram.value_at_quantile(0.999),
            max_us: histogram.max(),
        })
    }
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
    fn percentiles_come_from_the_histogram() {
        let mut histogram = new_histogram();
        (1..=1000).for_each(|value| histogram.record(value).unwrap());
        let latency = Latency::of(&histogram).unwrap();
        assert_eq!((latency.count, latency.min_us, latency.p50_us, latency.p99_us), (1000, 1, 500, 990));
        assert_eq!((latency.p999_us, latency.max_us), (999, 1000));
        assert!((latency.mean_us - 500.5).abs() < 0.5);
    }
}
