//! Everything that a run yields, as plain data: the bridge between measuring and reading.
//!
//! Uses: words, scenario.

mod accounting;
mod arrived;
mod behaviour;
mod beside;
mod calibration;
mod cell;
mod counting;
mod derived;
mod dispersion;
mod driver;
mod fault;
mod figure;
pub mod figures;
mod floor;
mod grant;
pub mod history;
mod judged;
mod moments;
mod overlap;
mod part;
mod run;
mod sent;
mod steady;
mod together;
mod trial;
mod workers;

pub use accounting::{ServersCount, compare as compare_counts};
pub use arrived::Arrived;
pub use behaviour::{
    Behaviour, Bystander, Change, Left, NodeSize, Numbers, OneShot, Raced, UpdateOrder, WatchCell, WatchedBy,
};
pub use beside::Beside;
pub use calibration::{
    Calibration, PairFigures, RawRequest, RequestFigures, Saturation, ServerFigures, synced_writes_per_s,
};
pub use cell::CellKey;
pub use counting::{CountedTurns, Counting, Disagreement};
pub use derived::Derived;
pub use dispersion::Dispersion;
pub use driver::{DriverRecord, EchoTimes};
pub use fault::{ArrivalWaits, Bound, Disturbance, FaultRecord, FencingCounts, Stuck};
pub use figure::{Missing, Reading, usual_samples};
pub use figures::{FigureChart, FigureColumn, FigureEntry, TURNS_FOR_FAIRNESS};
pub use floor::{Floor, Timing};
pub use grant::{CLOCKS_DIFFER_MS, Facts, Grant, Grants, Life, Lives};
pub use history::{Deed, LockClaim, Moment};
pub use judged::{Judged, Parts};
pub use moments::{EnteredAsOf, Moments, Noted};
pub use overlap::{EnsembleOrder, Evidence, Excused, Holder, KeptOut, OverlapClass, Violation};
pub use part::{Occurrences, Part};
pub use run::{
    EnsembleInfo, HostInfo, Precision, Replayed, Run, RunEnding, RunOutcome, Segment, ServerInfo, Widest,
};
pub use steady::{Steady, WarmUpEnd};
pub use together::{Doubt, Hold, Occupant, Overlap, Overlaps};
pub use trial::{
    Accounting, Cause, Counted, CutShort, Election, FullCrew, Health, Phase, ServerCounters, Sessions,
    Standstill, Tally, Trial, Utilisation,
};

pub use workers::{WorkerPart, Workers, of_different_trials};

/// The figures that records are read for.
pub use crate::words::measure::{Better, Figure, Statistic, Unit};
