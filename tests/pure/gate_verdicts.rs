//! Outcomes of gates on handcrafted records. Each kind of gate is tested with each outcome: passed, failed, unknown.

use zklockbench_analysis::compare::{Ask, Comparison, Loaded, Side, compare};
use zklockbench_analysis::gate::{Evaluation, GateWatch, Outcome, Sides, overall};
use zklockbench_core::measure::{Counts, Growth, Measure, Outcome as Ended, Slope};
use zklockbench_core::{error::Error, verdict::Verdict};
use zklockbench_record::{Accounting, CellKey, Counted, Floor, Run, Trial, figures};
use zklockbench_report::Style;
use zklockbench_results::StoredRun;
use zklockbench_scenario::Load;
use zklockbench_scenario::gate::{Gate, Known, parse};

use crate::support::records;

/// A run of `baton` and `mutex` with 20 contenders and of `baton` with 2 contenders, by default with three
/// repetitions. Each trial has 1,000 waits of 30 ms and 1,000 handoffs of 2 ms. `baton` has 100 acquisitions per
/// second, `mutex` has 50.
#[derive(Clone)]
struct World {
    run: Run,
    trials: Vec<Trial>,
    repetitions: u32,
    baseline: Option<Side>,
}

const CELLS: [(&str, usize); 3] = [("baton", 20), ("mutex", 20), ("baton", 2)];

impl World {
    fn new() -> Self {
        Self::of(3)
    }

    fn of(repetitions: u32) -> Self {
        let mut run = records::run(9);
        run.floor = Some(records::floor());
        run.strategies = vec!["baton".into(), "mutex".into()];
        let each = CELLS.iter().flat_map(|cell| (1..=repetitions).map(move |repetition| (*cell, repetition)));
        let trial = |(index, ((label, contenders), repetition))| {
            let mut trial = records::trial(index);
            trial.spec.strategy.label = label;
            trial.spec.contenders = contenders;
            trial.spec.repetition = repetition;
            trial.measured = Counts::default();
            (0..1_000).for_each(|_| trial.measured.outcomes.add(Ended::Acquired, 1));
            trial.measured_us = 10_000_000;
            if trial.spec.strategy.label == "mutex" {
                trial.measured_us *= 2;
            }
            trial.histograms.insert(Measure::Wait, records::histogram(&[30_000; 1_000]));
            trial.histograms.insert(Measure::Handoff, records::histogram(&[2_000; 1_000]));
            trial
        };
        let named =
            each.map(|((label, contenders), repetition)| ((label.to_owned(), contenders), repetition));
        Self { run, trials: named.enumerate().map(trial).collect(), repetitions, baseline: None }
    }

    fn baton(&mut self) -> &mut [Trial] {
        &mut self.trials[..3]
    }

    fn mutex(&mut self) -> &mut [Trial] {
        &mut self.trials[3..6]
    }

    fn outcomes(&self, gates: &[&str]) -> Vec<Outcome> {
        let known = Known { figures: &figures::cards(), cells: None };
        let condition =
            |text: &&str| parse(text, known).unwrap_or_else(|mistake| panic!("{text}: {mistake}"));
        let gates: Vec<Gate> =
            gates.iter().map(|text| Gate { name: None, condition: condition(text) }).collect();
        let stored = records::stored(&self.run, &self.trials);
        let cells = CELLS.map(|(strategy, contenders)| CellKey { strategy: strategy.into(), contenders });
        let new = side("new", stored.clone());
        let evaluation = Evaluation {
            gates: &gates,
            cells: &cells,
            repetitions: self.repetitions as usize,
            stored: &stored,
            baseline: self.baseline.as_ref().map(|base| Sides { base, new: &new }),
        };
        evaluation.outcomes(&Verdict::Held)
    }

    fn outcome(&self, gate: &str) -> Outcome {
        self.outcomes(&[gate]).into_iter().find(|outcome| !outcome.is_of_every_run()).unwrap()
    }
}

