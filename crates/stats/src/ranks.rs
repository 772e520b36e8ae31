//! Ranks with ties, and how a statistic of ranks is distributed when nothing differs.

use statrs::function::erf::erfc;

/// Twice the rank of each value among all, from 2: equal values share the mean of their ranks, which twice is whole.
pub(super) fn doubled_mid_ranks(values: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|one, other| values[*one].total_cmp(&values[*other]));
    let mut ranks = vec![0; values.len()];
    let mut first = 0;
    for tied in order.chunk_by(|one, other| values[*one] == values[*other]) {
        // The ranks first + 1 to first + n have the mean first + (n + 1) / 2.
        for at in tied {
            ranks[*at] = 2 * first + tied.len() + 1;
        }
        first += tied.len();
    }
    ranks
}

/// How many values there are in each group of equal ranks.
fn sizes_of_ties(ranks: &[usize]) -> Vec<usize> {
    let mut sorted = ranks.to_vec();
    sorted.sort_unstable();
    sorted.chunk_by(|one, other| one == other).map(<[usize]>::len).collect()
}

pub(super) fn has_ties(ranks: &[usize]) -> bool {
    sizes_of_ties(ranks).iter().any(|size| *size > 1)
}

/// The sum of n³ − n over the groups of n equal ranks, by which ties make a variance smaller.
pub(super) fn correction_for_ties(ranks: &[usize]) -> f64 {
    sizes_of_ties(ranks).into_iter().map(|size| (size as f64).powi(3) - size as f64).sum()
}

/// More repetitions are never made; the smallest p of so many a side is 10⁻³⁰⁷.
const MOST: usize = 512;

/// How many repetitions or pairs it takes so that one of so many comparisons can be significant by itself, after
/// [`super::holm`]; `None` where that is beyond all reason.
pub(super) fn fewest(smallest_p: impl Fn(usize) -> f64, comparisons: usize, alpha: f64) -> Option<usize> {
    (1..=MOST).find(|count| smallest_p(*count) * comparisons.max(1) as f64 <= alpha)
}

/// The distribution of a statistic whose values are whole numbers from 0.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Null {
    /// How many of the equally likely outcomes give at most each value.
    Counted(Vec<u128>),
    /// Normal, with that mean and standard deviation, of values that are so far apart.
    Normal { mean: f64, deviation: f64, step: f64 },
}

impl Null {
    /// Of how many of the equally likely outcomes give each value, from 0.
    pub(super) fn counted(counts: impl IntoIterator<Item = u128>) -> Self {
        let sums = counts.into_iter().scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        });
        Self::Counted(sums.collect())
    }

    fn at_most(&self, value: usize) -> f64 {
        match self {
            Self::Counted(sums) => share(up_to(value, sums), sums),
            Self::Normal { mean, deviation, step } => {
                upper_tail((mean - value as f64 - step / 2.0) / deviation)
            }
        }
    }

    fn at_least(&self, value: usize) -> f64 {
        match self {
            Self::Counted(sums) => {
                let below = value.checked_sub(1).map_or(0, |below| up_to(below, sums));
                share(all(sums) - below, sums)
            }
            Self::Normal { mean, deviation, step } => {
                upper_tail((value as f64 - mean - step / 2.0) / deviation)
            }
        }
    }

    /// The probability of a value that is as extreme, to either side.
    pub(super) fn two_sided(&self, value: usize) -> f64 {
        (2.0 * self.at_most(value).min(self.at_least(value))).min(1.0)
    }

    /// The largest k with P(value ≤ k − 1) ≤ α/2, and that probability: which of the sorted differences ends the interval.
    /// 0 when even the smallest value is more probable than that.
    pub(super) fn order_of_end(&self, alpha: f64) -> (usize, f64) {
        let mut found = (0, 0.0);
        // Values are whole numbers, and the distribution is symmetric: no end lies beyond its middle.
        for k in 1..=self.middle() {
            let tail = self.at_most(k - 1);
            if tail > alpha / 2.0 {
                break;
            }
            found = (k, tail);
        }
        found
    }

    fn middle(&self) -> usize {
        match self {
            Self::Counted(sums) => sums.len().div_ceil(2),
            Self::Normal { mean, .. } => mean.ceil() as usize,
        }
    }
}

fn share(some: u128, sums: &[u128]) -> f64 {
    some as f64 / all(sums) as f64
}

fn up_to(value: usize, sums: &[u128]) -> u128 {
    sums.get(value).copied().unwrap_or_else(|| all(sums))
}

fn all(sums: &[u128]) -> u128 {
    sums.last().copied().unwrap_or(1)
}

/// The probability that a standard normal variable is larger than that. Of a distribution without any width, which
/// has an infinite or no number here, it is 0 or 1.
fn upper_tail(deviations: f64) -> f64 {
    if deviations.is_nan() { 1.0 } else { 0.5 * erfc(deviations / std::f64::consts::SQRT_2) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_share_the_mean_of_their_ranks() {
        assert_eq!(doubled_mid_ranks(&[10.0, 11.0, 11.0, 12.0]), [2, 5, 5, 8]);
        assert_eq!(doubled_mid_ranks(&[3.0, 1.0, 2.0]), [6, 2, 4]);
        assert_eq!(doubled_mid_ranks(&[7.0, 7.0, 7.0]), [4, 4, 4]);
        assert_eq!(sizes_of_ties(&[2, 5, 8, 5]), [1, 2, 1]);
        assert!(has_ties(&[5, 2, 5]) && !has_ties(&[2, 4, 6]));
    }

    #[test]
    fn zero_has_one_sign_and_infinity_is_the_largest() {
        assert_eq!(doubled_mid_ranks(&[0.0, -0.0, f64::INFINITY, 1.0]), [3, 3, 8, 6]);
    }

    #[test]
    fn both_tails_hold_the_value_itself() {
        // Two coins.
        let coins = Null::counted([1, 2, 1]);
        assert_eq!((coins.at_most(0), coins.at_most(1), coins.at_most(9)), (0.25, 0.75, 1.0));
        assert_eq!((coins.at_least(0), coins.at_least(1), coins.at_least(9)), (1.0, 0.75, 0.0));
        assert_eq!((coins.two_sided(0), coins.two_sided(1)), (0.5, 1.0));
    }

    #[test]
    fn the_normal_tails_are_those_of_printed_tables() {
        for (deviations, tail) in [(0.0, 0.5), (1.0, 0.158_655), (1.959_964, 0.025), (2.575_829, 0.005)] {
            assert!((upper_tail(deviations) - tail).abs() < 1e-6, "{deviations}");
        }
        assert_eq!((upper_tail(f64::INFINITY), upper_tail(f64::NEG_INFINITY)), (0.0, 1.0));
    }
}
