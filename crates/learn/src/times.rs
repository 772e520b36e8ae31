//! Distributions of logged times, which have a resolution of 1 ms, and bounds for the times that the clients
//! observed.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Histogram of times in ms.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Values {
    counts: BTreeMap<u32, u64>,
    pub count: u64,
}

impl Values {
    pub fn add(&mut self, ms: u32) {
        self.add_many(ms, 1);
    }

    pub fn add_many(&mut self, ms: u32, count: u64) {
        *self.counts.entry(ms).or_default() += count;
        self.count += count;
    }

    pub fn take(&mut self, other: &Self) {
        other.counts.iter().for_each(|(ms, count)| self.add_many(*ms, *count));
    }

    /// Returns the quantile: the smallest value that at least this share of all values does not exceed.
    pub fn quantile(&self, share: f64) -> Option<u32> {
        let rank = ((share * self.count as f64).ceil() as u64).clamp(1, self.count.max(1));
        let mut sum = 0;
        self.counts.iter().find(|(_, count)| (sum += **count, sum >= rank).1).map(|(ms, _)| *ms)
    }

    /// Returns the quantile in µs. A value of k ms is the difference of two rounded times, so it represents k
    /// − ½ to k + ½. Zeros count as exact, because most are waits for a free lock.
    pub fn quantile_us(&self, share: f64) -> Option<f64> {
        let (rank, mut below) = ((share * self.count as f64).max(0.5), 0.0);
        let at = |(ms, count): (&u32, &u64)| {
            let within = (rank - below) / *count as f64;
            below += *count as f64;
            (within <= 1.0 + f64::EPSILON)
                .then(|| if *ms == 0 { 0.0 } else { (f64::from(*ms) - 0.5 + within) * 1e3 })
        };
        self.counts.iter().find_map(at)
    }

    /// Returns the number of values above this one.
    pub fn above(&self, ms: u32) -> u64 {
        self.counts.iter().filter(|(value, _)| **value > ms).map(|(_, count)| count).sum()
    }

    pub fn mean_ms(&self) -> f64 {
        let sum: f64 = self.counts.iter().map(|(ms, count)| f64::from(*ms) * *count as f64).sum();
        sum / self.count.max(1) as f64
    }

    pub fn most(&self) -> u32 {
        self.counts.keys().next_back().copied().unwrap_or(0)
    }

    /// Returns at most `most` values that represent all values: evenly spaced quantiles and the largest value.
    pub fn condensed(&self, most: usize) -> Vec<u32> {
        let count = most.min(usize::try_from(self.count).unwrap_or(usize::MAX));
        let at = |at: usize| self.quantile((at as f64 + 0.5) / count as f64).unwrap_or(0);
        let mut values: Vec<u32> = (0..count).map(at).collect();
        if let Some(last) = values.last_mut() {
            *last = self.most();
        }
        values
    }
}

/// Direction in which a logged time differs from the time that the client observed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Shift {
    /// A logged hold includes the handoff at its start.
    HoldsTooLong,
    /// A logged wait ends before the handoff.
    WaitsTooShort,
}

/// A logged time, with bounds for the time that the client observed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Bounded {
    /// Logged value.
    pub logged_us: u64,
    /// Lower bound.
    pub low_us: u64,
    /// Best estimate.
    pub estimate_us: u64,
    /// Upper bound.
    pub high_us: u64,
}

/// The part of a logged time that is handoff.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Handoff {
    /// Lower bound.
    pub least_us: u64,
    /// Best estimate.
    pub estimate_us: u64,
    /// Upper bound.
    pub most_us: u64,
    /// Best estimate of the 99th percentile. Slow handoffs lengthen the tails of waits and of logged holds.
    #[serde(default)]
    pub p99_us: u64,
    /// Source of the estimate.
    pub basis: HandoffBasis,
}

impl Handoff {
    /// Assumed ratio of the 99th percentile to the median, if only the median is known.
    pub const TAIL: u64 = 5;

