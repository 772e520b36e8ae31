//! Whether a load was in a steady state: where its warm-up ended, and whether its queue went on growing.
//!
//! Both are arithmetic on what was seen, in its order; nothing here looks at a clock. `docs/workloads.md` says how far the
//! answers can be trusted.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where the warm-up of a series ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Truncation {
    /// There are too few values to say.
    TooShort,
    /// So many values at the beginning belong to the warm-up.
    At(usize),
    /// Half of the series or more would belong to it: no steady state was reached.
    NotReached,
}

/// Values that are averaged into one before anything else: the 5 of MSER-5.
const BATCH: usize = 5;
/// The least number of those averages of which the rule says anything.
const BATCHES_FEW: usize = 10;
/// Below so many values "not reached" is wrong too often to be said: for 26 of 100 series of 2,000 waits of a stable
/// queue at 80 % utilisation.
const VALUES_FEW: usize = 5_000;

/// Where the warm-up of these values ends, by MSER-5: the place from which on the mean has the smallest standard error.
///
/// The values stand in the order of their causes: waits by when their arrivals came, not by when they ended. What is left
/// over after whole batches of five is not looked at, and of several places that are as good, the first is taken. Values
/// that are no numbers make a series of which nothing can be said.
///
/// K. P. White, Jr., *An effective truncation heuristic for bias reduction in simulation output*, Simulation 69 (1997).
pub fn truncation(values: &[f64]) -> Truncation {
    let batches: Vec<f64> =
        values.chunks_exact(BATCH).map(|batch| batch.iter().sum::<f64>() / BATCH as f64).collect();
    if batches.len() < BATCHES_FEW || batches.iter().any(|mean| !mean.is_finite()) {
        return Truncation::TooShort;
    }
    let left_out = least_error(&batches);
    // Of a series that only rises, as much is left out as may be: of the shortest that is judged exactly half.
    if 2 * left_out < batches.len() {
        Truncation::At(left_out * BATCH)
    } else if values.len() < VALUES_FEW {
        Truncation::TooShort
    } else {
        Truncation::NotReached
    }
}

/// How many values to leave out, so that the mean of the others has the smallest standard error; at least [`BATCH`] are
/// kept. One pass from the end, with sums of what is left.
fn least_error(values: &[f64]) -> usize {
    // Around the mean, so that the difference of two large sums doesn't swallow what is looked for.
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
        // What is only rounding is nothing: of values that are all alike none is left out.
        let noise = count * (largest * 1e-12).powi(2);
        let error = if deviations <= noise { 0.0 } else { deviations / (count * count) };
        if count >= BATCH as f64 && error <= least {
            (best, least) = (left_out, error);
        }
    }
    best
}

/// Whether a queue went on growing.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Growth {
    /// There are too few samples to say.
    TooShort,
    /// It did not.
    Stable(Slope),
    /// It did: more came than could be served.
    Growing(Slope),
    /// Both are possible.
    Unknown(Slope),
}

/// How much longer a queue became each second. The bounds are those of a 90 % interval: the true slope is below the lower
/// one in 5 of 100 series.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Slope {
    /// The estimate.
    pub per_second: f64,
    /// The lower end of its interval.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// Means that a line is drawn through. Single samples are no more independent of each other than a queue is of what it was
/// a moment ago: a line through them seems to rise for many stable queues.
const MEANS: usize = 20;
/// The 95th percentile of Student's t with 18 degrees of freedom: [`MEANS`] less the two that a line takes.
const T_95: f64 = 1.734_064;
/// The least number of samples: two for each mean.
const SAMPLES_FEW: usize = 2 * MEANS;

/// Whether a queue whose length was sampled at even distances went on growing: whether the slope of a line through 20
/// means of consecutive samples is certainly positive, and has made the queue longer by more than its mean.
///
/// The samples begin where the warm-up ended. What does not go into 20 equal parts is left out at the beginning.
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
    // The slope that makes the queue longer by its mean within the series.
    let much = mean / length;
    if slope.low > 0.0 && slope.per_second > much {
        Growth::Growing(slope)
    } else if slope.low <= 0.0 && slope.high > much {
        Growth::Unknown(slope)
    } else {
        Growth::Stable(slope)
    }
}

