//! Sweeps: the points they measure, and their conclusions from known curves.

use std::collections::BTreeMap;

use crate::support::{answered::answered, depth, records, views};
use proptest::prelude::*;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;
use zklockbench_analysis::objective::Objective;
use zklockbench_analysis::sweep::{
    Ask, At, Collapse, Decision, Edge, Ending, Finding, Over, Sample, Series, State, Step, Why, find, next,
    samples,
};
use zklockbench_record::{FaultRecord, Reading};

const STRATEGY: &str = "baton";

fn ask(over: &str, objective: Option<&str>) -> Ask {
    let over: Over = over.parse().unwrap();
    Ask {
        grid: over.grid(),
        over,
        beside: vec![None],
        strategies: vec![STRATEGY.to_owned()],
        objective: objective.map(|text| text.parse().unwrap()),
        points_at_most: 25,
        precise: 0.1,
    }
}

/// A simulated machine with known curves and reproducible noise.
struct Machine<'a> {
    throughput: &'a dyn Fn(f64) -> f64,
    p99_us: &'a dyn Fn(f64) -> f64,
    state: &'a dyn Fn(f64) -> State,
    noise: f64,
    rng: ChaCha8Rng,
}

impl<'a> Machine<'a> {
    fn of(throughput: &'a dyn Fn(f64) -> f64, p99_us: &'a dyn Fn(f64) -> f64) -> Self {
        Self { throughput, p99_us, state: &|_| State::Sound, noise: 0.03, rng: ChaCha8Rng::seed_from_u64(7) }
    }

    fn flat() -> Self {
        Self::of(&|_| 100.0, &|_| 1_000.0)
    }

    fn measure(&mut self, step: &Step, run: u32) -> Vec<Sample> {
        let state = (self.state)(step.at.x);
        let measured = |strategy: &String| {
            let mut noisy =
                |value: f64| value * (self.noise * self.rng.sample::<f64, _>(StandardNormal)).exp();
            let reading = |value| Some(Reading { value, at_least: false, samples: Some(2_000) });
            let p99 = noisy((self.p99_us)(step.at.x));
            let throughput = noisy((self.throughput)(step.at.x));
            Sample {
                run,
                strategy: strategy.clone(),
                at: step.at,
                state,
                why: (state != State::Sound).then(|| "constructed".to_owned()),
                throughput: Some(throughput),
                wait_p50: reading(p99 / 3.0),
                wait_p99: reading(p99),
                granted_us: 10_000_000,
                ..sample(step.at.x, reading(p99))
            }
        };
        step.strategies.iter().map(measured).collect()
    }

    /// Runs a sweep to its end, or up to this number of one-second runs.
    fn sweep(&mut self, ask: &Ask, runs: u32) -> (Vec<Sample>, Vec<Step>, Ending) {
        let (mut samples, mut steps) = (Vec::new(), Vec::new());
        for run in 1.. {
            match next(ask, &samples, &|_| 1.0, f64::from(runs + 1 - run)) {
                Ok(step) => {
                    samples.extend(self.measure(&step, run));
                    steps.push(step);
                }
                Err(end) => return (samples, steps, end),
            }
        }
        unreachable!()
    }
}

fn found(ask: &Ask, samples: &[Sample]) -> Finding {
    find(ask, samples).remove(0)
}

fn values(samples: &[Sample]) -> Vec<f64> {
    let mut values: Vec<f64> = samples.iter().map(|sample| sample.at.x).collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    values
}

#[test]
fn ranges_and_objectives_are_parsed_or_rejected_with_an_explanation() {
    let snapshot = include_str!("snapshots/pure__sweep__notations.snap");
    let answer = |text: &str| match text.trim().split_once(": ").unwrap() {
        ("over", text) => text.parse::<Over>().map(|over| {
            assert_eq!(over.to_string().parse::<Over>().unwrap(), over, "{text}");
            over.to_string()
        }),
        (_, text) => text.parse::<Objective>().map(|objective| format!("limit {}", objective.limit)),
    };
    let answer = |text: &str| {
        answer(text).map_or_else(|mistake| format!("wrong: {mistake}"), |read| format!("reads as {read}"))
    };
    insta::assert_snapshot!("notations", answered(snapshot, answer));
}

#[test]
fn sweep_covers_its_range_in_ascending_order_before_refining_it() {
    let mut ask = ask("contenders=1..1000", None);
    ask.strategies = ["a", "b", "c"].map(str::to_owned).to_vec();
    // When the budget covers only the grid
    let (samples, steps, end) = Machine::flat().sweep(&ask, 7);
    // Then each strategy is measured once at each value of the grid, in ascending order
    assert_eq!(steps.iter().map(|step| step.at.x).collect::<Vec<_>>(), ask.grid);
    assert!(steps.iter().all(|step| step.why == Why::Cover && step.strategies.len() == 3));
    assert_eq!(samples.len(), 21);
    assert_eq!(end, Ending::OutOfTime);
}

