//! A/B: two sides compared in alternating blocks, so that what the machine does to both cancels out.
//!
//! This is the part that starts nothing: the order of the blocks, which combination is paired with which, when there are
//! enough, what may be concluded, and the file that is left. `cli` runs the blocks.

mod blocks;
mod comparison;
mod file;

pub use blocks::{Block, Length, Next, Progress, Turn};
pub use comparison::{
    Answer, Answers, CellPair, Comparison, Conclusion, FigureQuestion, Matrix, Silence, Silent, Values,
    compare, pair,
};
pub use file::{
    AbFile, Asked, BlockRecord, CountedCell, Ending, FILE, RUNS, RunRecord, SideDriver, SideRecord, Sides,
    read,
};