    /// Returns the quantile of a log-logistic distribution with the estimated median and 99th percentile.
    fn quantile_us(&self, share: f64) -> f64 {
        let median = self.estimate_us.max(1) as f64;
        let exponent = (self.p99_us as f64 / median).max(1.0).ln() / 99_f64.ln();
        median * (share / (1.0 - share)).powf(exponent)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HandoffBasis {
    /// Specified by the user.
    Given,
    /// Measured: the log shows when clients of this recipe notice a grant.
    Measured,
    /// Estimated from the time between a release and the same session's next create, i.e. from a commit and
    /// round trips.
    Estimated,
    /// Only bounded, by the shortest holds. The estimate is half of the bound, but at most 2 ms.
    Bounded,
}

/// A point of a distribution: a share and its quantile.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    /// The share.
    pub share: f64,
    /// The time, as logged.
    pub us: u64,
}

/// A distribution of times.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Times {
    /// Number of times.
    pub count: u64,
    /// Mean, as logged.
    pub mean_us: u64,
    /// Median.
    pub p50: Bounded,
    /// 90th percentile.
    pub p90: Bounded,
    /// 99th percentile.
    pub p99: Bounded,
    /// Longest time, as logged.
    pub max_us: u64,
    /// The whole distribution.
    pub curve: Vec<Point>,
}

/// Shares at which a distribution is stored.
const CURVE: [f64; 14] = [0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.99, 0.999, 0.9999];
/// Resolution of the log.
const MS: u64 = 1_000;

impl Times {
    /// Computes the distribution; `None` if there are no values.
    pub fn of(values: &Values, shift: Shift, handoff: &Handoff) -> Option<Self> {
        let us = |ms: u32| u64::from(ms) * MS;
        let at = |share: f64| bounded(values, share, shift, handoff);
        let is_known = |share: &&f64| values.count as f64 * (1.0 - **share) >= 1.0 || **share <= 0.9;
        let point = |share: &f64| Some(Point { share: *share, us: us(values.quantile(*share)?) });
        let last = Point { share: 1.0, us: us(values.most()) };
        // Slow handoffs widen the bounds of the tail, but bounds never decrease from one percentile to the
        // next.
        let above = |lower: Bounded, share: f64| {
            let at = at(share)?;
            let low_us = at.low_us.max(lower.low_us);
            Some(Bounded { low_us, estimate_us: at.estimate_us.max(lower.estimate_us), ..at })
        };
        let p50 = at(0.5)?;
        let p90 = above(p50, 0.9)?;
        Some(Self {
            count: values.count,
            mean_us: (values.mean_ms() * MS as f64) as u64,
            p50,
            p90,
            p99: above(p90, 0.99)?,
            max_us: us(values.most()),
            curve: CURVE.iter().filter(is_known).filter_map(point).chain([last]).collect(),
        })
    }
}

/// Returns the factor for the tail of a distribution: on busy hosts, slow handoffs take up to ten times as long
/// as usual.
fn longer_in_tail(share: f64) -> u64 {
    match share {
        0.0..0.75 => 1,
        0.75..0.95 => 3,
        _ => 10,
    }
}

fn bounded(values: &Values, share: f64, shift: Shift, handoff: &Handoff) -> Option<Bounded> {
    let Handoff { least_us, most_us, .. } = *handoff;
    let logged_us = u64::from(values.quantile(share)?) * MS;
    let most_us = most_us * longer_in_tail(share);
    let (low_us, estimate_us, high_us) = match shift {
        Shift::HoldsTooLong => (
            logged_us.saturating_sub(most_us + MS),
            without_handoff(values, share, handoff)?,
            (logged_us + MS).saturating_sub(least_us),
        ),
        Shift::WaitsTooShort => {
            let low_us = (logged_us + least_us).saturating_sub(MS);
            (low_us, with_handoff(values, share, handoff)?, logged_us + most_us + MS)
        }
    };
    let estimate_us = (estimate_us.max(0.0) as u64).clamp(low_us, high_us.max(low_us));
    Some(Bounded { logged_us, low_us, estimate_us, high_us })
}

/// Returns the quantile of times without their handoffs. Variances of independent times add up, so slow
/// handoffs account for part of the tail.
fn without_handoff(values: &Values, share: f64, handoff: &Handoff) -> Option<f64> {
    let median = values.quantile_us(0.5)?;
    let spread = values.quantile_us(share)? - median;
    let of_handoff = handoff.quantile_us(share) - handoff.quantile_us(0.5);
    Some(median - handoff.quantile_us(0.5) + (spread * spread - of_handoff * of_handoff).max(0.0).sqrt())
}