/// A gate, the name of a change, and the change.
type Case = (&'static str, &'static str, fn(&mut World));

fn nothing(_: &mut World) {}

/// The outcome of each gate after the change, with the sentence about the worst cell.
fn outcomes(world: &World, cases: &[Case]) -> String {
    let outcome = |(gate, name, change): &Case| {
        let mut world = world.clone();
        change(&mut world);
        let outcome = world.outcome(gate);
        let worst = outcome.checks.first();
        let worst = worst.map_or_else(String::new, |check| format!("{}: {}", check.strategy, check.sentence));
        format!("{gate}\n  {name}: {}; {worst}\n", outcome.word())
    };
    cases.iter().map(outcome).collect()
}

const LIMITS: &[Case] = &[
    ("wait.p99 < 50ms", "30 ms", nothing),
    ("wait.p99 < 20ms", "30 ms", nothing),
    ("wait.p99 < 50ms", "one slow repetition", |w| wait(&mut w.baton()[1], 90_000, 1_000)),
    ("wait.p99 < 50ms", "two slow repetitions", |w| {
        w.baton()[1..].iter_mut().for_each(|t| wait(t, 90_000, 1_000))
    }),
    ("wait.p99 < 50ms", "a cell did not run", |w| w.trials.truncate(6)),
    ("wait.p99 < 50ms", "a repetition did not run", lose_one),
    ("wait.p99 < 50ms", "not measured once", |w| drop(w.baton()[2].histograms.remove(&Measure::Wait))),
    ("wait.p99 < 50ms", "invalid once", |w| w.baton()[0].health.invalid = Some("lag".into())),
    ("wait.p99 < 20ms", "cut short once", cut_baton),
    ("wait.p99 of baton at 20 contenders < 20ms", "cut short once", cut_baton),
    ("wait.p99 < 50ms", "too few samples once", |w| wait(&mut w.baton()[1], 30_000, 999)),
    ("wait.p99 < 50ms", "too few samples", |w| all(w, |t| wait(t, 30_000, 999))),
    ("wait.p50 < 50ms", "enough samples for a median", |w| all(w, |t| wait(t, 30_000, 20))),
    ("wait.p99 < 50ms", "a queue that grows", |w| w.trials[0] = overloaded(&w.trials[0])),
    // Lower bounds
    ("wait.p99 < 50ms", "at least 60 ms", |w| all(w, |t| unserved(t, 60_000))),
    ("wait.p99 <= 50ms", "at least 60 ms", |w| all(w, |t| unserved(t, 60_000))),
    ("wait.p99 < 50ms", "at least 40 ms", |w| all(w, |t| unserved(t, 40_000))),
    ("wait.p99 > 50ms", "at least 60 ms", |w| all(w, |t| unserved(t, 60_000))),
    ("wait.p99 > 50ms", "at least 40 ms", |w| all(w, |t| unserved(t, 40_000))),
    ("wait.p99 of baton at 20 contenders < 2 * wait.p99 of mutex", "mutex at least 60 ms", mutex_unserved),
    ("wait.p99 of baton at 20 contenders > 2 * wait.p99 of mutex", "mutex at least 60 ms", mutex_unserved),
    ("wait.p99 of baton at 20 contenders > 0.1 * wait.p99 of mutex", "mutex at least 60 ms", mutex_unserved),
    // Rates
    ("throughput of baton >= 100/s", "100/s", nothing),
    ("throughput >= 100/s", "100/s and 50/s", nothing),
    ("throughput >= 10/s", "a length of 0", |w| w.mutex()[0].measured_us = 0),
    // Counts, which every repetition must meet
    ("violations == 0", "none", nothing),
    ("violations == 0", "two in a repetition", |w| w.baton()[1].violation_count = 2),
    ("timed_out <= 3", "3 in a repetition", |w| timed_out(&mut w.baton()[2], 3)),
    ("timed_out <= 3", "4 in a repetition", |w| timed_out(&mut w.baton()[2], 4)),
    ("acquired >= 1000", "1000 each", nothing),
    ("acquired >= 1001", "1000 each", nothing),
    ("violations of baton == 0", "cut short once", cut_baton),
    ("violations of baton == 0", "violated and cut short", |w| {
        cut_baton(w);
        w.baton()[0].violation_count = 1;
    }),
    ("timed_out of baton <= 3", "cut short once", cut_baton),
    ("requests <= 9", "partly unseen", |w| w.baton()[0].measured.unseen = 1),
    // Other strategies
    (OTHER, "100/s and 50/s", nothing),
    (OTHER, "mutex 90.9/s", |w| w.mutex().iter_mut().for_each(|t| t.measured_us = 11_000_000)),
    (OTHER, "mutex cut short", |w| w.mutex()[0].cut_short = records::interrupted()),
    ("throughput > 1.2 * throughput of mutex", "mutex did not run with 2 contenders", nothing),
    ("throughput at 20 contenders > 1.2 * throughput of mutex", "100/s and 50/s", nothing),
    ("throughput of baton at 20 contenders > 0.9 * throughput at 2 contenders", "100/s each", nothing),
    ("wait.p99 of baton < 1.5 * wait.p50", "30 ms each", nothing),
    // Gates on the median or on every repetition
    ("every wait.p99 < 50ms", "one slow repetition", |w| wait(&mut w.baton()[1], 90_000, 1_000)),
    ("every wait.p99 < 50ms", "30 ms", nothing),
    ("every wait.p99 < 50ms", "at least 40 ms once", |w| unserved(&mut w.baton()[1], 40_000)),
    ("every wait.p99 < 50ms", "too few samples once", |w| wait(&mut w.baton()[1], 30_000, 999)),
    ("every handoff.p50 < 1.5 * floor", "2 ms", nothing),
    ("median timed_out <= 3", "4 in a repetition", |w| timed_out(&mut w.baton()[2], 4)),
    ("every wait.p99 < 20ms", "a repetition did not run", lose_one),
    ("every wait.p99 of baton at 2 contenders < 50ms", "a repetition did not run", lose_one),
    ("acquired >= 1001", "a repetition did not run", lose_one),
    ("every wait.p99 of baton < 20ms", "cut short once", cut_baton),
    ("every wait.p99 of baton < 50ms", "cut short once", cut_baton),
    // Evidence and the floor
    ("evidence > 100", "101", |w| all(w, |t| t.evidence.by_transactions = 101)),
    ("evidence > 100", "100", |w| all(w, |t| t.evidence.by_transactions = 100)),
    ("handoff.p50 < 3 * floor", "2 ms above 1 ms", nothing),
    ("handoff.p50 < 1.5 * floor", "2 ms above 1 ms", nothing),
    ("handoff.p50 < 3 * floor", "no floor", |w| w.run.floor = None),
    ("handoff.p50 < 3 * floor", "the same after the trials", |w| w.run.floor_after = Some(records::floor())),
    ("handoff.p50 < 3 * floor", "it moved", |w| w.run.floor_after = Some(floor_of(1_300))),
    ("handoff.p50 < 3 * floor", "not measured", |w| w.run.floor = Some(Floor::not_measured("cold"))),
    (NOT_REGRESSED, "no baseline", nothing),
];

