//! The Mann–Whitney U test, and the Hodges–Lehmann ratio that goes with it: two samples that have nothing to do with each
//! other.
//!
//! Sources: H. B. Mann and D. R. Whitney, On a Test of Whether One of Two Random Variables is Stochastically Larger than
//! the Other, 1947; J. L. Hodges and E. L. Lehmann, Estimates of Location Based on Rank Tests, 1963.

use super::estimate::{RatioEstimate, ratio};
use super::ranks::{Null, correction_for_ties, doubled_mid_ranks, fewest, has_ties};

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MannWhitney {
    /// U of the base, as R and scipy give it for their first sample: how many pairs of one repetition of either side have
    /// the larger value in the base; equal ones count half.
    pub u: f64,
    /// The probability of a difference that is as clear or clearer, to either side, when nothing differs.
    pub p: f64,
    /// New divided by base: the median of the ratios of all pairs, and the interval that holds a share of 1 − α at least.
    /// Without ties it excludes 1 exactly when p ≤ α.
    pub ratio: RatioEstimate,
}

impl MannWhitney {
    /// Up to so many values in all every outcome is counted; there are 2 · 10³⁷ at most. Beyond, p is that of the normal
    /// distribution, corrected for ties and continuity, which by then differs in the third digit.
    pub const COUNTED_UP_TO: usize = 128;

    /// Compares two samples; `alpha` is what the interval leaves out. `None` where one of them is empty or has a value
    /// that is negative or no number.
    pub fn of(base: &[f64], new: &[f64], alpha: f64) -> Option<Self> {
        let comparable = |sample: &[f64]| !sample.is_empty() && sample.iter().all(|value| *value >= 0.0);
        if !comparable(base) || !comparable(new) {
            return None;
        }
        let ranks = doubled_mid_ranks(&[base, new].concat());
        let of_base: usize = ranks.iter().take(base.len()).sum();
        let doubled_u = of_base - base.len() * (base.len() + 1);
        let null = untied(base.len(), new.len());
        let p = if has_ties(&ranks) {
            tied_p(&ranks, base.len(), of_base, doubled_u)
        } else {
            null.two_sided(doubled_u / 2)
        };
        let (end, outside) = null.order_of_end(alpha);
        let ratios = new.iter().flat_map(|new| base.iter().map(|base| ratio(*new, *base))).collect();
        let ratio = RatioEstimate::of(ratios, end, outside)?;
        Some(Self { u: doubled_u as f64 / 2.0, p, ratio })
    }

    /// The smallest p that samples of these sizes can give: that of two that do not overlap.
    pub fn smallest_p(base: usize, new: usize) -> f64 {
        // One outcome to either side, of so many ways to choose the base from all.
        let share = (1..=base).fold(2.0, |p, chosen| p * chosen as f64 / (new + chosen) as f64);
        share.min(1.0)
    }

    /// How many repetitions a side it takes so that one of so many comparisons can be significant by itself, after
    /// [`super::holm`]; `None` where that is beyond all reason.
    pub fn repetitions_needed(comparisons: usize, alpha: f64) -> Option<usize> {
        fewest(|each| Self::smallest_p(each, each), comparisons, alpha)
    }
}

fn untied(base: usize, new: usize) -> Null {
    if base + new <= MannWhitney::COUNTED_UP_TO {
        return Null::counted(untied_counts(base, new));
    }
    let (pairs, all) = ((base * new) as f64, (base + new) as f64);
    Null::Normal { mean: pairs / 2.0, deviation: (pairs * (all + 1.0) / 12.0).sqrt(), step: 1.0 }
}

/// In how many ways that many values of each side can be arranged so that U is 0, 1, 2 …
///
/// They are the coefficients of the Gaussian binomial, the product of (1 − qⁿ⁺ⁱ) / (1 − qⁱ) over all i up to m. What lies
/// in between may be negative or too large; the result is neither, so that it is right although it wraps around.
fn untied_counts(m: usize, n: usize) -> Vec<u128> {
    let mut counts = vec![0_u128; m * n + 1];
    counts[0] = 1;
    for i in 1..=m {
        for at in (n + i..counts.len()).rev() {
            counts[at] = counts[at].wrapping_sub(counts[at - n - i]);
        }
        for at in i..counts.len() {
            counts[at] = counts[at].wrapping_add(counts[at - i]);
        }
    }
    counts
}

