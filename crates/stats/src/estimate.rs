//! The median of a sample, and by which ratio one sample is larger than another, each with between which two it lies.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RatioEstimate {
    /// The ratio: new divided by base. Infinite where the base is 0 and the new is not.
    pub ratio: f64,
    /// Its interval; `None` of samples that are too small for any.
    pub interval: Option<Interval>,
}

/// Between which two values a median or a ratio lies. It isn't widened for how many of them are asked about.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interval {
    /// The lower.
    pub low: f64,
    /// The upper; infinite for a ratio whose base is 0 too often.
    pub high: f64,
    /// With which probability it lies between them, whatever the distribution: few values leave no choice but more than 95 %.
    pub coverage: f64,
}

impl RatioEstimate {
    /// The middle of these ratios, and the interval between the `end`th from both ends, counted from 1; 0 for none.
    /// `outside` is the probability of what lies beyond one end.
    pub(super) fn of(mut ratios: Vec<f64>, end: usize, outside: f64) -> Option<Self> {
        ratios.sort_by(f64::total_cmp);
        let ratio = middle(&ratios)?;
        Some(Self { ratio, interval: Interval::of(&ratios, end, outside) })
    }
}

impl Interval {
    fn of(sorted: &[f64], end: usize, outside: f64) -> Option<Self> {
        (end > 0 && 2 * end <= sorted.len() + 1).then(|| Self {
            low: sorted[end - 1],
            high: sorted[sorted.len() - end],
            coverage: 1.0 - 2.0 * outside,
        })
    }

    pub fn contains(&self, ratio: f64) -> bool {
        self.low <= ratio && ratio <= self.high
    }
}

/// The ratio of two quantities, neither of which is negative: 1 for none and none, infinite for some and none. It is
/// above 1 exactly when the new is larger.
pub(super) fn ratio(new: f64, base: f64) -> f64 {
    if new == base { 1.0 } else { new / base }
}

/// The ratio half way between two: their geometric mean. Half way between nothing and infinity it is 1, as such samples
/// say nothing of where the middle lies.
pub(super) fn half_way(one: f64, other: f64) -> f64 {
    if one == other {
        return one;
    }
    let mean = one.sqrt() * other.sqrt();
    if mean.is_nan() { 1.0 } else { mean }
}

fn middle(sorted: &[f64]) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    Some(half_way(sorted[last / 2], sorted[sorted.len() / 2]))
}

pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    let [one, other] = [sorted[last / 2], sorted[sorted.len() / 2]];
    Some(if one == other { one } else { f64::midpoint(one, other) })
}

/// How often a median may lie outside of its interval, on each side.
const OUTSIDE: f64 = 0.025;

/// The interval of the median by order statistics, which assumes nothing of how the values are distributed: as many of them
/// are left out on either side as the binomial distribution allows. `None` of fewer than six, of which even the smallest and
/// the largest are not sure enough.
pub fn median_interval(values: &[f64]) -> Option<Interval> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len();
    // How probable it is that at most so many of the values are below the median, each by the toss of a coin.
    let mut ln_one = -(count as f64) * std::f64::consts::LN_2;
    let (mut below, mut outside, mut end) = (0.0, 0.0, 0);
    for fewer in 0..count / 2 {
        below += ln_one.exp();
        if below > OUTSIDE {
            break;
        }
        (outside, end) = (below, fewer + 1);
        ln_one += ((count - fewer) as f64 / (fewer + 1) as f64).ln();
    }
    Interval::of(&sorted, end, outside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_to_nothing_is_no_change_and_never_no_number() {
        assert_eq!((ratio(0.0, 0.0), ratio(5.0, 0.0), ratio(0.0, 5.0)), (1.0, f64::INFINITY, 0.0));
        assert_eq!(ratio(f64::INFINITY, f64::INFINITY), 1.0);
        assert_eq!((half_way(0.0, f64::INFINITY), half_way(2.0, f64::INFINITY)), (1.0, f64::INFINITY));
        assert!((half_way(0.5, 2.0) - 1.0).abs() < 1e-15);
    }

    #[test]
    fn the_ends_are_counted_from_both_sides() {
        let of = |end| RatioEstimate::of(vec![3.0, 1.0, 2.0], end, 0.02).unwrap();
        assert_eq!(of(0), RatioEstimate { ratio: 2.0, interval: None });
        let interval = of(1).interval.unwrap();
        assert_eq!((interval.low, interval.high), (1.0, 3.0));
        assert!((interval.coverage - 0.96).abs() < 1e-12);
        assert_eq!(RatioEstimate::of(Vec::new(), 0, 0.0), None);
    }

    #[test]
    fn the_median_of_two_lies_between_them() {
        assert_eq!(median(&[4.0, 1.0]), Some(2.5));
        assert_eq!(median(&[9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[f64::INFINITY, f64::INFINITY]), Some(f64::INFINITY));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn the_ends_around_a_median_are_those_of_the_published_tables() {
        // 95 % confidence intervals of the median by ranks: n, lower and upper rank.
        for (count, low, high) in
            [(6, 1, 6), (8, 1, 8), (9, 2, 8), (10, 2, 9), (12, 3, 10), (15, 4, 12), (20, 6, 15)]
        {
            let values: Vec<f64> = (1..=count).rev().map(f64::from).collect();
            let found = median_interval(&values).unwrap();
            assert_eq!((found.low, found.high), (f64::from(low), f64::from(high)), "of {count}");
            assert!((0.95..1.0).contains(&found.coverage), "{found:?}");
        }
        assert!((median_interval(&[1.0; 6]).unwrap().coverage - 0.96875).abs() < 1e-12);
    }

    #[test]
    fn five_values_are_too_few_for_an_interval() {
        assert_eq!((0..6).map(|count| median_interval(&vec![1.0; count])).collect::<Vec<_>>(), vec![None; 6]);
    }

    #[test]
    fn very_many_values_have_an_interval_too() {
        let values: Vec<f64> = (1..=10_000).map(f64::from).collect();
        let found = median_interval(&values).unwrap();
        assert!(found.low > 4_890.0 && found.high < 5_110.0 && found.coverage < 0.956, "{found:?}");
    }
}
