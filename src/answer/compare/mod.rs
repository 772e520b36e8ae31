//! Was it really slower? Two sides of runs, cell by cell and figure by figure, with a verdict on each.
//!
//! The unit is the repetition: what happened within one says nothing of how much another differs. `stats` has the tests,
//! `judge` what follows from one, `comparison` the family of them; `docs/compare.md` says the same for users.

mod cell;
mod comparison;
mod differences;
mod family;
mod faster;
mod judge;
mod lost;
mod side;
mod verdict;

pub use cell::CellUnderLoad;
pub use comparison::{
    Ask, COMPARISON_SCHEMA_VERSION, Comparison, Conclusion, LeftOut, Row, RunInfo, SideInfo, compare,
    comparison_schema, figure_of_cell,
};
pub use differences::{Difference, between_parts, differences};
pub use faster::Faster;
pub use judge::{
    Block, Compared, Limits, Method, Sample, SideRatio, StoredRatio, Test, exactly, judge, judge_family,
    paired,
};
pub use lost::Repetitions;
pub use side::{Loaded, Side};
pub use verdict::{ComparisonVerdict, Regression};
