//! Judging: pure functions of records.

mod evidence;
mod exclusion;
pub mod history;

pub use exclusion::{judge, least_evidence, of_run, zombies};
