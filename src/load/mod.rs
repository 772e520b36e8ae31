//! Doing: contenders on generator threads, the load models, the phases of a trial.
//!
//! Uses: words, scenario, world, lock, record.

mod accounting;
mod arrivals;
mod attribution;
mod batch;
mod breaking;
pub mod calibrate;
mod contender;
mod control;
mod counting;
mod driven;
mod drivers;
mod elections;
mod environment;
mod fence;
mod gaps;
mod health;
mod job;
mod keeper;
mod lock_state;
mod missing;
mod observation;
mod pace;
mod progress;
mod recorder;
mod rendezvous;
mod series;
mod shared;
mod standstill;
mod trial;
mod worker;
mod workspace;

pub use counting::count;
pub use environment::{Environment, EnvironmentEvent, Sink};
pub use job::{Job, PublishedRun};
pub use rendezvous::{Credentials, MeetingError, MeetingPlace, Rendezvous, Wait};
pub use shared::kind_of;
pub use trial::run_trial;
pub use workspace::{Alive, Leftover, SignOfLife, TOP, Workspace, leftovers, make_chroot, remove};

use crate::lock;
use crate::record::figures;
use crate::scenario::Catalog;
use crate::world::fault;

/// All that a scenario may name, from the registries.
pub fn catalog() -> Catalog {
    let (locks, faults, figures) = (lock::cards(), fault::cards(), figures::cards());
    Catalog { locks, faults, figures, has_host_commands: false }
}
