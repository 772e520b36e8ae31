//! A/B: compares two sides in alternating blocks, so that disturbances of the machine cancel out.
//!
//! This module runs nothing. It orders the blocks, pairs combinations, decides when to stop, draws
//! conclusions, and defines the resulting file. `cli` runs the blocks.

mod blocks;
mod comparison;
mod file;

pub use blocks::{Block, Length, Turn};
pub use comparison::{
    Answer, Answers, CellPair, Comparison, Conclusion, FigureQuestion, Matrix, Silence, Silent, Values,
    compare, pair,
};
pub use file::{
    AbFile, Asked, BlockRecord, CountedCell, Ending, FILE, RUNS, RunRecord, SideDriver, SideRecord, Sides,
    read,
};
