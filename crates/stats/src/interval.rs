//! An estimate with its interval, and the rule that compares it with a margin.

use std::ops::RangeInclusive;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::design::{end_by, normal_end};

/// An estimate and its interval, which spans 0 to infinity if there are too few values.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "StoredInterval")]
#[schemars(!from)]
pub struct Interval {
    /// The estimate. Null if infinite, such as a ratio to a base of 0.
    #[schemars(with = "Option<f64>")]
    pub value: f64,
    /// Lower end; 0 if there are too few values.
    #[schemars(with = "Option<f64>")]
    pub low: f64,
    /// Upper end. Null if infinite: too few values, or a ratio with too many bases of 0.
    #[schemars(with = "Option<f64>")]
    pub high: f64,
    /// Probability that the interval contains the true value, whatever the distribution.
    pub coverage: f64,
}

/// An interval as stored in files of this and earlier versions.
#[derive(Deserialize)]
struct StoredInterval {
    #[serde(alias = "ratio")]
    value: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
    coverage: Option<f64>,
}

impl From<StoredInterval> for Interval {
    fn from(stored: StoredInterval) -> Self {
        Self {
            value: stored.value.unwrap_or(f64::INFINITY),
            low: stored.low.unwrap_or(0.0),
            high: stored.high.unwrap_or(f64::INFINITY),
            coverage: stored.coverage.unwrap_or(1.0),
        }
    }
}

/// Position of an interval relative to a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Position {
    /// The whole interval is below the range.
    Below,
    /// The whole interval is within the range.
    Within,
    /// The whole interval is above the range.
    Above,
    /// The interval is partly within the range and partly outside: inconclusive.
    Across,
}

impl Interval {
    /// Creates an unbounded interval, for an estimate from too few values.
    pub fn unbounded(value: f64) -> Self {
        Self { value, low: 0.0, high: f64::INFINITY, coverage: 1.0 }
    }

    /// Returns the range of the sorted values, excluding the `end` − 1 smallest and largest; unbounded if `end` is 0.
    /// `tail` is the probability beyond one end.
    pub(crate) fn between(value: f64, sorted: &[f64], (end, tail): (usize, f64)) -> Self {
        if end == 0 || 2 * end > sorted.len() + 1 {
            return Self::unbounded(value);
        }
        Self { value, low: sorted[end - 1], high: sorted[sorted.len() - end], coverage: 1.0 - 2.0 * tail }
    }

    pub fn is_bounded(&self) -> bool {
        self.low > 0.0 || self.high.is_finite()
    }

    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// Returns the position relative to the range. Every verdict uses this rule.
    pub fn against(&self, range: &RangeInclusive<f64>) -> Position {
        match (range.contains(&self.low), range.contains(&self.high)) {
            (true, true) => Position::Within,
            _ if self.low > *range.end() => Position::Above,
            _ if self.high < *range.start() => Position::Below,
            _ => Position::Across,
        }
    }

    /// Returns the half-width around the geometric midpoint, relative to it: 0.03 for ± 3 %. `None` if infinite.
    pub fn half_width(&self) -> Option<f64> {
        let share = if self.low == self.high { 0.0 } else { (self.high / self.low).sqrt() - 1.0 };
        Some(share).filter(|share| share.is_finite())
    }
}

pub fn median(values: &[f64]) -> Option<f64> {
    middle(&sorted(values.to_vec()))
}

fn middle(sorted: &[f64]) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let [one, other] = [sorted[last / 2], sorted[sorted.len() / 2]];
    Some(if one == other { one } else { f64::midpoint(one, other) })
}

/// Returns the median with an interval from order statistics, or `None` if `values` is empty.
pub fn median_interval(values: &[f64], outside: f64) -> Option<Interval> {
    // Each value is below the median with probability one half.
    let count = values.len();
    let next = |share: &mut f64, below: usize| {
        let this = *share;
        *share *= (count - below) as f64 / (below + 1) as f64;
        Some(this)
    };
    let end = match count {
        0..=COUNTED_UP_TO => end_by((0..count / 2).scan(0.5_f64.powi(count as i32), next), outside),
        _ => normal_end(count as f64 / 2.0, (count as f64).sqrt() / 2.0, outside),
    };
    let sorted = sorted(values.to_vec());
    Some(Interval::between(middle(&sorted)?, &sorted, end))
}

/// Largest sample size for the exact binomial distribution; larger samples use a normal approximation.
const COUNTED_UP_TO: usize = 1_000;

