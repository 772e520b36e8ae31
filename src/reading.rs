//! The reading half, as a crate of its own.

pub use zklockbench_records::{record, results, scenario, words};

// Judging.
pub mod check;
// Reading.
pub mod answer;
// Showing.
pub mod report;
