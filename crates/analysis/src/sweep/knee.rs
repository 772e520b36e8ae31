//! Knees: where a curve bends.
//!
//! To place points, the point farthest from the chord of the curve is enough (Kneedle). It is no verdict: which point that is
//! depends on the range swept. The knee that is reported is where two straight lines meet that fit the curve on logarithmic
//! axes, with an interval by resampling, and only if the sweep passed it. Over rates of an open load not even that stays the
//! same however far is swept: there it is [`saturation`].
//!
//! The Universal Scalability Law (Gunther) over contenders is a second opinion on where throughput stops growing:
//! X(N) = g·N / (1 + a·(N−1) + b·N·(N−1)), with the peak at N* = √((1−a)/b). How well N* is known depends on whether the
//! points reach it: with points up to half of it and 5 % of noise, a quarter of all fits have no peak at all. So none is
//! named that the points did not pass and fall beyond, nor one that resampling does not keep.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::over::Variable;
use super::series::{Estimate, Point, Sample, Series, State};
use zklockbench_stats::{eliminate, median};

/// Which figure bends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KneeFigure {
    /// Acquisitions a second.
    Throughput,
    /// The median wait.
    WaitP50,
    /// The 99th percentile of the wait.
    WaitP99,
}

impl KneeFigure {
    /// What bends under a load of that name. An open one serves what comes, until it cannot: what bends is the wait.
    pub fn under(load: &str) -> Self {
        match load {
            "open" => Self::WaitP99,
            "batch" => Self::WaitP50,
            _ => Self::Throughput,
        }
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::Throughput => "throughput",
            Self::WaitP50 => "wait p50",
            Self::WaitP99 => "wait p99",
        }
    }

    /// The curve of a series: its points that count, on logarithmic axes.
    pub fn curve(self, series: &Series) -> Vec<Dot> {
        let dot = |point: &Point| {
            let found = match self {
                Self::Throughput => point.throughput,
                Self::WaitP50 => point.wait_p50.filter(|_| !point.wait_p50_at_least),
                Self::WaitP99 => point.wait_p99.filter(|_| !point.wait_p99_at_least),
            }?;
            (found.value > 0.0).then(|| Dot::of(point.at.x, found))
        };
        series.sound().filter_map(dot).collect()
    }
}

/// A point of a curve, on logarithmic axes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dot {
    pub x: f64,
    pub y: f64,
    /// How far off that may be: a standard error.
    pub error: f64,
}

impl Dot {
    fn of(x: f64, found: Estimate) -> Self {
        // An interval reaches two standard errors or more to either side.
        let error = found.half_width().map_or(0.1, |half| half.ln_1p() / 2.0);
        Self { x: x.ln(), y: found.value.ln(), error }
    }
}

/// The point farthest from the chord, and how far, in a square of 1 by 1; `None` where the curve is no more than noise.
pub fn farthest(curve: &[Dot]) -> Option<(usize, f64)> {
    let (first, last) = (curve.first()?, curve.last()?);
    let empty = (f64::INFINITY, f64::NEG_INFINITY);
    let (low, high) = curve.iter().fold(empty, |(low, high), dot| (low.min(dot.y), high.max(dot.y)));
    let noise = curve.iter().map(|dot| dot.error).fold(0.0, f64::max);
    if curve.len() < 3 || last.x <= first.x || high - low <= 4.0 * noise {
        return None;
    }
    let chord = |x: f64| first.y + (last.y - first.y) * (x - first.x) / (last.x - first.x);
    let far = |dot: &Dot| (dot.y - chord(dot.x)).abs() / (high - low);
    let inner = curve.iter().enumerate().skip(1).take(curve.len() - 2);
    inner.map(|(at, dot)| (at, far(dot))).max_by(|one, other| one.1.total_cmp(&other.1))
}

/// Where two straight lines meet.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bend {
    /// The value of the variable.
    pub at: f64,
    /// The lower end of its interval of 95 %.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// The slope before it: 1 where the figure grows as the variable does, 0 where it stays.
    pub before: f64,
    /// The slope behind it.
    pub behind: f64,
}

/// What is known of the knee.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Knee {
    /// There is one.
    Found(Bend),
    /// Of an open load: from where on it waits.
    Saturated(Saturation),
    /// None up to that value, and why none is named.
    NotFound {
        /// The largest value with a point that counts; `None` where there is none.
        up_to: Option<f64>,
        /// Why.
        why: String,
    },
}

