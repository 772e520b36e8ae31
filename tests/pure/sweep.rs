//! Sweeps: where they measure, what they conclude from curves that are known, and what a sweep's file withstands.

use std::collections::BTreeMap;

use crate::support::depth;
use proptest::prelude::*;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;
use zklockbench_analysis::objective::Objective;
use zklockbench_analysis::sweep::{
    Ask, At, Collapse, Decision, Edge, Finding, Knee, KneeFigure, Law, Next, NoLaw, Opinion, Over, Sample,
    Series, State, Step, Why, find, next, usl,
};
use zklockbench_record::Reading;

const STRATEGY: &str = "baton";

fn ask(over: &str, objective: Option<&str>) -> Ask {
    let over: Over = over.parse().unwrap();
    Ask {
        grid: over.grid(),
        over,
        beside: vec![None],
        strategies: vec![STRATEGY.to_owned()],
        objective: objective.map(|text| text.parse().unwrap()),
        figure: KneeFigure::Throughput,
        points_at_most: 25,
        precise: 0.1,
    }
}

/// What a machine would measure, with noise of a few percent that a seed decides.
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
                uncontended_p50: Some(1_000.0),
                objective: reading(p99),
            }
        };
        step.strategies.iter().map(measured).collect()
    }

    /// Sweeps until there is enough, or for so many runs of a second each.
    fn sweep(&mut self, ask: &Ask, runs: u32) -> (Vec<Sample>, Vec<Step>, Next) {
        let (mut samples, mut steps) = (Vec::new(), Vec::new());
        for run in 1.. {
            match next(ask, &samples, &|_| 1.0, f64::from(runs + 1 - run)) {
                Next::Run(step) => {
                    samples.extend(self.measure(&step, run));
                    steps.push(step);
                }
                end => return (samples, steps, end),
            }
        }
        unreachable!()
    }
}

fn found(ask: &Ask, samples: &[Sample]) -> Finding {
    find(ask, samples, true, 1).remove(0)
}

fn values(samples: &[Sample]) -> Vec<f64> {
    let mut values: Vec<f64> = samples.iter().map(|sample| sample.at.x).collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    values
}

#[test]
fn a_range_is_written_as_people_write_it_and_nonsense_is_told_what_to_write() {
    for text in [
        "contenders=1..1000",
        "rate=10/s..2000/s",
        "hold=1ms..1s",
        "locks=1,10,100",
        "servers=1,3,5",
        "delay=0.2ms,50ms",
    ] {
        let over: Over = text.parse().unwrap();
        assert_eq!(over.to_string().parse::<Over>().unwrap(), over, "{text}");
    }
    for (text, told) in [
        ("contenders=0..5", "out of range; give 1 to 10000"),
        ("contenders=10..1", "does not rise: write the smaller end first"),
        ("contenders=5..5", "does not rise"),
        ("contenders=1.5..9", "no whole number"),
        ("contenders", "write a variable and its values"),
        ("threads=1..4", "there is no variable `threads`"),
        ("servers=2", "a local ensemble has 1, 3 or 5"),
        ("servers=1..5", "list them, servers=1,3,5"),
        ("rate=-5..10", "out of range"),
        ("rate=nan..10", "out of range"),
        ("hold=5..10", "hold=1ms..1s"),
        ("delay=", "e.g. delay="),
    ] {
        let said = text.parse::<Over>().unwrap_err();
        assert!(said.contains(told), "{text}: {said}");
    }
}

#[test]
fn an_objective_is_a_figure_and_a_number() {
    let objective: Objective = "wait.p99 < 100ms".parse().unwrap();
    assert_eq!(objective.limit, 100_000.0);
    for wrong in [
        "wait.p99",
        "wiat.p99 < 1ms",
        "wait.p99 < 2 * floor",
        "wait.p99 of baton < 1ms",
        "throughput == 5/s",
        "",
    ] {
        assert!(wrong.parse::<Objective>().is_err(), "{wrong}");
    }
}

