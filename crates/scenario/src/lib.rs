//! Parses scenario files into plans of trials or into diagnostics, without I/O and independently of
//! ZooKeeper.

mod advice;
mod arrivals;
mod columns;
mod diagnostic;
mod distribution;
mod document;
mod fault_rules;
mod faults;
pub mod fields;
mod file;
pub mod gate;
mod holds;
mod model;
mod parse;
mod plan;
mod preview;
mod read;
mod rules;
pub mod schedule;
mod schema;
mod shapes;
mod shares;
mod strategies;
mod trace;
mod value;

pub use advice::{Advice, of as advice};
pub use arrivals::{Arrivals, Late, Open, Popularity, Replay, Step, TraceArrival};
pub use columns::{Columns, TimeUnit, foreign};
pub use diagnostic::{
    Diagnostic, Diagnostics, MachineDiagnostic, Position, Severity, Written, did_you_mean, nearest,
};
pub use distribution::{Distribution, MeasuredTimes};
pub use document::Catalog;
pub use holds::holds_from_text;
pub use model::{
    ClientKind, DISTANCE_NOTE, DriverProcesses, EnsembleChoice, InDoubt, Load, OnLost, Order, Precision,
    RateOf, Scenario, Settling, Stop, StrategyChoice, TrialSpec, distance, each_way,
};
pub use parse::{Parsed, decode, parse, parse_with_traces};
pub use plan::{BASIS as ESTIMATE_BASIS, TrialPlan, again};
pub use preview::{FaultPreview, GatePreview, OfferedPreview, PrecisionPreview, Preview, TrialPreview};
pub use schedule::Slice;
pub use schema::schema;
pub use shapes::ReadTrace;
pub use shares::Shares;
pub use trace::{Trace, TraceBuilder, trace_from_csv};
pub use value::default_value;
