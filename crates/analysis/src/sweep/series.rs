//! What each repetition of a point showed of a strategy, what all of them come to, and whether the point keeps the objective.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::objective::Objective;
use zklockbench_core::measure::{Figure, Measure, Statistic};
use zklockbench_core::units::shown;
use zklockbench_core::verdict::Verdict;
use zklockbench_record::figures::THROUGHPUT;
use zklockbench_record::{Missing, Reading, Trial};
use zklockbench_results::StoredRun;
use zklockbench_stats::{Logs, Looks};

/// A place in the sweep: a value of each variable.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct At {
    /// Of the first variable.
    pub x: f64,
    /// Of the second, where there is one.
    pub beside: Option<f64>,
}

/// Whether a repetition counts, and if not, why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It counts.
    Sound,
    /// The load generator could not keep up: it says nothing of the lock.
    Saturated,
    /// The queue grew: more came than was served.
    Unstable,
    /// It did not come to its end, nothing was acquired, or sessions were lost.
    Failed,
    /// Two held the lock at once, or another promise was broken.
    Violated,
}

impl State {
    pub const fn word(self) -> &'static str {
        match self {
            Self::Sound => "ok",
            Self::Saturated => "generator saturated",
            Self::Unstable => "queue grew",
            Self::Failed => "failed",
            Self::Violated => "VIOLATED",
        }
    }

    /// Whether the lock or its ensemble broke down, and not the generator.
    pub const fn is_broken(self) -> bool {
        matches!(self, Self::Unstable | Self::Failed | Self::Violated)
    }
}

/// One repetition of one strategy at one place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sample {
    /// The number of the run that measured it.
    pub run: u32,
    /// The strategy's label.
    pub strategy: String,
    /// Where.
    pub at: At,
    /// Whether it counts.
    pub state: State,
    /// Why it does not.
    pub why: Option<String>,
    /// Acquisitions a second.
    pub throughput: Option<f64>,
    /// The median wait in microseconds.
    pub wait_p50: Option<Reading>,
    /// The 99th percentile of the wait in microseconds.
    pub wait_p99: Option<Reading>,
    /// The figure of the objective, where there is one.
    pub objective: Option<Reading>,
}

/// Texts from files are no longer than this.
const WHY: usize = 300;
/// Of so many sessions lost, as a share of all, the ensemble did not carry the load.
const SESSIONS_LOST: f64 = 0.1;

pub fn samples(stored: &StoredRun, run: u32, at: At, objective: Option<Figure>) -> Vec<Sample> {
    let of = |trial: &Trial| {
        let (state, why) = state(trial);
        let reading = |figure: Figure| trial.reading(figure).ok().filter(|found| found.value.is_finite());
        let wait = |percent| Figure::Latency(Measure::Wait, Statistic::percent(percent));
        Sample {
            run,
            strategy: trial.spec.strategy.label.clone(),
            at,
            state,
            why: why.map(|why| shown(&why, WHY)),
            throughput: reading(THROUGHPUT.figure()).map(|found| found.value),
            wait_p50: reading(wait(50)),
            wait_p99: reading(wait(99)),
            objective: objective.and_then(reading),
        }
    };
    stored.trials.iter().map(of).collect()
}

fn state(trial: &Trial) -> (State, Option<String>) {
    let lost = trial.sessions.expired;
    if let Verdict::Violated(reasons) = &trial.judged.verdict {
        return (State::Violated, reasons.first().cloned());
    }
    if let Some(why) = &trial.health.invalid {
        return (State::Saturated, Some(why.clone()));
    }
    if let Some(cut) = &trial.cut_short {
        return (State::Failed, Some(format!("cut short: {}", cut.why)));
    }
    if trial.measured.acquired() == 0 {
        return (State::Failed, Some("nothing was acquired".into()));
    }
    if lost as f64 > SESSIONS_LOST * trial.spec.contenders as f64 {
        return (State::Failed, Some(format!("{lost} sessions expired")));
    }
    if trial.is_unstable() {
        return (State::Unstable, Some(Missing::Unstable.to_string()));
    }
    (State::Sound, None)
}

