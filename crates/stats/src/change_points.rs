//! Change points: from which value of a series on it is another one.
//!
//! E-divisive with means of distances (α = 1): the split at which the values before and after lie farthest apart, tested by
//! shuffling the series, and the same again in both parts.
//!
//! Source: D. S. Matteson and N. A. James, A Nonparametric Approach for Multiple Change Point Analysis of Multivariate
//! Data, 2014; for benchmarks: D. Daly et al., The Use of Change Point Detection to Identify Software Performance
//! Regressions in a Continuous Integration System, 2020. `augurs-changepoint` was looked at: its
//! detectors are for series that keep coming and give no probability of a false alarm.

use std::ops::Range;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChangePoint {
    /// The first value of the new part, counted from 0.
    pub at: usize,
    /// The probability of a split as clear or clearer in a part that does not change.
    pub p: f64,
}

/// The fewest values on either side of a change.
const PART_AT_LEAST: usize = 3;
/// With more values than that, shuffles and not their orders limit what can be told.
const LONGEST_NEED: usize = 20;
const SHUFFLES: usize = 1_999;
/// Where a small `alpha` takes more of them, so many at most.
const SHUFFLES_AT_MOST: usize = 99_999;

/// As many as can give a p of half of `alpha`: of fewer, no change would be clear enough.
fn shuffles(alpha: f64) -> usize {
    ((2.0 / alpha).ceil() as usize).clamp(SHUFFLES, SHUFFLES_AT_MOST)
}

/// The fewest values among which a change can be found at all with that `alpha`: of a series with a step in its middle, at
/// least two are as clear among so many orders as halves can be chosen, its own and the one with the halves exchanged.
pub fn values_at_least(alpha: f64) -> usize {
    let can_tell = |count: usize| {
        let part = count / 2;
        let orders: f64 = (1..=part).map(|at| (count - part + at) as f64 / at as f64).product();
        2.0 / orders < alpha
    };
    (2 * PART_AT_LEAST..=LONGEST_NEED).find(|count| can_tell(*count)).unwrap_or(LONGEST_NEED)
}

/// The changes of a series, rising; each has a p of at most `alpha`. The same series and seed give the same.
pub fn change_points(values: &[f64], alpha: f64, seed: u64) -> Vec<ChangePoint> {
    let mut found = Vec::new();
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    split(values, 0, alpha, &mut rng, &mut found);
    found.sort_by_key(|change: &ChangePoint| change.at);
    found
}

fn split(part: &[f64], begins: usize, alpha: f64, rng: &mut ChaCha8Rng, found: &mut Vec<ChangePoint>) {
    let Some(best) = best_split(part) else { return };
    let mut shuffled = part.to_vec();
    let mut as_clear = 1;
    // The same sums in another order may differ in their last digits.
    let as_far = best.apart - 1e-9 * best.apart.abs();
    let shuffles = shuffles(alpha);
    for _ in 0..shuffles {
        shuffled.shuffle(rng);
        as_clear += usize::from(best_split(&shuffled).is_some_and(|other| other.apart >= as_far));
    }
    let p = as_clear as f64 / (shuffles + 1) as f64;
    if p > alpha {
        return;
    }
    found.push(ChangePoint { at: begins + best.at, p });
    split(&part[..best.at], begins, alpha, rng, found);
    split(&part[best.at..], begins + best.at, alpha, rng, found);
}

struct Split {
    at: usize,
    /// How far what lies before and after is apart, weighed by how much that is.
    apart: f64,
}

/// The clearest split; `None` of a part that is too short for one. What comes after it may end before the part does, so that
/// a change that is undone again is seen.
fn best_split(part: &[f64]) -> Option<Split> {
    let last = part.len().checked_sub(PART_AT_LEAST)?;
    let distances = Distances::of(part);
    let splits = (PART_AT_LEAST..=last).flat_map(|at| {
        let distances = &distances;
        let ends = at + PART_AT_LEAST..=part.len();
        ends.map(move |end| Split { at, apart: distances.apart(at, end) })
    });
    splits.max_by(|one, other| one.apart.total_cmp(&other.apart))
}

/// The sums of the distances of all values before one place to all before another.
struct Distances {
    sums: Vec<f64>,
    width: usize,
}

impl Distances {
    fn of(part: &[f64]) -> Self {
        let width = part.len() + 1;
        let mut sums = vec![0.0; width * width];
        for (row, one) in part.iter().enumerate() {
            let mut in_row = 0.0;
            for (column, other) in part.iter().enumerate() {
                in_row += (one - other).abs();
                sums[(row + 1) * width + column + 1] = sums[row * width + column + 1] + in_row;
            }
        }
        Self { sums, width }
    }

    /// Of the values in the one range to those in the other.
    fn between(&self, rows: Range<usize>, columns: Range<usize>) -> f64 {
        let at = |row: usize, column: usize| self.sums[row * self.width + column];
        at(rows.end, columns.end) - at(rows.start, columns.end) - at(rows.end, columns.start)
            + at(rows.start, columns.start)
    }