const OTHER: &str = "throughput of baton at 20 contenders > 1.2 * throughput of mutex";
const NOT_REGRESSED: &str = "wait.p99 not regressed by 5% against baseline";
const FASTER: &str = "throughput not regressed by 5% against baseline";

/// Gates and changes for a world that starts out equal to its baseline.
const AGAINST_A_BASELINE: &[Case] = &[
    (NOT_REGRESSED, "as before", nothing),
    (NOT_REGRESSED, "mutex slower", mutex_slower),
    ("wait.p99 of baton not regressed by 5% against baseline", "mutex slower", mutex_slower),
    ("wait.p99 not regressed by 50% against baseline", "mutex slower", mutex_slower),
    (FASTER, "half as fast", |w| all(w, |t| t.measured_us *= 2)),
    (FASTER, "twice as fast", |w| all(w, |t| t.measured_us /= 2)),
    (NOT_REGRESSED, "mutex slower, and the generator late", |w| {
        mutex_slower(w);
        base(w).trials.iter_mut().for_each(|t| t.health.lag_share = Some(0.02));
        all(w, |t| t.health.lag_share = Some(0.19));
    }),
    (NOT_REGRESSED, "the baseline lacks a cell", |w| base(w).trials.truncate(6)),
    (NOT_REGRESSED, "the baseline was cut short", |w| {
        base(w).trials.iter_mut().for_each(|t| t.cut_short = records::interrupted());
    }),
    (NOT_REGRESSED, "cut short once", cut_baton),
    ("timed_out not regressed by 5% against baseline", "400 each", |w| all(w, |t| timed_out(t, 400))),
    (NOT_REGRESSED, "another host", |w| base(w).run.run.host.cores = 64),
    (NOT_REGRESSED, "another load", |w| base(w).trials.iter_mut().for_each(|t| t.spec.load = Load::Batch)),
];

