//! Judging a history, event after event, in memory that does not grow with its length.
//!
//! Five questions: did the contenders exclude each other by what they believed (`occupancy`, `overlap`); by what
//! the ensemble saw (`order`); did the fenced resource keep old tokens out (`fencing`); did everybody get on
//! (`progress`); and does the history make sense at all (`turn`, `clocks`).

mod checker;
mod clocks;
mod conclude;
mod contender;
mod fencing;
mod judgement;
mod lock;
mod occupancy;
mod order;
mod overlap;
mod progress;
mod sessions;
mod turn;
mod verdict;

pub use checker::{Checker, HistoryEnd};
pub use judgement::{Breach, Finding, Judgement, LockReport, OrderReport, Overlaps, WriteReport};
