//! Rank tests: was one sample of repetitions really larger than another, by which ratio, and how sure is that?
//!
//! A repetition is one number; nothing is assumed of how such numbers are distributed, because what disturbs a benchmark
//! is rarely normal and repetitions are few. Two samples that have nothing to do with each other are compared by
//! [`MannWhitney`], pairs that were measured side by side by [`SignedRank`]. Both are exact as long as counting every
//! outcome is possible, both give a [`RatioEstimate`], and [`holm`] corrects for how many were made. Whole runs are fewer
//! than ranks take: their medians are compared by [`StudentRatio`].
//!
//! The crates that were looked at do not have this: the exact Mann–Whitney test of `statrs` 0.19.1 is wrong when the first
//! sample isn't the longer one and refuses ties, and none has the signed ranks or the Hodges–Lehmann interval.

mod elimination;
mod estimate;
mod holm;
mod looks;
mod mann_whitney;
pub mod queueing;
mod ranks;
mod signed_rank;
mod student;

pub use elimination::eliminate;
pub use estimate::{Interval, RatioEstimate, median, median_interval};
pub use holm::holm;
pub use looks::Looks;
pub use mann_whitney::MannWhitney;
pub use signed_rank::{Pair, SignedRank};
pub use student::{Logs, StudentRatio};