/// Batches have deterministic counts and need no repetitions.
const BATCHES: &[Case] = &[
    ("notifications not regressed by 5% against baseline", "100 and 105", |w| batches(w, 100, 105)),
    ("notifications not regressed by 5% against baseline", "100 and 106", |w| batches(w, 100, 106)),
    ("notifications not regressed by 5% against baseline", "0 and 1", |w| batches(w, 0, 1)),
];

#[test]
fn gate_outcomes_match_the_snapshot() {
    insta::assert_snapshot!("outcomes", outcomes(&World::new(), LIMITS));
    let few: &[Case] = &[(NOT_REGRESSED, "mutex slower", mutex_slower)];
    let worlds = [(6, AGAINST_A_BASELINE), (3, few), (1, BATCHES)];
    let baseline = worlds.map(|(repetitions, cases)| outcomes(&compared(repetitions), cases));
    insta::assert_snapshot!("outcomes_against_a_baseline", baseline.join("\n"));
    // The reference cell is not compared with itself.
    let outcome = World::new().outcome("throughput at 20 contenders > 1.2 * throughput of mutex");
    assert_eq!(outcome.checks.iter().map(|check| check.strategy.as_str()).collect::<Vec<_>>(), ["baton"]);
}

#[test]
fn ratio_between_strategies_is_unknown_if_chance_may_explain_it() {
    // Given repetitions in which `baton` is 1.1 to 1.3 times or always about 1.3 times as fast as `mutex`
    let of = |repetitions: u32, times: fn(usize) -> f64, gate: &str| {
        let mut world = World::of(repetitions);
        world.repetitions = repetitions;
        for trial in world.trials.iter_mut().filter(|trial| trial.spec.strategy.label == "baton") {
            let at = trial.spec.repetition as usize - 1;
            trial.measured_us = (20_000_000.0 / times(at)) as u64;
        }
        let outcome = world.outcome(gate);
        (outcome.word().to_owned(), outcome.checks[0].sentence.clone())
    };
    let wide: fn(usize) -> f64 = |at| 1.1 + 0.04 * at as f64;
    let narrow: fn(usize) -> f64 = |at| 1.3 + 0.002 * at as f64;
    let same: fn(usize) -> f64 = |_| 1.3;
    for (repetitions, times, factor, word, said) in [
        (6, wide, 1.15, "unknown", "between 1.1 and 1.3, so it may be on either side"),
        (6, narrow, 1.15, "passed", "between 1.3 and 1.31"),
        (6, narrow, 1.5, "FAILED", "between 1.3 and 1.31"),
        (3, narrow, 1.15, "unknown", "3 repetitions are too few to rule out chance: that needs 4"),
        // Three equal values are conclusive; two equal values are not.
        (2, same, 1.15, "unknown", "2 repetitions are too few to rule out chance: that needs 4"),
        (3, same, 1.15, "passed", "65/s"),
    ] {
        let gate = format!("throughput of baton at 20 contenders > {factor} * throughput of mutex");
        let (found, sentence) = of(repetitions, times, &gate);
        assert_eq!(found, word, "{gate}: {sentence}");
        assert!(sentence.contains(said), "{gate}: {sentence}");
    }
}