#[test]
fn points_beyond_the_budget_are_skipped_and_the_uncovered_range_is_reported() {
    let ask = ask("contenders=1..1000", None);
    let cost = |step: &Step| step.at.x;
    assert!(matches!(next(&ask, &[], &cost, 5.0), Ok(Step { at: At { x: 1.0, .. }, .. })));
    assert_eq!(next(&ask, &[], &cost, 0.5), Err(Ending::NotCovered));
}

#[test]
fn a_sweep_without_an_objective_or_collapse_measures_only_grid_points() {
    let ask = ask("contenders=1..1000", None);
    let (samples, _, end) = Machine::of(&|n| 10.0 * n.min(40.0), &|_| 1_000.0).sweep(&ask, 200);
    assert_eq!((values(&samples), end), (ask.grid.clone(), Ending::Complete));
    let finding = found(&ask, &samples);
    assert!(matches!(finding.collapse, Collapse::NotFound { saturated_at: None, .. }));
}

/// Number of seeds whose bracket contains the true limit, and the width of the widest bracket.
fn brackets(noise: f64) -> (usize, f64) {
    // The largest contender count that meets the objective is 100.
    let ask = ask("contenders=1..1000", Some("wait.p99 < 100ms"));
    let (mut right, mut widest) = (0, 1.0_f64);
    for seed in 0..depth::of(10, 40) {
        let mut machine = Machine::of(&|_| 100.0, &|n| 1_000.0 * n);
        machine.noise = noise;
        machine.rng = ChaCha8Rng::seed_from_u64(seed);
        let (samples, ..) = machine.sweep(&ask, 300);
        if let Some(Edge::Between { kept, missed, .. }) = found(&ask, &samples).objective {
            right += usize::from(kept <= 100.0 && missed >= 100.0);
            widest = widest.max(missed / kept);
        }
    }
    (right, widest)
}

#[test]
fn bracket_contains_the_largest_value_that_meets_the_objective_and_widens_with_noise() {
    let (right, narrow) = brackets(0.02);
    let enough = depth::of(9, 36);
    assert!(right >= enough, "{right}");
    let (right, wide) = brackets(0.15);
    assert!(right >= enough, "{right}");
    assert!(narrow < 2.0 && wide < 6.0, "{narrow} and {wide}");
}

#[test]
fn decisions_from_five_repetitions_are_rarely_wrong() {
    let mut random = ChaCha8Rng::seed_from_u64(5);
    let (mut kept, mut missed) = (0, 0);
    for _ in 0..2_000 {
        // Given a p99 whose median is exactly at the threshold, so that any decision is an error
        let readings = [(); 5].map(|()| {
            let value = 1_000.0 * (0.3 * random.sample::<f64, _>(StandardNormal)).exp();
            Reading { value, at_least: false, samples: Some(2_000) }
        });
        assert_eq!(decision("wait.p99 < 1ms", &readings[..4]), Some(Decision::Undecided));
        match decision("wait.p99 < 1ms", &readings) {
            Some(Decision::Kept) => kept += 1,
            Some(Decision::Missed) => missed += 1,
            _ => {}
        }
    }
    // By chance, 1 in 32 of 2,000 (about 62) are decided in each direction.
    assert!((40..=85).contains(&kept) && (40..=85).contains(&missed), "{kept} kept, {missed} missed");
}

/// Decision on an objective at one point, given the value of each repetition.
fn decision(objective: &str, readings: &[Reading]) -> Option<Decision> {
    let samples: Vec<Sample> = readings.iter().map(|reading| sample(5.0, Some(*reading))).collect();
    let objective: Objective = objective.parse().unwrap();
    Series::of(STRATEGY, None, &samples, Some(&objective)).points[0].decision
}

pub fn sample(x: f64, objective: Option<Reading>) -> Sample {
    let at = At { x, beside: None };
    let empty = Sample::without_results(1, STRATEGY, at, State::Sound, String::new());
    Sample { why: None, throughput: Some(50.0), objective, ..empty }
}

/// Finding on `wait.p99 < 100ms`, given the milliseconds of each repetition at each value.
fn edge_of(over: &str, points: &[(f64, &[f64])]) -> Edge {
    let mut samples = Vec::new();
    for (x, waits) in points {
        for ms in *waits {
            let reading = Reading { value: 1e3 * ms, at_least: false, samples: Some(2_000) };
            samples.push(sample(*x, Some(reading)));
        }
    }
    found(&ask(over, Some("wait.p99 < 100ms")), &samples).objective.unwrap()
}

