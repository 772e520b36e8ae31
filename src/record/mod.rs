//! Everything that a run yields, as plain data: the bridge between measuring and reading.

mod derived;
mod fault;
mod grant;
pub mod history;
mod judged;
mod overlap;
mod run;
mod together;
mod trial;

pub use derived::{Derived, TURNS_FOR_FAIRNESS};
pub use fault::{FaultRecord, FencingCounts, Stuck};
pub use grant::{CLOCKS_DIFFER_MS, Facts, Grant, Life, Lives};
pub use history::{Claim, Deed, Moment};
pub use judged::{Judged, Parts};
pub use overlap::{EnsembleOrder, Evidence, Excused, Holder, KeptOut, OverlapClass, Violation};
pub use run::{EnsembleInfo, HostInfo, Precision, Run, RunEnding, RunOutcome, ServerInfo, Widest};
pub use together::{Doubt, Hold, Occupant, Overlap, Overlaps};
pub use trial::{
    Accounting, Cause, Counted, CutShort, Election, FullCrew, Health, Phase, ServerCounters, Sessions,
    Standstill, Tally, Trial,
};