/// The line of least squares through means that are so many seconds apart.
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
    fn a_line_rises_by_what_its_points_do_within_what_they_lie_apart_from_it() {
        // Two seconds apart. By hand: it rises by 0.6 from one to the next; the squares of what lies off it add up to 0.2.
        let Slope { per_second, low, high } = line(&[0.0, 1.0, 1.0, 2.0], 2.0);
        let error = (0.2_f64 / 2.0 / 5.0).sqrt();
        let expected = [0.6, 0.6 - T_95 * error, 0.6 + T_95 * error].map(|rise| rise / 2.0);
        for (found, expected) in [per_second, low, high].into_iter().zip(expected) {
            assert!((found - expected).abs() < 1e-12, "{found} {expected}");
        }
    }

    /// Waits of so many arrivals at an empty queue, by Lindley's recursion. Services are like those of a lock: a hold that
    /// is always 0.7, and a log-normal handoff with the mean 0.3, which together have the mean 1 and vary by half of it.
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

    /// In how many of 100 series.
    fn percent(utilisation: f64, arrivals: usize, series: u64, is_so: impl Fn(&[f64]) -> bool) -> f64 {
        let so = (0..series).filter(|seed| is_so(&waits(utilisation, arrivals, *seed))).count();
        100.0 * so as f64 / series as f64
    }

    /// Whether no steady state was found, by the rule alone: without the word for series that are too short.
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

    fn close(seen: f64, expected: f64, within: f64) {
        assert!((seen - expected).abs() <= within, "{seen:.1} % where {expected} % ± {within} are expected");
    }

    #[test]
    fn a_warm_up_is_cut_off_where_it_ends_and_nothing_where_there_is_none() {
        let noise = |at: usize| ((at * 7919) % 13) as f64 / 13.0;
        let steady: Vec<f64> = (0..6_000).map(noise).collect();
        let Truncation::At(left_out) = truncation(&steady) else { panic!("{:?}", truncation(&steady)) };
        assert!(left_out < 600, "{left_out} of 6,000");
        // Given ten seconds of high values before
        let warming: Vec<f64> = (0..6_000).map(|at| noise(at) + if at < 1_000 { 5.0 } else { 0.0 }).collect();
        let Truncation::At(left_out) = truncation(&warming) else { panic!("{:?}", truncation(&warming)) };
        assert!((1_000..1_600).contains(&left_out), "{left_out} of 6,000, of which 1,000 are warm-up");
    }

    #[test]
    fn what_only_changes_at_the_end_or_all_the_time_never_reaches_a_steady_state() {
        let rising: Vec<f64> = (0..6_000).map(f64::from).collect();
        assert_eq!(truncation(&rising), Truncation::NotReached);
        // Not even of the shortest that is judged
        let short: Vec<f64> = (0..50).map(f64::from).collect();
        assert_eq!(truncation(&short), Truncation::TooShort);
        let late: Vec<f64> = (0..6_000).map(|at| f64::from(u8::from(at >= 4_000))).collect();
        assert_eq!(truncation(&late), Truncation::NotReached);
        // Of a short series that is not said
        assert_eq!(truncation(&rising[..4_999]), Truncation::TooShort);
    }

    #[test]
    fn values_that_are_all_alike_are_steady_from_the_first() {
        for value in [0.0, 0.1, 1e9 / 3.0] {
            assert_eq!(truncation(&vec![value; 5_003]), Truncation::At(0), "{value}");
        }
    }

    #[test]
    fn of_few_values_or_none_or_no_numbers_nothing_is_said() {
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
    fn a_queue_that_grows_by_three_a_second_is_said_to() {
        let samples: Vec<f64> = (0..600).map(|tenth| f64::from(tenth) * 0.3 + f64::from(tenth % 7)).collect();
        let Growth::Growing(slope) = growth(&samples, Duration::from_millis(100)) else {
            panic!("{:?}", growth(&samples, Duration::from_millis(100)))
        };
        assert!((slope.per_second - 3.0).abs() < 0.05 && slope.low <= 3.0 && slope.high >= 3.0, "{slope:?}");
    }

    #[test]
    fn a_queue_that_is_always_empty_or_always_as_long_or_shrinks_is_stable() {
        let second = Duration::from_secs(1);
        let still = Growth::Stable(Slope { per_second: 0.0, low: 0.0, high: 0.0 });
        assert_eq!(growth(&[0.0; 100], second), still);
        assert_eq!(growth(&[7.0; 100], second), still);
        let shrinking: Vec<f64> = (0..100).rev().map(f64::from).collect();
        assert!(matches!(growth(&shrinking, second), Growth::Stable(_)));
    }

    #[test]
    fn a_queue_that_was_empty_and_is_not_any_more_is_not_called_stable() {
        let step: Vec<f64> = (0..100).map(|at| if at < 90 { 0.0 } else { 50.0 }).collect();
        let said = growth(&step, Duration::from_secs(1));
        assert!(matches!(said, Growth::Growing(_) | Growth::Unknown(_)), "{said:?}");
    }

    #[test]
    fn the_words_in_files_are_in_snake_case() {
        let json = |value: &Truncation| serde_json::to_value(value).unwrap();
        assert_eq!(json(&Truncation::TooShort), "too_short");
        assert_eq!(json(&Truncation::At(35)), serde_json::json!({ "at": 35 }));
        assert_eq!(json(&Truncation::NotReached), "not_reached");
        let growing = Growth::Growing(Slope { per_second: 2.0, low: 1.0, high: 3.0 });
        let text = r#"{"growing":{"per_second":2.0,"low":1.0,"high":3.0}}"#;
        assert_eq!(serde_json::to_string(&growing).unwrap(), text);
        assert_eq!(serde_json::from_str::<Growth>(text).unwrap(), growing);
    }

    // What follows are the figures of simulations that others made of the same two rules, with tolerances of three
    // standard errors of so many series and of theirs.

    #[test]
    fn of_stable_queues_that_begin_empty_few_are_said_never_to_be_steady() {
        close(percent(0.5, 2_000, 300, not_reached), 17.0, 9.0);
        close(percent(0.8, 2_000, 300, not_reached), 23.0, 9.0);
        close(percent(0.9, 2_000, 300, not_reached), 32.0, 9.0);
        close(percent(0.5, 10_000, 100, not_reached), 2.0, 4.0);
        close(percent(0.9, 10_000, 100, not_reached), 11.0, 8.0);
    }

    #[test]
    fn queues_that_get_more_than_they_can_serve_never_are() {
        close(percent(1.05, 2_000, 300, not_reached), 91.0, 7.0);
        close(percent(1.05, 10_000, 100, not_reached), 99.7, 1.5);
    }

    #[test]
    fn of_stable_queues_hardly_any_is_said_to_grow() {
        for utilisation in [0.3, 0.5, 0.8] {
            let alarms = percent(utilisation, 2_000, 300, grows);
            assert!(alarms <= 8.0, "{alarms} % at {utilisation}");
        }
        close(percent(0.9, 2_000, 300, grows), 11.0, 7.0);
        close(percent(0.9, 10_000, 100, grows), 2.0, 4.0);
    }

    #[test]
    fn most_queues_that_get_too_much_are_said_to_grow() {
        close(percent(1.02, 2_000, 300, grows), 70.0, 10.0);
        close(percent(1.02, 10_000, 100, grows), 91.0, 10.0);
        close(percent(1.05, 2_000, 300, grows), 90.0, 7.0);
        close(percent(1.05, 10_000, 100, grows), 100.0, 1.5);
    }

    proptest! {
        #[test]
        fn whatever_the_values_are_the_answers_are_within_the_series_and_numbers(
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
        fn the_unit_of_the_values_changes_nothing(
            values in proptest::collection::vec(0.0..1e3_f64, 50..200), power in -10..20_i32
        ) {
            // By powers of two, so that nothing is rounded.
            let other: Vec<f64> = values.iter().map(|value| value * 2.0_f64.powi(power)).collect();
            prop_assert_eq!(truncation(&values), truncation(&other));
        }
    }
}
