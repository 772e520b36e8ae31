//! Designs: ways to combine the values of one or two samples, each with a rank-based interval.
//!
//! Sources: H. B. Mann and D. R. Whitney, On a Test of Whether One of Two Random Variables is Stochastically
//! Larger than the Other, 1947; F. Wilcoxon, Individual Comparisons by Ranking Methods, 1945; J. L. Hodges
//! and E. L. Lehmann, Estimates of Location Based on Rank Tests, 1963. No published crate implements these
//! intervals.

use statrs::distribution::{ContinuousCDF, Normal};

use super::interval::{Interval, sorted};

/// How the values of one or two samples are combined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Design {
    /// Two independent samples: the median of all pairwise ratios (Hodges–Lehmann).
    Independent,
    /// Values measured in pairs, so that disturbances cancel out: the median of the ratios' Walsh averages.
    Pairs,
    /// One sample, symmetric on a logarithmic scale: the median of its Walsh averages.
    One,
}

/// Largest number of values for the exact rank distribution; larger samples use a normal approximation.
const COUNTED_UP_TO: usize = 120;
/// Largest number of repetitions worth recommending.
const MOST: usize = 512;

impl Design {
    /// Returns the ratio of `new` to `base` (for [`Design::One`], the centre of `new`) with its interval. The true
    /// value is outside the interval with a probability of at most `outside`. `None` if a sample is empty or
    /// contains a negative value or NaN, or if pairs have unequal sides.
    pub fn interval(self, base: &[f64], new: &[f64], outside: f64) -> Option<Interval> {
        let shifts: Vec<f64> = match self {
            Self::Independent => {
                new.iter().flat_map(|new| base.iter().map(|base| ratio(*new, *base))).collect()
            }
            Self::Pairs if base.len() != new.len() => return None,
            Self::Pairs => walsh_averages(
                &new.iter().zip(base).map(|(new, base)| ratio(*new, *base)).collect::<Vec<_>>(),
            ),
            Self::One => walsh_averages(new),
        };
        if shifts.is_empty() || !base.iter().chain(new).all(|value| *value >= 0.0) {
            return None;
        }
        let shifts = sorted(shifts);
        let middle = half_way(shifts[(shifts.len() - 1) / 2], shifts[shifts.len() / 2]);
        Some(Interval::between(middle, &shifts, self.end(base.len(), new.len(), outside)))
    }

    /// Returns the smallest possible miss probability of an interval from samples of these sizes.
    pub fn least_outside(self, base: usize, new: usize) -> f64 {
        match self {
            // The extreme outcome on either side, out of all ways to choose the base from the pooled values.
            Self::Independent => {
                (1..=base).fold(2.0, |p, chosen| p * chosen as f64 / (new + chosen) as f64).min(1.0)
            }
            Self::Pairs | Self::One => 2.0 * 0.5_f64.powi(i32::try_from(new.max(1)).unwrap_or(i32::MAX)),
        }
    }

    /// Returns the smallest sample size (or number of pairs) that gives a bounded interval; `None` if that size
    /// exceeds `MOST`.
    pub fn fewest(self, outside: f64) -> Option<usize> {
        (1..=MOST).find(|count| self.least_outside(*count, *count) <= outside)
    }

    /// Returns the rank of the interval's ends among the sorted shifts, counted from either side (0 if unbounded),
    /// and the tail probability beyond one end.
    fn end(self, base: usize, new: usize, outside: f64) -> (usize, f64) {
        let (m, n) = (base as f64, new as f64);
        let (counted, mean, variance) = match self {
            Self::Independent => (base + new, m * n / 2.0, m * n * (m + n + 1.0) / 12.0),
            Self::Pairs | Self::One => (new, n * (n + 1.0) / 4.0, n * (n + 1.0) * (2.0 * n + 1.0) / 24.0),
        };
        if counted > COUNTED_UP_TO {
            return normal_end(mean, variance.sqrt(), outside);
        }
        let counts = match self {
            Self::Independent => arrangements(base, new),
            Self::Pairs | Self::One => signs(new),
        };
        let all = counts.iter().sum::<u128>() as f64;
        end_by(counts.into_iter().map(|count| count as f64 / all), outside)
    }
}

