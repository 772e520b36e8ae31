//! Pairs of equal runs, kept: by them the margins are chosen, and others than those that prove them (`scripts/equal-runs`).
//!
//! `tests/data/compare/equal-runs.csv` holds the readings of every figure that decides, of both sides of pairs of runs of
//! `scenarios/quick.toml`, on servers started anew for each, on a virtual machine with two processors.

use std::collections::BTreeMap;

use zklockbench::answer::compare::{Regression, Terms, Test, judge_family};
use zklockbench::record::{Reading, figures};

/// The readings of one figure of one cell on both sides of a pair.
struct Pair {
    strategy: String,
    figure: String,
    sides: [Vec<Reading>; 2],
}

fn pairs() -> BTreeMap<String, Vec<Pair>> {
    let readings = |values: &str| -> Vec<Reading> {
        let value = |text: &str| Reading { value: text.parse().unwrap(), at_least: false, samples: None };
        values.split(' ').map(value).collect()
    };
    let mut pairs: BTreeMap<String, Vec<Pair>> = BTreeMap::new();
    for line in include_str!("../data/compare/equal-runs.csv").lines().skip(1) {
        let [pair, strategy, figure, base, new]: [&str; 5] =
            line.split(',').collect::<Vec<_>>().try_into().unwrap();
        let sides = [base, new].map(readings);
        pairs.entry(pair.to_owned()).or_default().push(Pair {
            strategy: strategy.to_owned(),
            figure: figure.to_owned(),
            sides,
        });
    }
    pairs
}

/// What a comparison of a pair comes to: the worst of its figures.
fn regression(pair: &[Pair]) -> Regression {
    let terms = Terms::default();
    let test = |one: &Pair| {
        let figure = figures::named(&one.figure).unwrap();
        let together = one.strategy.ends_with(" together");
        let limits = if together { terms.of_all(figure) } else { terms.of(figure) };
        Test::unpaired(&one.sides[0], &one.sides[1], figure.better(), limits)
    };
    let judged = judge_family(pair.iter().map(test).collect());
    judged.iter().map(|one| one.regression).max().unwrap()
}

#[test]
fn by_its_margins_nine_in_ten_pairs_of_equal_runs_are_known_not_to_have_regressed_and_none_has() {
    let pairs = pairs();
    let found: Vec<Regression> = pairs.values().map(|pair| regression(pair)).collect();
    let count = |of: Regression| found.iter().filter(|one| **one == of).count();
    println!("{} held, {} unknown of {}", count(Regression::No), count(Regression::Unknown), found.len());
    assert_eq!(count(Regression::Yes), 0);
    assert!(10 * count(Regression::No) >= 9 * found.len(), "{found:?}");
}