fn floor_of(handoff_us: u64) -> Floor {
    let mut floor = records::floor();
    floor.handoff.as_mut().unwrap().p50_us = handoff_us;
    floor
}

fn side(path: &str, stored: StoredRun) -> Side {
    Side { path: path.into(), runs: vec![Loaded { path: path.into(), stored }] }
}

/// A world that equals its baseline.
fn compared(repetitions: u32) -> World {
    let mut world = World::of(repetitions);
    let mut stored = records::stored(&world.run, &world.trials);
    stored.run.digest = "another".into();
    world.baseline = Some(side("base", stored));
    world
}

fn slower(world: &mut World, label: &str) {
    let own = |trial: &&mut Trial| trial.spec.strategy.label == label;
    world.trials.iter_mut().filter(own).for_each(|trial| wait(trial, 40_000, 1_000));
}

fn base(world: &mut World) -> &mut StoredRun {
    &mut world.baseline.as_mut().unwrap().runs[0].stored
}

fn mutex_slower(world: &mut World) {
    slower(world, "mutex");
}

/// Turns all trials into batches with `was` notifications in the baseline and `is` now.
fn batches(world: &mut World, was: u64, is: u64) {
    let notified = |trial: &mut Trial, count: u64| {
        trial.spec.load = Load::Batch;
        trial.measured.notifications.node_deleted = count;
        let (client, expected) = (Some(count), Some(count));
        trial.accounting = vec![Accounting { what: Counted::NodeDeleted, client, expected, servers: None }];
    };
    base(world).trials.iter_mut().for_each(|trial| notified(trial, was));
    all(world, |trial| notified(trial, is));
}

#[test]
fn gates_against_a_baseline_are_corrected_for_multiple_comparisons() {
    // Five repetitions per side are enough for six comparisons, but not for twelve.
    let mut world = compared(5);
    slower(&mut world, "mutex");
    let gate = |figure: &str| format!("{figure} not regressed by 5% against baseline");
    let words = |world: &World, figures: &[&str]| -> Vec<&str> {
        let gates: Vec<String> = figures.iter().map(|figure| gate(figure)).collect();
        let gates: Vec<&str> = gates.iter().map(String::as_str).collect();
        world.outcomes(&gates).iter().filter(|one| !one.is_of_every_run()).map(Outcome::word).collect()
    };
    assert_eq!(words(&world, &["wait.p99", "wait.p50"]), ["FAILED", "FAILED"]);
    let many = ["wait.p99", "handoff.p50", "throughput", "handoff.p99"];
    assert_eq!(words(&world, &many)[0], "unknown");
}

#[test]
fn exact_count_is_unknown_if_the_baseline_lost_most_repetitions() {
    let gate = "notifications of baton at 20 contenders not regressed by 5% against baseline";
    let word = |lost: usize, is: u64| {
        let mut world = compared(3);
        batches(&mut world, 100, is);
        base(&mut world).trials[..lost].iter_mut().for_each(|t| t.cut_short = records::interrupted());
        world.outcome(gate).word()
    };
    assert_eq!((word(0, 100), word(2, 100)), ("passed", "unknown"));
    // A difference within the gate's margin is no more certain
    assert_eq!((word(0, 104), word(2, 104)), ("passed", "unknown"));
}

