//! Intervals by ranks: how large a metric is, or by which ratio two samples of it differ, and how certain that is.
//!
//! A repetition is one value. Nothing is assumed about how repetitions are distributed, because disturbances of a benchmark
//! are rarely normal and repetitions are few. A [`Design`] states how values belong together and gives an [`Interval`] with
//! exact coverage. [`Interval::against`] is the one rule that decides. Error probabilities are shared equally between
//! comparisons, and between the [`Looks`] at a growing sample (Bonferroni).

mod design;
mod elimination;
mod interval;
mod looks;
pub mod queueing;

pub use design::Design;
pub use elimination::eliminate;
pub use interval::{Interval, Position, median, median_interval, range_interval};
pub use looks::Looks;