/// Of how many repetitions a point's own spread says something.
const OWN_FROM: usize = 3;
/// Repetitions are not trusted to lie nearer to each other than this.
const LEAST: f64 = 0.02;

/// A value, and between which two it lies.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Estimate {
    /// The geometric mean of the repetitions.
    pub value: f64,
    /// The lower end; `None` where there are too few repetitions for any.
    pub low: Option<f64>,
    /// The upper end.
    pub high: Option<f64>,
}

impl Estimate {
    /// How far it reaches up, as a share of the value; `None` where there are too few repetitions.
    pub fn half_width(&self) -> Option<f64> {
        Some(self.high? / self.value - 1.0)
    }
}

/// How far the logarithms of repetitions lie apart: what disturbs a repetition makes it slower by a share.
///
/// Two repetitions alone say next to nothing of that (Student's factor is 12.7), so the points of a series share what they say
/// of it: the pooled spread. A point whose own repetitions lie further apart is taken by its own.
#[derive(Debug, Clone, Copy, PartialEq)]
struct LogDeviation {
    deviation: f64,
    degrees: f64,
}

impl LogDeviation {
    /// Of groups of repetitions of the same thing; `None` where no group has two that are above 0.
    fn pooled<'a>(groups: impl IntoIterator<Item = &'a [f64]>) -> Option<Self> {
        let (mut squares, mut degrees) = (0.0, 0.0);
        for logs in groups.into_iter().filter_map(logarithms).filter(|logs| logs.count > 1) {
            squares += logs.squares;
            degrees += (logs.count - 1) as f64;
        }
        (degrees > 0.0).then(|| Self { deviation: (squares / degrees).sqrt().max(LEAST), degrees })
    }

    /// The interval of the mean of these repetitions that leaves out so much on both sides together; `None` of none.
    fn interval(pooled: Option<Self>, values: &[f64], outside: f64) -> Option<Estimate> {
        let logs = logarithms(values)?;
        let half = Self::of_a_point(pooled, values)
            .and_then(|spread| spread.student(outside).map(|factor| factor * spread.deviation))
            .map(|half| half / (logs.count as f64).sqrt());
        let end = |sign: f64| half.map(|half| (logs.mean + sign * half).exp());
        Some(Estimate { value: logs.mean.exp(), low: end(-1.0), high: end(1.0) })
    }

    fn of_a_point(pooled: Option<Self>, values: &[f64]) -> Option<Self> {
        let own = Self::pooled([values]).filter(|_| values.len() >= OWN_FROM);
        match (own, pooled) {
            (Some(own), Some(pooled)) if own.deviation > pooled.deviation => Some(own),
            (own, None) => own,
            (_, pooled) => pooled,
        }
    }

    fn student(self, outside: f64) -> Option<f64> {
        let student = StudentsT::new(0.0, 1.0, self.degrees).ok()?;
        Some(student.inverse_cdf(1.0 - outside / 2.0))
    }
}

/// Of those that have one.
fn logarithms(values: &[f64]) -> Option<Logs> {
    Logs::of(&values.iter().copied().filter(|value| *value > 0.0).collect::<Vec<f64>>())
}

pub(super) const AT_LEAST: usize = 2;
pub(super) const AT_MOST: usize = 5;
/// How often an interval may miss what it is to hold.
const OUTSIDE: f64 = 0.05;

/// Whether a point keeps the objective.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// The whole interval lies on the right side of the limit.
    Kept,
    /// The whole interval lies on the other side, or the lock broke down.
    Missed,
    /// The interval spans the limit, or there is none.
    Undecided,
}

impl Decision {
    pub const fn word(self) -> &'static str {
        match self {
            Self::Kept => "met",
            Self::Missed => "missed",
            Self::Undecided => "undecided",
        }
    }
}