/// Returns the median with the smallest and largest value as its interval, or `None` if `values` is empty.
pub fn range_interval(values: &[f64]) -> Option<Interval> {
    let end = if values.len() > 1 { (1, 0.5_f64.powi(values.len() as i32)) } else { (0, 0.0) };
    let sorted = sorted(values.to_vec());
    Some(Interval::between(middle(&sorted)?, &sorted, end))
}

pub(crate) fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interval_across_an_end_of_the_range_is_inconclusive() {
        let of = |low, high| Interval { value: 1.0, low, high, coverage: 0.95 }.against(&(0.95..=1.05));
        assert_eq!(of(0.95, 1.05), Position::Within);
        assert_eq!((of(1.06, f64::INFINITY), of(0.0, 0.94)), (Position::Above, Position::Below));
        for (low, high) in [(0.94, 1.0), (1.0, 1.06), (0.9, 1.1), (1.05, 1.2)] {
            assert_eq!(of(low, high), Position::Across, "{low} to {high}");
        }
        assert_eq!(Interval::unbounded(2.0).against(&(0.95..=1.05)), Position::Across);
    }

    #[test]
    fn half_width_is_relative_to_the_geometric_midpoint() {
        let of = |low, high| Interval { value: 1.0, low, high, coverage: 0.95 }.half_width();
        assert!((of(1.0 / 1.03, 1.03).unwrap() - 0.03).abs() < 1e-12);
        assert!((of(200.0, 242.0).unwrap() - 0.1).abs() < 1e-12);
        assert_eq!((of(0.0, 0.0), of(1.0, f64::INFINITY), of(0.0, 1.0)), (Some(0.0), None, None));
        assert_eq!(Interval::unbounded(1.0).half_width(), None);
    }

    #[test]
    fn intervals_in_older_files_are_read_and_null_means_unbounded() {
        let read = |text: &str| serde_json::from_str::<Interval>(text).unwrap();
        let of_ab = read(r#"{"ratio":1.2,"low":1.1,"high":1.3,"coverage":0.96,"half_width":0.08}"#);
        assert_eq!(of_ab, Interval { value: 1.2, low: 1.1, high: 1.3, coverage: 0.96 });
        assert_eq!(read(r#"{"value":7.0,"low":null,"high":null}"#), Interval::unbounded(7.0));
        for interval in [of_ab, Interval::unbounded(0.5)] {
            assert_eq!(read(&serde_json::to_string(&interval).unwrap()), interval);
        }
    }

    #[test]
    fn median_of_two_values_lies_between_them() {
        assert_eq!(median(&[4.0, 1.0]), Some(2.5));
        assert_eq!(median(&[9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[f64::INFINITY, f64::INFINITY]), Some(f64::INFINITY));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn median_intervals_agree_with_published_tables() {
        // 95 % confidence intervals of the median by ranks: n, lower and upper rank.
        for (count, low, high) in
            [(6, 1, 6), (8, 1, 8), (9, 2, 8), (10, 2, 9), (12, 3, 10), (15, 4, 12), (20, 6, 15)]
        {
            let values: Vec<f64> = (1..=count).rev().map(f64::from).collect();
            let found = median_interval(&values, 0.05).unwrap();
            assert_eq!((found.low, found.high), (f64::from(low), f64::from(high)), "of {count}");
            assert!((0.95..1.0).contains(&found.coverage), "{found:?}");
        }
        assert!((median_interval(&[1.0; 6], 0.05).unwrap().coverage - 0.96875).abs() < 1e-12);
        assert!((1..6).all(|count| !median_interval(&vec![1.0; count], 0.05).unwrap().is_bounded()));
        assert_eq!(median_interval(&[], 0.05), None);
        let values: Vec<f64> = (1..=10_000).map(f64::from).collect();
        let many = median_interval(&values, 0.05).unwrap();
        assert!(many.low > 4_890.0 && many.high < 5_110.0 && many.coverage < 0.956, "{many:?}");
    }

    #[test]
    fn range_interval_coverage_depends_on_the_number_of_values() {
        let of = |values: &[f64]| range_interval(values).unwrap();
        assert_eq!(of(&[7.0]), Interval::unbounded(7.0));
        assert_eq!(of(&[3.0, 1.0]), Interval { value: 2.0, low: 1.0, high: 3.0, coverage: 0.5 });
        let found = of(&[2.0, 3.0, 1.0, 9.0, 4.0]);
        assert_eq!(found, Interval { value: 3.0, low: 1.0, high: 9.0, coverage: 0.9375 });
        assert_eq!(range_interval(&[]), None);
    }
}
