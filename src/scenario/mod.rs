//! The scenario file: text in, a plan or diagnostics out. Pure; knows nothing of ZooKeeper.
//!
//! Uses: words.

mod advice;
mod arrivals;
mod catalog;
mod client_mix;
mod diagnostic;
mod distance;
mod distribution;
mod draft;
mod fault_rules;
mod faults;
pub mod fields;
pub mod gate;
mod gates;
mod keys;
mod model;
mod nearest;
mod offered;
mod open;
mod parse;
mod plan;
mod preview;
mod read;
mod reference;
mod rules;
pub mod schedule;
mod schema;
mod slice;
mod strategies;
mod syntax;
mod trace;
mod values;

pub use advice::{Advice, of as advice};
pub use arrivals::{Arrivals, Late, Open, Popularity, Replay, Step, TraceArrival};
pub use catalog::Catalog;
pub use diagnostic::{Diagnostic, Diagnostics, MachineDiagnostic, Position, Severity, Written};
pub use distance::{DISTANCE_NOTE, distance, each_way};
pub use distribution::{Distribution, MeasuredTimes};
pub use model::{
    ClientKind, DriverProcesses, EnsembleChoice, InDoubt, Load, Order, Precision, RateOf, Scenario, Settling,
    Stop, StrategyChoice, TrialSpec,
};
pub use nearest::nearest;
pub use open::ReadTrace;
pub use parse::{Parsed, decode, parse, parse_with_traces};
pub use plan::{BASIS as ESTIMATE_BASIS, TrialPlan, again};
pub use preview::{FaultPreview, GatePreview, OfferedPreview, PrecisionPreview, Preview, TrialPreview};
pub use reference::reference;
pub use schema::schema;
pub use slice::Slice;
pub use trace::{TraceBuilder, trace_from_csv};
pub use values::default_value;