/// All repetitions of one strategy at one place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    /// Where.
    pub at: At,
    /// How many repetitions ran.
    pub repetitions: usize,
    /// How many of them count.
    pub sound: usize,
    /// What most of them are.
    pub state: State,
    /// Why the first that does not count does not.
    pub why: Option<String>,
    /// Acquisitions a second.
    pub throughput: Option<Estimate>,
    /// The median wait in microseconds.
    pub wait_p50: Option<Estimate>,
    /// The 99th percentile of the wait in microseconds.
    pub wait_p99: Option<Estimate>,
    /// Whether that is a lower bound: more waited than the trial could see the end of.
    pub wait_p50_at_least: bool,
    /// The same of the 99th percentile.
    pub wait_p99_at_least: bool,
    /// The figure of the objective.
    pub objective: Option<Estimate>,
    /// Whether it keeps the objective; `None` where there is none.
    pub decision: Option<Decision>,
    /// Whether even the most repetitions would give too few samples to say that the objective's percentile is kept.
    pub too_few_samples: bool,
}

impl Point {
    /// Whether the lock broke down there, in every one of two repetitions at least.
    pub fn is_dead(&self) -> bool {
        self.state.is_broken() && self.repetitions >= AT_LEAST && self.sound == 0
    }

    /// Whether there is nothing to be learnt above it: it is dead, or the generator could not keep up. That may be a moment's
    /// noise, so it is asked once more.
    pub(super) fn is_last(&self) -> bool {
        self.sound == 0 && self.repetitions >= self.asked_at_least()
    }

    /// How often it is measured in any case.
    pub(super) fn asked_at_least(&self) -> usize {
        if self.sound == 0 && self.state == State::Saturated { AT_LEAST + 1 } else { AT_LEAST }
    }
}

/// The points of one strategy at one value of the second variable, rising.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Series {
    /// The strategy's label.
    pub strategy: String,
    /// The second variable's value.
    pub beside: Option<f64>,
    /// The points.
    pub points: Vec<Point>,
}

impl Series {
    pub fn of(
        strategy: &str,
        beside: Option<f64>,
        samples: &[Sample],
        objective: Option<&Objective>,
    ) -> Self {
        let own: Vec<&Sample> = samples
            .iter()
            .filter(|sample| sample.strategy == strategy && sample.at.beside == beside)
            .collect();
        let mut places: Vec<f64> = own.iter().map(|sample| sample.at.x).collect();
        places.sort_by(f64::total_cmp);
        places.dedup();
        let groups: Vec<Vec<&Sample>> = places
            .iter()
            .map(|x| own.iter().copied().filter(|sample| sample.at.x.total_cmp(x).is_eq()).collect())
            .collect();
        let points = groups.iter().map(|group| point(group, &groups, objective)).collect();
        Self { strategy: strategy.to_owned(), beside, points }
    }

    pub(super) fn sound(&self) -> impl DoubleEndedIterator<Item = &Point> {
        self.points.iter().filter(|point| point.state == State::Sound)
    }

    pub fn at(&self, x: f64) -> Option<&Point> {
        self.points.iter().find(|point| point.at.x.total_cmp(&x).is_eq())
    }

    /// The lowest value above which there is nothing to be learnt. A generator that could not keep up may have been disturbed by
    /// something else, so that takes two values in a row.
    pub(super) fn last(&self) -> Option<f64> {
        let mut below = false;
        let ends = |point: &&Point| {
            let was = std::mem::replace(&mut below, point.is_last());
            point.is_dead() || was && below
        };
        self.points.iter().find(ends).map(|point| point.at.x)
    }
}

fn sound<'a>(group: &[&'a Sample]) -> impl Iterator<Item = &'a Sample> {
    group.iter().copied().filter(|sample| sample.state == State::Sound)
}

fn values(group: &[&Sample], figure: fn(&Sample) -> Option<f64>) -> Vec<f64> {
    sound(group).filter_map(figure).collect()
}