#[test]
fn overall_verdict_is_unknown_when_a_gate_has_no_matching_cell() {
    let world = World::new();
    let outcomes = world.outcomes(&["throughput of nobody > 1/s", "violations == 0"]);
    assert_eq!(outcomes[0].word(), "unknown");
    assert!(outcomes[0].checks.is_empty());
    assert!(matches!(overall(&outcomes), Verdict::Unknown(_)));
}

#[test]
fn worst_gate_is_listed_first_and_a_failure_outweighs_an_unknown() {
    let mut world = World::new();
    world.run.floor = None;
    world.mutex().iter_mut().for_each(|trial| wait(trial, 45_000, 1_000));
    let outcomes = world.outcomes(&["wait.p99 < 50ms", "handoff.p50 < 3 * floor", "throughput > 70/s"]);
    let words: Vec<_> = outcomes.iter().map(|outcome| (outcome.word(), outcome.gate.as_str())).collect();
    let (failed, unknown) = (("FAILED", "throughput > 70/s"), ("unknown", "handoff.p50 < 3 * floor"));
    assert_eq!(words, [failed, unknown, ("passed", Outcome::EXCLUSION), ("passed", "wait.p99 < 50ms")]);
    assert!(matches!(overall(&outcomes), Verdict::Violated(_)));
    // The cell closest to the limit is listed first.
    assert_eq!(outcomes[3].checks[0].strategy, "mutex");
    let on_a_terminal = zklockbench_report::gates(&outcomes, Style::EVERYTHING).unwrap();
    insta::assert_snapshot!("gates_on_a_terminal", on_a_terminal);
    insta::assert_snapshot!("gates_as_markdown", zklockbench_report::gates_markdown(&outcomes).unwrap());
    // Outcomes round-trip through JSON.
    let text = serde_json::to_string(&outcomes).unwrap();
    assert_eq!(serde_json::from_str::<Vec<Outcome>>(&text).unwrap(), outcomes);
}

#[test]
fn exclusion_gate_always_exists_but_is_not_printed_alone() {
    let mut world = World::new();
    world.baton()[1] = records::trial_with_a_violation(1);
    world.baton()[1].spec.strategy.label = "baton".into();
    world.baton()[1].spec.contenders = 20;
    let outcomes = world.outcomes(&[]);
    assert_eq!(outcomes.len(), 1);
    assert!(outcomes[0].is_of_every_run());
    let worst = &outcomes[0].checks[0];
    assert_eq!((worst.word(), worst.strategy.as_str(), worst.contenders), ("FAILED", "baton", 20));
    assert_eq!(zklockbench_report::gates(&outcomes, Style::EVERYTHING), None);
}

fn all(world: &mut World, change: impl Fn(&mut Trial)) {
    world.trials.iter_mut().for_each(change);
}

fn wait(trial: &mut Trial, us: u64, samples: usize) {
    trial.histograms.insert(Measure::Wait, records::histogram(&vec![us; samples]));
}

/// Adds unserved waits of this length: 2 % of all waits.
fn unserved(trial: &mut Trial, us: u64) {
    trial.histograms.insert(Measure::Unserved, records::histogram(&[us; 20]));
}

fn mutex_unserved(world: &mut World) {
    world.mutex().iter_mut().for_each(|trial| unserved(trial, 60_000));
}

fn timed_out(trial: &mut Trial, times: u64) {
    trial.measured.outcomes.add(Ended::TimedOut, times);
}

fn cut_baton(world: &mut World) {
    world.baton()[0].cut_short = records::interrupted();
}

fn lose_one(world: &mut World) {
    drop(world.trials.pop());
}

fn overloaded(like: &Trial) -> Trial {
    let mut trial = records::overloaded(like.spec.index);
    let slope = Slope { per_second: 5.6, low: 5.0, high: 6.2 };
    trial.steady.as_mut().unwrap().queue = Some(Growth::Growing(slope));
    trial.spec.strategy.label = like.spec.strategy.label.clone();
    trial.spec.contenders = like.spec.contenders;
    trial
}