#[test]
fn the_range_is_covered_from_below_before_anything_is_refined() {
    // Given three strategies, one of which costs far more than the others
    let mut ask = ask("contenders=1..1000", None);
    ask.strategies = ["a", "b", "c"].map(str::to_owned).to_vec();
    // When there is time for the grid only
    let (flat, p99) = (|_: f64| 100.0, |_: f64| 1_000.0);
    let (samples, steps, end) = Machine::of(&flat, &p99).sweep(&ask, 7);
    // Then all of them were measured at each value of it, once, rising
    assert_eq!(steps.iter().map(|step| step.at.x).collect::<Vec<_>>(), ask.grid);
    assert!(steps.iter().all(|step| step.why == Why::Cover && step.strategies.len() == 3));
    assert_eq!(samples.len(), 21);
    assert_eq!(end, Next::NoTime { covered: true });
}

#[test]
fn what_costs_more_than_there_is_left_is_passed_over_and_it_is_said_that_the_range_was_not_covered() {
    let ask = ask("contenders=1..1000", None);
    let cost = |step: &Step| step.at.x;
    assert!(matches!(next(&ask, &[], &cost, 5.0), Next::Run(Step { at: At { x: 1.0, .. }, .. })));
    assert_eq!(next(&ask, &[], &cost, 0.5), Next::NoTime { covered: false });
}

#[test]
fn most_points_lie_near_the_knee() {
    // Given a throughput that grows up to 40 contenders and then stays
    let (grows, p99) = (|n: f64| 10.0 * n.min(40.0), |_: f64| 1_000.0);
    let ask = ask("contenders=1..1000", None);
    let (samples, steps, end) = Machine::of(&grows, &p99).sweep(&ask, 200);
    assert_eq!(end, Next::Enough);
    // Then what was added lies within a factor of four of it
    let added: Vec<f64> = values(&samples).into_iter().filter(|x| !ask.grid.contains(x)).collect();
    assert!(!added.is_empty(), "{steps:?}");
    assert!(added.iter().all(|x| (10.0..=160.0).contains(x)), "{added:?}");
    // And the knee is found, in an interval that holds it
    let Knee::Found(bend) = found(&ask, &samples).knee else { panic!("{:?}", found(&ask, &samples)) };
    assert!(bend.low <= 44.0 && bend.high >= 36.0 && bend.high / bend.low < 2.0, "{bend:?}");
}

#[test]
fn a_dull_curve_gets_no_points_beside_the_grid_and_no_knee() {
    let (flat, p99) = (|_: f64| 200.0, |_: f64| 1_000.0);
    let ask = ask("contenders=1..1000", None);
    let (samples, ..) = Machine::of(&flat, &p99).sweep(&ask, 200);
    assert_eq!(values(&samples), ask.grid);
    let finding = found(&ask, &samples);
    assert!(matches!(finding.knee, Knee::NotFound { up_to: Some(_), .. }), "{:?}", finding.knee);
    assert!(matches!(finding.collapse, Collapse::NotFound { saturated_at: None, .. }));
}

#[test]
fn a_straight_line_has_no_knee_however_far_it_rises_and_one_that_the_sweep_did_not_pass_is_not_named() {
    let ask = ask("contenders=1..1000", None);
    for most in [f64::INFINITY, 900.0] {
        let (grows, p99) = (|n: f64| 10.0 * n.min(most), |_: f64| 1_000.0);
        let (samples, ..) = Machine::of(&grows, &p99).sweep(&ask, 100);
        assert!(matches!(found(&ask, &samples).knee, Knee::NotFound { .. }), "up to {most}");
    }
}

