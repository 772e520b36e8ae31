//! Wilcoxon's signed ranks, of the ratios of pairs that were measured side by side, so that what the machine did to both
//! cancels out.
//!
//! Sources: F. Wilcoxon, Individual Comparisons by Ranking Methods, 1945; J. L. Hodges and E. L. Lehmann, Estimates of
//! Location Based on Rank Tests, 1963.

use super::estimate::{RatioEstimate, half_way, ratio};
use super::ranks::{Null, correction_for_ties, doubled_mid_ranks, fewest, has_ties};

/// Two values that were measured side by side.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pair {
    pub base: f64,
    pub new: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SignedRank {
    /// The sum of the ranks of the pairs whose new value is larger.
    pub v: f64,
    /// The probability of a difference that is as clear or clearer, to either side, when nothing differs.
    pub p: f64,
    /// Pairs whose values are equal: they say nothing of which is larger, so that p is of the others.
    pub equal: usize,
    /// New divided by base: the median of the Walsh averages, and the interval that holds a share of 1 − α at least.
    /// Equal pairs are in it, because without them a difference in a few pairs would look like one in all. Without
    /// ties and equal pairs it excludes 1 exactly when p ≤ α.
    pub ratio: RatioEstimate,
}

impl SignedRank {
    /// Up to so many pairs every outcome is counted; beyond, p is the normal distribution's, corrected for ties and continuity.
    pub const COUNTED_UP_TO: usize = 100;

    /// Compares pairs; `alpha` is what the interval leaves out. `None` of none, or where a value is negative or no number.
    pub fn of(pairs: &[Pair], alpha: f64) -> Option<Self> {
        let comparable = |pair: &Pair| pair.base >= 0.0 && pair.new >= 0.0;
        if pairs.is_empty() || !pairs.iter().all(comparable) {
            return None;
        }
        let differing: Vec<Pair> = pairs.iter().copied().filter(|pair| pair.new != pair.base).collect();
        // Divided, not subtracted as logarithms: equal ratios are then equal numbers.
        let sizes: Vec<f64> =
            differing.iter().map(|pair| ratio(pair.new.max(pair.base), pair.new.min(pair.base))).collect();
        let ranks = doubled_mid_ranks(&sizes);
        let larger = ranks.iter().zip(&differing).filter(|(_, pair)| pair.new > pair.base);
        let doubled_v = larger.map(|(rank, _)| rank).sum();
        let p = p_of(&ranks, doubled_v);
        let (end, outside) = untied(pairs.len()).order_of_end(alpha);
        let ratio = RatioEstimate::of(walsh_averages(pairs), end, outside)?;
        let equal = pairs.len() - differing.len();
        Some(Self { v: doubled_v as f64 / 2.0, p, equal, ratio })
    }

    /// The smallest p that so many pairs can give: that of pairs which all differ in the same way.
    pub fn smallest_p(pairs: usize) -> f64 {
        2.0 * 0.5_f64.powi(i32::try_from(pairs.max(1)).unwrap_or(i32::MAX))
    }

    /// How many pairs it takes so that one of so many comparisons can be significant by itself, after [`super::holm`];
    /// `None` where that is beyond all reason.
    pub fn pairs_needed(comparisons: usize, alpha: f64) -> Option<usize> {
        fewest(Self::smallest_p, comparisons, alpha)
    }
}

/// The middles of the ratios of all two pairs, each with itself too.
fn walsh_averages(pairs: &[Pair]) -> Vec<f64> {
    let ratios: Vec<f64> = pairs.iter().map(|pair| ratio(pair.new, pair.base)).collect();
    let with = |at: usize| {
        ratios[at..].iter().map({
            let one = ratios[at];
            move |other| half_way(one, *other)
        })
    };
    (0..ratios.len()).flat_map(with).collect()
}

fn untied(pairs: usize) -> Null {
    if pairs <= SignedRank::COUNTED_UP_TO {
        return Null::counted(counts(&(1..=pairs).collect::<Vec<_>>()));
    }
    let count = pairs as f64;
    let squares = count * (count + 1.0) * (2.0 * count + 1.0);
    Null::Normal { mean: count * (count + 1.0) / 4.0, deviation: (squares / 24.0).sqrt(), step: 1.0 }
}

/// How many of the ways to give each rank a sign have the sum 0, 1, 2 … of those with a plus.
fn counts(ranks: &[usize]) -> Vec<u128> {
    let mut counts = vec![0_u128; ranks.iter().sum::<usize>() + 1];
    counts[0] = 1;
    for rank in ranks {
        for sum in (*rank..counts.len()).rev() {
            counts[sum] += counts[sum - rank];
        }
    }
    counts
}