#[test]
fn complete_comparison_with_a_baseline_is_judged_as_a_gate() {
    let came_to = |slow: Option<&str>, repetitions: u32| -> Outcome {
        let mut world = compared(repetitions);
        slow.into_iter().for_each(|label| slower(&mut world, label));
        let new = side("new", records::stored(&world.run, &world.trials));
        let found: Result<Comparison, Error> =
            compare(world.baseline.as_ref().unwrap(), &new, &Ask::default());
        Outcome::of_comparison(&found)
    };
    // Three cells, each with several metrics, need eight repetitions.
    assert_eq!(came_to(None, 8).word(), "passed");
    let failed = came_to(Some("mutex"), 8);
    assert_eq!((failed.word(), failed.checks[0].strategy.as_str()), ("FAILED", "mutex"));
    assert!(failed.checks[0].sentence.contains("regressed"), "{}", failed.checks[0].sentence);
    assert_eq!(came_to(Some("mutex"), 3).word(), "unknown");
    let refused = Outcome::of_comparison(&Err(Error::usage("another\n  machine")));
    assert_eq!(refused.word(), "unknown");
    assert_eq!(refused.verdict.reasons(), ["another machine".to_owned()].as_slice());
}

/// Number of trials after which a gate can no longer pass, with the reason, or `None` if the gate can still pass.
fn lost_after(world: &World, gates: &[&str], repetitions: Option<usize>) -> Option<(usize, String)> {
    let known = Known { figures: &figures::cards(), cells: None };
    let gate = |text: &&str| Gate { name: None, condition: parse(text, known).unwrap() };
    let mut watch = GateWatch::new(gates.iter().map(gate).collect(), repetitions);
    watch = watch.with_floor(world.run.floor.clone());
    world.trials.iter().enumerate().find_map(|(at, trial)| Some((at + 1, watch.note(trial)?)))
}

#[test]
fn run_can_stop_once_a_gate_can_no_longer_pass() {
    let planned = Some(3);
    let world = World::new();
    // A gate on a median fails once more than half of the repetitions miss the limit. A gate on every repetition
    // fails at the first miss.
    let lost = |gate: &str| lost_after(&world, &[gate], planned).map(|(after, _)| after);
    assert_eq!(lost("throughput >= 10/s"), None);
    assert_eq!((lost("throughput >= 1000/s"), lost("every throughput >= 1000/s")), (Some(2), Some(1)));
    assert_eq!((lost("throughput of mutex >= 1000/s"), lost("acquired >= 2000")), (Some(5), Some(1)));
    // A multiple of the floor is known, because the floor is measured before the trials. Another strategy's metric
    // is not known.
    assert_eq!((lost("handoff.p50 < 1.5 * floor"), lost("handoff.p50 < 3 * floor")), (Some(2), None));
    assert_eq!(lost("throughput > 100 * throughput of mutex"), None);
    // A gate on a median cannot fail early if the number of repetitions is open.
    assert_eq!(lost_after(&world, &["throughput >= 1000/s"], None), None);
    // A lower bound can miss only an upper limit, and an invalid trial decides nothing.
    let mut open = World::new();
    all(&mut open, |trial| unserved(trial, 60_000));
    assert_eq!(lost_after(&open, &["every wait.p99 > 90ms"], planned), None);
    assert_eq!(lost_after(&open, &["every wait.p99 < 50ms"], planned).map(|(after, _)| after), Some(1));
    let mut invalid = World::new();
    all(&mut invalid, |trial| trial.health.invalid = Some("lag".into()));
    assert_eq!(lost_after(&invalid, &["every wait.p99 < 1ms"], planned), None);
    // A violation ends the run even without gates.
    let mut violated = World::new();
    violated.trials[1].judged = records::judged(Verdict::Violated(vec!["two contenders were inside".into()]));
    let (after, why) = lost_after(&violated, &[], planned).unwrap();
    assert_eq!(after, 2);
    assert!(why.contains("two contenders were inside"), "{why}");
}
