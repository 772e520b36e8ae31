//! Which strategy of one run is faster, and how many times: strategies of one repetition ran side by side, so they are pairs.

use schemars::JsonSchema;
use serde::Serialize;

use super::judge::Limits;
use super::side::{CellUnderLoad, Side};
use super::test::{Block, Test, judge_family};
use zklockbench_core::units::{contenders, grouped, number};
use zklockbench_record::figures::THROUGHPUT;
use zklockbench_record::{Better, Reading, Trial};
use zklockbench_stats::median;

/// That a strategy is faster than another, shown by the repetitions of the same runs.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Faster {
    /// The faster one.
    pub strategy: CellUnderLoad,
    /// The label of the slower one.
    pub than: String,
    /// How many times the throughput it has.
    pub times: f64,
    /// Half the width of its interval, which holds the ratio with at least 1 − α, also of all such ratios together.
    pub plus_minus: f64,
    /// Repetitions that both have.
    pub repetitions: usize,
}

impl Faster {
    /// As people know it from hyperfine.
    pub fn sentence(&self) -> String {
        format!(
            "at {} {} is {} ± {} times as fast as {}",
            contenders(self.strategy.contenders),
            self.strategy.strategy,
            number(self.times),
            number(self.plus_minus),
            self.than
        )
    }
}

/// For each number of contenders in a closed load, how many times as fast the fastest strategy is as each of the others:
/// only where the repetitions show that it is. A lock that did not exclude is not among them.
///
/// Which is the fastest is chosen by the same repetitions, so every pair of a group is tested, whichever turns out to be.
pub(super) fn faster(side: &Side, alpha: f64) -> Vec<Faster> {
    let limits = Limits { alpha, ..Limits::default() };
    let pairs: Vec<StrategyPair> = groups(side).iter().flat_map(|group| pairs(side, group)).collect();
    let test = |pair: &StrategyPair| Test::of_blocks(&pair.blocks, Better::Higher, limits, pairs.len());
    let tests: Vec<Test> = pairs.iter().map(test).collect();
    let judged = pairs.iter().zip(judge_family(&tests));
    judged
        .filter(|(pair, _)| pair.of_the_fastest)
        .filter_map(|(StrategyPair { one: fastest, other, .. }, compared)| {
            let ratio = compared.in_family?;
            // Against one that stood still in a repetition there is no upper end.
            (ratio.low > 1.0 && ratio.high.is_finite()).then(|| Faster {
                strategy: fastest.clone(),
                than: other.strategy.clone(),
                times: ratio.value,
                plus_minus: (ratio.high - ratio.low) / 2.0,
                repetitions: compared.new.values.len(),
            })
        })
        .collect()
}

/// Cells with the same contenders and locks, fastest first; those of locks that did not exclude left out.
fn groups(side: &Side) -> Vec<Vec<CellUnderLoad>> {
    let closed = side.trials().filter(|trial| trial.spec.load.name() == "closed");
    let keys = grouped(closed.map(|trial| (CellUnderLoad::of(trial), ()))).into_iter();
    let mut keys: Vec<CellUnderLoad> = keys.map(|(key, _)| key).collect();
    keys.retain(|key| of(side, key).all(|trial| trial.violation_count == 0));
    let middle = |key: &CellUnderLoad| {
        let values: Vec<f64> = of(side, key).filter_map(throughput).map(|reading| reading.value).collect();
        median(&values).unwrap_or(0.0)
    };
    let size = |key: &CellUnderLoad| (key.contenders, key.locks);
    keys.sort_by(|one, other| size(one).cmp(&size(other)).then(middle(other).total_cmp(&middle(one))));
    keys.chunk_by(|one, other| size(one) == size(other)).map(<[CellUnderLoad]>::to_vec).collect()
}

fn of<'a>(side: &'a Side, key: &'a CellUnderLoad) -> impl Iterator<Item = &'a Trial> {
    side.trials().filter(move |trial| CellUnderLoad::of(trial) == *key)
}

fn throughput(trial: &Trial) -> Option<Reading> {
    trial.is_sound().then(|| THROUGHPUT.of(trial).map(Reading::exact)).flatten()
}

/// Two strategies of a group, the faster one first.
struct StrategyPair {
    one: CellUnderLoad,
    other: CellUnderLoad,
    blocks: Vec<Block>,
    of_the_fastest: bool,
}

/// Each of a group, which has the fastest first, with each that is slower.
fn pairs(side: &Side, group: &[CellUnderLoad]) -> Vec<StrategyPair> {
    let with_slower = |(at, one): (usize, &CellUnderLoad)| {
        let pair = |other: &CellUnderLoad| StrategyPair {
            one: one.clone(),
            other: other.clone(),
            blocks: Block::of_repetitions(readings(side, other), readings(side, one)),
            of_the_fastest: at == 0,
        };
        group[at + 1..].iter().map(pair).collect::<Vec<_>>()
    };
    group.iter().enumerate().flat_map(with_slower).collect()
}

/// What each sound repetition of a cell gave, by its run and its number.
fn readings(side: &Side, cell: &CellUnderLoad) -> Vec<((usize, u32), Reading)> {
    let mut found = Vec::new();
    for (run, loaded) in side.runs.iter().enumerate() {
        let own = loaded.stored.trials.iter().filter(|trial| CellUnderLoad::of(trial) == *cell);
        found.extend(own.filter_map(|trial| Some(((run, trial.spec.repetition), throughput(trial)?))));
    }
    found
}
