//! The scenario file: text in, a plan or diagnostics out. Pure; knows nothing of ZooKeeper.

mod advice;
mod diagnostic;
mod distribution;
mod draft;
mod estimate;
pub mod fields;
mod keys;
mod model;
mod nearest;
mod parse;
mod plan;
mod preview;
mod read;
mod reference;
mod rules;
mod schema;
mod strategies;
mod syntax;
mod values;

pub use advice::{Advice, of as advice};
pub use diagnostic::{Diagnostic, Diagnostics, MachineDiagnostic, Position, Severity};
pub use distribution::Distribution;
pub use estimate::BASIS as ESTIMATE_BASIS;
pub use model::{EnsembleChoice, Load, Order, Scenario, Stop, StrategyChoice, TrialSpec};
pub use nearest::nearest;
pub use parse::{Parsed, parse};
pub use plan::Plan;
pub use preview::{Preview, TrialPreview};
pub use reference::reference;
pub use schema::schema;
pub use strategies::default_value;