const POINTS: usize = 5;
const DRAWS: usize = 400;
const SLOPES: f64 = 0.2;
/// In how many of the draws it must bend, or have a peak.
const KEPT: f64 = 0.95;
/// How finely the place of the bend is searched.
const STEPS: usize = 60;

pub fn knee(curve: &[Dot], seed: u64) -> Knee {
    let up_to = curve.last().map(|dot| dot.x.exp());
    let none = |why: String| Knee::NotFound { up_to, why };
    if curve.len() < POINTS {
        return none(format!("it takes {POINTS} points that count, and there are {}", curve.len()));
    }
    let Some(best) = two_lines(curve) else { return none("all points lie at one place".into()) };
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    // How far the points lie from the lines is noise, too, and often more than repetitions show.
    let misfit = (best.squares / (curve.len() - 3).max(1) as f64).sqrt();
    let mut drawn: Vec<TwoLines> = Vec::with_capacity(DRAWS);
    for _ in 0..DRAWS {
        let mut noisy = || -> Vec<Dot> {
            let move_one = |dot: &Dot| {
                let off: f64 = rng.sample(StandardNormal);
                Dot { y: dot.y + off * dot.error.max(misfit), ..*dot }
            };
            curve.iter().map(move_one).collect()
        };
        drawn.extend(two_lines(&noisy()));
    }
    let bends = |lines: &&TwoLines| {
        lines.change.abs() >= SLOPES && lines.change.signum().total_cmp(&best.change.signum()).is_eq()
    };
    let bending: Vec<f64> = drawn.iter().filter(bends).map(|lines| lines.at).collect();
    if best.change.abs() < SLOPES || (bending.len() as f64) < KEPT * DRAWS as f64 {
        return none("the curve does not bend by more than its points are uncertain".into());
    }
    let (low, high) = (share_of(&bending, 0.025), share_of(&bending, 0.975));
    let beyond = curve.iter().filter(|dot| dot.x > best.at).count();
    let before = curve.iter().filter(|dot| dot.x < best.at).count();
    if beyond < 2 || before < 2 {
        return none("too few points lie beyond where it seems to bend".into());
    }
    Knee::Found(Bend {
        at: best.at.exp(),
        low: low.min(best.at).exp(),
        high: high.max(best.at).exp(),
        before: best.slope,
        behind: best.slope + best.change,
    })
}

/// The value below which that share of the values lies.
fn share_of(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = (share * (sorted.len().saturating_sub(1)) as f64).round() as usize;
    sorted.get(at).copied().unwrap_or(f64::NAN)
}

struct TwoLines {
    /// Where, on the logarithmic axis.
    at: f64,
    slope: f64,
    /// By how much the second is steeper.
    change: f64,
    /// How far the points lie from them: the sum of squares.
    squares: f64,
}

fn two_lines(curve: &[Dot]) -> Option<TwoLines> {
    let (from, to) = (curve.get(1)?.x, curve.get(curve.len().checked_sub(2)?)?.x);
    let each = (0..=STEPS).filter_map(|step| {
        let at = from + (to - from) * step as f64 / STEPS as f64;
        let rows: Vec<[f64; 3]> =
            curve.iter().map(|dot| [1.0, dot.x - from, (dot.x - at).max(0.0)]).collect();
        let wanted: Vec<f64> = curve.iter().map(|dot| dot.y).collect();
        let [height, slope, change] = least_squares(&rows, &wanted, &vec![1.0; rows.len()])?;
        let off = |(row, y): (&[f64; 3], &f64)| (height + slope * row[1] + change * row[2] - y).powi(2);
        Some(TwoLines { at, slope, change, squares: rows.iter().zip(&wanted).map(off).sum() })
    });
    each.min_by(|one, other| one.squares.total_cmp(&other.squares))
}

/// The three factors by which the columns come nearest to what is wanted; `None` where the columns don't tell them.
fn least_squares(rows: &[[f64; 3]], wanted: &[f64], weights: &[f64]) -> Option<[f64; 3]> {
    let mut matrix = [[0.0_f64; 4]; 3];
    for ((row, y), weight) in rows.iter().zip(wanted).zip(weights) {
        for (line, one) in matrix.iter_mut().zip(row) {
            for (cell, other) in line.iter_mut().zip(row.iter().chain([y])) {
                *cell += weight * one * other;
            }
        }
    }
    eliminate(&mut matrix, 1e-12)?;
    Some([matrix[0][3], matrix[1][3], matrix[2][3]])
}