    /// The energy distance of what comes before `at` and what comes from there to `end`, times m·n/(m+n).
    fn apart(&self, at: usize, end: usize) -> f64 {
        let (m, n) = (at as f64, (end - at) as f64);
        // Each pair is counted from either side.
        let distance = 2.0 * self.between(0..at, at..end) / (m * n)
            - self.between(0..at, 0..at) / (m * (m - 1.0))
            - self.between(at..end, at..end) / (n * (n - 1.0));
        m * n / (m + n) * distance
    }
}

#[cfg(test)]
mod tests {
    use rand::Rng;

    use super::*;

    #[test]
    fn the_fewest_values_are_those_of_which_a_step_in_the_middle_is_found() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        for alpha in [0.05, 0.025, 0.0125, 0.005] {
            let least = values_at_least(alpha);
            let step = |count: usize, rng: &mut ChaCha8Rng| -> Vec<f64> {
                (0..count)
                    .map(|at| if at < count / 2 { 1.0 } else { 9.0 } + 0.1 * rng.random::<f64>())
                    .collect()
            };
            let found = |count: usize, rng: &mut ChaCha8Rng| {
                (0..20).filter(|_| !change_points(&step(count, rng), alpha, 7).is_empty()).count()
            };
            // Of one fewer it is a matter of the shuffles' luck.
            assert_eq!(found(least - 2, &mut rng), 0, "alpha {alpha}, {} values", least - 2);
            assert!(found(least + 2, &mut rng) >= 18, "alpha {alpha}, {} values", least + 2);
        }
    }

    #[test]
    fn the_statistic_and_the_split_are_those_of_a_port() {
        // The formulas of the paper in Python with numpy, written apart from these.
        let cases: &[(&[f64], usize, f64)] = &[
            (&[1.0, 1.1, 0.9, 1.05, 2.0, 2.1, 1.9, 2.05], 4, 3.566666666667),
            (&[5.0, 4.0, 6.0, 5.0, 5.0, 9.0, 8.0, 9.0, 7.0, 8.0, 9.0, 5.0, 4.0, 6.0], 5, 13.454545454545),
            (
                &[
                    2.041, -2.556, 0.418, -0.568, -0.453, -0.216, -2.02, -0.232, -0.865, 4.323, 1.226, 0.647,
                    0.719, 0.332, -0.055, 0.609,
                ],
                9,
                3.870769230769,
            ),
        ];
        for (values, at, expected) in cases {
            let found = best_split(values).unwrap();
            assert_eq!(found.at, *at, "{values:?}");
            assert!((found.apart - expected).abs() < 1e-9, "{values:?}: {}", found.apart);
        }
    }

    #[test]
    fn a_step_is_found_where_it_is_and_two_steps_are_two() {
        let step = |lengths: &[(usize, f64)]| -> Vec<f64> {
            let of = |(length, level): &(usize, f64)| {
                (0..*length).map(|at| level + 0.01 * (at % 3) as f64).collect::<Vec<_>>()
            };
            lengths.iter().flat_map(of).collect()
        };
        let places = |values: &[f64]| {
            change_points(values, 0.05, 1).iter().map(|change| change.at).collect::<Vec<_>>()
        };
        assert_eq!(places(&step(&[(6, 1.0), (6, 1.5)])), [6]);
        assert_eq!(places(&step(&[(8, 1.0), (8, 1.5), (8, 1.2)])), [8, 16]);
        assert_eq!(places(&step(&[(8, 1.0), (8, 1.5), (8, 1.0)])), [8, 16], "one that is undone");
        assert_eq!(places(&step(&[(12, 1.0)])), [0; 0]);
        assert_eq!(places(&step(&[(2, 1.0), (2, 5.0)])), [0; 0], "too few to tell");
        assert_eq!(places(&[]), [0; 0]);
    }

    #[test]
    fn a_clear_step_is_found_by_however_small_an_alpha() {
        let step: Vec<f64> =
            (0..24).map(|at| if at < 12 { 1.0 } else { 9.0 } + 0.01 * f64::from(at)).collect();
        // A fifth of a thousandth: 0.05 over 250 lines, fewer than so many shuffles can ever show.
        let found = change_points(&step, 0.05 / 250.0, 1);
        assert_eq!(found.iter().map(|change| change.at).collect::<Vec<_>>(), [12]);
        assert_eq!(shuffles(0.0), SHUFFLES_AT_MOST);
    }

    #[test]
    fn a_series_that_does_not_change_shows_a_change_once_in_twenty_times_at_most() {
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        let alarms = (0..100).filter(|seed| {
            let values: Vec<f64> = (0..20).map(|_| rng.random::<f64>().powi(3)).collect();
            !change_points(&values, 0.05, *seed).is_empty()
        });
        let alarms = alarms.count();
        assert!(alarms <= 11, "{alarms} of 100");
    }
}
