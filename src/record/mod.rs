//! Everything that a run yields, as plain data: the bridge between measuring and reading.

mod derived;
mod fault;
pub mod history;
mod judged;
mod overlap;
mod run;
mod trial;

pub use derived::{Derived, TURNS_FOR_FAIRNESS};
pub use fault::{FaultRecord, FencingCounts, Stuck};
pub use history::{Deed, Moment};
pub use judged::{Judged, Parts};
pub use overlap::{EnsembleOrder, Evidence, Excused, Holder, OverlapClass, Violation};
pub use run::{EnsembleInfo, HostInfo, Run, RunEnding, RunOutcome, ServerInfo};
pub use trial::{
    Accounting, Cause, Counted, CutShort, FullCrew, Health, Phase, ServerCounters, Sessions, Standstill,
    Tally, Trial,
};
