//! Steady state of a load: where its warm-up ended, and whether its queue kept growing.
//!
//! Both results are computed from ordered samples. See `docs/workloads.md` for the error rates.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// End of the warm-up of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Truncation {
    /// Too few values to decide.
    TooShort,
    /// Number of values at the beginning that belong to the warm-up.
    At(usize),
    /// At least half of the series would be warm-up: no steady state was reached.
    NotReached,
}

/// Number of values averaged into one batch: the 5 in MSER-5.
const BATCH: usize = 5;
/// Minimum number of batches for the rule.
const BATCHES_FEW: usize = 10;
/// Minimum number of values for "not reached". With only 2,000 waits of a stable queue at 80 % utilisation,
/// 26 of 100 series would be called "not reached" by mistake.
const VALUES_FEW: usize = 5_000;

/// Finds the end of the warm-up by MSER-5: the position from which the mean of the rest has the smallest
/// standard error.
///
/// Values must be ordered by arrival, not by the end of the wait. Values beyond the last complete batch of
/// five are ignored, and the first of several equally good positions is taken. NaN or infinite values result
/// in [`Truncation::TooShort`].
///
/// K. P. White, Jr., *An effective truncation heuristic for bias reduction in simulation output*, Simulation
/// 69 (1997).
pub fn truncation(values: &[f64]) -> Truncation {
    let batches: Vec<f64> =
        values.chunks_exact(BATCH).map(|batch| batch.iter().sum::<f64>() / BATCH as f64).collect();
    if batches.len() < BATCHES_FEW || batches.iter().any(|mean| !mean.is_finite()) {
        return Truncation::TooShort;
    }
    let left_out = least_error(&batches);
    // On a rising series, the rule leaves out as many batches as `least_error` permits. For the shortest
    // series, that is exactly half, so half already counts as not reached.
    if 2 * left_out < batches.len() {
        Truncation::At(left_out * BATCH)
    } else if values.len() < VALUES_FEW {
        Truncation::TooShort
    } else {
        Truncation::NotReached
    }
}

/// Returns how many leading values to leave out to minimise the standard error of the remaining values' mean.
/// At least [`BATCH`] values are kept. Makes one pass from the end, with running sums.
fn least_error(values: &[f64]) -> usize {
    // Values are centred on their mean to avoid cancellation in the difference of two large sums.
    let centre = values.iter().sum::<f64>() / values.len() as f64;
    let largest = values.iter().fold(0.0_f64, |most, value| most.max(value.abs()));
    let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
    let (mut best, mut least) = (0, f64::INFINITY);
    for (left_out, value) in values.iter().enumerate().rev() {
        let off = value - centre;
        count += 1.0;
        sum += off;
        squares += off * off;
        let deviations: f64 = squares - sum * sum / count;
        // Deviations within the rounding error count as zero, so that equal values are never left out.
        let noise = count * (largest * 1e-12).powi(2);
        let error = if deviations <= noise { 0.0 } else { deviations / (count * count) };
        if count >= BATCH as f64 && error <= least {
            (best, least) = (left_out, error);
        }
    }
    best
}

/// Whether a queue kept growing.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Growth {
    /// Too few samples to decide.
    TooShort,
    /// The queue did not grow.
    Stable(Slope),
    /// The queue grew: more arrivals than the lock could serve.
    Growing(Slope),
    /// Inconclusive.
    Unknown(Slope),
}

/// Growth of a queue per second, with a 90 % interval: the true slope is below `low` in 5 of 100 series.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Slope {
    /// Point estimate.
    pub per_second: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

/// Number of means to which the line is fitted. Consecutive samples are correlated, so a line through
/// individual samples appears to rise for many stable queues.
const MEANS: usize = 20;
/// The 95th percentile of Student's t with 18 degrees of freedom: [`MEANS`] minus the two parameters of a
/// line.
const T_95: f64 = 1.734_064;
/// Minimum number of samples: two for each mean.
const SAMPLES_FEW: usize = 2 * MEANS;

