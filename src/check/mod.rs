//! Judging: pure functions of records.
//!
//! Uses: words, record.

mod ensemble_order;
mod evidence;
mod exclusion;
pub mod history;
mod inside;
mod overlaps;

pub use exclusion::{add_order, judge, least_evidence, of_run, standing_still, zombies};
