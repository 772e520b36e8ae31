//! Shared vocabulary of all crates: units, clock, measures, catalog cards, verdicts, errors, file access and
//! mutexes.

pub mod catalog;
pub mod clock;
pub mod connect;
pub mod disk;
pub mod error;
pub mod evidence;
pub mod jute;
pub mod locked;
pub mod measure;
pub mod ring;
pub mod spool;
pub mod txn;
pub mod units;
pub mod verdict;
mod worded;