/// Decides whether a queue, sampled at even intervals, kept growing. A queue counts as growing if a line
/// through 20 means rises significantly, and by more than the queue's mean length over the series.
///
/// Samples must start at the end of the warm-up. If they do not divide evenly into 20 means, the first samples
/// are dropped.
pub fn growth(backlog: &[f64], every: Duration) -> Growth {
    let size = backlog.len() / MEANS;
    let apart = size as f64 * every.as_secs_f64();
    if backlog.len() < SAMPLES_FEW || apart <= 0.0 || backlog.iter().any(|length| !length.is_finite()) {
        return Growth::TooShort;
    }
    let kept = &backlog[backlog.len() - size * MEANS..];
    let means: Vec<f64> =
        kept.chunks_exact(size).map(|part| part.iter().sum::<f64>() / size as f64).collect();
    let slope = line(&means, apart);
    let length = apart * MEANS as f64;
    let mean = means.iter().sum::<f64>() / MEANS as f64;
    // Slope at which the queue grows by its mean length over the series.
    let much = mean / length;
    if slope.low > 0.0 && slope.per_second > much {
        Growth::Growing(slope)
    } else if slope.low <= 0.0 && slope.high > much {
        Growth::Unknown(slope)
    } else {
        Growth::Stable(slope)
    }
}

