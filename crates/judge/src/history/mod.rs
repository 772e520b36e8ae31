//! Judges a history event by event, in memory that does not grow with its length.
//!
//! There are five checks:
//! - exclusion according to the contenders (`occupancy`, `overlap`)
//! - exclusion according to the ensemble (`order`)
//! - fencing of old tokens (`fencing`)
//! - progress of every contender (`occupancy`)
//! - consistency of the history itself (`contender`, `clocks`)

mod checker;
mod clocks;
mod contender;
mod fencing;
mod judgement;
mod occupancy;
mod order;
mod overlap;

pub use checker::Checker;
pub(super) use judgement::unless_interfered;
pub use judgement::{
    Breach, Finding, FoundViolation, HistoryEnd, Judgement, LockReport, OrderReport, Overlaps, WriteReport,
};
pub(super) use order::{Grant as OrderGrant, LockHolds};
