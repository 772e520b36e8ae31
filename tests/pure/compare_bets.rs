//! What one may bet on after `compare`: a change that matters is found, one that does not is none, and what speaks against
//! a verdict is said before it.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zklockbench_analysis::compare::{
    About, Ask, Limits, Loaded, Method, Regression, Role, Row, Runs, Scale, Side, Terms, Test, compare,
    judge_family, power,
};
use zklockbench_core::error::Exit;
use zklockbench_core::measure::{Counts, Measure, Outcome};
use zklockbench_record::{Better, Reading, Trial, figures};
use zklockbench_report::Style;
use zklockbench_scenario::{Late, Load};

use crate::compare::{compared, row};
use crate::support::{depth, records};

/// A run of seven repetitions, each with its own noise.
fn run(name: &str, times: f64) -> Loaded {
    const NOISE: [f64; 7] = [1.0, 1.01, 0.99, 1.02, 0.98, 1.005, 0.995];
    let trials: Vec<Trial> = (0..7).map(|at| records::trial_taking(at, times * NOISE[at])).collect();
    records::side(name, &trials).runs.remove(0)
}

fn side(name: &str, runs: &[f64]) -> Side {
    let named = runs.iter().enumerate().map(|(at, times)| run(&format!("{name} {at}"), *times));
    Side { path: name.into(), runs: named.collect() }
}

fn with_floor(mut side: Side, handoff_us: u64) -> Side {
    for run in &mut side.runs {
        let mut floor = records::floor();
        floor.handoff.as_mut().unwrap().p50_us = handoff_us;
        run.stored.run.run.floor = Some(floor);
    }
    side
}

#[test]
fn the_output_states_when_each_side_has_only_one_run() {
    let found = compared(&side("base", &[1.0]), &side("new", &[1.0001]));
    assert_eq!((found.about, found.conclusion.exit()), (About::TheseRuns, Exit::Held));
    assert!(
        found.conclusion.sentence.starts_with("Nothing regressed between these two runs: "),
        "{}",
        found.conclusion.sentence
    );
}

#[test]
fn each_figure_has_its_own_margin_and_any_can_be_chosen() {
    // Given runs of which all takes 20 % longer
    let (base, new) = (side("base", &[1.0]), side("new", &[1.2]));
    // When they are compared, then what varies little from run to run has regressed, and a tail has not
    let found = compared(&base, &new);
    let of = |figure: &str| row(&found, figure).compared.regression;
    assert_eq!(
        (of("throughput"), of("wait.p50"), of("wait.p99")),
        (Regression::Yes, Regression::Yes, Regression::No)
    );
    // Unless another margin is asked for, of all figures or of one
    let terms = |all: Option<f64>, tail: Option<f64>| Terms {
        margin: all,
        margins: tail.map(|share| ("wait.p99".to_owned(), share)).into_iter().collect(),
        ..Terms::default()
    };
    for (terms, throughput, tail) in [
        (terms(Some(0.05), None), Regression::Yes, Regression::Yes),
        (terms(Some(0.3), None), Regression::No, Regression::No),
        (terms(None, Some(0.05)), Regression::Yes, Regression::Yes),
        (terms(Some(0.3), Some(0.05)), Regression::No, Regression::Yes),
    ] {
        let found = compare(&base, &new, &Ask { terms, ..Ask::default() }).unwrap();
        let of = |figure: &str| row(&found, figure).compared.regression;
        assert_eq!((of("throughput"), of("wait.p99")), (throughput, tail), "{:?}", found.terms);
    }
}

#[test]
fn a_tail_with_too_few_samples_on_one_side_is_left_out() {
    let sampled = |name: &str, samples: usize| {
        let mut side = side(name, &[1.0]);
        for trial in &mut side.runs[0].stored.trials {
            let waits: Vec<u64> = (0..samples).map(|at| 10_000 + 10 * at as u64).collect();
            trial.histograms.insert(Measure::Wait, records::histogram(&waits));
        }
        side
    };
    // Given equal runs of which one has the hundred samples that a p90 takes, and the other 99
    for (base, new) in [(100, 99), (99, 100)] {
        let found = compared(&sampled("base", base), &sampled("new", new));
        assert_eq!(found.conclusion.exit(), Exit::Held, "{}", found.conclusion.sentence);
        assert!(found.left_out.iter().any(|left| left.figure == "wait.p90"), "{:?}", found.left_out);
    }
    // A median that one side lacks is another matter
    let found = compared(&sampled("base", 100), &sampled("new", 5));
    assert_eq!(row(&found, "wait.p50").compared.regression, Regression::Unknown);
}

