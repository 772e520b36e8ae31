//! Chooses the next point: first over the whole range for all strategies, then the most informative point.
//!
//! The same samples always give the same step, so an interrupted sweep continues where it stopped.

use super::file::Ending;
use super::over::Over;
use super::series::{AT_LEAST, AT_MOST, At, Decision, Point, Sample, Series};
use crate::objective::Objective;
use zklockbench_core::worded;
use zklockbench_stats::Interval;

#[derive(Debug, Clone)]
pub struct Ask {
    pub over: Over,
    pub grid: Vec<f64>,
    /// Values of the second variable; a single `None` if there is no second variable.
    pub beside: Vec<Option<f64>>,
    pub strategies: Vec<String>,
    pub objective: Option<Objective>,
    /// Maximum number of values of the first variable, for each strategy.
    pub points_at_most: usize,
    /// A point is repeated if the relative half-width of its throughput's interval exceeds this value.
    pub precise: f64,
}

impl Ask {
    /// Returns one series for each strategy and value of the second variable.
    pub(super) fn series(&self, samples: &[Sample]) -> Vec<Series> {
        let each =
            self.beside.iter().flat_map(|beside| self.strategies.iter().map(move |one| (one, *beside)));
        each.map(|(strategy, beside)| Series::of(strategy, beside, samples, self.objective.as_ref()))
            .collect()
    }
}

worded! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Why by word {
        Cover = "cover the range",
        /// Measures the spread of repetitions.
        Repeat = "repeat",
        Objective = "narrow down where the objective is missed",
        /// Locates the collapse.
        Collapse = "narrow down the collapse",
        Precision = "narrow the intervals",
    }
}

/// A run: one repetition of some strategies at one point.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    pub at: At,
    pub strategies: Vec<String>,
    pub why: Why,
}

/// Largest ratio of two neighbouring values that needs no refinement, where one value meets the objective and the
/// other misses it.
const NEAR_EDGE: f64 = 1.1;
/// The same ratio around the collapse, or next to an inconclusive value.
const NEAR: f64 = 1.35;

/// Returns the next step. `cost` estimates the duration of a step, and `left` is the remaining time, both in
/// seconds. If no step remains, the error states how the sweep ends.
pub fn next(ask: &Ask, samples: &[Sample], cost: &dyn Fn(&Step) -> f64, left: f64) -> Result<Step, Ending> {
    let all = ask.series(samples);
    let wanted: Vec<(&Series, Vec<Wish>)> = all.iter().map(|series| (series, wishes(ask, series))).collect();
    let mut each: Vec<(Wish, Option<f64>)> =
        wanted.iter().flat_map(|(series, wishes)| wishes.iter().map(|wish| (*wish, series.beside))).collect();
    // Sort by importance, then by series, so that servers rarely change, then by repetitions and value.
    each.sort_by(|(one, beside_one), (other, beside_other)| {
        let beside = |beside: Option<f64>| beside.unwrap_or(0.0);
        let by_series = beside(*beside_one).total_cmp(&beside(*beside_other));
        (one.why as u8)
            .cmp(&(other.why as u8))
            .then(by_series)
            .then(one.repetitions.cmp(&other.repetitions))
            .then(one.x.total_cmp(&other.x))
    });
    let mut ending = Ending::Complete;
    for (wish, beside) in each {
        let same = |(series, wishes): &(&Series, Vec<Wish>)| {
            let shares = wishes.iter().any(|other| other.x.total_cmp(&wish.x).is_eq());
            (series.beside == beside && shares).then(|| series.strategy.clone())
        };
        let step = Step {
            at: At { x: wish.x, beside },
            strategies: wanted.iter().filter_map(same).collect(),
            why: wish.why,
        };
        if cost(&step) <= left {
            return Ok(step);
        }
        if ending != Ending::NotCovered {
            ending = if wish.why == Why::Cover { Ending::NotCovered } else { Ending::OutOfTime };
        }
    }
    Err(ending)
}

/// A value of the first variable that needs one more repetition.
#[derive(Debug, Clone, Copy)]
struct Wish {
    x: f64,
    why: Why,
    repetitions: usize,
}

