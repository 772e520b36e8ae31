//! Median, and how far it can be trusted.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// One ratio of each round.
pub type Ratios = Vec<f64>;

const RESAMPLES: usize = 10_000;

/// The middle value; the mean of the two middle ones of an even number. Not a number for none.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = sorted.len() / 2;
    match sorted.as_slice() {
        [] => f64::NAN,
        _ if sorted.len() % 2 == 1 => sorted[upper],
        _ => f64::midpoint(sorted[upper - 1], sorted[upper]),
    }
}

/// The 95 % interval of the median, by drawing the rounds anew.
pub fn interval(values: &[f64]) -> (f64, f64) {
    if values.is_empty() {
        return (f64::NAN, f64::NAN);
    }
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut draw = || {
        let drawn: Vec<f64> = values.iter().map(|_| values[rng.random_range(0..values.len())]).collect();
        median(&drawn)
    };
    let mut medians: Vec<f64> = (0..RESAMPLES).map(|_| draw()).collect();
    medians.sort_by(f64::total_cmp);
    (medians[RESAMPLES / 40], medians[RESAMPLES - 1 - RESAMPLES / 40])
}