fn point(group: &[&Sample], all: &[Vec<&Sample>], objective: Option<&Objective>) -> Point {
    let pooled = |figure: fn(&Sample) -> Option<f64>| {
        let each: Vec<Vec<f64>> = all.iter().map(|group| values(group, figure)).collect();
        LogDeviation::pooled(each.iter().map(Vec::as_slice))
    };
    let interval = |figure: fn(&Sample) -> Option<f64>| {
        LogDeviation::interval(pooled(figure), &values(group, figure), OUTSIDE)
    };
    let of_objective: fn(&Sample) -> Option<f64> = |sample| Some(sample.objective?.value);
    let bounded = |figure: fn(&Sample) -> Option<Reading>| {
        sound(group).any(|one| figure(one).is_some_and(|reading| reading.at_least))
    };
    let counting = sound(group).count();
    let first_unsound = group.iter().find(|sample| sample.state != State::Sound);
    // One violation is one too many; otherwise what counts decides, if anything does.
    let violated = group.iter().find(|sample| sample.state == State::Violated);
    let state = match (violated, first_unsound) {
        (Some(violated), _) => violated.state,
        (None, Some(unsound)) if 2 * counting <= group.len() => unsound.state,
        _ => State::Sound,
    };
    Point {
        at: group.first().map_or(At { x: 0.0, beside: None }, |sample| sample.at),
        repetitions: group.len(),
        sound: counting,
        state,
        why: first_unsound.and_then(|sample| sample.why.clone()),
        throughput: interval(|sample| sample.throughput),
        wait_p50: interval(|sample| Some(sample.wait_p50?.value)),
        wait_p99: interval(|sample| Some(sample.wait_p99?.value)),
        wait_p50_at_least: bounded(|sample| sample.wait_p50),
        wait_p99_at_least: bounded(|sample| sample.wait_p99),
        objective: interval(of_objective),
        decision: objective.map(|objective| decide(group, pooled(of_objective), objective)),
        too_few_samples: objective.is_some_and(|objective| {
            let readings: Vec<Reading> = group.iter().filter_map(|sample| sample.objective).collect();
            let most = AT_MOST as f64 / readings.len().max(1) as f64;
            !readings.is_empty() && !has_samples(objective.figure, &readings, most)
        }),
    }
}

/// What the interval of a decision leaves out: the error is spent over one look after each repetition.
fn outside(repetitions: usize) -> f64 {
    Looks::each(AT_LEAST as u32, AT_MOST as u32).outside(repetitions as u32, OUTSIDE)
}

fn decide(group: &[&Sample], pooled: Option<LogDeviation>, objective: &Objective) -> Decision {
    let broken = group.iter().filter(|sample| sample.state.is_broken()).count();
    if broken == group.len() && broken >= AT_LEAST {
        return Decision::Missed;
    }
    let readings: Vec<Reading> = sound(group).filter_map(|sample| sample.objective).collect();
    let found: Vec<f64> = readings.iter().map(|reading| reading.value).collect();
    if broken > 0 || found.len() < AT_LEAST {
        return Decision::Undecided;
    }
    let Some(Estimate { low: Some(low), high: Some(high), .. }) =
        LogDeviation::interval(pooled, &found, outside(found.len()))
    else {
        // A figure of nothing but zeros has no logarithm.
        let all_kept = found.iter().all(|value| objective.holds(*value));
        let is_zero = found.iter().all(|value| *value <= 0.0);
        return match (is_zero, all_kept) {
            (true, true) => Decision::Kept,
            (true, false) => Decision::Missed,
            (false, _) => Decision::Undecided,
        };
    };
    let high = if readings.iter().any(|reading| reading.at_least) { f64::INFINITY } else { high };
    // The interval is of those that have a logarithm; a repetition that gave nothing must lie on its side of the limit.
    let nothing = found.iter().copied().filter(|value| *value <= 0.0);
    let mut ends = [low, high].into_iter().chain(nothing);
    match ends.clone().all(|end| objective.holds(end)) {
        true if has_samples(objective.figure, &readings, 1.0) => Decision::Kept,
        false if !ends.any(|end| objective.holds(end)) => Decision::Missed,
        _ => Decision::Undecided,
    }
}

/// Whether a percentile would rest on enough samples to say that it is small, with so many times these repetitions.
fn has_samples(figure: Figure, readings: &[Reading], times: f64) -> bool {
    let Figure::Latency(_, statistic) = figure else { return true };
    let all: u64 = readings.iter().filter_map(|reading| reading.samples).sum();
    all as f64 * times >= statistic.samples_needed() as f64
}