/// Returns the quantile of the sums of independent times and handoffs.
fn with_handoff(values: &Values, share: f64, handoff: &Handoff) -> Option<f64> {
    const POINTS: usize = 200;
    let handoffs: Vec<f64> =
        (0..POINTS).map(|at| handoff.quantile_us((at as f64 + 0.5) / POINTS as f64)).collect();
    let mut sum = 0;
    let sums: Vec<(u32, u64)> =
        values.counts.iter().map(|(ms, count)| (*ms, (sum += count, sum).1)).collect();
    let below = |us: f64| match sums.partition_point(|(ms, _)| f64::from(*ms) * 1e3 <= us) {
        0 => 0,
        count => sums[count - 1].1,
    };
    let (mut low, mut high) = (0.0, values.quantile_us(1.0)? + handoffs.last()?);
    for _ in 0..40 {
        let middle = f64::midpoint(low, high);
        let within: u64 = handoffs.iter().map(|handoff| below(middle - handoff)).sum();
        let is_reached = within as f64 >= share * (values.count * POINTS as u64) as f64;
        if is_reached { high = middle } else { low = middle }
    }
    Some(high)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(all: impl IntoIterator<Item = u32>) -> Values {
        let mut values = Values::default();
        all.into_iter().for_each(|ms| values.add(ms));
        values
    }

    #[test]
    fn quantiles_are_taken_from_the_sorted_values() {
        let values = values((1..=100).rev());
        let at = [0.0, 0.01, 0.5, 0.99, 1.0].map(|share| values.quantile(share));
        assert_eq!(at, [1, 1, 50, 99, 100].map(Some));
        assert_eq!((values.mean_ms(), values.most(), Values::default().quantile(0.5)), (50.5, 100, None));
    }

    #[test]
    fn condensed_values_keep_the_quantiles_and_the_maximum() {
        let values = values((1..=10_000).chain([90_000]));
        let few = values.condensed(100);
        assert_eq!((few.len(), few[0], few[50], few[99]), (100, 51, 5_051, 90_000));
        assert_eq!(super::Values::default().condensed(10), Vec::<u32>::new());
    }

    fn handoff(p99_us: u64) -> Handoff {
        Handoff { least_us: 0, estimate_us: 3_000, most_us: 5_000, p99_us, basis: HandoffBasis::Estimated }
    }

    #[test]
    fn handoff_shortens_holds_and_lengthens_waits() {
        let of = |ms: u32, shift| bounded(&values([ms; 9]), 0.5, shift, &handoff(15_000)).unwrap();
        let hold = of(20, Shift::HoldsTooLong);
        assert_eq!((hold.low_us, hold.estimate_us, hold.high_us), (14_000, 17_000, 21_000));
        let wait = of(0, Shift::WaitsTooShort);
        assert_eq!((wait.low_us, wait.high_us), (0, 6_000));
        assert!(wait.estimate_us.abs_diff(3_000) < 100, "{wait:?}");
    }

    #[test]
    fn bounds_never_decrease_from_one_percentile_to_the_next() {
        let times =
            Times::of(&values([20; 99].into_iter().chain([50])), Shift::HoldsTooLong, &handoff(15_000));
        let Times { p50, p99, .. } = times.unwrap();
        assert_eq!((p50.low_us, p99.low_us), (14_000, 14_000));
    }

    #[test]
    fn slow_handoffs_explain_the_tail_of_constant_but_not_varying_holds() {
        // Holds of 100 ms; 2 % of their handoffs took 12 ms longer.
        let constant = values((0..100).map(|of| if of < 98 { 103 } else { 115 }));
        let p99 =
            |values: &Values, shift| bounded(values, 0.99, shift, &handoff(15_000)).unwrap().estimate_us;
        assert!(p99(&constant, Shift::HoldsTooLong).abs_diff(100_000) <= 1_000);
        let varying = values((0..1_000).map(|of| of + 3));
        assert!(p99(&varying, Shift::HoldsTooLong).abs_diff(990_000) <= 1_000);
        // If no client has to wait, each wait is only a handoff.
        assert!(p99(&values([0; 9]), Shift::WaitsTooShort).abs_diff(15_000) <= 1_500);
    }
}