/// Fits a least-squares line to means at intervals of `apart` seconds.
fn line(means: &[f64], apart: f64) -> Slope {
    let count = means.len() as f64;
    let middle = (count - 1.0) / 2.0;
    let mean = means.iter().sum::<f64>() / count;
    let offs = || means.iter().enumerate().map(|(at, value)| (at as f64 - middle, value - mean));
    let spread: f64 = offs().map(|(at, _)| at * at).sum();
    let step = offs().map(|(at, off)| at * off).sum::<f64>() / spread;
    let left: f64 = offs().map(|(at, off)| (off - step * at).powi(2)).sum();
    let error = (left / (count - 2.0) / spread).sqrt();
    Slope {
        per_second: step / apart,
        low: (step - T_95 * error) / apart,
        high: (step + T_95 * error) / apart,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;
    use rand_distr::{Distribution as _, Exp1, LogNormal};

    use super::*;

    #[test]
    fn line_matches_the_slope_and_interval_computed_by_hand() {
        // Means at intervals of two seconds: the slope is 0.6 per step, and the squared residuals add up to
        // 0.2.
        let Slope { per_second, low, high } = line(&[0.0, 1.0, 1.0, 2.0], 2.0);
        let error = (0.2_f64 / 2.0 / 5.0).sqrt();
        let expected = [0.6, 0.6 - T_95 * error, 0.6 + T_95 * error].map(|rise| rise / 2.0);
        for (found, expected) in [per_second, low, high].into_iter().zip(expected) {
            assert!((found - expected).abs() < 1e-12, "{found} {expected}");
        }
    }

    /// Simulates the waits of `arrivals` at an initially empty queue, using Lindley's recursion. Service times
    /// resemble a lock's: a hold of 0.7 and a log-normal handoff with mean 0.3. Together they have mean 1 and
    /// standard deviation 0.5.
    fn waits(utilisation: f64, arrivals: usize, seed: u64) -> Vec<f64> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let variance = (1.0_f64 + (0.5_f64 / 0.3).powi(2)).ln();
        let handoff = LogNormal::new(0.3_f64.ln() - variance / 2.0, variance.sqrt()).unwrap();
        let mut wait = 0.0_f64;
        (0..arrivals)
            .map(|_| {
                let now = wait;
                let gap: f64 = Exp1.sample(&mut rng);
                wait = (wait + 0.7 + handoff.sample(&mut rng) - gap / utilisation).max(0.0);
                now
            })
            .collect()
    }

    /// Returns the percentage of series for which the predicate holds.
    fn percent(utilisation: f64, arrivals: usize, series: u64, is_so: impl Fn(&[f64]) -> bool) -> f64 {
        let so = (0..series).filter(|seed| is_so(&waits(utilisation, arrivals, *seed))).count();
        100.0 * so as f64 / series as f64
    }

    /// Returns whether the rule alone, ignoring the minimum length, finds no steady state.
    fn not_reached(waits: &[f64]) -> bool {
        let batches: Vec<f64> =
            waits.chunks_exact(BATCH).map(|five| five.iter().sum::<f64>() / 5.0).collect();
        2 * least_error(&batches) >= batches.len()
    }

    fn grows(waits: &[f64]) -> bool {
        let begin = match truncation(waits) {
            Truncation::At(values) => values,
            Truncation::TooShort | Truncation::NotReached => 0,
        };
        matches!(growth(&waits[begin..], Duration::from_secs(1)), Growth::Growing(_))
    }

    fn assert_close(seen: f64, expected: f64, within: f64, of: &str) {
        assert!((seen - expected).abs() <= within, "{of}: {seen:.1} % instead of {expected} % ± {within}");
    }

    #[test]
    fn truncation_cuts_the_warm_up_but_little_of_a_steady_series() {
        let noise = |at: usize| ((at * 7919) % 13) as f64 / 13.0;
        let steady: Vec<f64> = (0..6_000).map(noise).collect();
        let Truncation::At(left_out) = truncation(&steady) else { panic!("{:?}", truncation(&steady)) };
        assert!(left_out < 600, "cut {left_out} of 6,000 values");
        // Given 1,000 higher values at the beginning
        let warming: Vec<f64> = (0..6_000).map(|at| noise(at) + if at < 1_000 { 5.0 } else { 0.0 }).collect();
        let Truncation::At(left_out) = truncation(&warming) else { panic!("{:?}", truncation(&warming)) };
        assert!((1_000..1_600).contains(&left_out), "cut {left_out} of 6,000 values; the warm-up has 1,000");
    }

    #[test]
    fn series_that_rise_or_change_late_reach_no_steady_state() {
        let rising: Vec<f64> = (0..6_000).map(f64::from).collect();
        assert_eq!(truncation(&rising), Truncation::NotReached);
        // The rule leaves out exactly half of the shortest series that it judges
        let short: Vec<f64> = (0..50).map(f64::from).collect();
        assert_eq!(truncation(&short), Truncation::TooShort);
        let late: Vec<f64> = (0..6_000).map(|at| f64::from(u8::from(at >= 4_000))).collect();
        assert_eq!(truncation(&late), Truncation::NotReached);
        // A series with fewer than 5,000 values is too short for "not reached"
        assert_eq!(truncation(&rising[..4_999]), Truncation::TooShort);
    }

    #[test]
    fn equal_values_have_no_warm_up() {
        for value in [0.0, 0.1, 1e9 / 3.0] {
            assert_eq!(truncation(&vec![value; 5_003]), Truncation::At(0), "{value}");
        }
    }

    #[test]
    fn truncation_rejects_series_with_few_or_non_finite_values_as_too_short() {
        assert_eq!(truncation(&[]), Truncation::TooShort);
        assert_eq!(truncation(&[1.0; 49]), Truncation::TooShort);
        assert_eq!(truncation(&[1.0; 50]), Truncation::At(0));
        let mut broken = vec![1.0; 100];
        broken[50] = f64::NAN;
        assert_eq!(truncation(&broken), Truncation::TooShort);
        assert_eq!(growth(&broken, Duration::from_secs(1)), Growth::TooShort);
        assert_eq!(growth(&[1.0; 39], Duration::from_secs(1)), Growth::TooShort);
        assert_eq!(growth(&[1.0; 100], Duration::ZERO), Growth::TooShort);
    }

    #[test]
    fn growth_finds_a_slope_of_three_per_second() {
        let samples: Vec<f64> = (0..600).map(|tenth| f64::from(tenth) * 0.3 + f64::from(tenth % 7)).collect();
        let Growth::Growing(slope) = growth(&samples, Duration::from_millis(100)) else {
            panic!("{:?}", growth(&samples, Duration::from_millis(100)))
        };
        assert!((slope.per_second - 3.0).abs() < 0.05 && slope.low <= 3.0 && slope.high >= 3.0, "{slope:?}");
    }

    #[test]
    fn empty_constant_and_shrinking_queues_are_stable() {
        let second = Duration::from_secs(1);
        let still = Growth::Stable(Slope { per_second: 0.0, low: 0.0, high: 0.0 });
        assert_eq!(growth(&[0.0; 100], second), still);
        assert_eq!(growth(&[7.0; 100], second), still);
        let shrinking: Vec<f64> = (0..100).rev().map(f64::from).collect();
        assert!(matches!(growth(&shrinking, second), Growth::Stable(_)));
    }

    #[test]
    fn queue_that_jumps_near_the_end_is_not_called_stable() {
        let step: Vec<f64> = (0..100).map(|at| if at < 90 { 0.0 } else { 50.0 }).collect();
        let said = growth(&step, Duration::from_secs(1));
        assert!(matches!(said, Growth::Growing(_) | Growth::Unknown(_)), "{said:?}");
    }

    #[test]
    fn truncation_and_growth_are_serialised_in_snake_case() {
        let json = |value: &Truncation| serde_json::to_value(value).unwrap();
        assert_eq!(json(&Truncation::TooShort), "too_short");
        assert_eq!(json(&Truncation::At(35)), serde_json::json!({ "at": 35 }));
        assert_eq!(json(&Truncation::NotReached), "not_reached");
        let growing = Growth::Growing(Slope { per_second: 2.0, low: 1.0, high: 3.0 });
        let text = r#"{"growing":{"per_second":2.0,"low":1.0,"high":3.0}}"#;
        assert_eq!(serde_json::to_string(&growing).unwrap(), text);
        assert_eq!(serde_json::from_str::<Growth>(text).unwrap(), growing);
    }

    // The expected percentages come from independent simulations of the same two rules. Tolerances are three
    // combined standard errors.

    #[test]
    fn stable_queues_usually_reach_a_steady_state_and_overloaded_queues_rarely_do() {
        for (utilisation, arrivals, series, expected, within) in [
            (0.5, 2_000, 300, 17.0, 9.0),
            (0.8, 2_000, 300, 23.0, 9.0),
            (0.9, 2_000, 300, 32.0, 9.0),
            (0.5, 10_000, 100, 2.0, 4.0),
            (0.9, 10_000, 100, 11.0, 8.0),
            (1.05, 2_000, 300, 91.0, 7.0),
            (1.05, 10_000, 100, 99.7, 1.5),
        ] {
            let seen = percent(utilisation, arrivals, series, not_reached);
            assert_close(seen, expected, within, &format!("{utilisation}, {arrivals} arrivals"));
        }
    }

    #[test]
    fn overloaded_queues_are_usually_called_growing_and_stable_queues_rarely() {
        for utilisation in [0.3, 0.5, 0.8] {
            let alarms = percent(utilisation, 2_000, 300, grows);
            assert!(alarms <= 8.0, "{alarms} % at {utilisation}");
        }
        for (utilisation, arrivals, series, expected, within) in [
            (0.9, 2_000, 300, 11.0, 7.0),
            (0.9, 10_000, 100, 2.0, 4.0),
            (1.02, 2_000, 300, 70.0, 10.0),
            (1.02, 10_000, 100, 91.0, 10.0),
            (1.05, 2_000, 300, 90.0, 7.0),
            (1.05, 10_000, 100, 100.0, 1.5),
        ] {
            let seen = percent(utilisation, arrivals, series, grows);
            assert_close(seen, expected, within, &format!("{utilisation}, {arrivals} arrivals"));
        }
    }

    proptest! {
        #[test]
        fn truncation_is_within_the_series_and_slopes_are_finite(
            values in proptest::collection::vec(0.0..1e12_f64, 0..400), every in 1_u64..10_000_000
        ) {
            if let Truncation::At(left_out) = truncation(&values) {
                prop_assert!(left_out <= values.len() / 2 + BATCH && left_out % BATCH == 0);
            }
            if let Growth::Stable(slope) | Growth::Growing(slope) | Growth::Unknown(slope) =
                growth(&values, Duration::from_micros(every))
            {
                prop_assert!(slope.low <= slope.per_second && slope.per_second <= slope.high);
                prop_assert!(slope.low.is_finite() && slope.high.is_finite());
            }
        }

        #[test]
        fn truncation_is_independent_of_the_unit_of_the_values(
            values in proptest::collection::vec(0.0..1e3_f64, 50..200), power in -10..20_i32
        ) {
            // Powers of two avoid rounding.
            let other: Vec<f64> = values.iter().map(|value| value * 2.0_f64.powi(power)).collect();
            prop_assert_eq!(truncation(&values), truncation(&other));
        }
    }
}
