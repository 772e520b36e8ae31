//! Pairs of equal runs, recorded by `scripts/equal-runs`. Some of the pairs were used to choose the margins, and the
//! rest validate them.
//!
//! The files in `tests/data/compare` contain the values of every deciding metric on both sides of each pair. All
//! runs used `scenarios/quick.toml` on a virtual machine with two processors, and restarted the servers each time.

use std::collections::BTreeMap;

use rand::{SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;
use zklockbench_analysis::compare::{Limits, Regression, Runs, Scale, Terms, Test, judge_family};
use zklockbench_record::{Figure, Reading, figures};

/// Values of one metric of one cell on both sides of a pair.
struct Pair {
    /// Whether the metric combines several strategies.
    together: bool,
    strategy: String,
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
        let [pair, strategies, strategy, figure, base, new]: [&str; 6] =
            line.split(',').collect::<Vec<_>>().try_into().unwrap();
        let sides = [base, new].map(readings);
        pairs.entry(pair.to_owned()).or_default().push(Pair {
            together: strategies != "1",
            strategy: strategy.to_owned(),
            figure: figure.to_owned(),
            sides,
        });
    }
    pairs
}

impl Pair {
    fn figure(&self) -> Figure {
        figures::named(&self.figure).unwrap()
    }

    fn limits(&self) -> Limits {
        let terms = Terms::default();
        if self.together { terms.of_all(self.figure()) } else { terms.of(self.figure()) }
    }
}

fn worst(tests: &[Test]) -> Regression {
    judge_family(tests).iter().map(|one| one.regression).max().unwrap()
}

fn regression(pair: &[Pair]) -> Regression {
    let test = |one: &Pair| Test::unpaired(&one.sides[0], &one.sides[1], one.figure().better(), one.limits());
    worst(&pair.iter().map(test).collect::<Vec<_>>())
}

/// Number of pairs for which a regression is ruled out, and number of pairs reported as regressed.
fn held_and_regressed(pairs: &BTreeMap<String, Vec<Pair>>) -> [usize; 2] {
    let found: Vec<Regression> = pairs.values().map(|pair| regression(pair)).collect();
    let count = |of: Regression| found.iter().filter(|one| **one == of).count();
    println!("{} held, {} unknown of {}", count(Regression::No), count(Regression::Unknown), found.len());
    [count(Regression::No), count(Regression::Yes)]
}

#[test]
fn compare_rules_out_a_regression_in_90_percent_of_the_pairs_that_set_the_margins() {
    let pairs = pairs(include_str!("../data/compare/margins.csv"));
    let [held, regressed] = held_and_regressed(&pairs);
    assert!(10 * held >= 9 * pairs.len() && regressed == 0, "{held} held, {regressed} regressed");
}

#[test]
fn compare_rules_out_a_regression_in_90_percent_of_other_equal_pairs() {
    let pairs = pairs(include_str!("../data/compare/equal.csv"));
    let [held, regressed] = held_and_regressed(&pairs);
    assert!(10 * held >= 9 * pairs.len(), "{held} held, {regressed} regressed");
    assert!(20 * regressed <= pairs.len(), "{held} held, {regressed} regressed");
}

#[test]
fn compare_detects_a_two_millisecond_longer_cycle_in_95_percent_of_pairs() {
    for data in [include_str!("../data/compare/margins.csv"), include_str!("../data/compare/equal.csv")] {
        // Given pairs of equal runs in which every cycle of the newer run is lengthened, except for polling, which
        // has fixed poll times
        let longer = pairs(data)
            .into_iter()
            .map(|(number, pair)| (number, with_longer_turns(pair, 2_000.0)))
            .collect();
        // Then a regression is reported for nearly all pairs, despite the differences between their runs
        let [held, regressed] = held_and_regressed(&longer);
        assert!(20 * regressed >= 19 * longer.len() && held == 0, "{held} held, {regressed} regressed");
    }
}

/// Lengthens the cycles on the new side of a pair, and recomputes the mean over all strategies.
fn with_longer_turns(pair: Vec<Pair>, us: f64) -> Vec<Pair> {
    let mut turns: Vec<Pair> = pair.into_iter().filter(|one| one.figure == "turn.p50").collect();
    for one in turns.iter_mut().filter(|one| !one.together && one.strategy != "polling") {
        one.sides[1].iter_mut().for_each(|reading| reading.value += us);
    }
    let (together, each): (Vec<_>, Vec<_>) = turns.iter_mut().partition(|one| one.together);
    for (at, reading) in together.into_iter().flat_map(|all| all.sides[1].iter_mut().enumerate()) {
        let logarithms = each.iter().map(|one| one.sides[1][at].value.ln());
        reading.value = (logarithms.sum::<f64>() / each.len() as f64).exp();
    }
    turns
}

#[test]
fn compare_reports_a_regression_in_at_most_5_percent_of_equal_groups() {
    let pairs = pairs(include_str!("../data/compare/equal.csv"));
    let compared = |one: &Pair| (one.strategy.clone(), one.figure.clone());
    let in_all: Vec<(String, String)> = pairs["01"].iter().map(compared).collect();
    let in_all: Vec<_> = in_all
        .into_iter()
        .filter(|wanted| pairs.values().all(|pair| pair.iter().any(|one| compared(one) == *wanted)))
        .collect();
    let mut runs: Vec<(&str, usize)> =
        pairs.keys().flat_map(|pair| [0, 1].map(|side| (pair.as_str(), side))).collect();
    let mut random = ChaCha8Rng::seed_from_u64(3);
    let mut found = Vec::new();
    for _ in 0..1_000 {
        // Given five random runs per side
        runs.shuffle(&mut random);
        let test = |wanted: &(String, String)| {
            let of = |pair: &str| pairs[pair].iter().find(|one| compared(one) == *wanted).unwrap();
            let side = |runs: &[(&str, usize)]| {
                runs.iter().map(|(pair, side)| of(pair).sides[*side].clone()).collect()
            };
            let (base, new) = (side(&runs[..5]), side(&runs[5..10]));
            let one = of("01");
            Test::of_runs(&Runs { base, new }, one.figure().better(), one.limits(), Scale::Values)
        };
        found.push(worst(&in_all.iter().map(test).collect::<Vec<_>>()));
    }
    // Then at most one comparison in twenty reports a regression, and nine in ten rule out a regression
    let count = |of: Regression| found.iter().filter(|one| **one == of).count();
    let (held, regressed) = (count(Regression::No), count(Regression::Yes));
    assert!(regressed <= 50 && held >= 900, "{held} held, {regressed} regressed of 1000");
}
