//! The scenario file: text in, a plan or diagnostics out. Pure; knows nothing of ZooKeeper.

mod advice;
mod arrivals;
mod diagnostic;
mod distribution;
mod draft;
mod fault_rules;
pub mod fields;
pub mod gate;
mod keys;
mod model;
mod parse;
mod plan;
mod preview;
mod read;
mod reference;
mod rules;
pub mod schedule;
mod schema;
mod strategies;
mod trace;
mod values;

pub use advice::{Advice, of as advice};
pub use arrivals::{Arrivals, Late, Open, Popularity, Replay, Step, TraceArrival};
pub use diagnostic::{
    Diagnostic, Diagnostics, MachineDiagnostic, Position, Severity, Written, did_you_mean, nearest,
};
pub use distribution::{Distribution, MeasuredTimes};
pub use draft::Catalog;
pub use model::{
    ClientKind, DISTANCE_NOTE, DriverProcesses, EnsembleChoice, InDoubt, Load, Order, Precision, RateOf,
    Scenario, Settling, Stop, StrategyChoice, TrialSpec, distance, each_way,
};
pub use parse::{Parsed, decode, parse, parse_with_traces};
pub use plan::{BASIS as ESTIMATE_BASIS, TrialPlan, again};
pub use preview::{FaultPreview, GatePreview, OfferedPreview, PrecisionPreview, Preview, TrialPreview};
pub use reference::reference;
pub use schedule::Slice;
pub use schema::schema;
pub use trace::{TraceBuilder, trace_from_csv};
pub use values::{ReadTrace, default_value};
