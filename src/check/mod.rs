//! Judging: pure functions of records.

mod exclusion;
pub mod history;

pub use exclusion::{exclusion, of_run};
