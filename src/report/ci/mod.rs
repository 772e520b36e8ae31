//! What CI reads: one plain [`CiReport`] of what was checked and measured, and one file for each format that is written
//! from it. A format computes no figure of its own, and escapes what its syntax demands.

pub mod bencher;
pub mod benchmark_action;
mod document;
pub mod github;
pub mod junit;
mod live;
pub mod openmetrics;

pub use document::{CellFigures, Check, CheckKind, CiReport, Fact, Value, tracked};
pub use live::Live;