/// How often the bracket holds the true edge, over so many seeds, and the widest bracket.
fn brackets(noise: f64) -> (usize, f64) {
    let (flat, p99) = (|_: f64| 100.0, |n: f64| 1_000.0 * n);
    // True edge: 100 contenders.
    let ask = ask("contenders=1..1000", Some("wait.p99 < 100ms"));
    let (mut right, mut widest) = (0, 1.0_f64);
    for seed in 0..depth::of(10, 40) {
        let mut machine = Machine::of(&flat, &p99);
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
fn the_bracket_holds_the_edge_even_where_trials_are_noisy_and_is_wider_there() {
    let (right, narrow) = brackets(0.02);
    let enough = depth::of(9, 36);
    assert!(right >= enough, "{right}");
    let (right, wide) = brackets(0.15);
    assert!(right >= enough, "{right}");
    assert!(narrow < 2.0 && wide < 6.0, "{narrow} and {wide}");
}

#[test]
fn one_trial_decides_nothing() {
    let step = Step { at: At { x: 10.0, beside: None }, strategies: vec![STRATEGY.into()], why: Why::Cover };
    let (flat, p99) = (|_: f64| 100.0, |_: f64| 10.0);
    let samples = Machine::of(&flat, &p99).measure(&step, 1);
    let objective: Objective = "wait.p99 < 1s".parse().unwrap();
    let series = Series::of(STRATEGY, None, &samples, Some(&objective));
    assert_eq!(series.points[0].decision, Some(Decision::Undecided));
}

#[test]
fn the_knee_over_rates_does_not_depend_on_how_far_was_swept() {
    // Given an open load whose waits grow towards a saturation at 100 a second, of a lock that takes 1 ms when it is idle
    let served = |rate: f64| rate;
    let wait = |rate: f64| 3.0 * 2_000.0 / (1.0 - rate / 100.0);
    let mut found = Vec::new();
    for over in ["rate=20..90", "rate=20..97", "rate=50..90", "rate=5..95"] {
        let ask = ask(over, None);
        let (samples, ..) = Machine::of(&served, &wait).sweep(&ask, 60);
        let Knee::Saturated(knee) = find(&ask, &samples, false, 1).remove(0).knee else {
            panic!("no knee: {over}")
        };
        // Then the median wait is ten times that at 80 a second, wherever else it was measured
        assert!((knee.low.unwrap()..=knee.high.unwrap()).contains(&knee.at), "{over}: {knee:?}");
        found.push(knee.at);
    }
    assert!(found.iter().all(|at| (78.0..82.0).contains(at)), "{found:?}");
    // And where it doesn't get there, none is named
    let ask = ask("rate=20..70", None);
    let (samples, ..) = Machine::of(&served, &wait).sweep(&ask, 60);
    let Knee::NotFound { why, .. } = find(&ask, &samples, false, 1).remove(0).knee else { panic!("a knee") };
    assert_eq!(why, "the median wait stays below 10 times the idle one");
    // Unless it is that the queue grows before
    let mut machine = Machine::of(&served, &wait);
    machine.state = &|rate| if rate > 60.0 { State::Unstable } else { State::Sound };
    let (samples, ..) = machine.sweep(&ask, 60);
    let Knee::NotFound { why, .. } = find(&ask, &samples, false, 1).remove(0).knee else { panic!("a knee") };
    assert!(why.contains("at which the queue grows"), "{why}");
}

/// What is decided of an objective by these readings, one of each repetition at one rate.
fn decision(objective: &str, readings: &[Reading]) -> Option<Decision> {
    let sample = |(run, reading): (u32, &Reading)| Sample {
        run,
        strategy: STRATEGY.into(),
        at: At { x: 5.0, beside: None },
        state: State::Sound,
        why: None,
        throughput: Some(50.0),
        wait_p50: None,
        wait_p99: None,
        uncontended_p50: None,
        objective: Some(*reading),
    };
    let samples: Vec<Sample> = (1..).zip(readings).map(sample).collect();
    let objective: Objective = objective.parse().unwrap();
    Series::of(STRATEGY, None, &samples, Some(&objective)).points[0].decision
}

#[test]
fn a_lower_bound_below_the_limit_is_not_kept() {
    let of = |value: f64| {
        decision("wait.p99 < 1ms", &[Reading { value, at_least: true, samples: Some(5_000) }; 5])
    };
    assert_eq!(of(10.0), Some(Decision::Undecided));
    assert_eq!(of(50_000.0), Some(Decision::Missed), "it is longer than allowed whatever it really is");
}

#[test]
fn repetitions_that_gave_nothing_have_no_logarithm_and_are_not_left_out() {
    let of = |objective: &str, values: [f64; 3]| {
        decision(objective, &values.map(|value| Reading { value, at_least: false, samples: None }))
    };
    assert_eq!(of("timed_out <= 3", [0.0; 3]), Some(Decision::Kept));
    assert_eq!(of("evidence > 100", [0.0; 3]), Some(Decision::Missed));
    // What some repetitions keep is not kept, nor missed, because others have no logarithm
    assert_eq!(of("evidence > 100", [0.0, 900.0, 900.0]), Some(Decision::Undecided));
    assert_eq!(of("timed_out <= 3", [0.0, 90.0, 90.0]), Some(Decision::Undecided));
    assert_eq!(of("evidence > 100", [900.0; 3]), Some(Decision::Kept));
}

#[test]
fn what_breaks_down_is_asked_twice_and_nothing_far_above_it_is_tried() {
    let (flat, p99) = (|_: f64| 100.0, |_: f64| 1_000.0);
    let mut machine = Machine::of(&flat, &p99);
    machine.state = &|n| if n > 60.0 { State::Failed } else { State::Sound };
    let ask = ask("contenders=1..1000", Some("wait.p99 < 1s"));
    let (samples, ..) = machine.sweep(&ask, 200);
    let highest = values(&samples).pop().unwrap();
    assert_eq!(highest, 100.0);
    let finding = found(&ask, &samples);
    let Collapse::Between { held: Some(held), broke, .. } = finding.collapse else { panic!("{finding:?}") };
    assert!(held <= 60.0 && broke > 60.0 && broke / held < 1.4, "{held} to {broke}");
    assert!(
        matches!(finding.objective, Some(Edge::Between { kept, missed, .. }) if kept <= 60.0 && missed > 60.0)
    );
}

#[test]
fn a_generator_that_could_not_keep_up_is_no_collapse_and_its_points_are_left_out() {
    let (flat, p99) = (|_: f64| 100.0, |_: f64| 1_000.0);
    let mut machine = Machine::of(&flat, &p99);
    machine.state = &|n| if n > 60.0 { State::Saturated } else { State::Sound };
    let ask = ask("contenders=1..1000", None);
    let (samples, ..) = machine.sweep(&ask, 200);
    let finding = found(&ask, &samples);
    assert!(matches!(finding.collapse, Collapse::NotFound { saturated_at: Some(100.0), .. }), "{finding:?}");
    let at = finding.series.points.iter().find(|point| point.at.x == 100.0).unwrap();
    assert_eq!((at.throughput, at.sound), (None, 0));
}

#[test]
fn a_throughput_of_less_than_half_its_best_is_a_collapse() {
    let (falls, p99) = (|n: f64| if n > 200.0 { 10.0 } else { 100.0 }, |_: f64| 1_000.0);
    let ask = ask("contenders=1..1000", None);
    let (samples, ..) = Machine::of(&falls, &p99).sweep(&ask, 200);
    assert!(matches!(found(&ask, &samples).collapse, Collapse::Between { broke, .. } if broke > 200.0));
}

fn curve(law: Law, up_to: f64, noise: f64, seed: u64) -> Vec<(f64, f64)> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let steps = (up_to.log2() * 2.0) as i32;
    let mut all: Vec<f64> = (0..=steps).map(|step| 2_f64.powf(f64::from(step) / 2.0).round()).collect();
    all.dedup();
    all.into_iter().map(|n| (n, law.at(n) * (noise * rng.sample::<f64, _>(StandardNormal)).exp())).collect()
}

const LAW: Law = Law { g: 100.0, a: 0.05, b: 0.001 };

#[test]
fn the_law_finds_the_parameters_that_made_the_curve() {
    // N* = √(0.95/0.001) = 30.8
    let Opinion::Peak { at, low, high, fit } = usl(&curve(LAW, 128.0, 0.0, 1), 1) else { panic!("no peak") };
    assert!((at - 30.8).abs() < 0.1 && low <= at && at <= high, "{low} {at} {high}");
    assert!(
        (fit.law.g - 100.0).abs() < 0.1
            && (fit.law.a - 0.05).abs() < 1e-3
            && (fit.law.b - 0.001).abs() < 1e-5
    );
    let holds = |seed: u64| match usl(&curve(LAW, 128.0, 0.03, seed), seed) {
        Opinion::Peak { low, high, .. } => low <= 30.8 && 30.8 <= high && high / low < 2.0,
        Opinion::NoPeak { .. } | Opinion::Silent(_) => false,
    };
    let right = (0..30).filter(|seed| holds(*seed)).count();
    assert!(right >= 24, "{right} of 30");
}

#[test]
fn the_law_names_no_peak_that_the_points_did_not_pass() {
    for seed in 0..20 {
        let opinion = usl(&curve(LAW, 16.0, 0.02, seed), seed);
        assert!(!matches!(opinion, Opinion::Peak { at, .. } if at > 16.0), "{opinion:?}");
    }
    assert!(matches!(usl(&curve(LAW, 23.0, 0.001, 3), 3), Opinion::NoPeak { why: NoLaw::NotPassed, .. }));
    // Points that end just beyond the peak of the fit do not show that they fall
    assert!(!matches!(usl(&curve(LAW, 33.0, 0.03, 3), 3), Opinion::Peak { .. }));
    // And none of a curve that only flattens
    let flattens = Law { b: 0.0, ..LAW };
    let named = (0..20)
        .filter(|seed| matches!(usl(&curve(flattens, 256.0, 0.03, *seed), *seed), Opinion::Peak { .. }));
    assert!(named.count() <= 3);
}

#[test]
fn the_law_is_silent_where_it_does_not_fit_or_there_is_little_to_fit() {
    assert_eq!(usl(&[(1.0, 10.0), (2.0, 20.0), (4.0, 30.0)], 1), Opinion::Silent(NoLaw::TooFew));
    assert_eq!(usl(&[], 1), Opinion::Silent(NoLaw::TooFew));
    let saw: Vec<(f64, f64)> =
        (1..=12).map(|n| (f64::from(n), if n % 2 == 0 { 50.0 } else { 100.0 })).collect();
    assert!(matches!(usl(&saw, 1), Opinion::Silent(NoLaw::BadFit { .. })));
}

#[test]
fn two_variables_give_a_curve_for_each_value_of_the_second() {
    let mut ask = ask("contenders=1..100", None);
    ask.beside = vec![Some(1.0), Some(3.0)];
    let (flat, p99) = (|_: f64| 100.0, |_: f64| 1_000.0);
    let (_, steps, _) = Machine::of(&flat, &p99).sweep(&ask, 10);
    // The first is covered before the servers change.
    let besides: Vec<_> = steps.iter().map(|step| step.at.beside).collect();
    assert!(besides.is_sorted_by(|one, other| one <= other), "{besides:?}");
    assert_eq!(
        besides.iter().flatten().map(|value| *value as u32).collect::<std::collections::BTreeSet<_>>().len(),
        2
    );
}

proptest! {
    #[test]
    fn an_interrupted_sweep_goes_on_as_if_nothing_had_been(seed in 0_u64..50, stop in 1_usize..40) {
        let (falls, p99) = (|n: f64| 500.0 / (1.0 + n / 50.0), |n: f64| 500.0 * n);
        let ask = ask("contenders=1..1000", Some("wait.p99 < 20ms"));
        let mut machine = Machine::of(&falls, &p99);
        machine.rng = ChaCha8Rng::seed_from_u64(seed);
        let (samples, steps, _) = machine.sweep(&ask, 60);
        let stop = stop.min(steps.len() - 1);
        // When only what was finished is known, the same step follows.
        let known: Vec<Sample> = samples.iter().filter(|sample| (sample.run as usize) <= stop).cloned().collect();
        let left = (60 - stop) as f64;
        prop_assert_eq!(next(&ask, &known, &|_| 1.0, left), Next::Run(steps[stop].clone()));
        // And no repetition runs beyond the most.
        let mut count: BTreeMap<u64, usize> = BTreeMap::new();
        samples.iter().for_each(|sample| *count.entry(sample.at.x.to_bits()).or_default() += 1);
        prop_assert!(count.values().all(|count| *count <= 5));
    }

    #[test]
    fn no_text_makes_a_range_panic(text in "\\PC{0,30}", name in "(contenders|rate|hold|locks|servers|delay)") {
        let _ = text.parse::<Over>();
        if let Ok(over) = format!("{name}={text}").parse::<Over>() {
            prop_assert!(over.grid().iter().all(|value| value.is_finite() && *value > 0.0));
        }
        let _ = text.parse::<Objective>();
    }
}
