//! The Universal Scalability Law (Gunther) over contenders: a second opinion on where throughput stops growing.
//!
//! X(N) = g·N / (1 + a·(N−1) + b·N·(N−1)), with the peak at N* = √((1−a)/b). How well N* is known depends on whether the
//! points reach it: with points up to half of it and 5 % of noise, a quarter of all fits have no peak at all. So none is
//! named that the points did not pass and fall beyond, nor one that resampling does not keep.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::knee::{least_squares, share_of};

/// The law's parameters.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Law {
    /// Throughput of one contender, a second.
    pub g: f64,
    /// Contention: what is done one after the other.
    pub a: f64,
    /// Coherence: what each pair of contenders costs. Below 0 where the fit finds none.
    pub b: f64,
}

impl Law {
    pub fn at(&self, n: f64) -> f64 {
        self.g * n / (1.0 + self.a * (n - 1.0) + self.b * n * (n - 1.0))
    }

    /// Where it is highest; `None` where it grows for ever.
    pub fn peak(&self) -> Option<f64> {
        (self.b > 0.0).then(|| ((1.0 - self.a).max(0.0) / self.b).sqrt().max(1.0))
    }
}

/// A fit, and how well it fits.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fit {
    /// The parameters.
    pub law: Law,
    /// How far the points lie from it: the standard deviation of the logarithms, so that 0.05 is 5 %.
    pub off: f64,
}

/// What the law says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Opinion {
    /// Throughput is highest at so many contenders.
    Peak {
        /// The number.
        at: f64,
        /// The lower end of its interval of 95 %.
        low: f64,
        /// The upper end.
        high: f64,
        /// The fit.
        fit: Fit,
    },
    /// No peak up to the largest number.
    NoPeak {
        /// That number.
        up_to: f64,
        /// The fit.
        fit: Fit,
        /// Why no peak is named.
        why: NoLaw,
    },
    /// It says nothing.
    Silent(NoLaw),
}

/// Why the law names no peak.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NoLaw {
    /// There are too few points.
    TooFew,
    /// No curve of that shape comes near the points.
    NoFit,
    /// It does not describe the points.
    BadFit {
        /// How far they lie from it.
        off: f64,
    },
    /// The peak of the fit lies beyond the points.
    NotPassed,
    /// The points beyond the peak of the fit do not fall by more than they are off it.
    NotShown,
    /// Too many of the resampled curves have none.
    NotKept {
        /// The share that has one.
        share: f64,
    },
}

/// Points that a fit takes: twice its parameters.
const POINTS: usize = 6;
/// How far points may lie from the law before it is called a bad fit.
const OFF_AT_MOST: f64 = 0.15;
const DRAWS: usize = 500;
/// In how many of those it must have a peak.
const KEPT: f64 = 0.95;