/// Returns the last rank (from 1) whose tail probability is at most half of `outside`, and that probability.
/// `shares` are the probabilities of the values in ascending order. The rank is 0 if the first value alone is too
/// probable.
pub(crate) fn end_by(shares: impl Iterator<Item = f64>, outside: f64) -> (usize, f64) {
    let tails = shares.scan(0.0, |sum, share| {
        *sum += share;
        Some(*sum)
    });
    (1..).zip(tails).take_while(|(_, tail)| *tail <= outside / 2.0).last().unwrap_or((0, 0.0))
}

/// Like [`end_by`], for a normally distributed, integer-valued statistic.
pub(crate) fn normal_end(mean: f64, deviation: f64, outside: f64) -> (usize, f64) {
    let Ok(normal) = Normal::new(mean, deviation) else { return (0, 0.0) };
    let end = (normal.inverse_cdf(outside / 2.0) + 0.5).floor().max(0.0);
    (end as usize, normal.cdf(end - 0.5))
}

/// Returns the geometric means of all pairs of ratios, including each ratio paired with itself.
fn walsh_averages(ratios: &[f64]) -> Vec<f64> {
    let with_later = |at: usize| ratios[at..].iter().map(move |other| half_way(ratios[at], *other));
    (0..ratios.len()).flat_map(with_later).collect()
}

