//! The fastest strategy of a run, and its speed-up over the others that ran side by side with it.

use schemars::JsonSchema;
use serde::Serialize;

use super::judge::Limits;
use super::side::{CellUnderLoad, Side};
use super::test::{Block, Test};
use zklockbench_core::units::{contenders, grouped, number};
use zklockbench_record::figures::THROUGHPUT;
use zklockbench_record::{Better, Reading, Trial};
use zklockbench_stats::median;

/// A strategy that a run's repetitions prove to be faster than another.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Faster {
    /// The faster strategy.
    pub strategy: CellUnderLoad,
    /// Label of the slower strategy.
    pub than: String,
    /// Ratio of the faster strategy's throughput to the other's.
    pub times: f64,
    /// Half-width of the ratio's interval. All intervals contain the true ratios with probability ≥ 1 − α.
    pub plus_minus: f64,
    /// Number of repetitions that both strategies have.
    pub repetitions: usize,
}

impl Faster {
    /// Returns a sentence in the style of hyperfine.
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

/// Returns, for each number of contenders in a closed load, the speed-up of the fastest strategy over each
/// other strategy, if the repetitions prove it. Cells with violations are omitted.
///
/// The fastest strategy is known only afterwards, so every pair of a group counts as a comparison.
pub(super) fn faster(side: &Side, alpha: f64) -> Vec<Faster> {
    let limits = Limits { alpha, ..Limits::default() };
    let groups = groups(side);
    let family = groups.iter().map(|group| group.len() * (group.len() - 1) / 2).sum();
    let than = |fastest: &CellUnderLoad, other: &CellUnderLoad| {
        let blocks = Block::of_repetitions(readings(side, other), readings(side, fastest));
        let compared = Test::of_blocks(&blocks, Better::Higher, limits, family).judge(family);
        let ratio = compared.in_family?;
        // There is no upper bound if the other strategy stalled in a repetition.
        (ratio.low > 1.0 && ratio.high.is_finite()).then(|| Faster {
            strategy: fastest.clone(),
            than: other.strategy.clone(),
            times: ratio.value,
            plus_minus: (ratio.high - ratio.low) / 2.0,
            repetitions: compared.new.values.len(),
        })
    };
    let of_group = |group: &Vec<CellUnderLoad>| {
        group[1..].iter().filter_map(|other| than(&group[0], other)).collect::<Vec<_>>()
    };
    groups.iter().flat_map(of_group).collect()
}

/// Groups the cells by contenders and locks, fastest first within each group. Omits cells with violations.
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

/// Returns the reading of each valid repetition of a cell, by run and repetition.
fn readings(side: &Side, cell: &CellUnderLoad) -> Vec<((usize, u32), Reading)> {
    let mut found = Vec::new();
    for (run, loaded) in side.runs.iter().enumerate() {
        let own = loaded.stored.trials.iter().filter(|trial| CellUnderLoad::of(trial) == *cell);
        found.extend(own.filter_map(|trial| Some(((run, trial.spec.repetition), throughput(trial)?))));
    }
    found
}