fn wishes(ask: &Ask, series: &Series) -> Vec<Wish> {
    let wish = |x: f64, why| Wish { x, why, repetitions: series.at(x).map_or(0, |point| point.repetitions) };
    let is_burden = ask.over.variable.is_burden();
    let last = series.last().filter(|_| is_burden);
    // Repeat a breakdown before measuring any higher value.
    let doubtful =
        series.points.iter().find(|point| point.sound == 0 && point.repetitions < point.asked_at_least());
    if let Some(point) = doubtful.filter(|_| is_burden) {
        return vec![wish(point.at.x, Why::Cover)];
    }
    let within = |x: &f64| last.is_none_or(|last| *x <= last);
    if let Some(x) = ask.grid.iter().copied().filter(within).find(|x| series.at(*x).is_none()) {
        return vec![wish(x, Why::Cover)];
    }
    let counts_once =
        |point: &Point| point.sound > 0 && point.sound < AT_LEAST && point.repetitions < AT_MOST;
    let few = series.points.iter().filter(|point| point.repetitions < AT_LEAST || counts_once(point));
    let few: Vec<Wish> = few.map(|point| wish(point.at.x, Why::Repeat)).collect();
    if !few.is_empty() {
        return few;
    }
    let has_room = series.points.len() < ask.points_at_most;
    let placed = |low: f64, high: f64, near: f64| {
        (has_room && high / low > near).then(|| ask.over.between(low, high)).flatten()
    };
    let mut wishes: Vec<Wish> = edge(series, &placed).map(|x| wish(x, Why::Objective)).into_iter().collect();
    wishes.extend(collapse(series, &placed).map(|x| wish(x, Why::Collapse)));
    wishes.extend(widest(ask, series).map(|x| wish(x, Why::Precision)));
    wishes
}

type Placed<'a> = &'a dyn Fn(f64, f64, f64) -> Option<f64>;

/// Returns the next value between those that meet the objective and those that miss it: a repetition of an
/// inconclusive value, else a value in between, else a repetition of a point with too few repetitions.
fn edge(series: &Series, placed: Placed<'_>) -> Option<f64> {
    let leaning: Vec<(&Point, Decision)> =
        series.points.iter().filter_map(|point| Some((point, point.leaning?))).collect();
    let is_open = |point: &Point| {
        point.decision == Some(Decision::Undecided)
            && point.repetitions < AT_MOST
            && point.sound > 0
            && !point.too_few_samples
    };
    let mut changes = leaning.windows(2).filter(|pair| pair[0].1 != pair[1].1).peekable();
    if changes.peek().is_none() {
        // All points are on one side, so the end closest to the other side comes next.
        let end = match leaning.first()?.1 {
            Decision::Missed => leaning.first(),
            Decision::Kept | Decision::Undecided => leaning.last(),
        };
        return end.filter(|(point, _)| is_open(point)).map(|(point, _)| point.at.x);
    }
    for pair in changes {
        let [(one, before), (other, behind)] = pair else { continue };
        let open = |lean: fn(Decision) -> bool| {
            pair.iter().find(|(point, side)| lean(*side) && is_open(point)).map(|(point, _)| point.at.x)
        };
        let is_mixed = [before, behind].contains(&&Decision::Undecided);
        let between = || placed(one.at.x, other.at.x, if is_mixed { NEAR } else { NEAR_EDGE });
        if let Some(x) = open(|side| side == Decision::Undecided).or_else(between).or_else(|| open(|_| true))
        {
            return Some(x);
        }
    }
    None
}

/// Returns the next value between the first breakdown and the point before it.
fn collapse(series: &Series, placed: Placed<'_>) -> Option<f64> {
    let dead = series.points.iter().position(Point::is_dead)?;
    let alive = series.points.get(dead.checked_sub(1)?)?;
    placed(alive.at.x, series.points[dead].at.x, NEAR)
}

/// Returns the point with the least precise throughput, if that is not precise enough.
fn widest(ask: &Ask, series: &Series) -> Option<f64> {
    let width = |point: &Point| point.throughput.as_ref().and_then(Interval::half_width);
    let open = series.points.iter().filter(|point| point.repetitions < AT_MOST && point.sound > 0);
    let wide = open.filter_map(|point| Some((point.at.x, width(point)?)));
    let widest =
        wide.filter(|(_, width)| *width > ask.precise).max_by(|one, other| one.1.total_cmp(&other.1));
    widest.map(|(x, _)| x)
}
