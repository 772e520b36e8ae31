//! Fits the handoff over trials, as a function of the number of waiters and the load on the ensemble.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Observation;

/// Minimum number of trials needed to judge the quality of a fit.
const TRIALS_FEW: usize = 3;
/// Number of standard errors from zero at which a [`Part`] of the handoff counts as significant. The threshold
/// is strict, because a slow host lengthens both handoffs and queues, which makes one seem to cause the other.
const TOLD_APART: f64 = 4.0;
/// Minimum fan-out of a herd, in which handoffs grow with the number of waiters.
const HERD: f64 = 2.0;
/// Largest rate and number of waiters to predict, as multiples of the largest measured ones.
const BEYOND: f64 = 1.3;

/// A part of the handoff's mean, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Part {
    /// The estimate.
    pub us: f64,
    /// Standard error of the estimate.
    pub error_us: f64,
}

/// The measured range.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FitRange {
    /// Lowest acquisition rate over all locks, per second.
    pub rate_from: f64,
    /// Highest acquisition rate over all locks, per second.
    pub rate_to: f64,
    /// Smallest mean number of waiters at a release.
    pub waiting_from: f64,
    /// Largest mean number of waiters at a release.
    pub waiting_to: f64,
}

/// A fitted handoff: `first + each_more × (waiting − 1) + by_rate × rate`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fit {
    /// Handoff with a single waiter and no other load on the ensemble.
    pub first: Part,
    /// Increase for each further waiter; `None` if not significant, or if a release notifies one waiter.
    pub each_more: Option<Part>,
    /// Increase for each acquisition per second over all locks; `None` if not significant.
    pub by_rate: Option<Part>,
    /// Standard deviation of the residuals, relative to the trials' mean handoffs.
    pub spread: f64,
    /// Deviation of each trial, in trial order.
    pub residuals: Vec<f64>,
    /// Degrees of freedom: trials minus parts.
    pub freedom: usize,
    /// Inverse of the normal equations, which determines how uncertainty grows with the distance from the
    /// trials. Empty in files of older versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open: Vec<Vec<f64>>,
    /// The measured range.
    pub range: FitRange,
}

/// Error: too few trials have enough handoffs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("only {0} trials have enough handoffs; a prediction needs {TRIALS_FEW}")]
pub struct TooFewTrials(pub usize);

#[derive(Clone, Copy, PartialEq)]
struct FitShape {
    waiting: bool,
    rate: bool,
}

impl Fit {
    /// Returns the mean handoff in microseconds, with this many waiters and this many acquisitions
    /// per second on the ensemble.
    pub fn mean(&self, waiting: f64, rate: f64) -> f64 {
        let of = |part: Option<Part>| part.map_or(0.0, |part| part.us);
        let mean = self.first.us + of(self.each_more) * (waiting - 1.0).max(0.0) + of(self.by_rate) * rate;
        // The fitted line may cross zero outside the measured range, but a handoff cannot.
        mean.max(0.2 * self.first.us.abs())
    }

    /// Returns the fit with every handoff scaled by this factor.
    pub fn times(&self, factor: f64) -> Self {
        let part = |part: Part| Part { us: part.us * factor, error_us: part.error_us * factor };
        Self {
            first: part(self.first),
            each_more: self.each_more.map(part),
            by_rate: self.by_rate.map(part),
            open: self
                .open
                .iter()
                .map(|line| line.iter().map(|cell| cell * factor * factor).collect())
                .collect(),
            ..self.clone()
        }
    }

    /// Returns the standard deviation of a new trial's handoff from the fit at this load, relative to the
    /// handoff. The deviation grows with the distance from the trials, because the fit itself becomes less certain.
    pub fn spread_at(&self, waiting: f64, rate: f64) -> f64 {
        let mut row = vec![1.0];
        row.extend(self.each_more.map(|_| (waiting - 1.0).max(0.0)));
        row.extend(self.by_rate.map(|_| rate));
        let mean = self.mean(waiting, rate).max(1.0);
        let leverage = match self.open.len() == row.len() {
            true => {
                let each: Vec<f64> = self.open.iter().map(|line| product(line, &row)).collect();
                product(&each, &row) / (mean * mean)
            }
            false => 1.0 / self.residuals.len().max(1) as f64,
        };
        self.spread * (1.0 + leverage.max(0.0)).sqrt()
    }

    /// Returns whether a queue is so much longer than any measured queue that its handoffs cannot be
    /// predicted.
    pub fn guesses_queue(&self, waiting: f64) -> bool {
        self.each_more.is_some() && waiting > BEYOND * self.range.waiting_to
    }