#[test]
fn all_or_no_values_meet_the_objective_only_if_the_inconclusive_values_agree() {
    let (met, missed, mixed) = ([50.0; 5], [300.0; 5], [80.0, 90.0, 110.0, 120.0, 90.0]);
    let seen = edge_of("locks=1,10,100", &[(1.0, &missed), (10.0, &missed[..2]), (100.0, &missed[..2])]);
    assert_eq!(seen, Edge::NoneKept { from: 1.0 });
    let seen = edge_of("locks=1,10,100", &[(1.0, &met[..2]), (10.0, &met[..2]), (100.0, &met)]);
    assert_eq!(seen, Edge::AllKept { up_to: 100.0 });
    for points in [
        &[(1.0, &missed[..]), (10.0, &missed[..2]), (100.0, &mixed[..])][..],
        &[(1.0, &missed[..]), (10.0, &met[..2])][..],
        &[(1.0, &mixed[..]), (10.0, &met[..2]), (100.0, &met[..])][..],
    ] {
        let found = edge_of("locks=1,10,100", points);
        assert!(matches!(found, Edge::Unknown { kept: None, missed: None, .. }), "{points:?}: {found:?}");
    }
}

#[test]
fn objective_that_is_met_only_between_missed_values_has_no_limit() {
    let (met, missed) = ([50.0; 5], [300.0; 5]);
    let points: [(f64, &[f64]); 4] = [(1.0, &missed), (3.0, &met), (10.0, &met), (32.0, &missed)];
    let Edge::Unknown { kept: None, missed: None, why } = edge_of("contenders=1..32", &points) else {
        panic!("the objective has a limit");
    };
    assert_eq!(why, "met from 3 to 10, but missed below and above");
}

#[test]
fn a_lower_bound_below_the_threshold_does_not_meet_the_objective() {
    let of = |value: f64| {
        decision("wait.p99 < 1ms", &[Reading { value, at_least: true, samples: Some(5_000) }; 5])
    };
    assert_eq!(of(10.0), Some(Decision::Undecided));
    assert_eq!(of(50_000.0), Some(Decision::Missed), "a lower bound above the threshold is a miss");
}

#[test]
fn repetitions_without_acquisitions_also_decide_an_objective() {
    let of = |objective: &str, values: [f64; 5]| {
        decision(objective, &values.map(|value| Reading { value, at_least: false, samples: None }))
    };
    assert_eq!(of("timed_out <= 3", [0.0; 5]), Some(Decision::Kept));
    assert_eq!(of("evidence > 100", [0.0; 5]), Some(Decision::Missed));
    // A mix of values that meet and miss the objective is inconclusive.
    assert_eq!(of("evidence > 100", [0.0, 900.0, 900.0, 900.0, 900.0]), Some(Decision::Undecided));
    assert_eq!(of("timed_out <= 3", [0.0, 90.0, 90.0, 90.0, 90.0]), Some(Decision::Undecided));
    assert_eq!(of("evidence > 100", [900.0; 5]), Some(Decision::Kept));
    assert_eq!(of("evidence > 900", [900.0; 5]), Some(Decision::Missed));
    assert_eq!(of("evidence >= 900", [900.0; 5]), Some(Decision::Kept));
}

#[test]
fn sweep_does_not_measure_points_far_above_a_collapse() {
    let mut machine = Machine::flat();
    machine.state = &|n| if n > 60.0 { State::Failed } else { State::Sound };
    let ask = ask("contenders=1..1000", Some("wait.p99 < 1s"));
    let (samples, ..) = machine.sweep(&ask, 200);
    assert_eq!(values(&samples).last(), Some(&100.0));
    let finding = found(&ask, &samples);
    let Collapse::Between { held: Some(held), broke, .. } = finding.collapse else { panic!("{finding:?}") };
    assert!(held <= 60.0 && broke > 60.0 && broke / held < 1.4, "{held} to {broke}");
    assert!(
        matches!(finding.objective, Some(Edge::Between { kept, missed, .. }) if kept <= 60.0 && missed > 60.0)
    );
}

#[test]
fn points_with_a_saturated_generator_are_excluded() {
    let mut machine = Machine::flat();
    machine.state = &|n| if n > 60.0 { State::Saturated } else { State::Sound };
    let ask = ask("contenders=1..1000", None);
    let (samples, ..) = machine.sweep(&ask, 200);
    let finding = found(&ask, &samples);
    assert!(matches!(finding.collapse, Collapse::NotFound { saturated_at: Some(100.0), .. }), "{finding:?}");
    let at = finding.series.points.iter().find(|point| point.at.x == 100.0).unwrap();
    assert_eq!((at.throughput, at.sound), (None, 0));
}

