//! Judging a history, event after event, in memory that does not grow with its length.
//!
//! Five questions: did the contenders exclude each other by what they believed (`occupancy`, `overlap`); by what
//! the ensemble saw (`order`); did the fenced resource keep old tokens out (`fencing`); did everybody get on
//! (`occupancy`); and does the history make sense at all (`contender`, `clocks`).

mod checker;
mod clocks;
mod contender;
mod fencing;
mod judgement;
mod occupancy;
mod order;
mod overlap;

pub use checker::Checker;
pub use judgement::{Breach, Finding, HistoryEnd, Judgement, LockReport, OrderReport, Overlaps, WriteReport};
