//! Was it really slower? Two sides of runs, cell by cell and figure by figure, with a verdict on each.
//!
//! The unit is the repetition: what happened within one says nothing of how much another differs. `stats` has the intervals,
//! `test` makes one, `judge` decides by it, `figures` names those that are compared and which of them decide,
//! `comparison` has the family of them; `docs/comparing-runs.md` says the same for users.

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
pub use figures::{Role, better_of, losses, losses_under, reading, unit_of, without_twins};
pub use judge::{
    Compared, ComparisonVerdict, Limits, Method, Regression, Sample, Scale, Terms, exactly,
    farthest_from_one, more_lost,
};
pub use power::{Power, PowerRow, power};
pub use side::{CellUnderLoad, Loaded, Repetitions, Side};
pub use test::{Block, Runs, Test, judge_family};