/// p with ties, of that sum of doubled ranks in the base.
fn tied_p(ranks: &[usize], base: usize, of_base: usize, doubled_u: usize) -> f64 {
    let all = ranks.len();
    if ranks.iter().all(|rank| *rank == ranks[0]) {
        return 1.0;
    }
    if all > MannWhitney::COUNTED_UP_TO {
        return tied_normal(ranks, base).two_sided(doubled_u);
    }
    // Both sides have the same p; that of the smaller one is counted sooner.
    let (size, sum) =
        if 2 * base <= all { (base, of_base) } else { (all - base, ranks.iter().sum::<usize>() - of_base) };
    Null::counted(tied_counts(ranks, size)).two_sided(sum)
}

/// In how many ways so many of the doubled ranks can be chosen so that their sum is 0, 1, 2 …
fn tied_counts(ranks: &[usize], size: usize) -> Vec<u128> {
    let mut sorted = ranks.to_vec();
    sorted.sort_unstable();
    let largest_sum: usize = sorted.iter().rev().take(size).sum();
    // For each number of chosen ranks, and each sum of these.
    let mut counts = vec![vec![0_u128; largest_sum + 1]; size + 1];
    counts[0][0] = 1;
    for (before, rank) in sorted.iter().enumerate() {
        for chosen in (1..=size.min(before + 1)).rev() {
            let (without, with) = counts.split_at_mut(chosen);
            let from = &without[chosen - 1];
            for (to, from) in with[0].iter_mut().skip(*rank).zip(from) {
                *to += from;
            }
        }
    }
    counts.swap_remove(size)
}

