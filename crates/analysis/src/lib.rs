//! Analysis of stored results: comparisons, gates, capacity limits, load predictions and the claims of articles, with the
//! statistics and queueing models beneath them.

pub mod ab;
pub mod articles;
pub mod compare;
pub mod gate;
pub mod model;
pub mod objective;
pub mod plan;
pub mod sweep;
