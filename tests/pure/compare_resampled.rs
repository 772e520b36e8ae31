//! Recorded repetitions, resampled many times: noise is not a regression, and a fifth longer is one.
//!
//! `tests/data/compare/quick-24.csv` contains the metrics of every valid repetition of two consecutive runs of
//! `scenarios/quick.toml` with `--repetitions 12`, on a virtual machine with two processors that was also compiling.
//! The repetitions are therefore very noisy: 20 of 288 were invalid and are left out.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use zklockbench_analysis::compare::{Compared, ComparisonVerdict, Limits, Regression, Test, judge_family};
use zklockbench_record::figures;
use zklockbench_record::{Figure, Reading};

use crate::support::depth;

/// A metric of a cell, and its value in each repetition.
struct Recorded {
    cell: String,
    figure: Figure,
    values: Vec<f64>,
}

fn recorded() -> Vec<Recorded> {
    let text = include_str!("../data/compare/quick-24.csv");
    let row = |line: &str| {
        let [strategy, contenders, figure, values]: [&str; 4] =
            line.split(',').collect::<Vec<_>>().try_into().unwrap();
        Recorded {
            cell: format!("{strategy} {contenders}"),
            figure: figures::named(figure).unwrap(),
            values: values.split(' ').map(|value| value.parse().unwrap()).collect(),
        }
    };
    text.lines().skip(1).map(row).collect()
}

/// Assigns the repetitions of each cell to two sides at random, and compares them as one family; `change` modifies the
/// values of the new side.
fn dealt(
    recorded: &[Recorded],
    random: &mut ChaCha8Rng,
    change: impl Fn(Figure, f64) -> f64,
) -> Vec<Compared> {
    let mut tests = Vec::new();
    for cell in recorded.chunk_by(|one, other| one.cell == other.cell) {
        // The metrics of a repetition stay together, because they are correlated.
        let mut order: Vec<usize> = (0..cell[0].values.len()).collect();
        order.shuffle(random);
        let (base, new) = order.split_at(order.len() / 2);
        for Recorded { figure, values, .. } in cell {
            let reading = |value| Reading { value, at_least: false, samples: None };
            let base: Vec<Reading> = base.iter().map(|at| reading(values[*at])).collect();
            let new: Vec<Reading> = new.iter().map(|at| reading(change(*figure, values[*at]))).collect();
            tests.push(Test::unpaired(&base, &new, figure.better(), Limits::default()));
        }
    }
    judge_family(&tests)
}

fn is_rate(figure: Figure) -> bool {
    figure == figures::THROUGHPUT.figure()
}

fn is_time(figure: Figure) -> bool {
    matches!(figure, Figure::Latency(..))
}

/// A thousand samples take a minute of processor time, so every change must pass only a hundred of them.
#[test]
fn comparing_equal_data_finds_a_difference_at_most_once_in_twenty() {
    let recorded = recorded();
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let is_alarm = |one: &Compared| {
        matches!(
            one.verdict,
            ComparisonVerdict::Regressed | ComparisonVerdict::Improved | ComparisonVerdict::Differs
        )
    };
    let times = depth::of(100, 1_000);
    let alarms =
        (0..times).filter(|_| dealt(&recorded, &mut random, |_, value| value).iter().any(is_alarm)).count();
    println!("{alarms} of {times} families of {} comparisons", recorded.len());
    assert!(20 * alarms <= times, "{alarms} false alarms");
}

#[test]
fn a_20_percent_regression_is_found_even_on_a_busy_host() {
    let recorded = recorded();
    let mut random = ChaCha8Rng::seed_from_u64(2);
    let slower = |figure, value| match figure {
        figure if is_rate(figure) => value / 1.2,
        figure if is_time(figure) => value * 1.2,
        _ => value,
    };
    let mut found = 0;
    for time in 0..10 {
        let compared = dealt(&recorded, &mut random, slower);
        let regressed = compared.iter().filter(|one| one.regression == Regression::Yes).count();
        println!("time {time}: {regressed} of {} regressed", compared.len());
        found += usize::from(regressed > 0);
        assert!(compared.iter().all(|one| one.verdict != ComparisonVerdict::Improved), "time {time}");
    }
    // With this many comparisons of such noisy repetitions.
    assert!(found >= 9, "{found} of 10");
}
