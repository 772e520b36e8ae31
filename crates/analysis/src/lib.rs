//! Analyses stored results: comparisons, gates, capacity limits, predictions and the articles' claims.

pub mod ab;
pub mod articles;
pub mod compare;
pub mod gate;
pub mod model;
pub mod objective;
pub mod plan;
pub mod sweep;
