//! Judging: pure functions of records.
//!
//! Uses: words, record.

mod across;
mod ensemble_order;
mod evidence;
mod exclusion;
mod hazard;
pub mod history;
mod inside;
mod overlaps;

pub use across::add_order;
pub use exclusion::{judge, least_evidence, of_run, zombies};
pub use hazard::standing_still;
