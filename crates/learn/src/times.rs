//! Distributions of logged times, which have a resolution of a millisecond, and bounds for the times that clients see.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Number of times by length in ms.
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

    /// The smallest value that at least this share of all values does not exceed.
    pub fn quantile(&self, share: f64) -> Option<u32> {
        let rank = ((share * self.count as f64).ceil() as u64).clamp(1, self.count.max(1));
        let mut sum = 0;
        self.counts.iter().find(|(_, count)| (sum += **count, sum >= rank).1).map(|(ms, _)| *ms)
    }

    pub fn mean_ms(&self) -> f64 {
        let sum: f64 = self.counts.iter().map(|(ms, count)| f64::from(*ms) * *count as f64).sum();
        sum / self.count.max(1) as f64
    }

    pub fn most(&self) -> u32 {
        self.counts.keys().next_back().copied().unwrap_or(0)
    }

    /// At most this many values that represent all: equidistant quantiles, and the longest.
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

/// How a logged time differs from the client's own, in ms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Shift {
    /// A logged hold begins with the handoff.
    HoldsTooLong,
    /// A logged wait ends before the handoff.
    WaitsTooShort,
}

/// A logged time, with bounds for the client's own time.
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

/// The part of a time that is handoff, in ms.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Handoff {
    /// Lower bound.
    pub least_us: u64,
    /// Best estimate.
    pub estimate_us: u64,
    /// Upper bound.
    pub most_us: u64,
    /// Source of the estimate.
    pub basis: HandoffBasis,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HandoffBasis {
    /// Given by the user.
    Given,
    /// Measured: the log shows when clients of this recipe notice a grant.
    Measured,
    /// Estimated by the shortest times between writes of one session, each of which takes a commit and a round trip.
    Estimated,
    /// Only bounded, by the shortest holds.
    Bounded,
}

/// A point of a distribution: a share of all times, and the time that it does not exceed.
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
    /// `None` without values.
    pub fn of(values: &Values, shift: Shift, handoff: &Handoff) -> Option<Self> {
        let us = |ms: u32| u64::from(ms) * MS;
        let at = |share: f64| Some(bounded(us(values.quantile(share)?), share, shift, handoff));
        let is_known = |share: &&f64| values.count as f64 * (1.0 - **share) >= 1.0 || **share <= 0.9;
        let point = |share: &f64| Some(Point { share: *share, us: us(values.quantile(*share)?) });
        let last = Point { share: 1.0, us: us(values.most()) };
        Some(Self {
            count: values.count,
            mean_us: (values.mean_ms() * MS as f64) as u64,
            p50: at(0.5)?,
            p90: at(0.9)?,
            p99: at(0.99)?,
            max_us: us(values.most()),
            curve: CURVE.iter().filter(is_known).filter_map(point).chain([last]).collect(),
        })
    }
}

/// Factor for the tail of a distribution, where handoffs take several times as long as usual.
fn longer_in_tail(share: f64) -> u64 {
    match share {
        0.0..0.75 => 1,
        0.75..0.95 => 3,
        _ => 5,
    }
}

fn bounded(logged_us: u64, share: f64, shift: Shift, handoff: &Handoff) -> Bounded {
    let Handoff { least_us, estimate_us, most_us, .. } = *handoff;
    let most_us = most_us * longer_in_tail(share);
    let (low_us, estimate_us, high_us) = match shift {
        Shift::HoldsTooLong => (
            logged_us.saturating_sub(most_us + MS),
            logged_us.saturating_sub(estimate_us),
            (logged_us + MS).saturating_sub(least_us),
        ),
        Shift::WaitsTooShort => {
            ((logged_us + least_us).saturating_sub(MS), logged_us + estimate_us, logged_us + most_us + MS)
        }
    };
    Bounded { logged_us, low_us, estimate_us, high_us }
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
    fn quantiles_are_those_of_the_sorted_values() {
        let values = values((1..=100).rev());
        let at = [0.0, 0.01, 0.5, 0.99, 1.0].map(|share| values.quantile(share));
        assert_eq!(at, [1, 1, 50, 99, 100].map(Some));
        assert_eq!((values.mean_ms(), values.most(), Values::default().quantile(0.5)), (50.5, 100, None));
    }

    #[test]
    fn condensed_values_keep_the_shape_and_the_longest() {
        let values = values((1..=10_000).chain([90_000]));
        let few = values.condensed(100);
        assert_eq!((few.len(), few[0], few[50], few[99]), (100, 51, 5_051, 90_000));
        assert_eq!(super::Values::default().condensed(10), Vec::<u32>::new());
    }

    #[test]
    fn handoff_shortens_holds_and_lengthens_waits() {
        let handoff =
            Handoff { least_us: 0, estimate_us: 3_000, most_us: 5_000, basis: HandoffBasis::Estimated };
        let hold = bounded(20_000, 0.5, Shift::HoldsTooLong, &handoff);
        assert_eq!((hold.low_us, hold.estimate_us, hold.high_us), (14_000, 17_000, 21_000));
        let wait = bounded(0, 0.5, Shift::WaitsTooShort, &handoff);
        assert_eq!((wait.low_us, wait.estimate_us, wait.high_us), (0, 3_000, 6_000));
    }
}
