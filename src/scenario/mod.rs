//! The scenario file: text in, a plan or diagnostics out. Pure; knows nothing of ZooKeeper.

mod distribution;
mod model;

pub use distribution::Distribution;
pub use model::{EnsembleChoice, Load, Order, Scenario, Stop, StrategyChoice, TrialSpec};