    /// Returns the highest predictable rate.
    pub fn rate_at_most(&self) -> f64 {
        BEYOND * self.range.rate_to
    }

    /// Explains why this rate is too high to predict; `None` if it can be predicted.
    pub fn beyond(&self, rate: f64) -> Option<String> {
        (rate > self.rate_at_most()).then(|| {
            let most = self.range.rate_to;
            format!(
                "{rate:.0} acquisitions a second cannot be predicted: at most {most:.0} were measured, and \
                 predictions extend to {BEYOND} times that rate"
            )
        })
    }
}

/// Fits the handoffs of trials. Scattered trials yield a fit whose predictions are uncertain.
pub fn fit(trials: &[Observation]) -> Result<Fit, TooFewTrials> {
    if trials.len() < TRIALS_FEW {
        return Err(TooFewTrials(trials.len()));
    }
    let spans = |of: fn(&Observation) -> f64| {
        let all = || trials.iter().map(of);
        let (least, most) = (all().fold(f64::INFINITY, f64::min), all().fold(0.0, f64::max));
        (least, most, most > 1.5 * least)
    };
    let (waiting_from, waiting_to, waiting) = spans(|one| one.waiting);
    let (rate_from, rate_to, rate) = spans(|one| one.rate);
    let range = FitRange { rate_from, rate_to, waiting_from, waiting_to };
    // Each additional part needs another trial.
    let enough = trials.len() >= TRIALS_FEW + 2;
    let is_herd = trials.iter().any(|one| one.fan_out.is_some_and(|fan_out| fan_out >= HERD));
    let mut shape = FitShape { waiting: waiting && enough && is_herd, rate: rate && enough };
    loop {
        let found = solve(trials, shape, range)
            .or_else(|| solve(trials, FitShape { waiting: false, rate: false }, range));
        let Some(found) = found else { return Err(TooFewTrials(trials.len())) };
        // More waiters or a higher rate do not speed up a handoff; an apparent speed-up is due to chance.
        let told = |part: Part| part.us > 0.0 && part.us >= TOLD_APART * part.error_us;
        let next =
            FitShape { waiting: found.each_more.is_some_and(told), rate: found.by_rate.is_some_and(told) };
        if next == shape {
            return Ok(found);
        }
        shape = next;
    }
}

/// Minimises the squared relative error with the normal equations, for at most three parts.
fn solve(trials: &[Observation], shape: FitShape, range: FitRange) -> Option<Fit> {
    let row = |one: &Observation| {
        let mut row = vec![1.0];
        row.extend(shape.waiting.then_some(one.waiting - 1.0));
        row.extend(shape.rate.then_some(one.rate));
        row
    };
    let size = 1 + usize::from(shape.waiting) + usize::from(shape.rate);
    let mut normal = vec![vec![0.0; size]; size];
    let mut right = vec![0.0; size];
    for one in trials {
        let (row, mean) = (row(one), one.handoff.mean().max(1.0));
        let weight = 1.0 / (mean * mean);
        for (i, a) in row.iter().enumerate() {
            right[i] += weight * a * mean;
            for (j, b) in row.iter().enumerate() {
                normal[i][j] += weight * a * b;
            }
        }
    }
    let inverse = inverse(normal)?;
    let parts: Vec<f64> = inverse.iter().map(|line| product(line, &right)).collect();
    let off = |one: &Observation| product(&row(one), &parts) / one.handoff.mean().max(1.0) - 1.0;
    let residuals: Vec<f64> = trials.iter().map(off).collect();
    let freedom = trials.len().checked_sub(size).filter(|freedom| *freedom > 0)?;
    let variance = residuals.iter().map(|residual| residual * residual).sum::<f64>() / freedom as f64;
    let part = |at: usize| Part { us: parts[at], error_us: (variance * inverse[at][at]).max(0.0).sqrt() };
    Some(Fit {
        first: part(0),
        each_more: shape.waiting.then(|| part(1)),
        by_rate: shape.rate.then(|| part(size - 1)),
        spread: variance.sqrt(),
        residuals: residuals.into_iter().map(|residual| -residual).collect(),
        freedom,
        open: inverse,
        range,
    })
}

fn product(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(a, b)| a * b).sum()
}

