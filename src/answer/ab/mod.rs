//! A/B: two sides compared in alternating blocks, so that what the machine does to both cancels out.
//!
//! This is the part that starts nothing: the order of the blocks, which combination is paired with which, when there are
//! enough, what may be concluded, and the file that is left. `cli` runs the blocks.

mod answers;
mod blocks;
mod cells;
mod comparison;
mod file;
mod length;

pub use answers::{Answer, Answers, FigureQuestion, Silence};
pub use blocks::{Block, Turn};
pub use cells::{CellPair, Matrix, pair};
pub use comparison::{Comparison, Conclusion, Silent, Values, compare};
pub use file::{
    AbFile, Asked, BlockRecord, CountedCell, Ending, FILE, RUNS, RunRecord, SideDriver, SideRecord, Sides,
    VERSION, read, schema,
};
pub use length::{Length, Next, Progress};
