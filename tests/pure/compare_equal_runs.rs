//! Pairs of equal runs, kept by `scripts/equal-runs`: those by which the margins were chosen, and others, which prove them.
//!
//! The files in `tests/data/compare` hold the readings of every figure that decides, of both sides of pairs of runs of
//! `scenarios/quick.toml`, on servers started anew for each, on a virtual machine with two processors.

use std::collections::BTreeMap;

use zklockbench::answer::compare::{Regression, Terms, Test, judge_family};
use zklockbench::record::{Reading, figures};

/// The readings of one figure of one cell on both sides of a pair.
struct Pair {
    /// Whether they are of several strategies together.
    together: bool,
    figure: String,
    sides: [Vec<Reading>; 2],
}

fn pairs(file: &str) -> BTreeMap<String, Vec<Pair>> {
    let readings = |values: &str| -> Vec<Reading> {
        let value = |text: &str| Reading { value: text.parse().unwrap(), at_least: false, samples: None };
        values.split(' ').map(value).collect()
    };
    let mut pairs: BTreeMap<String, Vec<Pair>> = BTreeMap::new();
    for line in file.lines().skip(1) {
        let [pair, strategies, _, figure, base, new]: [&str; 6] =
            line.split(',').collect::<Vec<_>>().try_into().unwrap();
        let sides = [base, new].map(readings);
        pairs.entry(pair.to_owned()).or_default().push(Pair {
            together: strategies != "1",
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
        let limits = if one.together { terms.of_all(figure) } else { terms.of(figure) };
        Test::unpaired(&one.sides[0], &one.sides[1], figure.better(), limits)
    };
    let judged = judge_family(pair.iter().map(test).collect());
    judged.iter().map(|one| one.regression).max().unwrap()
}

/// How many of these pairs are known not to have regressed, and how many seem to have.
fn held_and_regressed(pairs: &BTreeMap<String, Vec<Pair>>) -> [usize; 2] {
    let found: Vec<Regression> = pairs.values().map(|pair| regression(pair)).collect();
    let count = |of: Regression| found.iter().filter(|one| **one == of).count();
    println!("{} held, {} unknown of {}", count(Regression::No), count(Regression::Unknown), found.len());
    [count(Regression::No), count(Regression::Yes)]
}

#[test]
fn by_its_margins_nine_in_ten_pairs_of_equal_runs_are_known_not_to_have_regressed_and_none_has() {
    let pairs = pairs(include_str!("../data/compare/margins.csv"));
    let [held, regressed] = held_and_regressed(&pairs);
    assert!(10 * held >= 9 * pairs.len() && regressed == 0, "{held} held, {regressed} regressed");
}

#[test]
fn so_are_pairs_that_set_no_margin() {
    let pairs = pairs(include_str!("../data/compare/equal.csv"));
    let [held, regressed] = held_and_regressed(&pairs);
    assert!(
        10 * held >= 9 * pairs.len() && 20 * regressed <= pairs.len(),
        "{held} held, {regressed} regressed"
    );
}
