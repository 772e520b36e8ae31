//! The results of a run as plain data, shared by the crates that measure and the crates that analyse.

mod accounting;
mod calibration;
mod course;
mod facts;
mod fault;
mod figure;
pub mod figures;
mod floor;
pub mod history;
mod holds;
mod judged;
mod run;
mod timeline;
mod trial;
mod workers;

pub use accounting::{
    Accounting, Beside, Counted, CountedTurns, Counting, Disagreement, ServerCounters, compare_counts,
};
pub use calibration::{
    Calibration, PairFigures, RawRequest, RequestFigures, Saturation, ServerFigures, synced_writes_per_s,
};
pub use course::{Arrived, Dispersion, Steady, WarmUpEnd};
pub use facts::{EnteredAsOf, Facts, Hold, Noted, Traced};
pub use fault::{ArrivalWaits, Bound, Disturbance, FaultRecord, FencingCounts, Stuck};
pub use figure::{CellKey, Missing, Reading, is_counted_on_the_wire, measured_in, usual_samples};
pub use figures::{Derived, FigureChart, FigureColumn, FigureEntry, TURNS_FOR_FAIRNESS};
pub use floor::{Floor, Timing};
pub use history::{Deed, LockClaim, Moment};
pub use holds::{LimitedHolds, LostHold, LostHolds};
pub use judged::{
    CLOCKS_DIFFER_MS, EnsembleOrder, Evidence, Excused, Holder, Judged, KeptOut, Life, Lives, Parts,
    ShortHolds, Violation,
};
pub use run::{
    EnsembleInfo, HostInfo, LIMITED, OTHERS, Precision, Replayed, Run, RunEnding, RunOutcome, Segment,
    ServerInfo, UNCOUNTED, WITHOUT_LOGS, Widest,
};
pub use timeline::{StepKind, Timeline, TimelineStep};
pub use trial::{
    Cause, CutShort, DriverRecord, EchoTimes, Election, FullCrew, Health, Phase, Sessions, Standstill, Tally,
    Trial, Utilisation,
};
pub use workers::{Occurrences, Part, WorkerPart, Workers, of_different_trials};

/// Types of metrics.
pub use zklockbench_core::measure::{Better, Figure, Statistic, Unit};
