//! Everything that a run yields, as plain data: the bridge between measuring and reading.
//!
//! Uses: words, scenario.

mod accounting;
mod arrivals;
mod behaviour;
mod beside;
mod calibration;
mod counting;
mod driver;
mod fault;
mod figure;
pub mod figures;
mod floor;
mod grant;
pub mod history;
mod judged;
mod overlap;
mod part;
mod run;
mod steady;
mod trial;
mod workers;

pub use accounting::{ServersCount, compare as compare_counts};
pub use arrivals::{Arrived, Dispersion};
pub use behaviour::{
    Behaviour, Bystander, Change, Left, NodeSize, Numbers, OneShot, Raced, UpdateOrder, WatchCell, WatchedBy,
};
pub use beside::Beside;
pub use calibration::{
    Calibration, PairFigures, RawRequest, RequestFigures, Saturation, ServerFigures, synced_writes_per_s,
};
pub use counting::{CountedTurns, Counting, Disagreement};
pub use driver::{DriverRecord, EchoTimes};
pub use fault::{ArrivalWaits, Bound, Disturbance, FaultRecord, FencingCounts, Stuck};
pub use figure::{CellKey, Missing, Reading, usual_samples};
pub use figures::{Derived, FigureChart, FigureColumn, FigureEntry, TURNS_FOR_FAIRNESS};
pub use floor::{Floor, Timing};
pub use grant::{CLOCKS_DIFFER_MS, EnteredAsOf, Facts, Grant, Grants, Life, Lives, Moments, Noted};
pub use history::{Deed, LockClaim, Moment};
pub use judged::{Judged, Parts};
pub use overlap::{
    Doubt, EnsembleOrder, Evidence, Excused, Hold, Holder, KeptOut, Occupant, Overlap, OverlapClass,
    Overlaps, Violation,
};
pub use part::{Occurrences, Part};
pub use run::{
    EnsembleInfo, HostInfo, Precision, Replayed, Run, RunEnding, RunOutcome, Segment, ServerInfo, Widest,
};
pub use steady::{Steady, WarmUpEnd};
pub use trial::{
    Accounting, Cause, Counted, CutShort, Election, FullCrew, Health, Phase, ServerCounters, Sessions,
    Standstill, Tally, Trial, Utilisation,
};

pub use workers::{WorkerPart, Workers, of_different_trials};

/// The figures that records are read for.
pub use crate::words::measure::{Better, Figure, Statistic, Unit};