#[test]
fn throughput_below_half_of_its_maximum_is_a_collapse() {
    let ask = ask("contenders=1..1000", None);
    let falls = |n: f64| if n > 200.0 { 10.0 } else { 100.0 };
    let (samples, ..) = Machine::of(&falls, &|_| 1_000.0).sweep(&ask, 200);
    assert!(matches!(found(&ask, &samples).collapse, Collapse::Between { broke, .. } if broke > 200.0));
}

#[test]
fn a_sweep_covers_the_first_variable_for_each_value_of_the_second() {
    let mut ask = ask("contenders=1..100", None);
    ask.beside = vec![Some(1.0), Some(3.0)];
    let (_, steps, _) = Machine::flat().sweep(&ask, 10);
    // The first variable must be covered before the second changes.
    let mut besides: Vec<_> = steps.iter().map(|step| step.at.beside).collect();
    besides.dedup();
    assert_eq!(besides, [Some(1.0), Some(3.0)]);
}

#[test]
fn sweep_point_reports_the_cost_of_each_fault_unless_faults_overlap() {
    // Given two repetitions, each with a crash, a later freeze, and a pause during the freeze
    let fault = |label: &str, asked_us, gap_us, lost| {
        let (longest_gap_us, sessions_lost) = (Some(gap_us), Some(lost));
        FaultRecord { asked_us, longest_gap_us, sessions_lost, ..views::fault(label, 0) }
    };
    let repetition = |run: u32, more_us: u64, lost: u64| {
        let mut trial = records::trial(0);
        trial.spec.strategy.label = STRATEGY.into();
        trial.sessions.negotiated_timeout_us = 4_000_000;
        trial.sessions.expired = lost;
        trial.faults = vec![
            fault("crash holder", 2_000_000, 4_200_000 + more_us, 0),
            fault("freeze holder for 3s", 10_000_000, 3_000_000 + more_us, lost),
            fault("pause leader for 3s", 11_000_000, 1_000_000, 7),
        ];
        let stored = records::stored(&records::run(1), &[trial]);
        samples(&stored, run, At { x: 2e6, beside: None }, None).remove(0)
    };
    let found = found(&ask("session_timeout=2s,5s", None), &[repetition(1, 0, 1), repetition(2, 300_000, 0)]);
    // Then sessions ended by faults do not invalidate the point, and the granted timeout is known
    let point = &found.series.points[0];
    assert_eq!((point.sound, point.granted_us), (2, 4_000_000), "{:?}", point.why);
    let of = |at: usize| {
        let one = &point.failures[at];
        let gap = one.gap.map(|gap| (gap.least_us, gap.most_us));
        (one.fault.as_str(), gap, one.sessions_lost_least.zip(one.sessions_lost_most))
    };
    assert_eq!(of(0), ("crash holder", Some((4_200_000, 4_500_000)), Some((0, 0))));
    assert_eq!(of(1), ("freeze holder for 3s", Some((3_000_000, 3_300_000)), Some((0, 1))));
    assert_eq!(of(2), ("pause leader for 3s", None, None));
}

proptest! {
    #[test]
    fn an_interrupted_sweep_resumes_with_the_same_result(seed in 0_u64..50, stop in 1_usize..40) {
        let ask = ask("contenders=1..1000", Some("wait.p99 < 20ms"));
        let mut machine = Machine::of(&|n| 500.0 / (1.0 + n / 50.0), &|n| 500.0 * n);
        machine.rng = ChaCha8Rng::seed_from_u64(seed);
        let (samples, steps, _) = machine.sweep(&ask, 60);
        let stop = stop.min(steps.len() - 1);
        // From the finished samples alone, the sweep must choose the same next step.
        let known: Vec<Sample> = samples.iter().filter(|sample| (sample.run as usize) <= stop).cloned().collect();
        let left = (60 - stop) as f64;
        prop_assert_eq!(next(&ask, &known, &|_| 1.0, left), Ok(steps[stop].clone()));
        // Every point has at most five repetitions.
        let mut count: BTreeMap<u64, usize> = BTreeMap::new();
        samples.iter().for_each(|sample| *count.entry(sample.at.x.to_bits()).or_default() += 1);
        prop_assert!(count.values().all(|count| *count <= 5));
    }

    #[test]
    fn parsing_a_range_never_panics(text in "\\PC{0,30}", name in "(contenders|rate|hold|locks|servers|delay|session_timeout)") {
        let _ = text.parse::<Over>();
        if let Ok(over) = format!("{name}={text}").parse::<Over>() {
            prop_assert!(over.grid().iter().all(|value| value.is_finite() && *value > 0.0));
        }
        let _ = text.parse::<Objective>();
    }
}
