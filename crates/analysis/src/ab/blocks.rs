//! Order and number of a comparison's blocks.
//!
//! A block runs A, B and A again, so that a disturbance of the machine affects all three runs. Blocks come in
//! mirrored pairs, so that a steady drift (a disk filling up, a JVM warming up) affects them equally. Every
//! six blocks use each of the six orders once.

use rand::seq::SliceRandom;
use rand::{Rng, RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use zklockbench_core::worded;
use zklockbench_stats::{Design, Looks};

worded! {
    /// Role of a run in its block.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    pub enum Turn by name {
        /// The first side.
        A = "a",
        /// The second side.
        B = "b",
        /// The first side again; its difference from the first run is noise.
        Again = "again",
    }
}

impl Turn {
    pub const fn title(self) -> &'static str {
        match self {
            Self::A => "A",
            Self::B => "B",
            Self::Again => "A again",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// Number, starting at 1.
    pub number: u32,
    pub order: [Turn; 3],
    /// Seed of all three runs, so that they draw the same arrivals, holds and trial orders.
    pub seed: u64,
}

/// The orders, each with its mirror image.
const MIRRORED: [[[Turn; 3]; 2]; 3] = [
    [[Turn::A, Turn::B, Turn::Again], [Turn::Again, Turn::B, Turn::A]],
    [[Turn::B, Turn::A, Turn::Again], [Turn::Again, Turn::A, Turn::B]],
    [[Turn::A, Turn::Again, Turn::B], [Turn::B, Turn::Again, Turn::A]],
];
/// Number of blocks that use each order once.
const ROUND: u32 = 6;

impl Block {
    /// Returns the block with this number, starting at 1. The block depends only on the seed, not on the total
    /// number of blocks.
    pub fn of(seed: u64, number: u32) -> Self {
        let at = number.saturating_sub(1);
        let mut draw = stream(seed, Purpose::Order, at / ROUND);
        let mut round = MIRRORED;
        round.shuffle(&mut draw);
        for twins in &mut round {
            if draw.random() {
                twins.reverse();
            }
        }
        let order = round[(at % ROUND / 2) as usize][(at % 2) as usize];
        // The seed of a scenario is at most 2^63 - 1.
        Self { number, order, seed: stream(seed, Purpose::Block, at).next_u64() >> 1 }
    }
}

/// Purpose of a random stream; streams of different purposes are independent.
#[derive(Clone, Copy)]
enum Purpose {
    Order = 1,
    Block = 2,
}

fn stream(seed: u64, purpose: Purpose, number: u32) -> ChaCha8Rng {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    key[8] = purpose as u8;
    let mut random = ChaCha8Rng::from_seed(key);
    random.set_stream(u64::from(number));
    random
}

/// Number of blocks to run.
///
/// Stopping at the first difference would eventually find one, even between a program and itself. A
/// comparison therefore ends after a fixed number of blocks, or once its intervals are narrow enough,
/// whatever the verdict. Widths are checked at a few numbers of blocks, which share the error probability
/// ([`Looks`]). Spoiled blocks are replaced, up to a limit. Replacements cause no bias, because only the
/// state of the generator and the host spoils a block.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Length {
    /// Minimum number of blocks.
    pub blocks: u32,
    /// Largest permitted relative half-width of the intervals; `None` for a fixed number of blocks.
    pub until: Option<f64>,
    /// Maximum number of blocks.
    pub at_most: u32,
    /// Error probability of an interval, no matter when the comparison stops.
    pub outside: f64,
}

impl Length {
    /// Returns the maximum number of replacement blocks: a machine that spoils more blocks is unfit for
    /// measurements.
    pub fn made_up_at_most(&self) -> u32 {
        self.blocks.div_ceil(2)
    }

    /// Returns the minimum number of blocks if this many are spoiled.
    pub fn planned(&self, spoiled: u32) -> u32 {
        self.blocks.saturating_add(spoiled.min(self.made_up_at_most()))
    }

    fn looks(&self) -> Looks {
        Looks::growing(Design::Pairs, self.blocks, self.at_most, self.outside)
    }

    /// Returns the error probability of the intervals after `done` blocks, `spoiled` of which were spoiled.
    pub fn share(&self, done: u32, spoiled: u32) -> f64 {
        let made_up = self.planned(spoiled) - self.blocks;
        if self.until.is_some() { self.looks().share(done.saturating_sub(made_up)) } else { self.outside }
    }

    /// Returns whether every interval is narrow enough; `None` if the number of blocks is fixed. Without a
    /// comparison that has pairs, there is no such interval.
    pub fn is_reached(&self, half_widths: &[Option<f64>]) -> Option<bool> {
        let until = self.until?;
        let are_narrow = half_widths.iter().all(|half| half.is_some_and(|half| half <= until));
        Some(are_narrow && !half_widths.is_empty())
    }

