//! Rank-based intervals for a metric, or for the ratio between two samples of a metric.
//!
//! Each repetition is one value. No distribution is assumed, because disturbances of a benchmark are rarely
//! normally distributed and repetitions are few. A [`Design`] determines how values are paired, and computes
//! an [`Interval`] with exact coverage. [`Interval::against`] is the rule behind every verdict. Error
//! probabilities are divided among comparisons, and among the [`Looks`] at a growing sample (Bonferroni).

mod design;
mod interval;
mod looks;
pub mod queueing;

pub use design::Design;
pub use interval::{Interval, Position, median, median_interval, range_interval};
pub use looks::Looks;
