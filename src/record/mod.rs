//! Everything that a run yields, as plain data: the bridge between measuring and reading.

mod fault;
pub mod history;
mod overlap;
mod run;
mod trial;

pub use fault::{FaultRecord, FencingCounts, Stuck};
pub use history::{Deed, Moment};
pub use overlap::{EnsembleOrder, Evidence, Excused, Holder, OverlapClass, Violation};
pub use run::{EnsembleInfo, HostInfo, Run, RunOutcome, ServerInfo};
pub use trial::{Accounting, Completeness, Health, Phase, ServerCounters, Sessions, Tally, Trial};