/// Inverts a matrix by Gauss–Jordan elimination. `None` if the matrix is singular.
fn inverse(mut matrix: Vec<Vec<f64>>) -> Option<Vec<Vec<f64>>> {
    let size = matrix.len();
    for (at, row) in matrix.iter_mut().enumerate() {
        row.extend((0..size).map(|column| f64::from(u8::from(column == at))));
    }
    for at in 0..size {
        let best = (at..size).max_by(|a, b| matrix[*a][at].abs().total_cmp(&matrix[*b][at].abs()))?;
        matrix.swap(at, best);
        let pivot = matrix[at][at];
        if pivot.abs() < 1e-18 {
            return None;
        }
        matrix[at].iter_mut().for_each(|cell| *cell /= pivot);
        let leading = matrix[at].clone();
        for (_, row) in matrix.iter_mut().enumerate().filter(|(other, _)| *other != at) {
            let factor = row[at];
            row.iter_mut().zip(&leading).for_each(|(cell, lead)| *cell -= factor * lead);
        }
    }
    Some(matrix.into_iter().map(|row| row[size..].to_vec()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use zklockbench_stats::queueing::{Empirical, Pace};

    fn trial(waiting: f64, rate: f64, handoff: f64) -> Observation {
        Observation {
            source: "run, trial 0".into(),
            strategy: "x".into(),
            waiting,
            rate,
            handoff: Empirical::fixed(handoff),
            pace: Pace::default(),
            uncontended: None,
            release: Empirical::fixed(1.0),
            overshoot: Empirical::fixed(0.0),
            late: None,
            fan_out: Some(waiting),
            requests_per_acquisition: None,
            unsound: None,
        }
    }

    #[test]
    fn slow_handoffs_are_not_attributed_to_queue_length_if_releases_notify_one_waiter() {
        let slow = |waiting: f64| Observation {
            fan_out: Some(1.0),
            ..trial(waiting, 50.0 + waiting, 1_000.0 + 150.0 * waiting)
        };
        let trials: Vec<_> = (1..=6).map(|n| slow(f64::from(n))).collect();
        assert!(fit(&trials).unwrap().each_more.is_none());
    }

    #[test]
    fn fitted_herd_handoffs_grow_with_the_number_of_waiters() {
        let noisy = |n: usize, value: f64| value * if n.is_multiple_of(2) { 1.02 } else { 0.98 };
        let points = [(1.0, 50.0), (5.0, 100.0), (10.0, 60.0), (20.0, 200.0), (2.0, 220.0), (15.0, 90.0)];
        let trials: Vec<_> = (0..)
            .zip(points)
            .map(|(n, (waiting, rate))| trial(waiting, rate, noisy(n, 3_000.0 + 400.0 * (waiting - 1.0))))
            .collect();
        let fit = fit(&trials).unwrap();
        assert!((fit.each_more.unwrap().us - 400.0).abs() < 40.0, "{fit:?}");
        assert!(fit.by_rate.is_none() && fit.spread < 0.05, "{fit:?}");
        assert!((fit.mean(11.0, 100.0) / 7_000.0 - 1.0).abs() < 0.05);
    }

    #[test]
    fn apparent_speed_up_under_load_is_treated_as_chance() {
        let trials: Vec<_> =
            (1..=6).map(|n| trial(1.0, 50.0 * f64::from(n), 3_000.0 - 100.0 * f64::from(n))).collect();
        assert!(fit(&trials).unwrap().by_rate.is_none());
    }

    #[test]
    fn predictions_are_less_certain_farther_from_the_trials() {
        let noisy =
            |n: u32| 3_000.0 + 400.0 * f64::from(n - 1) + if n.is_multiple_of(2) { 60.0 } else { -60.0 };
        let trials: Vec<_> = (1..=6).map(|n| trial(f64::from(n), 100.0, noisy(n))).collect();
        let fit = fit(&trials).unwrap();
        let (near, far) = (fit.spread_at(3.5, 100.0), fit.spread_at(12.0, 100.0));
        assert!(fit.spread < near && near < far, "{} {near} {far}", fit.spread);
        assert!(!fit.guesses_queue(7.0) && fit.guesses_queue(8.0));
        // Scaled handoffs have the same relative uncertainty.
        assert!((fit.times(2.0).spread_at(12.0, 100.0) / far - 1.0).abs() < 1e-9);
        // If only the mean was fitted, only the mean is uncertain.
        let plain: Vec<_> = (1..=6).map(|n| trial(1.0, 100.0, noisy(n % 2 + 1))).collect();
        let plain = super::fit(&plain).unwrap();
        let expected = plain.spread * (1.0_f64 + 1.0 / 6.0).sqrt();
        assert!((plain.spread_at(1.0, 100.0) / expected - 1.0).abs() < 0.02);
    }

    #[test]
    fn extrapolation_is_limited() {
        let trials: Vec<_> = (1..=4).map(|n| trial(1.0, 50.0 * f64::from(n), 3_000.0)).collect();
        let fit = fit(&trials).unwrap();
        assert!(fit.beyond(240.0).is_none() && fit.beyond(300.0).unwrap().contains("at most 200"));
    }
}
