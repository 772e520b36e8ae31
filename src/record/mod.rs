//! Everything that a run yields, as plain data: the bridge between measuring and reading.

mod health;
mod run;
mod trial;
mod violation;

pub use health::Health;
pub use run::{EnsembleInfo, HostInfo, Run, RunOutcome, ServerInfo};
pub use trial::{Accounting, Completeness, Phase, ServerCounters, Sessions, Tally, Trial};
pub use violation::{Holder, Violation};
