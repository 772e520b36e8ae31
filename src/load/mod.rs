//! Doing: contenders on generator threads, the load models, the phases of a trial.

mod accounting;
mod assemble;
mod attribution;
mod batch;
mod books;
mod breaking;
mod connection;
mod contender;
mod desk;
mod elections;
mod ensemble_order;
mod environment;
mod event;
mod fence;
mod gaps;
mod health;
mod knobs;
mod leftovers;
mod orphans;
mod overlaps;
mod pace;
mod progress;
mod scene;
mod servers;
mod shared;
mod standstill;
mod trial;
mod worker;
mod workspace;

pub use environment::Environment;
pub use event::{Event, Sink};
pub use leftovers::{Leftover, leftovers, remove};
pub use trial::{LOST, run_trial};
pub use workspace::{TOP, Workspace};
