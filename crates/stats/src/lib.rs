//! Intervals by ranks: the size of a metric, or the ratio between two samples of it, and how certain it is.
//!
//! A repetition is one value. No distribution is assumed, because disturbances of a benchmark are rarely normal and repetitions
//! are few. A [`Design`] states how values are paired and gives an [`Interval`] with exact coverage. [`Interval::against`] is the
//! one rule that decides. Error probabilities are shared equally between comparisons, and between the [`Looks`] at a growing
//! sample (Bonferroni).

mod design;
mod interval;
mod looks;
pub mod queueing;

pub use design::Design;
pub use interval::{Interval, Position, median, median_interval, range_interval};
pub use looks::Looks;