/// Fits the law by the logarithms of the throughput; `None` where the points do not tell its parameters.
pub fn fit(points: &[(f64, f64)]) -> Option<Fit> {
    let usable = points.iter().all(|(n, x)| *n >= 1.0 && *x > 0.0 && x.is_finite());
    if points.len() < 3 || !usable {
        return None;
    }
    // n/x = c0 + c1·(n−1) + c2·n·(n−1): straight in the parameters. Weighted so that errors are shares.
    let rows: Vec<[f64; 3]> = points.iter().map(|(n, _)| [1.0, n - 1.0, n * (n - 1.0)]).collect();
    let turns: Vec<f64> = points.iter().map(|(n, x)| n / x).collect();
    let weights: Vec<f64> = turns.iter().map(|turn| turn.powi(-2)).collect();
    let mut found = least_squares(&rows, &turns, &weights)?;
    let of =
        |factors: &[f64; 3], row: &[f64; 3]| factors.iter().zip(row).map(|(one, other)| one * other).sum();
    let logs = |factors: &[f64; 3]| -> Option<Vec<f64>> {
        let off = |(row, turn): (&[f64; 3], &f64)| {
            let told: f64 = of(factors, row);
            (told > 0.0).then(|| (turn / told).ln())
        };
        rows.iter().zip(&turns).map(off).collect()
    };
    let squares = |logs: &[f64]| logs.iter().map(|log| log * log).sum::<f64>();
    let mut residuals = logs(&found)?;
    // Gauss and Newton's steps from there, halved until they help.
    for _ in 0..40 {
        let slopes: Vec<[f64; 3]> = rows
            .iter()
            .map(|row| {
                let told: f64 = of(&found, row);
                row.map(|one| one / told)
            })
            .collect();
        let Some(step) = least_squares(&slopes, &residuals, &vec![1.0; rows.len()]) else { break };
        let tried = (0..20).find_map(|halvings| {
            let share = 0.5_f64.powi(halvings);
            let next = [0, 1, 2].map(|at| found[at] + share * step[at]);
            let off = logs(&next)?;
            (squares(&off) < squares(&residuals)).then_some((next, off))
        });
        let Some((next, off)) = tried else { break };
        let gained = squares(&residuals) - squares(&off);
        (found, residuals) = (next, off);
        if gained < 1e-12 {
            break;
        }
    }
    let [c0, c1, c2] = found;
    let degrees = (points.len() - 3).max(1) as f64;
    let law = Law { g: 1.0 / c0, a: c1 / c0, b: c2 / c0 };
    (c0 > 0.0).then(|| Fit { law, off: (squares(&residuals) / degrees).sqrt() })
}

/// Whether the last of the points, which lies beyond a peak, is lower than the highest up to it by more than both may be off.
fn falls_beyond(at: f64, points: &[(f64, f64)], off: f64) -> bool {
    let highest = points.iter().filter(|(n, _)| *n <= at).map(|(_, x)| *x).fold(0.0, f64::max);
    let last = points.iter().max_by(|one, other| one.0.total_cmp(&other.0));
    last.is_some_and(|(_, x)| (highest / x).ln() > std::f64::consts::SQRT_2 * off)
}

/// What the law says of contenders and throughput.
pub fn usl(points: &[(f64, f64)], seed: u64) -> Opinion {
    let up_to = points.iter().map(|(n, _)| *n).fold(0.0, f64::max);
    if points.len() < POINTS {
        return Opinion::Silent(NoLaw::TooFew);
    }
    let Some(best) = fit(points) else { return Opinion::Silent(NoLaw::NoFit) };
    if best.off > OFF_AT_MOST {
        return Opinion::Silent(NoLaw::BadFit { off: best.off });
    }
    let none = |why| Opinion::NoPeak { up_to, fit: best, why };
    let residuals: Vec<f64> = points.iter().map(|(n, x)| (x / best.law.at(*n)).ln()).collect();
    let widen = (points.len() as f64 / (points.len() - 3) as f64).sqrt();
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut peaks = Vec::new();
    for _ in 0..DRAWS {
        let mut noisy = |n: f64| {
            let off = residuals[rng.random_range(0..residuals.len())];
            (n, best.law.at(n) * (widen * off).exp())
        };
        let drawn: Vec<(f64, f64)> = points.iter().map(|(n, _)| noisy(*n)).collect();
        peaks.extend(fit(&drawn).and_then(|fit| fit.law.peak()));
    }
    let share = peaks.len() as f64 / DRAWS as f64;
    match best.law.peak() {
        None => none(NoLaw::NotKept { share }),
        Some(_) if share < KEPT => none(NoLaw::NotKept { share }),
        Some(at) if at >= up_to => none(NoLaw::NotPassed),
        Some(at) if !falls_beyond(at, points, best.off) => none(NoLaw::NotShown),
        Some(at) => {
            let (low, high) = (share_of(&peaks, 0.025).min(at), share_of(&peaks, 0.975).max(at));
            Opinion::Peak { at, low, high, fit: best }
        }
    }
}
