//! In which order the runs of a comparison follow each other.
//!
//! A block runs both sides and the first side again, so that whatever the machine does meanwhile meets all three. Blocks
//! come in twos that mirror each other: a steady drift, such as a disk that fills up or a JVM that is still compiling, then
//! costs each of the three as much as the others. Six blocks hold each of the six orders once.

use rand::seq::SliceRandom;
use rand::{Rng, RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What one run of a block is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Turn {
    /// The first side.
    A,
    /// The second side.
    B,
    /// The first side once more: how far it lies from itself is what noise does here.
    Again,
}

impl Turn {
    pub const ALL: [Self; 3] = [Self::A, Self::B, Self::Again];

    pub const fn name(self) -> &'static str {
        match self {
            Self::A => "a",
            Self::B => "b",
            Self::Again => "again",
        }
    }

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
    /// From 1.
    pub number: u32,
    pub order: [Turn; 3],
    /// The seed of all three runs, so that their arrivals, holds and orders of trials are drawn alike.
    pub seed: u64,
}

/// The orders, each beside its mirror image.
const MIRRORED: [[[Turn; 3]; 2]; 3] = [
    [[Turn::A, Turn::B, Turn::Again], [Turn::Again, Turn::B, Turn::A]],
    [[Turn::B, Turn::A, Turn::Again], [Turn::Again, Turn::A, Turn::B]],
    [[Turn::A, Turn::Again, Turn::B], [Turn::B, Turn::Again, Turn::A]],
];
/// How many blocks hold each order once.
const ROUND: u32 = 6;

impl Block {
    /// The block of that number, counted from 1. The same seed gives the same blocks, however many there will be.
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
        // A scenario's seed goes up to 2^63 - 1.
        Self { number, order, seed: stream(seed, Purpose::Block, at).next_u64() >> 1 }
    }
}

/// What random numbers are for: the streams of one do not disturb the other.
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn blocks(seed: u64, count: u32) -> Vec<Block> {
        (1..=count).map(|number| Block::of(seed, number)).collect()
    }

    /// In which place of its block a turn comes.
    fn place(block: &Block, turn: Turn) -> usize {
        block.order.iter().position(|at| *at == turn).unwrap()
    }

    #[test]
    fn every_block_holds_both_sides_and_the_first_again() {
        for block in blocks(7, 50) {
            let turns: BTreeSet<Turn> = block.order.into_iter().collect();
            assert_eq!(turns, BTreeSet::from(Turn::ALL), "{block:?}");
        }
    }

    #[test]
    fn six_blocks_hold_each_order_once_and_two_meet_a_drift_alike() {
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
    fn the_same_seed_gives_the_same_blocks_and_another_seed_others() {
        assert_eq!(blocks(3, 12), blocks(3, 12));
        let orders = |seed| blocks(seed, 12).iter().map(|block| block.order).collect::<Vec<_>>();
        let different: BTreeSet<_> = (0..10).map(orders).collect();
        assert!(different.len() > 5, "they are shuffled");
    }

    #[test]
    fn each_block_has_a_seed_of_its_own_that_a_scenario_can_have() {
        let seeds: BTreeSet<u64> = blocks(u64::MAX, 100).iter().map(|block| block.seed).collect();
        assert_eq!(seeds.len(), 100);
        assert!(seeds.iter().all(|seed| i64::try_from(*seed).is_ok()));
    }
}