/// The distribution of twice U with ties, which make it narrower.
fn tied_normal(ranks: &[usize], base: usize) -> Null {
    let (pairs, all) = ((base * (ranks.len() - base)) as f64, ranks.len() as f64);
    let variance = pairs / 12.0 * (all + 1.0 - correction_for_ties(ranks) / (all * (all - 1.0)));
    Null::Normal { mean: pairs, deviation: 2.0 * variance.max(0.0).sqrt(), step: 2.0 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(base: &[f64], new: &[f64]) -> MannWhitney {
        MannWhitney::of(base, new, 0.05).unwrap()
    }

    fn close(found: f64, expected: f64) {
        assert!((found - expected).abs() <= 1e-6 * expected.abs().max(1.0), "{found} is not {expected}");
    }

    fn ends(found: &MannWhitney, low: f64, high: f64) {
        let interval = found.ratio.interval.unwrap();
        close(interval.low, low);
        close(interval.high, high);
    }

    #[test]
    fn two_samples_that_do_not_overlap_have_the_smallest_p() {
        let base = [102.0, 98.0, 105.0, 101.0, 99.0];
        let apart = of(&base, &[91.0, 94.0, 97.0, 90.0, 95.0]);
        assert_eq!(apart.u, 25.0);
        close(apart.p, 2.0 / 252.0);
        close(apart.ratio.ratio, 0.923_810);
        ends(&apart, 0.882_353, 0.969_388);
        let overlapping = of(&base, &[100.0, 96.0, 103.0, 95.0, 97.0]);
        assert_eq!(overlapping.u, 19.0);
        close(overlapping.p, 56.0 / 252.0);
        close(overlapping.ratio.ratio, 0.969_697);
        ends(&overlapping, 0.923_810, 1.020_408);
    }

    #[test]
    fn with_ties_every_outcome_is_counted_too() {
        let (base, new) = ([10.0, 11.0, 11.0, 12.0, 13.0, 14.0], [11.0, 13.0, 14.0, 14.0, 15.0, 16.0]);
        let tied = of(&base, &new);
        assert_eq!(tied.u, 6.5);
        close(tied.p, 76.0 / 924.0);
        close(tied.ratio.ratio, 1.174_218);
        ends(&tied, 1.0, 1.4);
        // What R before 4.6 gives, which approximates here.
        let ranks = doubled_mid_ranks(&[base, new].concat());
        close(tied_normal(&ranks, base.len()).two_sided(13), 0.073_486_7);
    }

    #[test]
    fn three_a_side_have_a_ratio_but_no_interval_and_never_a_significant_one() {
        let few = of(&[10.0, 11.0, 12.0], &[5.0, 6.0, 7.0]);
        close(few.p, 0.1);
        close(few.ratio.ratio, 0.545_455);
        assert_eq!(few.ratio.interval, None);
    }

    #[test]
    fn the_example_of_r_has_its_p() {
        // R: example(wilcox.test), of Hollander and Wolfe 1973, p. 69 f.: W = 35, one-sided p = 0.1272.
        let x = [0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46];
        let y = [1.15, 0.88, 0.90, 0.74, 1.21];
        let found = of(&x, &y);
        assert_eq!(found.u, 35.0);
        assert!((found.p / 2.0 - 0.1272).abs() < 5e-5, "{}", found.p);
    }

    #[test]
    fn u_and_p_are_those_of_scipy() {
        // scipy 1.17.1: mannwhitneyu(x, y, method="exact") and, with ties, which that refuses, permutation_test over all
        // arrangements of its statistic.
        let cases: &[(&[f64], &[f64], f64, f64)] = &[
            (&[1.0], &[2.0], 0.0, 1.0),
            (&[1.0, 2.0], &[3.0, 3.0], 0.0, 0.333_333_333_333_333_3),
            (&[1.0, 1.0, 2.0], &[2.0, 2.0, 3.0], 1.0, 0.3),
            (&[5.0, 5.0, 5.0, 5.0], &[5.0, 5.0, 5.0, 6.0], 6.0, 1.0),
            (&[10.0, 20.0, 30.0], &[15.0, 25.0, 35.0, 45.0, 55.0], 3.0, 0.25),
            (&[0.0, 0.0, 1.0, 0.0, 2.0], &[3.0, 5.0, 4.0, 6.0, 2.0], 0.5, 0.015_873_015_873_015_872),
            (&[7.0, 7.0, 7.0, 8.0], &[7.0, 9.0, 9.0, 9.0, 9.0, 9.0], 2.5, 0.047_619_047_619_047_616),
            (
                &[3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0],
                &[2.0, 7.0, 1.0, 8.0, 2.0, 8.0, 1.0, 8.0],
                29.0,
                0.779_331_779_331_779_3,
            ),
            (
                &[12.1, 12.4, 11.8, 12.9, 13.3, 12.2, 12.6],
                &[12.8, 13.1, 13.6, 12.7, 14.0, 13.9, 13.2],
                6.0,
                0.017_482_517_482_517_48,
            ),
            (
                &[1.0, 2.0, 2.0, 3.0, 3.0, 3.0, 4.0, 4.0, 4.0, 4.0],
                &[3.0, 4.0, 4.0, 5.0, 5.0, 5.0, 6.0, 6.0, 7.0, 7.0],
                9.5,
                0.001_353_136_028_058_628_8,
            ),
        ];
        for (x, y, u, p) in cases {
            let found = of(x, y);
            assert_eq!(found.u, *u, "{x:?}");
            assert!((found.p - p).abs() < 1e-12, "{x:?}: {} is not {p}", found.p);
        }
        let evenly = |count: u32, step: f64, from: f64| -> Vec<f64> {
            (0..count).map(|at| f64::from(at) * step + from).collect()
        };
        let twenty = of(&evenly(20, 3.0, 1.0), &evenly(18, 3.0, 9.0));
        let forty = of(&evenly(40, 5.0, 0.0), &evenly(50, 5.0, 37.5));
        assert_eq!(forty.u, 528.0);
        assert!((forty.p / 9.129_201_017_680_777e-5 - 1.0).abs() < 1e-9, "{}", forty.p);
        assert_eq!(twenty.u, 153.0);
        assert!((twenty.p - 0.442_951_818_029_644_06).abs() < 1e-12, "{}", twenty.p);
        // method="asymptotic", which corrects for ties and continuity.
        let x: Vec<f64> = (0..70).map(|at| f64::from(at % 10)).collect();
        let y: Vec<f64> = (0..80).map(|at| f64::from(at * 3 % 11)).collect();
        let many = of(&x, &y);
        assert_eq!(many.u, 2_586.5);
        assert!((many.p - 0.420_284_751_648_994_6).abs() < 1e-9, "{}", many.p);
    }

    #[test]
    fn the_smallest_p_the_order_of_the_ends_and_the_coverage_are_those_of_the_tables() {
        let table = [
            (3, 0.1, 0, None),
            (4, 0.0286, 1, Some(0.9714)),
            (5, 0.00794, 3, Some(0.9683)),
            (6, 0.00216, 6, Some(0.9589)),
            (7, 5.8e-4, 9, Some(0.9621)),
            (8, 1.6e-4, 14, Some(0.9501)),
            (10, 1.1e-5, 24, Some(0.9567)),
            (12, 7e-7, 38, Some(0.9551)),
            (15, 1e-8, 65, Some(0.9547)),
            (20, 1e-11, 128, Some(0.9509)),
        ];
        for (each, smallest, order, coverage) in table {
            let found = MannWhitney::smallest_p(each, each);
            assert!((found / smallest - 1.0).abs() < 0.5, "{each}: {found}");
            let (end, outside) = untied(each, each).order_of_end(0.05);
            assert_eq!(end, order, "{each}");
            if let Some(coverage) = coverage {
                assert!((1.0 - 2.0 * outside - coverage).abs() < 5e-5, "{each}");
            }
        }
        for (base, new, smallest) in [(3, 4, 0.057), (3, 5, 0.0357), (3, 10, 0.0070), (4, 5, 0.0159)] {
            assert!((MannWhitney::smallest_p(base, new) - smallest).abs() < 2e-4, "{base} {new}");
        }
    }

    #[test]
    fn as_many_repetitions_are_needed_as_the_tables_say() {
        for (each, most) in [(4, 1), (5, 6), (6, 23), (7, 85), (8, 321), (10, 4_618)] {
            assert_eq!(MannWhitney::repetitions_needed(most, 0.05), Some(each), "{most}");
            assert_eq!(MannWhitney::repetitions_needed(most + 1, 0.05).map(|more| more > each), Some(true));
        }
        assert_eq!(MannWhitney::repetitions_needed(0, 0.05), Some(4));
        assert_eq!(MannWhitney::repetitions_needed(1, 0.0), None);
    }

    #[test]
    fn all_ways_to_arrange_fifty_a_side_are_counted() {
        let counts = untied_counts(50, 50);
        assert_eq!(counts.iter().sum::<u128>(), 100_891_344_545_564_193_334_812_497_256);
        assert_eq!((counts[0], counts[1], counts[2], counts[2_500]), (1, 1, 2, 1));
        assert!(counts.iter().eq(counts.iter().rev()));
        // The largest that is counted.
        assert_eq!(
            untied_counts(64, 64).iter().sum::<u128>(),
            23_951_146_041_928_082_866_135_587_776_380_551_750
        );
    }

    #[test]
    fn beyond_what_is_counted_the_approximation_is_close() {
        for apart in [0_u32, 200, 450, 700] {
            let base: Vec<f64> = (0..64).map(|at| f64::from(10 * at + 1_000)).collect();
            let new: Vec<f64> = (0..64).map(|at| f64::from(10 * at + 1_003 + apart / 5)).collect();
            let counted = of(&base, &new).p;
            let approximated = {
                let ranks = doubled_mid_ranks(&[base.clone(), new.clone()].concat());
                let of_base: usize = ranks.iter().take(64).sum();
                tied_normal(&ranks, 64).two_sided(of_base - 64 * 65)
            };
            assert!((counted - approximated).abs() < 2e-3, "{apart}: {counted} {approximated}");
        }
        let many: Vec<f64> = (0..65).map(f64::from).collect();
        let found = of(&many, &many);
        assert_eq!(found.p, 1.0);
        assert!(matches!(untied(64, 64), Null::Counted(_)) && matches!(untied(64, 65), Null::Normal { .. }));
        close(found.ratio.ratio, 1.0);
        assert!(found.ratio.interval.unwrap().coverage >= 0.95);
    }

    #[test]
    fn zeros_and_equal_values_are_compared_and_never_give_no_number() {
        let equal = of(&[5.0; 5], &[5.0; 5]);
        assert_eq!((equal.p, equal.ratio.ratio), (1.0, 1.0));
        ends(&equal, 1.0, 1.0);
        let none = of(&[0.0; 5], &[0.0; 5]);
        assert_eq!((none.p, none.ratio.ratio), (1.0, 1.0));
        let from_none = of(&[0.0; 5], &[3.0; 5]);
        close(from_none.p, 2.0 / 252.0);
        assert_eq!(from_none.ratio.ratio, f64::INFINITY);
        let constant = of(&[303.0; 5], &[310.0; 5]);
        close(constant.p, 2.0 / 252.0);
        ends(&constant, 310.0 / 303.0, 310.0 / 303.0);
    }

    #[test]
    fn a_sample_that_is_empty_negative_or_no_number_is_not_compared() {
        for wrong in [&[][..], &[1.0, f64::NAN], &[1.0, -1.0]] {
            assert_eq!(MannWhitney::of(wrong, &[1.0], 0.05), None, "{wrong:?}");
            assert_eq!(MannWhitney::of(&[1.0], wrong, 0.05), None, "{wrong:?}");
        }
    }

    /// Two samples without ties, each smaller than that.
    fn distinct(most: usize) -> impl Strategy<Value = (Vec<f64>, Vec<f64>)> {
        let values = proptest::collection::btree_set(1_u32..10_000, 2..2 * most);
        (values, 1..most)
            .prop_flat_map(|(all, at)| (Just(all.into_iter().collect::<Vec<_>>()).prop_shuffle(), Just(at)))
            .prop_map(|(all, at)| {
                let mut base: Vec<f64> = all.into_iter().map(f64::from).collect();
                let new = base.split_off(at.min(base.len() - 1));
                (base, new)
            })
    }

    proptest! {
        #[test]
        fn without_ties_the_interval_excludes_1_exactly_when_p_is_at_most_alpha(
            (base, new) in distinct(12),
            alpha in 0.001..0.4_f64,
        ) {
            let found = MannWhitney::of(&base, &new, alpha).unwrap();
            let excludes = found.ratio.interval.is_some_and(|interval| !interval.contains(1.0));
            prop_assert_eq!(found.p <= alpha, excludes, "{:?}", found);
            if let Some(interval) = found.ratio.interval {
                prop_assert!(interval.coverage >= 1.0 - alpha - 1e-12);
                prop_assert!(interval.contains(found.ratio.ratio));
            }
        }

        #[test]
        fn the_other_way_round_it_is_the_same(
            base in proptest::collection::vec((0_u32..12).prop_map(f64::from), 1..10),
            new in proptest::collection::vec((0_u32..12).prop_map(f64::from), 1..10),
        ) {
            let there = of(&base, &new);
            let back = of(&new, &base);
            prop_assert!((there.p - back.p).abs() < 1e-12, "{} {}", there.p, back.p);
            prop_assert_eq!(there.u + back.u, (base.len() * new.len()) as f64);
            // 0, 1 and infinity are the ratios that have an exact inverse.
            let inverse = 1.0 / back.ratio.ratio;
            prop_assert!(there.ratio.ratio == inverse || (there.ratio.ratio / inverse - 1.0).abs() < 1e-12);
        }

        #[test]
        fn counting_with_ties_agrees_with_counting_without_where_there_are_none((base, new) in distinct(9)) {
            let ranks = doubled_mid_ranks(&[base.clone(), new.clone()].concat());
            let of_base: usize = ranks.iter().take(base.len()).sum();
            let doubled_u = of_base - base.len() * (base.len() + 1);
            let p = tied_p(&ranks, base.len(), of_base, doubled_u);
            prop_assert!((p - of(&base, &new).p).abs() < 1e-12);
        }

        #[test]
        fn p_is_a_probability_and_no_smaller_than_the_sizes_allow(
            base in proptest::collection::vec(0.0..5.0_f64, 1..9),
            new in proptest::collection::vec(0.0..5.0_f64, 1..9),
        ) {
            let p = of(&base, &new).p;
            prop_assert!(p <= 1.0 && p >= MannWhitney::smallest_p(base.len(), new.len()) - 1e-12);
        }
    }
}
