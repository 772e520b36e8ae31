//! Compares two sides of runs cell by cell and metric by metric, with a verdict on each.
//!
//! The unit is the repetition, because samples within one repetition do not show how much repetitions vary. If
//! there are enough runs, the unit is the run.
//!
//! `stats` computes intervals, `test` applies them to samples, `judge` decides from the intervals, `figures`
//! selects the metrics, and `comparison` treats them as a family. `docs/comparing-runs.md` explains the method.

mod both_sides;
mod comparison;
mod differences;
mod faster;
mod figures;
mod judge;
mod power;
mod side;
mod test;

pub use both_sides::BothSides;
pub use comparison::{About, Ask, Comparison, Conclusion, LeftOut, Row, RunInfo, SideInfo, compare};
pub use differences::{Difference, FloorRise, between_parts, differences};
pub use faster::Faster;
pub use figures::{Role, better_of, counts_losses, losses, losses_under, reading, unit_of, without_twins};
pub use judge::{
    Compared, ComparisonVerdict, Limits, Method, Regression, Sample, Scale, Terms, exactly,
    farthest_from_one, more_lost,
};
pub use power::{Power, PowerRow, power};
pub use side::{CellUnderLoad, Loaded, Repetitions, Side};
pub use test::{Block, Runs, Test, judge_family};
