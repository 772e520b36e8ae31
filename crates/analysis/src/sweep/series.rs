//! Samples of a strategy at each point, their summary, and whether the point meets the objective.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::objective::Objective;
use crate::plan::MeasuredRange;
use zklockbench_core::measure::{Figure, Measure, Statistic};
use zklockbench_core::units::{grouped, shown};
use zklockbench_core::verdict::Verdict;
use zklockbench_core::worded;
use zklockbench_record::figures::THROUGHPUT;
use zklockbench_record::{FaultRecord, Missing, Reading, Trial};
use zklockbench_results::StoredRun;
use zklockbench_stats::{Interval, Position, range_interval};

/// A point of the sweep: a value of each variable.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct At {
    /// Value of the first variable.
    pub x: f64,
    /// Value of the second variable, if any.
    pub beside: Option<f64>,
}

worded! {
    /// State of a repetition: valid, or the reason why not.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum State by word {
        /// Valid.
        Sound = "ok",
        /// The load generator could not keep up, so the repetition does not test the lock.
        Saturated = "generator saturated",
        /// The queue grew because more requests arrived than were served.
        Unstable = "queue grew",
        /// The trial did not finish, nothing was acquired, or sessions were lost.
        Failed = "failed",
        /// Two contenders held the lock at the same time, or another guarantee was violated.
        Violated = "VIOLATED",
    }
}

impl State {
    /// Returns whether the lock or its ensemble broke down, rather than the generator.
    pub const fn is_broken(self) -> bool {
        matches!(self, Self::Unstable | Self::Failed | Self::Violated)
    }
}

/// One repetition of one strategy at one point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sample {
    /// Number of the run with the measurement.
    pub run: u32,
    /// Label of the strategy.
    pub strategy: String,
    /// Point of the sample.
    pub at: At,
    /// Whether the repetition is valid.
    pub state: State,
    /// Reason, if the repetition is not valid.
    pub why: Option<String>,
    /// Acquisitions per second.
    pub throughput: Option<f64>,
    /// Median wait in microseconds.
    pub wait_p50: Option<Reading>,
    /// 99th percentile of the wait in microseconds.
    pub wait_p99: Option<Reading>,
    /// Metric of the objective; `None` if there is no objective.
    pub objective: Option<Reading>,
    /// Session timeout that the servers granted, in microseconds; 0 in files of older versions.
    #[serde(default)]
    pub granted_us: u64,
    /// Effects of the faults, in the order in which they fired.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<FailureSample>,
}

impl Sample {
    /// Creates a sample without measurements.
    pub fn without_results(run: u32, strategy: &str, at: At, state: State, why: String) -> Self {
        Self {
            run,
            strategy: strategy.to_owned(),
            at,
            state,
            why: Some(why),
            throughput: None,
            wait_p50: None,
            wait_p99: None,
            objective: None,
            granted_us: 0,
            failures: Vec::new(),
        }
    }
}

/// Maximum length of a reason, because files may contain arbitrary text.
const WHY: usize = 300;
/// Share of lost sessions above which a repetition counts as failed.
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
            granted_us: trial.sessions.negotiated_timeout_us,
            failures: failure_samples(&trial.faults),
        }
    };
    stored.trials.iter().map(of).collect()
}

fn state(trial: &Trial) -> (State, Option<String>) {
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
    let lost = trial.sessions.expired;
    // Faults may end sessions on purpose.
    if trial.faults.is_empty() && lost as f64 > SESSIONS_LOST * trial.spec.contenders as f64 {
        return (State::Failed, Some(format!("{lost} sessions expired")));
    }
    if trial.is_unstable() {
        return (State::Unstable, Some(Missing::Unstable.to_string()));
    }
    (State::Sound, None)
}

pub(super) const AT_LEAST: usize = 2;
pub(super) const AT_MOST: usize = 5;
/// Minimum coverage of a deciding interval, so that it is on the wrong side of the limit in at most 5 % of cases.
const DECIDES: f64 = 0.9;

worded! {
    /// Whether a point meets the objective.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum Decision by word {
        /// The whole range is on the right side of the limit.
        Kept = "met",
        /// The whole range is on the wrong side, or the lock broke down.
        Missed = "missed",
        /// The range spans the limit, or there are too few repetitions.
        Undecided = "undecided",
    }
}