    /// Returns whether the comparison ends after `done` blocks, `spoiled` of which lack a valid pair.
    /// `half_widths` has an entry for each comparison, which is `None` while the blocks are too few for a verdict.
    pub fn is_over(&self, done: u32, spoiled: u32, half_widths: &[Option<f64>]) -> bool {
        let planned = self.planned(spoiled);
        let made_up = planned - self.blocks;
        done >= planned
            && self.is_reached(half_widths).is_none_or(|reached| {
                // If no comparison has pairs, more blocks would not help.
                (reached || half_widths.is_empty()) && self.looks().is_at(done.saturating_sub(made_up))
                    || done >= self.at_most.saturating_add(made_up)
            })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn blocks(seed: u64, count: u32) -> Vec<Block> {
        (1..=count).map(|number| Block::of(seed, number)).collect()
    }

    fn place(block: &Block, turn: Turn) -> usize {
        block.order.iter().position(|at| *at == turn).unwrap()
    }

    #[test]
    fn six_blocks_contain_each_order_once_and_balance_drift() {
        for seed in 0..20 {
            let blocks = blocks(seed, 24);
            for round in blocks.chunks(6) {
                let orders: BTreeSet<[Turn; 3]> = round.iter().map(|block| block.order).collect();
                assert_eq!(orders.len(), 6, "{round:?}");
            }
            for twins in blocks.chunks(2) {
                for turn in Turn::ALL {
                    let places: usize = twins.iter().map(|block| place(block, turn)).sum();
                    assert_eq!(places, 2, "{turn:?} in {twins:?}");
                }
            }
        }
    }

    #[test]
    fn the_seed_determines_the_blocks_and_shuffles_their_orders() {
        assert_eq!(blocks(3, 12), blocks(3, 12));
        let orders = |seed| blocks(seed, 12).iter().map(|block| block.order).collect::<Vec<_>>();
        let different: BTreeSet<_> = (0..10).map(orders).collect();
        assert!(different.len() > 5, "the orders must be shuffled");
    }

    #[test]
    fn each_block_has_its_own_seed_within_the_range_of_scenario_seeds() {
        let seeds: BTreeSet<u64> = blocks(u64::MAX, 100).iter().map(|block| block.seed).collect();
        assert_eq!(seeds.len(), 100);
        assert!(seeds.iter().all(|seed| i64::try_from(*seed).is_ok()));
    }

    /// Length that checks widths after 8, 13 and 20 blocks.
    const UNTIL: Length = Length { blocks: 8, until: Some(0.03), at_most: 20, outside: 0.05 };
    const NARROW: Option<f64> = Some(0.03);
    const WIDE: Option<f64> = Some(0.031);

    #[test]
    fn comparisons_end_after_their_blocks_or_at_a_checkpoint_with_narrow_intervals() {
        let fixed = Length { until: None, ..UNTIL };
        for (case, length, done, spoiled, halves, is_over) in [
            ("without a target width, before the planned blocks", fixed, 7, 0, &[NARROW][..], false),
            ("without a target width, after the planned blocks", fixed, 8, 0, &[WIDE, None], true),
            ("before the minimum number of blocks", UNTIL, 7, 0, &[NARROW], false),
            ("only narrow intervals", UNTIL, 8, 0, &[NARROW, NARROW], true),
            ("one wide interval", UNTIL, 8, 0, &[NARROW, WIDE], false),
            ("one missing interval", UNTIL, 8, 0, &[NARROW, None], false),
            ("an unbounded interval", UNTIL, 8, 0, &[Some(f64::INFINITY)], false),
            ("an interval without a width", UNTIL, 8, 0, &[Some(f64::NAN)], false),
            ("no pair in any block", UNTIL, 8, 0, &[], true),
            ("before the second checkpoint", UNTIL, 12, 0, &[NARROW], false),
            ("at the second checkpoint", UNTIL, 13, 0, &[NARROW], true),
            ("wide at the maximum number of blocks", UNTIL, 20, 0, &[WIDE], true),
            ("narrow at the maximum number of blocks", UNTIL, 20, 0, &[NARROW], true),
            // A spoiled block is replaced, and moves the checkpoints and the maximum by one block.
            ("without a replacement", fixed, 8, 1, &[NARROW], false),
            ("with a replacement", fixed, 9, 1, &[NARROW], true),
            ("with a spoiled replacement", fixed, 9, 2, &[NARROW], false),
            ("more spoiled blocks than replacements", fixed, 12, 12, &[NARROW], true),
            ("before the moved checkpoint", UNTIL, 13, 1, &[NARROW], false),
            ("at the moved checkpoint", UNTIL, 14, 1, &[NARROW], true),
            ("before the moved maximum", UNTIL, 20, 1, &[WIDE], false),
            ("at the moved maximum", UNTIL, 21, 1, &[WIDE], true),
        ] {
            assert_eq!(length.is_over(done, spoiled, halves), is_over, "{case}");
        }
        assert_eq!((UNTIL.is_reached(&[]), UNTIL.is_reached(&[NARROW])), (Some(false), Some(true)));
    }

    #[test]
    fn checkpoints_share_the_error_probability() {
        assert_eq!(Length { until: None, ..UNTIL }.share(8, 0), 0.05);
        let shares: f64 = [8, 13, 20].map(|done| UNTIL.share(done, 0)).iter().sum();
        assert!((shares - 0.05).abs() < 1e-12 && UNTIL.share(14, 1) == UNTIL.share(13, 0));
    }
}
