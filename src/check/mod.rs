//! Judging: pure functions of records.

mod evidence;
mod exclusion;
pub mod history;

pub use exclusion::{exclusion, least_evidence, of_run};