/// All repetitions of one strategy at one point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    /// Values of the variables.
    pub at: At,
    /// Number of repetitions.
    pub repetitions: usize,
    /// Number of valid repetitions.
    pub sound: usize,
    /// State of the point: violated if any repetition was; otherwise valid if most repetitions are.
    pub state: State,
    /// Reason why an invalid repetition is invalid; that of the state, unless the point is valid.
    pub why: Option<String>,
    /// Acquisitions per second.
    pub throughput: Option<Interval>,
    /// Median wait in microseconds.
    pub wait_p50: Option<Interval>,
    /// 99th percentile of the wait in microseconds.
    pub wait_p99: Option<Interval>,
    /// Whether the median wait is a lower bound, because too many waits had not ended.
    pub wait_p50_at_least: bool,
    /// Whether the 99th percentile is a lower bound.
    pub wait_p99_at_least: bool,
    /// Metric of the objective.
    pub objective: Option<Interval>,
    /// Whether the point meets the objective; `None` if there is no objective.
    pub decision: Option<Decision>,
    /// Side of the limit on which all repetitions so far lie, however few. Guides the choice of the next
    /// point.
    #[serde(default)]
    pub leaning: Option<Decision>,
    /// Whether even the maximum number of repetitions would yield too few samples to show that the
    /// objective's percentile is met.
    pub too_few_samples: bool,
    /// Longest session timeout that the servers granted, in microseconds; 0 in files of older versions.
    #[serde(default)]
    pub granted_us: u64,
    /// Effects of each fault over the repetitions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<FailurePoint>,
}

impl Point {
    /// Returns whether none of at least two repetitions is valid, and the lock broke down in all of them or was
    /// violated in one.
    pub fn is_dead(&self) -> bool {
        self.state.is_broken() && self.repetitions >= AT_LEAST && self.sound == 0
    }

    /// Returns whether higher values would reveal nothing new, because the lock broke down or the generator
    /// could not keep up. A slow generator may be noise, so such a point is repeated once.
    pub(super) fn is_last(&self) -> bool {
        self.sound == 0 && self.repetitions >= self.asked_at_least()
    }

    /// Returns the minimum number of repetitions.
    pub(super) fn asked_at_least(&self) -> usize {
        if self.sound == 0 && self.state == State::Saturated { AT_LEAST + 1 } else { AT_LEAST }
    }
}

/// The points of one strategy at one value of the second variable, in ascending order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Series {
    /// Label of the strategy.
    pub strategy: String,
    /// Value of the second variable.
    pub beside: Option<f64>,
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
        let points = groups.iter().map(|group| point(group, objective)).collect();
        Self { strategy: strategy.to_owned(), beside, points }
    }

    pub(super) fn sound(&self) -> impl DoubleEndedIterator<Item = &Point> {
        self.points.iter().filter(|point| point.state == State::Sound)
    }

    pub fn at(&self, x: f64) -> Option<&Point> {
        self.points.iter().find(|point| point.at.x.total_cmp(&x).is_eq())
    }

    /// Returns the lowest value above which nothing can be learned: the first for which `is_dead` is true, or the
    /// second in a row for which `is_last` is true.
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

fn point(group: &[&Sample], objective: Option<&Objective>) -> Point {
    let range = |figure: fn(&Sample) -> Option<f64>| {
        range_interval(&sound(group).filter_map(figure).collect::<Vec<f64>>())
    };
    let bounded = |figure: fn(&Sample) -> Option<Reading>| {
        sound(group).any(|one| figure(one).is_some_and(|reading| reading.at_least))
    };
    let counting = sound(group).count();
    // A violation comes first. The lock broke down only if it did in every invalid repetition.
    let unsound = group.iter().filter(|sample| sample.state != State::Sound);
    let worst = unsound.min_by_key(|sample| (sample.state != State::Violated, sample.state.is_broken()));
    let decides = worst.filter(|worst| worst.state == State::Violated || 2 * counting <= group.len());
    let state = decides.map_or(State::Sound, |sample| sample.state);
    Point {
        at: group.first().map_or(At { x: 0.0, beside: None }, |sample| sample.at),
        repetitions: group.len(),
        sound: counting,
        state,
        why: worst.and_then(|sample| sample.why.clone()),
        throughput: range(|sample| sample.throughput),
        wait_p50: range(|sample| Some(sample.wait_p50?.value)),
        wait_p99: range(|sample| Some(sample.wait_p99?.value)),
        wait_p50_at_least: bounded(|sample| sample.wait_p50),
        wait_p99_at_least: bounded(|sample| sample.wait_p99),
        objective: range(|sample| Some(sample.objective?.value)),
        decision: objective.map(|objective| decide(group, objective, DECIDES)),
        leaning: objective.map(|objective| decide(group, objective, 0.0)),
        too_few_samples: objective.is_some_and(|objective| {
            let readings: Vec<Reading> = group.iter().filter_map(|sample| sample.objective).collect();
            let most = AT_MOST as f64 / readings.len().max(1) as f64;
            !readings.is_empty() && !has_samples(objective.figure, &readings, most)
        }),
        granted_us: group.iter().map(|sample| sample.granted_us).max().unwrap_or(0),
        failures: failure_points(group),
    }
}