/// How many times as long as an idle lock's the median wait has to be.
pub const TIMES: f64 = 10.0;

/// The rate at which the median wait is ten times the idle one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Saturation {
    /// How many times.
    pub times: f64,
    /// What an acquire takes while no other contender is in the way: the median, in microseconds.
    pub idle_us: f64,
    /// The rate, between two that were measured.
    pub at: f64,
    /// The lower end of its interval of 95 %: where the upper ends of the waits get there. `None` where they are there from
    /// the first rate on.
    pub low: Option<f64>,
    /// The upper end: where the lower ends of the waits get there. `None` where they don't.
    pub high: Option<f64>,
}

/// Where these points get there; or why that is not known.
///
/// Where a curve over rates bends depends on how far it was swept: towards saturation a wait has no scale of its own. What an
/// acquire takes while nobody is in the way is one, and it does not depend on what else was measured.
pub fn saturation(series: &Series, samples: &[Sample]) -> Result<Saturation, String> {
    let own = samples.iter().filter(|sample| {
        sample.strategy == series.strategy
            && sample.at.beside == series.beside
            && sample.state == State::Sound
    });
    let idle: Vec<f64> = own.filter_map(|sample| sample.uncontended_p50).filter(|us| *us > 0.0).collect();
    let Some(idle_us) = median(&idle) else {
        return Err("no acquire found the lock free, so there is no idle wait to compare with".into());
    };
    let waits = |of: fn(&Point) -> Option<f64>| -> Vec<(f64, f64)> {
        let known = |point: &Point| Some((point.at.x, of(point)?));
        series.sound().filter_map(known).collect()
    };
    let limit = TIMES * idle_us;
    let at = match reached(&waits(|point| Some(point.wait_p50?.value)), limit) {
        Reached::At(at) => at,
        Reached::FromTheFirst => {
            return Err(format!("the median wait is {TIMES} times the idle one from the first rate on"));
        }
        Reached::Never => return Err(never_reached(series)),
    };
    let end = |of: fn(&Point) -> Option<f64>| match reached(&waits(of), limit) {
        Reached::At(at) => Some(at),
        Reached::FromTheFirst | Reached::Never => None,
    };
    let low = end(|point| point.wait_p50?.high);
    let high = end(|point| point.wait_p50?.low);
    Ok(Saturation { times: TIMES, idle_us, at, low, high })
}

fn never_reached(series: &Series) -> String {
    let below = format!("the median wait stays below {TIMES} times the idle one");
    // Where the queue grows, a wait is longer than any: it gets there in between.
    match series.points.iter().find(|point| point.state == State::Unstable) {
        Some(grows) => format!(
            "{below} at every rate below {}, at which the queue grows: more rates below that would tell",
            Variable::Rate.show(grows.at.x)
        ),
        None => below,
    }
}

enum Reached {
    At(f64),
    FromTheFirst,
    Never,
}

/// The first place where a curve crosses a limit upwards. Between two points the reciprocal of the wait is a straight line over
/// the rate, as it is for a lock that has so much to do and no more.
fn reached(curve: &[(f64, f64)], limit: f64) -> Reached {
    if curve.first().is_some_and(|(_, wait)| *wait >= limit) {
        return Reached::FromTheFirst;
    }
    let crossing = curve.windows(2).find(|pair| pair[1].1 >= limit);
    crossing.map_or(Reached::Never, |pair| {
        let [(from, below), (to, above)] = [pair[0], pair[1]];
        let share = (below.recip() - limit.recip()) / (below.recip() - above.recip());
        Reached::At(from + share * (to - from))
    })
}

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
const LAW_POINTS: usize = 6;
/// How far points may lie from the law before it is called a bad fit.
const OFF_AT_MOST: f64 = 0.15;
const LAW_DRAWS: usize = 500;

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
    if points.len() < LAW_POINTS {
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
    for _ in 0..LAW_DRAWS {
        let mut noisy = |n: f64| {
            let off = residuals[rng.random_range(0..residuals.len())];
            (n, best.law.at(n) * (widen * off).exp())
        };
        let drawn: Vec<(f64, f64)> = points.iter().map(|(n, _)| noisy(*n)).collect();
        peaks.extend(fit(&drawn).and_then(|fit| fit.law.peak()));
    }
    let share = peaks.len() as f64 / LAW_DRAWS as f64;
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
