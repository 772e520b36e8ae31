//! Fits the popularity of keys and the burstiness of arrivals.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use zklockbench_scenario::Shares;

/// Minimum number of arrivals per key for a fit.
const ARRIVALS_PER_KEY: u64 = 10;
/// Limits of the simulation that corrects the fit.
const SIMULATED: u64 = 200_000;
const KEYS_SIMULATED: usize = 20_000;
const STEEPEST: f64 = 5.0;

/// Fits the exponent s of Zipf's law: the share of the k-th most popular key is proportional to 1/k^s. `None`
/// if there are fewer than two keys, or too few arrivals per key. `counts` are sorted in descending order.
pub fn zipf(counts: &[u64]) -> Option<f64> {
    let total: u64 = counts.iter().sum();
    if counts.len() < 2 || total < ARRIVALS_PER_KEY * counts.len() as u64 {
        return None;
    }
    let observed = likeliest(counts);
    if counts.len() > KEYS_SIMULATED {
        return Some(observed);
    }
    // Ranking keys by their observed counts overestimates the exponent, so compare with simulated samples.
    let mut exponent = observed;
    for _ in 0..3 {
        let too_much = likeliest(&simulated(exponent, counts.len(), total.min(SIMULATED))) - observed;
        exponent = (exponent - too_much).clamp(0.0, STEEPEST);
    }
    Some(exponent)
}

/// Returns the maximum-likelihood estimate for counts by rank.
fn likeliest(counts: &[u64]) -> f64 {
    let total: u64 = counts.iter().sum();
    let logs: Vec<f64> = (1..=counts.len()).map(|rank| (rank as f64).ln()).collect();
    let mean_log =
        counts.iter().zip(&logs).map(|(count, log)| *count as f64 * log).sum::<f64>() / total.max(1) as f64;
    let expected = |exponent: f64| {
        let (mut weighted, mut sum) = (0.0, 0.0);
        for log in &logs {
            let share = (-exponent * log).exp();
            (weighted, sum) = (weighted + share * log, sum + share);
        }
        weighted / sum
    };
    let (mut low, mut high) = (0.0, STEEPEST);
    for _ in 0..40 {
        let middle = f64::midpoint(low, high);
        if expected(middle) > mean_log { low = middle } else { high = middle }
    }
    f64::midpoint(low, high)
}

fn simulated(exponent: f64, keys: usize, arrivals: u64) -> Vec<u64> {
    let shares = Shares::zipf(keys, exponent);
    let (mut counts, mut rng) = (vec![0; keys], ChaCha8Rng::seed_from_u64(1));
    (0..arrivals).for_each(|_| counts[shares.at(rng.random())] += 1);
    counts.sort_unstable_by(|one, other| other.cmp(one));
    counts
}

/// Burstiness of arrivals in windows of one length.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Dispersion {
    /// Length of a window.
    pub window_us: u64,
    /// Number of windows.
    pub windows: u64,
    /// Variance of the number of arrivals, divided by its mean: 1 if arrivals are independent.
    pub index: f64,
    /// Whether the index is within the 95 % range of independent arrivals.
    pub is_like_poisson: bool,
}

/// Counts arrivals in windows of one length.
#[derive(Debug, Clone, Default)]
pub struct WindowCounts {
    length_ms: i64,
    window: i64,
    within: u64,
    sum: f64,
    squares: f64,
}

const WINDOWS_LEAST: u64 = 20;

impl WindowCounts {
    pub fn of(length_ms: i64) -> Self {
        Self { length_ms, window: 0, within: 0, sum: 0.0, squares: 0.0 }
    }

    /// Adds an arrival. Arrivals must be added in chronological order.
    pub fn add(&mut self, after_ms: i64) {
        let window = after_ms / self.length_ms;
        if window != self.window {
            self.close();
            self.window = window;
        }
        self.within += 1;
    }

    fn close(&mut self) {
        let within = std::mem::take(&mut self.within) as f64;
        self.sum += within;
        self.squares += within * within;
    }

    /// Returns the dispersion over the whole period; `None` if there are too few windows or no arrivals.
    pub fn finish(mut self, lasts_ms: i64) -> Option<Dispersion> {
        let whole = lasts_ms / self.length_ms;
        // A window that the period covers only in part would distort the sums.
        if self.window < whole {
            self.close();
        }
        let windows = u64::try_from(whole).ok().filter(|count| *count >= WINDOWS_LEAST)?;
        let mean = self.sum / windows as f64;
        let variance = (self.squares - windows as f64 * mean * mean) / (windows - 1) as f64;
        let index = (mean > 0.0).then(|| variance / mean)?;
        let usual = 1.96 * (2.0 / (windows - 1) as f64).sqrt();
        let window_us = self.length_ms.unsigned_abs() * 1_000;
        Some(Dispersion { window_us, windows, index, is_like_poisson: (index - 1.0).abs() <= usual })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fitted_exponent_is_close_to_the_simulated_exponent() {
        for exponent in [0.0, 0.5, 1.0, 1.5] {
            let counts = simulated(exponent, 100, 20_000);
            let fitted = zipf(&counts).unwrap();
            assert!((fitted - exponent).abs() < 0.06, "{exponent}: {fitted}");
        }
    }

    #[test]
    fn zipf_returns_none_for_few_arrivals_or_keys() {
        assert_eq!((zipf(&[5, 1, 1]), zipf(&[100]), zipf(&[])), (None, None, None));
    }

    fn dispersion(times: impl IntoIterator<Item = i64>, lasts_ms: i64) -> Option<Dispersion> {
        let mut counts = WindowCounts::of(100);
        times.into_iter().for_each(|at| counts.add(at));
        counts.finish(lasts_ms)
    }

    #[test]
    fn evenly_spaced_arrivals_are_less_dispersed_than_independent_arrivals() {
        let even = dispersion((0..1_000).map(|at| at * 10), 10_000).unwrap();
        assert!(even.index < 0.01 && !even.is_like_poisson, "{even:?}");
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let mut random: Vec<i64> = (0..5_000).map(|_| rng.random_range(0..100_000)).collect();
        random.sort_unstable();
        let random = dispersion(random, 100_000).unwrap();
        assert!(random.is_like_poisson, "{random:?}");
        assert_eq!(dispersion([0, 5], 1_000), None);
    }

    #[test]
    fn arrivals_after_the_last_whole_window_do_not_affect_the_dispersion() {
        let arrivals = (0..3_000_i64).map(|at| at - at % 7);
        let whole = dispersion(arrivals.clone(), 3_000);
        assert!(whole.is_some_and(|whole| whole.windows == 30), "{whole:?}");
        assert_eq!(dispersion(arrivals.chain(3_000..3_050), 3_050), whole);
    }
}
