//! Judging: pure functions of records.

mod exclusion;

pub use exclusion::{exclusion, of_run};
