//! Everything that a run yields, as plain data: the bridge between measuring and reading.

mod fault;
mod fencing;
mod health;
pub mod history;
mod moment;
mod overlap;
mod run;
mod trial;
mod violation;

pub use fault::{FaultRecord, Stuck};
pub use fencing::FencingCounts;
pub use health::Health;
pub use moment::{Deed, Moment};
pub use overlap::{EnsembleOrder, Excused, OverlapClass};
pub use run::{EnsembleInfo, HostInfo, Run, RunOutcome, ServerInfo};
pub use trial::{Accounting, Completeness, Phase, ServerCounters, Sessions, Tally, Trial};
pub use violation::{Holder, Violation};
