//! What CI reads: one plain [`CiReport`] of what was checked and measured, and one file for each format that is written
//! from it. A format computes no figure of its own, and escapes what its syntax demands.

mod document;
pub mod github;
pub mod junit;
mod live;
pub mod openmetrics;
pub mod trackers;

pub use document::{CellFigures, Check, CheckKind, CiReport, RunFact, TrackedValue, tracked};
pub use live::Live;