/// Returns the number of ways to interleave `m` and `n` values with exactly 0, 1, 2 … inversions.
///
/// These are the coefficients of the Gaussian binomial, the product of (1 − qⁿ⁺ⁱ) / (1 − qⁱ) for i from 1 to
/// m. Intermediate results may wrap around, but the final ones fit.
fn arrangements(m: usize, n: usize) -> Vec<u128> {
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

/// Returns the number of ways to sign the ranks 1 to `count` so that the positive ones sum to 0, 1, 2 …
fn signs(count: usize) -> Vec<u128> {
    let mut counts = vec![0_u128; count * (count + 1) / 2 + 1];
    counts[0] = 1;
    for rank in 1..=count {
        for sum in (rank..counts.len()).rev() {
            counts[sum] += counts[sum - rank];
        }
    }
    counts
}

/// Returns the ratio of two amounts: 1 if both are zero, infinite if only `base` is zero.
fn ratio(new: f64, base: f64) -> f64 {
    if new == base { 1.0 } else { new / base }
}

/// Returns the geometric mean of two ratios. The mean of 0 and infinity is taken as 1.
fn half_way(one: f64, other: f64) -> f64 {
    if one == other {
        return one;
    }
    let mean = one.sqrt() * other.sqrt();
    if mean.is_nan() { 1.0 } else { mean }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    const OUTSIDE: f64 = 0.05;

    fn close(found: f64, expected: f64) {
        assert!((found - expected).abs() <= 1e-6 * expected.abs().max(1.0), "{found} is not {expected}");
    }

    fn assert_interval(found: Interval, [value, low, high]: [f64; 3]) {
        close(found.value, value);
        close(found.low, low);
        close(found.high, high);
    }

    #[test]
    fn worked_examples_of_independent_samples_are_reproduced() {
        let base = [102.0, 98.0, 105.0, 101.0, 99.0];
        let of = |base: &[f64], new: &[f64]| Design::Independent.interval(base, new, OUTSIDE).unwrap();
        let apart = of(&base, &[91.0, 94.0, 97.0, 90.0, 95.0]);
        assert_interval(apart, [0.923_810, 0.882_353, 0.969_388]);
        assert_interval(of(&base, &[100.0, 96.0, 103.0, 95.0, 97.0]), [0.969_697, 0.923_810, 1.020_408]);
        let tied = of(&[10.0, 11.0, 11.0, 12.0, 13.0, 14.0], &[11.0, 13.0, 14.0, 14.0, 15.0, 16.0]);
        assert_interval(tied, [1.174_218, 1.0, 1.4]);
    }

    #[test]
    fn pairs_and_their_ratios_reproduce_the_same_worked_example() {
        let base = [100.0, 110.0, 95.0, 120.0, 105.0, 99.0, 130.0, 101.0];
        let new = [97.0, 103.0, 96.0, 112.0, 99.5, 95.0, 121.0, 99.5];
        let found = Design::Pairs.interval(&base, &new, OUTSIDE).unwrap();
        assert_interval(found, [0.958_158, 0.933_562, 0.985_149]);
        assert!((found.coverage - 0.9609).abs() < 5e-5);
        let ratios: Vec<f64> = new.iter().zip(&base).map(|(new, base)| new / base).collect();
        assert_eq!(Design::One.interval(&[], &ratios, OUTSIDE), Some(found));
    }

    #[test]
    fn ranks_of_interval_ends_and_coverage_agree_with_published_tables() {
        // Values in each sample, rank of the end, coverage.
        let independent = [
            (3, 0, 1.0),
            (4, 1, 0.9714),
            (5, 3, 0.9683),
            (6, 6, 0.9589),
            (7, 9, 0.9621),
            (8, 14, 0.9501),
            (10, 24, 0.9567),
            (12, 38, 0.9551),
            (15, 65, 0.9547),
            (20, 128, 0.9509),
        ];
        for (each, end, coverage) in independent {
            let (found, tail) = Design::Independent.end(each, each, OUTSIDE);
            assert_eq!(found, end, "{each}");
            assert!((1.0 - 2.0 * tail - coverage).abs() < 5e-5, "{each}: {tail}");
        }
        let pairs = [(5, 0), (6, 1), (7, 3), (8, 4), (10, 9), (12, 14), (15, 26), (20, 53)];
        for (count, end) in pairs {
            assert_eq!(Design::Pairs.end(count, count, OUTSIDE).0, end, "{count}");
        }
    }

    #[test]
    fn minimum_sample_sizes_agree_with_published_tables() {
        let comparisons = |count: usize| OUTSIDE / count as f64;
        for (each, most) in [(4, 1), (5, 6), (6, 23), (7, 85), (8, 321), (10, 4_618)] {
            assert_eq!(Design::Independent.fewest(comparisons(most)), Some(each), "{most}");
            assert!(Design::Independent.fewest(comparisons(most + 1)).unwrap() > each, "{most}");
        }
        for (pairs, most) in [(6, 1), (7, 3), (8, 6), (10, 25), (12, 102), (15, 819), (20, 26_214)] {
            assert_eq!(Design::Pairs.fewest(comparisons(most)), Some(pairs), "{most}");
            assert!(Design::One.fewest(comparisons(most + 1)).unwrap() > pairs, "{most}");
        }
        for (base, new, least) in [(3, 4, 0.057), (3, 5, 0.0357), (3, 10, 0.0070), (4, 5, 0.0159)] {
            assert!((Design::Independent.least_outside(base, new) - least).abs() < 2e-4, "{base} {new}");
        }
        assert_eq!(Design::Pairs.fewest(0.0), None);
    }

    #[test]
    fn every_arrangement_and_every_choice_of_signs_is_counted() {
        let counts = arrangements(50, 50);
        assert_eq!(counts.iter().sum::<u128>(), 100_891_344_545_564_193_334_812_497_256);
        assert!(counts.iter().eq(counts.iter().rev()) && counts[..3] == [1, 1, 2]);
        let largest = 23_951_146_041_928_082_866_135_587_776_380_551_750;
        assert_eq!(arrangements(64, 64).iter().sum::<u128>(), largest);
        assert_eq!(signs(120).iter().sum::<u128>(), 1 << 120);
    }

    #[test]
    fn normal_approximation_is_close_to_exact_counts() {
        for outside in [0.2, 0.05, 0.001] {
            let (counted, tail) = Design::Independent.end(60, 60, outside);
            let n = 60.0_f64;
            let (near, near_tail) = normal_end(n * n / 2.0, (n * n * (2.0 * n + 1.0) / 12.0).sqrt(), outside);
            assert!(100 * counted.abs_diff(near) <= counted, "{counted} {near}");
            assert!((tail / near_tail - 1.0).abs() < 0.1, "{tail} {near_tail}");
            let (counted, n) = (Design::Pairs.end(120, 120, outside).0, 120.0_f64);
            let deviation = (n * (n + 1.0) * (2.0 * n + 1.0) / 24.0).sqrt();
            let near = normal_end(n * (n + 1.0) / 4.0, deviation, outside).0;
            assert!(100 * counted.abs_diff(near) <= counted, "{counted} {near}");
        }
    }

    #[test]
    fn too_few_values_have_a_ratio_but_no_bounds() {
        let few = Design::Independent.interval(&[10.0, 11.0, 12.0], &[5.0, 6.0, 7.0], OUTSIDE).unwrap();
        close(few.value, 0.545_455);
        assert!(!few.is_bounded());
        assert!(!Design::Pairs.interval(&[1.0; 5], &[2.0; 5], OUTSIDE).unwrap().is_bounded());
    }

    #[test]
    fn zeros_and_equal_values_are_compared_and_never_give_nan() {
        for design in [Design::Independent, Design::Pairs] {
            let of = |base: f64, new: f64| {
                let found = design.interval(&[base; 8], &[new; 8], OUTSIDE).unwrap();
                assert_eq!((found.low, found.high), (found.value, found.value));
                found.value
            };
            assert_eq!((of(5.0, 5.0), of(0.0, 0.0), of(0.0, 3.0)), (1.0, 1.0, f64::INFINITY));
            close(of(303.0, 310.0), 310.0 / 303.0);
        }
        assert_eq!((half_way(0.0, f64::INFINITY), ratio(f64::INFINITY, f64::INFINITY)), (1.0, 1.0));
    }

    #[test]
    fn empty_negative_nan_and_unequal_samples_are_not_compared() {
        for wrong in [&[][..], &[1.0, f64::NAN], &[1.0, -1.0]] {
            for design in [Design::Independent, Design::Pairs] {
                assert_eq!(design.interval(wrong, &[1.0, 1.0], OUTSIDE), None, "{wrong:?}");
                assert_eq!(design.interval(&[1.0, 1.0], wrong, OUTSIDE), None, "{wrong:?}");
            }
            assert_eq!(Design::One.interval(&[], wrong, OUTSIDE), None, "{wrong:?}");
        }
        assert_eq!(Design::Pairs.interval(&[1.0; 6], &[2.0; 8], OUTSIDE), None);
        assert_eq!(Design::Pairs.interval(&[2.0; 8], &[1.0; 6], OUTSIDE), None);
    }

    /// Returns the share of simulated intervals that miss the true ratio of 1.2 under heavy-tailed noise.
    fn missed(design: Design, count: usize, outside: f64) -> f64 {
        const TIMES: u32 = 2_000;
        let mut random = ChaCha8Rng::seed_from_u64(count as u64);
        let mut missed = 0;
        for _ in 0..TIMES {
            // Heavy-tailed, symmetric noise: the Cauchy distribution.
            let mut noise = || (0.1 * (std::f64::consts::PI * (random.random::<f64>() - 0.5)).tan()).exp();
            let (mut base, mut new) = (Vec::new(), Vec::new());
            for _ in 0..count {
                // Both values of a pair share a disturbance.
                let common = if design == Design::Pairs { noise() } else { 1.0 };
                base.push(common * noise());
                new.push(common * 1.2 * noise());
            }
            let found = design.interval(&base, &new, outside).unwrap();
            missed += u32::from(!found.contains(1.2));
        }
        f64::from(missed) / f64::from(TIMES)
    }

    #[test]
    fn intervals_miss_the_true_value_no_more_often_than_specified() {
        for design in [Design::Independent, Design::Pairs, Design::One] {
            for (count, outside) in [(6, 0.05), (8, 0.0125), (8, 0.05), (12, 0.05), (15, 0.2)] {
                let missed = missed(design, count, outside);
                eprintln!("{design:?} of {count}: missed {missed}, allowed {outside}");
                let error = (outside * (1.0 - outside) / 2_000.0).sqrt();
                assert!(
                    missed <= outside + 3.0 * error,
                    "{design:?} of {count}: missed {missed}, allowed {outside}"
                );
                // An interval that never misses would be wider than necessary.
                assert!(count == 6 || missed >= 0.4 * outside, "{design:?} of {count}: {missed}");
            }
        }
    }

    proptest! {
        #[test]
        fn exchanging_the_sides_inverts_the_interval(
            values in proptest::collection::vec(((0_u32..9).prop_map(f64::from), (0_u32..9).prop_map(f64::from)), 1..12),
            outside in 0.001..0.4_f64,
        ) {
            let (base, new): (Vec<f64>, Vec<f64>) = values.into_iter().unzip();
            for design in [Design::Independent, Design::Pairs] {
                let there = design.interval(&base, &new, outside).unwrap();
                let back = design.interval(&new, &base, outside).unwrap();
                let same = |one: f64, other: f64| one == 1.0 / other || (one * other - 1.0).abs() < 1e-9;
                prop_assert!(same(there.value, back.value) && same(there.low, back.high), "{there:?} {back:?}");
                prop_assert!(there.coverage >= 1.0 - outside - 1e-12);
                prop_assert!(there.contains(there.value));
            }
        }
    }
}
