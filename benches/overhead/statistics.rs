//! Median, and how far it can be trusted.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zklockbench::report::view::Spread;

/// One ratio of each round.
pub type Ratios = Vec<f64>;

const RESAMPLES: usize = 10_000;

/// The median; not a number for none.
pub fn median(values: &[f64]) -> f64 {
    Spread::of(values.iter().copied()).map_or(f64::NAN, |spread| spread.median)
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