fn p_of(ranks: &[usize], doubled_v: usize) -> f64 {
    if ranks.len() > SignedRank::COUNTED_UP_TO {
        normal(ranks).two_sided(doubled_v)
    } else if has_ties(ranks) {
        Null::counted(counts(ranks)).two_sided(doubled_v)
    } else {
        untied(ranks.len()).two_sided(doubled_v / 2)
    }
}

/// The distribution of twice V with ties, which make it narrower.
fn normal(ranks: &[usize]) -> Null {
    let count = ranks.len() as f64;
    let variance = count * (count + 1.0) * (2.0 * count + 1.0) / 24.0 - correction_for_ties(ranks) / 48.0;
    Null::Normal { mean: count * (count + 1.0) / 2.0, deviation: 2.0 * variance.max(0.0).sqrt(), step: 2.0 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pairs(base: &[f64], new: &[f64]) -> Vec<Pair> {
        base.iter().zip(new).map(|(base, new)| Pair { base: *base, new: *new }).collect()
    }

    fn of(base: &[f64], new: &[f64]) -> SignedRank {
        assert_eq!(base.len(), new.len());
        SignedRank::of(&pairs(base, new), 0.05).unwrap()
    }

    fn close(found: f64, expected: f64) {
        assert!((found - expected).abs() <= 1e-6 * expected.abs().max(1.0), "{found} is not {expected}");
    }

    #[test]
    fn the_worked_example_holds() {
        let base = [100.0, 110.0, 95.0, 120.0, 105.0, 99.0, 130.0, 101.0];
        let new = [97.0, 103.0, 96.0, 112.0, 99.5, 95.0, 121.0, 99.5];
        let found = of(&base, &new);
        assert_eq!((found.v, found.equal), (1.0, 0));
        close(found.p, 4.0 / 256.0);
        close(found.ratio.ratio, 0.958_158);
        let interval = found.ratio.interval.unwrap();
        close(interval.low, 0.933_562);
        close(interval.high, 0.985_149);
        assert!((interval.coverage - 0.9609).abs() < 5e-5);
    }

    #[test]
    fn the_example_of_r_has_its_p() {
        // R: example(wilcox.test), of Hollander and Wolfe 1973, p. 29 f.: V = 40, one-sided p = 0.01953. It takes
        // differences, which are ratios here.
        let x = [1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30].map(f64::exp);
        #[expect(clippy::approx_constant, reason = "it is a measurement that happens to be 3.14")]
        let y = [0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29].map(f64::exp);
        let found = of(&y, &x);
        assert_eq!(found.v, 40.0);
        close(found.p, 0.039_062_5);
    }

    #[test]
    fn v_and_p_are_those_of_scipy() {
        // scipy 1.17.1: wilcoxon(d, method="exact") and, with ties, which that refuses, permutation_test over all signs of
        // its statistic; zeros dropped before. It takes differences, which are ratios here: powers of 2 keep them exact.
        let cases: &[(&[i32], f64, f64)] = &[
            (&[1], 1.0, 1.0),
            (&[1, -2], 1.0, 1.0),
            (&[1, 2, 3], 6.0, 0.25),
            (&[1, 1, -1, 2], 8.0, 0.5),
            (&[2, 2, -2, 0, 4, -4, 6, 6], 21.5, 0.281_25),
            (&[3, -1, 4, -1, 5, 9, -2, 6], 30.0, 0.101_562_5),
            (&[1, 1, 1, 1, 1, 1], 21.0, 0.031_25),
            (&[0, 0, 1, 2, -3, 4, 5, 6, 7, 8], 33.0, 0.039_062_5),
            (&[1, 2, -3, 4, -5, 6, 7, 8, -9, 10, 11, 12], 61.0, 0.092_285_156_25),
        ];
        for (differences, v, p) in cases {
            let new: Vec<f64> = differences.iter().map(|power| 2.0_f64.powi(*power)).collect();
            let found = of(&vec![1.0; new.len()], &new);
            assert_eq!(found.v, *v, "{differences:?}");
            assert!((found.p - p).abs() < 1e-12, "{differences:?}: {} is not {p}", found.p);
        }
    }

    #[test]
    fn the_smallest_p_and_the_order_of_the_ends_are_those_of_the_tables() {
        let table = [
            (3, 0.25, 0),
            (4, 0.125, 0),
            (5, 0.0625, 0),
            (6, 0.031_25, 1),
            (7, 0.015_625, 3),
            (8, 0.007_812_5, 4),
            (10, 0.001_953_125, 9),
            (12, 4.882_812_5e-4, 14),
            (15, 6.103_515_625e-5, 26),
            (20, 1.907_348_632_812_5e-6, 53),
        ];
        for (count, smallest, order) in table {
            assert_eq!(SignedRank::smallest_p(count), smallest);
            assert_eq!(untied(count).order_of_end(0.05).0, order, "{count}");
        }
    }

    #[test]
    fn as_many_pairs_are_needed_as_the_tables_say() {
        for (count, most) in [(6, 1), (7, 3), (8, 6), (10, 25), (12, 102), (15, 819), (20, 26_214)] {
            assert_eq!(SignedRank::pairs_needed(most, 0.05), Some(count), "{most}");
            assert_eq!(SignedRank::pairs_needed(most + 1, 0.05).map(|more| more > count), Some(true));
        }
        assert_eq!(SignedRank::pairs_needed(1, 0.0), None);
    }

    #[test]
    fn ties_are_counted_and_equal_pairs_are_told_apart() {
        // Ratios 2, 1/2, 2, 1 and 4: of the four that differ, three share the ranks 1 to 3.
        let found = of(&[1.0, 2.0, 3.0, 5.0, 1.0], &[2.0, 1.0, 6.0, 5.0, 4.0]);
        assert_eq!((found.v, found.equal), (2.0 + 2.0 + 4.0, 1));
        // Sums 8 and 10 are above: 3 of 16 ways give 8, one gives 10.
        close(found.p, 2.0 * 4.0 / 16.0);
        let all_equal = of(&[3.0; 8], &[3.0; 8]);
        assert_eq!((all_equal.p, all_equal.v, all_equal.equal, all_equal.ratio.ratio), (1.0, 0.0, 8, 1.0));
        let zeros = of(&[0.0; 8], &[0.0; 8]);
        assert_eq!((zeros.p, zeros.ratio.ratio), (1.0, 1.0));
        let from_none = of(&[0.0; 8], &[2.0; 8]);
        assert_eq!((from_none.p, from_none.ratio.ratio), (0.007_812_5, f64::INFINITY));
    }

    #[test]
    fn beyond_what_is_counted_the_approximation_is_close() {
        let ratio_of = |at: u32| 1.0 + f64::from(at) / 1_000.0;
        let of_sign = |at: u32| if at % 5 < 2 { 1.0 / ratio_of(at) } else { ratio_of(at) };
        let new: Vec<f64> = (1..=100).map(of_sign).collect();
        let counted = of(&[1.0; 100], &new);
        let approximated_by = |count: usize, v: f64| {
            let ranks: Vec<usize> = (1..=count).map(|rank| 2 * rank).collect();
            normal(&ranks).two_sided((2.0 * v) as usize)
        };
        let approximated = approximated_by(100, counted.v);
        assert!((counted.p - approximated).abs() < 2e-3, "{} {approximated}", counted.p);
        let more: Vec<f64> = (1..=101).map(of_sign).collect();
        let found = of(&[1.0; 101], &more);
        assert_eq!(found.p, approximated_by(101, found.v));
    }

    #[test]
    fn pairs_that_are_no_numbers_are_not_compared() {
        assert_eq!(SignedRank::of(&[], 0.05), None);
        for wrong in [f64::NAN, -1.0] {
            assert_eq!(SignedRank::of(&pairs(&[1.0, wrong], &[1.0, 1.0]), 0.05), None);
            assert_eq!(SignedRank::of(&pairs(&[1.0, 1.0], &[1.0, wrong]), 0.05), None);
        }
    }

    proptest! {
        #[test]
        fn without_ties_the_interval_excludes_1_exactly_when_p_is_at_most_alpha(
            powers in proptest::collection::hash_set(1_i32..1_000, 1..14),
            signs in proptest::collection::vec(proptest::bool::ANY, 14),
            alpha in 0.001..0.4_f64,
        ) {
            // Powers of one number that differ: no two ratios have the same size, and no average is 1 but by chance.
            let new: Vec<f64> = powers
                .iter()
                .zip(&signs)
                .map(|(power, up)| if *up { 1.001_f64.powi(*power) } else { 1.001_f64.powi(-*power) })
                .collect();
            let found = SignedRank::of(&pairs(&vec![1.0; new.len()], &new), alpha).unwrap();
            let excludes = found.ratio.interval.is_some_and(|interval| !interval.contains(1.0));
            prop_assert_eq!(found.p <= alpha, excludes, "{:?}", found);
        }

        #[test]
        fn the_other_way_round_it_is_the_same(
            values in proptest::collection::vec(((0_u32..9).prop_map(f64::from), (0_u32..9).prop_map(f64::from)), 1..12),
        ) {
            let there: Vec<Pair> = values.iter().map(|(base, new)| Pair { base: *base, new: *new }).collect();
            let back: Vec<Pair> = values.iter().map(|(base, new)| Pair { base: *new, new: *base }).collect();
            let [there, back] = [there, back].map(|pairs| SignedRank::of(&pairs, 0.05).unwrap());
            prop_assert!((there.p - back.p).abs() < 1e-12);
            prop_assert_eq!(there.equal, back.equal);
            let inverse = 1.0 / back.ratio.ratio;
            prop_assert!(there.ratio.ratio == inverse || (there.ratio.ratio / inverse - 1.0).abs() < 1e-9);
        }
    }
}