/// Decides whether a point meets the objective, from a range with at least this coverage.
fn decide(group: &[&Sample], objective: &Objective, coverage: f64) -> Decision {
    let broken = group.iter().filter(|sample| sample.state.is_broken()).count();
    if broken == group.len() && broken >= AT_LEAST {
        return Decision::Missed;
    }
    let readings: Vec<Reading> = sound(group).filter_map(|sample| sample.objective).collect();
    let found = range_interval(&readings.iter().map(|reading| reading.value).collect::<Vec<_>>());
    let Some(found) = found.filter(|found| broken == 0 && found.is_bounded() && found.coverage >= coverage)
    else {
        return Decision::Undecided;
    };
    let high = if readings.iter().any(|reading| reading.at_least) { f64::INFINITY } else { found.high };
    match (Interval { high, ..found }).against(&objective.range()) {
        Position::Within if has_samples(objective.figure, &readings, 1.0) => Decision::Kept,
        Position::Below | Position::Above => Decision::Missed,
        Position::Within | Position::Across => Decision::Undecided,
    }
}

/// Returns whether `times` as many repetitions would yield enough samples for the percentile.
fn has_samples(figure: Figure, readings: &[Reading], times: f64) -> bool {
    let Figure::Latency(_, statistic) = figure else { return true };
    let all: u64 = readings.iter().filter_map(|reading| reading.samples).sum();
    all as f64 * times >= statistic.samples_needed() as f64
}

/// Effect of one fault in one repetition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FailureSample {
    /// The fault, as written in a scenario.
    pub fault: String,
    /// Longest time without an acquisition of a requested lock, in microseconds; 0 if below 5 ms. `None` if
    /// the fault had no visible effect, or fired while an earlier one still blocked a lock.
    pub gap_us: Option<u64>,
    /// Number of sessions that the fault ended; `None` if `gap_us` is `None`.
    pub sessions_lost: Option<u64>,
}

/// Effect of one fault over the repetitions of a point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FailurePoint {
    /// The fault, as written in a scenario.
    pub fault: String,
    /// Number of faults with a visible effect.
    pub times: usize,
    /// Longest time without an acquisition of a requested lock.
    pub gap: Option<MeasuredRange>,
    /// Smallest number of sessions that the fault ended.
    pub sessions_lost_least: Option<u64>,
    /// Largest number of sessions that the fault ended.
    pub sessions_lost_most: Option<u64>,
}

fn failure_samples(faults: &[FaultRecord]) -> Vec<FailureSample> {
    let mut blocked_until = i64::MIN;
    let sample = |fault: &FaultRecord| {
        let gap_us = fault.longest_gap_us.unwrap_or(0);
        let is_alone = fault.asked_us >= blocked_until;
        blocked_until = blocked_until.max(fault.asked_us.saturating_add_unsigned(gap_us));
        let is_known = fault.proved && is_alone;
        FailureSample {
            fault: fault.label.clone(),
            gap_us: is_known.then_some(gap_us),
            sessions_lost: fault.sessions_lost.filter(|_| is_known),
        }
    };
    faults.iter().map(sample).collect()
}

/// Returns the effects over the repetitions that are valid or whose queue grew: a growing queue does not
/// change the effect of a failure.
fn failure_points(group: &[&Sample]) -> Vec<FailurePoint> {
    let counting = group.iter().filter(|sample| matches!(sample.state, State::Sound | State::Unstable));
    let all = counting.flat_map(|sample| &sample.failures).map(|one| (one.fault.as_str(), one));
    grouped(all).into_iter().map(|(fault, same)| failure_point(fault, &same)).collect()
}

fn failure_point(fault: &str, same: &[&FailureSample]) -> FailurePoint {
    let gaps = || same.iter().filter_map(|one| one.gap_us);
    let lost = || same.iter().filter_map(|one| one.sessions_lost);
    FailurePoint {
        fault: fault.to_owned(),
        times: gaps().count(),
        gap: MeasuredRange::of_times(gaps()),
        sessions_lost_least: lost().min(),
        sessions_lost_most: lost().max(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point_of(states: &[State]) -> Point {
        let at = At { x: 10.0, beside: None };
        let sample = |state: &State| Sample::without_results(1, "count", at, *state, state.word().to_owned());
        let samples: Vec<Sample> = states.iter().map(sample).collect();
        Series::of("count", None, &samples, None).points.remove(0)
    }

    #[test]
    fn lock_broke_down_only_if_it_did_in_every_repetition_or_was_violated() {
        use State::{Failed, Saturated, Sound, Violated};
        for (states, state, is_dead) in [
            (&[Failed, Failed][..], Failed, true),
            (&[Failed, Saturated], Saturated, false),
            (&[Saturated, Failed], Saturated, false),
            (&[Saturated, Violated], Violated, true),
            (&[Sound, Failed], Failed, false),
            (&[Sound, Sound, Failed], Sound, false),
            (&[Sound, Sound, Violated], Violated, false),
        ] {
            let point = point_of(states);
            assert_eq!((point.state, point.is_dead()), (state, is_dead), "{states:?}");
            assert!(
                state == Sound || point.why.as_deref() == Some(state.word()),
                "{states:?}: {:?}",
                point.why
            );
        }
    }
}
