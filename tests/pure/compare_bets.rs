//! Error rates of `compare`, and its handling of unfinished waits.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use zklockbench_analysis::compare::{Limits, Method, Regression, Runs, Scale, Test, judge_family};
use zklockbench_record::{Better, Reading};

use crate::compare_verdicts::normal;
use crate::support::depth;

fn readings(values: impl Iterator<Item = f64>) -> Vec<Reading> {
    values.map(|value| Reading { value, at_least: false, samples: None }).collect()
}

#[test]
fn false_changes_are_reported_in_at_most_one_family_in_twenty() {
    let mut random = ChaCha8Rng::seed_from_u64(13);
    let limits = Limits { margin: 0.05, alpha: 0.05 };
    let times = depth::of(200, 2_000);
    let alarms = (0..times).filter(|_| {
        let mut side = |middle: f64| {
            readings(
                (0..7).map(|_| middle * (0.02 * normal(&mut random)).exp()).collect::<Vec<_>>().into_iter(),
            )
        };
        // Given 72 metrics, each 4 % worse, with a margin of 5 %
        let tests: Vec<Test> =
            (0..72).map(|_| Test::unpaired(&side(1.0), &side(1.04), Better::Lower, limits)).collect();
        judge_family(&tests).iter().any(|one| one.regression == Regression::Yes)
    });
    let alarms = alarms.count();
    println!("{alarms} false alarms in {times} families");
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
        // Comparing repetitions instead of runs must raise more false alarms.
        assert!(alarms[1] > alarms[0], "{base} against {new}: {alarms:?}");
    }
}

#[test]
fn runs_are_compared_as_units_if_unfinished_waits_cannot_change_medians() {
    // Given three runs per side, each with seven repetitions of which one is a lower bound
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
    assert_eq!(unit(6), Some(Method::Runs), "the longest wait is unfinished");
    assert_eq!(unit(0), Some(Method::Repetitions), "the shortest wait is unfinished");
}