fn readings(values: impl Iterator<Item = f64>) -> Vec<Reading> {
    values.map(|value| Reading { value, at_least: false, samples: None }).collect()
}

/// About normal, by the sum of twelve.
fn normal(random: &mut ChaCha8Rng) -> f64 {
    (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0
}

#[test]
fn at_most_one_family_in_twenty_reports_a_false_change() {
    let mut random = ChaCha8Rng::seed_from_u64(13);
    let limits = Limits { margin: 0.05, alpha: 0.05 };
    let times = depth::of(200, 2_000);
    let alarms = (0..times).filter(|_| {
        let mut side = |middle: f64| {
            readings(
                (0..7).map(|_| middle * (0.02 * normal(&mut random)).exp()).collect::<Vec<_>>().into_iter(),
            )
        };
        // Given 72 figures that are all 4 % worse, of which 5 % would matter
        let tests: Vec<Test> =
            (0..72).map(|_| Test::unpaired(&side(1.0), &side(1.04), Better::Lower, limits)).collect();
        judge_family(&tests).iter().any(|one| one.regression == Regression::Yes)
    });
    let alarms = alarms.count();
    println!("{alarms} of {times} families");
    assert!(20 * alarms <= times, "{alarms} of {times}");
}

#[test]
fn run_to_run_variation_raises_no_false_alarms() {
    let mut random = ChaCha8Rng::seed_from_u64(14);
    let limits = Limits { margin: 0.05, alpha: 0.05 };
    let times = depth::of(200, 2_000);
    for (base, new) in [(3, 3), (4, 2), (9, 1), (5, 5)] {
        let mut alarms = [0, 0];
        for _ in 0..times {
            // Given repetitions that differ by 1 % within a run, and runs that differ by 5 %
            let mut side = |runs: usize| -> Vec<Vec<Reading>> {
                (0..runs)
                    .map(|_| {
                        let middle = (0.05 * normal(&mut random)).exp();
                        let each: Vec<f64> =
                            (0..7).map(|_| middle * (0.01 * normal(&mut random)).exp()).collect();
                        readings(each.into_iter())
                    })
                    .collect()
            };
            let runs = Runs { base: side(base), new: side(new) };
            let of_runs = Test::of_runs(&runs, Better::Lower, limits, Scale::Values);
            let pooled = Test::unpaired(&runs.base.concat(), &runs.new.concat(), Better::Lower, limits);
            for (at, test) in [of_runs, pooled].into_iter().enumerate() {
                let found = test.judge(1);
                alarms[at] += usize::from(found.regression == Regression::Yes);
            }
        }
        println!("{base} against {new}: {alarms:?} of {times}");
        assert!(20 * alarms[0] <= times, "{base} against {new}: {} of {times}", alarms[0]);
        // The other unit would have raised them.
        assert!(alarms[1] > alarms[0], "{base} against {new}: {alarms:?}");
    }
}

#[test]
fn the_run_is_the_unit_when_there_are_enough_and_the_output_states_it() {
    let (base, new) =
        (side("base", &[1.0, 1.01, 0.99, 1.02, 0.98]), side("new", &[1.5, 1.52, 1.49, 1.51, 1.48]));
    let found = compared(&base, &new);
    assert_eq!((found.about, found.conclusion.exit()), (About::SuchRuns, Exit::Violated));
    assert!(
        found.conclusion.sentence.starts_with("Regressed over 5 runs against 5: "),
        "{}",
        found.conclusion.sentence
    );
    // Fewer are too few for an interval
    let found = compared(&side("base", &[1.0, 1.01, 0.99]), &side("new", &[1.5, 1.52, 1.49]));
    assert_eq!((found.about, found.conclusion.exit()), (About::SuchRuns, Exit::Unknown));
    let why = row(&found, "turn.p50").compared.why.clone().unwrap();
    assert_eq!(why, "3 runs a side can't decide 6 comparisons; needs about 5 runs a side");
    // Runs that lie apart by themselves show nothing, however close their repetitions are
    let found = compared(&side("base", &[1.0, 1.4, 0.7]), &side("new", &[1.1, 1.5, 0.8]));
    assert_eq!(found.conclusion.exit(), Exit::Unknown, "{}", found.conclusion.sentence);
}

#[test]
fn the_run_is_the_unit_only_if_unfinished_waits_cannot_move_its_median() {
    // Given three runs against three of seven repetitions, of each of which that one is a lower bound
    let unit = |at_least: usize| {
        let run = |middle: f64| -> Vec<Reading> {
            let reading = |at: usize| {
                let value = middle * (1.0 + at as f64 / 100.0);
                Reading { value, at_least: at == at_least, samples: None }
            };
            (0..7).map(reading).collect()
        };
        let runs = Runs { base: [1.0, 1.1, 0.9].map(run).to_vec(), new: [1.0, 1.05, 0.95].map(run).to_vec() };
        let test = Test::of_runs(&runs, Better::Lower, Limits::default(), Scale::Values);
        test.judge(1).method
    };
    assert_eq!(unit(6), Some(Method::Runs), "the longest");
    assert_eq!(unit(0), Some(Method::Repetitions), "the shortest");
}

#[test]
fn conclusions_about_runs_need_enough_runs() {
    let base = side("base", &[1.0, 1.01, 0.99]);
    // Given runs in which a tenth of the waits had not ended, so that their p99 has no median by run
    let mut new = side("new", &[1.0, 1.01, 0.99]);
    for trial in new.runs.iter_mut().flat_map(|run| &mut run.stored.trials) {
        trial.histograms.insert(Measure::Unserved, records::histogram(&[60_000; 120]));
    }
    assert_eq!(row(&compared(&base, &new), "wait.p99").compared.method, Some(Method::Repetitions));
    assert_eq!(compared(&base, &new).about, About::TheseRuns);
}

#[test]
fn a_run_that_ended_before_its_first_trial_lost_all_trials() {
    let base = side("base", &[1.0]);
    let mut new = side("new", &[1.0001, 1.0]);
    assert_eq!(compared(&base, &new).conclusion.exit(), Exit::Held);
    new.runs[1].stored.trials.clear();
    let found = compared(&base, &new);
    assert_eq!(found.conclusion.exit(), Exit::Unknown, "{}", found.conclusion.sentence);
}

#[test]
fn one_repetition_gives_no_estimate_of_how_many_are_needed() {
    let mut one = side("base", &[1.0]);
    one.runs[0].stored.trials.truncate(1);
    let found = power(&one, &Ask::default(), 0.05);
    assert!(found.rows.iter().all(|row| row.repetitions.is_none()), "{found:?}");
    let said = zklockbench_report::power(&found, Style::EVERYTHING);
    assert!(said.starts_with("The spread of the repetitions is unknown: one repetition has none"), "{said}");
}

#[test]
fn a_slower_floor_leaves_a_slower_lock_unknown() {
    let slower = || with_floor(side("new", &[1.5]), 2_000);
    let base = with_floor(side("base", &[1.0]), 1_000);
    // Given a host on which raw requests take twice as long, then nothing has regressed for sure, and it is said why
    let found = compared(&base, &slower());
    assert_eq!(found.conclusion.exit(), Exit::Unknown, "{}", found.conclusion.sentence);
    let why = row(&found, "throughput").compared.why.clone().unwrap();
    assert!(
        why.contains("the floor of a handoff rose from 1 ms to 2 ms, so the host is the likely cause"),
        "{why}"
    );
    // And more than a floor explains of which requests are a part of each turn has regressed all the same
    let found = compared(&base, &with_floor(side("new", &[1.5]), 1_300));
    assert_eq!(row(&found, "turn.p50").compared.regression, Regression::Yes);
    assert_eq!(row(&found, "wait.p50").compared.regression, Regression::Unknown);
    // With the floor as it was, it has
    let quiet = compared(&base, &with_floor(side("new", &[1.5]), 1_050));
    assert_eq!(quiet.conclusion.exit(), Exit::Violated);
    // Where the servers are others on purpose, their floor is part of the answer
    let mut upgraded = slower();
    upgraded.runs[0].stored.run.run.ensemble.servers[0].version = "3.9.9".into();
    assert_eq!(compared(&base, &upgraded).conclusion.exit(), Exit::Violated);
}

fn acquired(times: u64) -> Counts {
    let mut counts = Counts::default();
    counts.outcomes.add(Outcome::Acquired, times);
    counts
}

#[test]
fn a_generator_delay_beyond_its_share_of_the_margin_leaves_a_regression_unknown() {
    let lagging = |share: f64| {
        let mut side = side("new", &[1.5]);
        side.runs[0].stored.trials.iter_mut().for_each(|trial| trial.health.lag_share = Some(share));
        side
    };
    let mut base = side("base", &[1.0]);
    base.runs[0].stored.trials.iter_mut().for_each(|trial| trial.health.lag_share = Some(0.02));
    let found = compared(&base, &lagging(0.19));
    let why = row(&found, "throughput").compared.why.clone().unwrap();
    assert!(
        why.contains("the load generator's own lag rose from 2 % to 19 %, more than half of the margin"),
        "{why}"
    );
    assert_eq!(found.conclusion.exit(), Exit::Unknown);
    assert!(found.differences.iter().any(|one| one.what.contains("the load generator's own lag")));
    assert_eq!(compared(&base, &lagging(0.03)).conclusion.exit(), Exit::Violated);
}

/// A trial of an open load that drops so many of a thousand arrivals, whose waits get shorter the more it does.
fn shedding(index: usize, dropped: u64) -> Trial {
    let mut trial = records::overloaded(index);
    if let Load::Open(open) = &mut trial.spec.load {
        open.late = Late::Drop;
    }
    trial.steady = None;
    trial.histograms.remove(&Measure::Unserved);
    let served = 1_000 - dropped;
    trial.measured = acquired(served);
    let arrived = trial.arrived.as_mut().unwrap();
    (arrived.offered, arrived.started, arrived.served) = (1_000, served, served);
    (arrived.unserved, arrived.dropped) = (0, dropped);
    let samples: Vec<u64> = (0..served).map(|at| (20_000 + at) * served / 1_000).collect();
    trial.histograms.insert(Measure::Wait, records::histogram(&samples));
    trial.spec.repetition = u32::try_from(index).unwrap() + 1;
    trial
}

#[test]
fn a_lock_that_sheds_arrivals_has_regressed_even_if_served_waits_are_shorter() {
    let shed = |name: &str, dropped: u64| {
        records::side(name, &(0..8).map(|at| shedding(at, dropped + at as u64)).collect::<Vec<_>>())
    };
    let found = compared(&shed("base", 10), &shed("new", 200));
    assert_eq!(row(&found, "wait.p50").compared.regression, Regression::No);
    let dropped = row(&found, "dropped");
    assert_eq!((dropped.compared.regression, found.conclusion.exit()), (Regression::Yes, Exit::Violated));
    assert!((dropped.compared.base.values[0] - 0.01).abs() < 1e-9, "{:?}", dropped.compared.base);
    // A few more of a thousand do not matter, and where nothing is lost nothing is said of it
    assert_eq!(compared(&shed("base", 10), &shed("new", 14)).conclusion.exit(), Exit::Held);
    let none = compared(&side("base", &[1.0]), &side("new", &[1.0001]));
    assert!(none.rows.iter().all(|row| row.figure != "dropped"));
}

#[test]
fn new_timeouts_and_errors_are_regressions() {
    let failing = |name: &str, outcome: Option<Outcome>, errors: u64| {
        let failing = |at: usize| {
            let mut trial = records::trial_taking(at, 1.0);
            trial.measured = acquired(1_200);
            if let Some(outcome) = outcome {
                trial.measured.outcomes.add(outcome, 400);
            }
            trial.errors =
                (errors > 0).then(|| ("create: connection loss".to_owned(), errors)).into_iter().collect();
            trial
        };
        records::side(name, &(0..7).map(failing).collect::<Vec<_>>())
    };
    let base = failing("base", None, 0);
    for (new, figure) in
        [(failing("new", Some(Outcome::TimedOut), 0), "timed_out"), (failing("new", None, 300), "errors")]
    {
        let found = compared(&base, &new);
        assert_eq!(row(&found, figure).compared.regression, Regression::Yes, "{figure}");
    }
}

#[test]
fn counts_determined_by_the_load_are_not_tested_statistically() {
    let found = compared(&side("base", &[1.0]), &side("new", &[1.0001]));
    let decides = found.rows.iter().filter(|row| row.role == Role::Decides);
    let is_tested = |row: &&Row| row.figure != "violations" && row.compared.method != Some(Method::Exact);
    let tested = decides.filter(is_tested).count();
    assert_eq!(found.family, tested, "{:#?}", found.rows);
}

/// A run of seven repetitions of so many strategies, each with noise of its own: normal, with that deviation.
fn noisy(name: &str, strategies: usize, times: f64, deviation: f64, random: &mut ChaCha8Rng) -> Side {
    let trials: Vec<Trial> = (0..strategies * 7)
        .map(|index| {
            let mut trial = records::trial_taking(index, times * (deviation * normal(random)).exp());
            trial.spec.strategy.label = format!("lock {}", index % strategies);
            trial.spec.repetition = u32::try_from(index / strategies).unwrap() + 1;
            trial
        })
        .collect();
    records::side(name, &trials)
}

#[test]
fn a_change_common_to_all_locks_is_found_in_the_pooled_comparison() {
    // Given four locks that all became a tenth slower, and repetitions that differ by a thirtieth
    let mut random = ChaCha8Rng::seed_from_u64(5);
    let base = noisy("base", 4, 1.0, 0.03, &mut random);
    let found = compared(&base, &noisy("new", 4, 1.1, 0.03, &mut random));
    // When they are compared
    let (together, alone): (Vec<&Row>, Vec<&Row>) =
        found.rows.iter().filter(|row| row.figure == "turn.p50").partition(|row| !row.strategies.is_empty());
    // Then their mean regressed, and no lock by itself
    let [together] = together[..] else { panic!("one row") };
    assert_eq!(together.strategies, ["lock 0", "lock 1", "lock 2", "lock 3"]);
    assert_eq!(together.compared.regression, Regression::Yes, "{:#?}", together.compared);
    assert!(alone.iter().all(|row| row.compared.regression != Regression::Yes), "{alone:#?}");
    assert_eq!(found.conclusion.exit(), Exit::Violated);
}

#[test]
fn a_repetition_lost_by_one_lock_is_left_out_of_the_pooled_comparison() {
    let mut random = ChaCha8Rng::seed_from_u64(6);
    let mut base = noisy("base", 2, 1.0, 0.01, &mut random);
    base.runs[0].stored.trials[3].cut_short = records::interrupted();
    let found = compared(&base, &noisy("new", 2, 1.0, 0.01, &mut random));
    let together = &found.rows[0];
    assert_eq!((together.strategies.len(), together.compared.base.values.len()), (2, 6));
    // One lock alone is no more than itself
    let alone = compared(&side("base", &[1.0]), &side("new", &[1.0]));
    assert!(alone.rows.iter().all(|row| row.strategies.is_empty()));
}

#[test]
fn informational_metrics_neither_fail_nor_make_the_outcome_unknown() {
    // Given handoffs that became twice as long, and nothing else
    let base = side("base", &[1.0]);
    let mut new = side("new", &[1.0001]);
    for trial in &mut new.runs[0].stored.trials {
        trial.histograms.insert(Measure::Handoff, records::histogram(&[40_000; 1_000]));
    }
    // When nothing was asked for, then they are shown
    let found = compared(&base, &new);
    let handoff = row(&found, "handoff.p50");
    assert_eq!((handoff.role, handoff.compared.regression), (Role::Shown, Regression::Yes));
    assert_eq!(found.conclusion.exit(), Exit::Held);
    assert!(
        found.conclusion.sentence.contains("only shown, of which 1 regressed"),
        "{}",
        found.conclusion.sentence
    );
    // And where they were asked for, they decide
    let ask = Ask { figures: vec![figures::named("handoff.p50").unwrap()], ..Ask::default() };
    assert_eq!(compare(&base, &new, &ask).unwrap().conclusion.exit(), Exit::Violated);
}
