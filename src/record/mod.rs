//! Everything that a run yields, as plain data: the bridge between measuring and reading.

mod fault;
mod grant;
pub mod history;
mod overlap;
mod run;
mod trial;

pub use fault::{FaultRecord, FencingCounts, Stuck};
pub use grant::{CLOCKS_DIFFER_MS, Facts, Grant, Life, Lives};
pub use history::{Claim, Deed, Moment};
pub use overlap::{EnsembleOrder, Evidence, Excused, Holder, KeptOut, OverlapClass, Violation};
pub use run::{EnsembleInfo, HostInfo, Run, RunOutcome, ServerInfo};
pub use trial::{Accounting, Completeness, Health, Phase, ServerCounters, Sessions, Tally, Trial};
