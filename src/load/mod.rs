//! Doing: contenders on generator threads, the load models, the phases of a trial.

mod accounting;
mod assemble;
mod attribution;
mod batch;
mod books;
mod contender;
mod desk;
mod event;
mod health;
mod leftovers;
mod pace;
mod scene;
mod servers;
mod shared;
mod standstill;
mod trial;
mod worker;
mod workspace;

pub use event::{Event, Sink};
pub use leftovers::{Leftover, leftovers, remove};
pub use trial::{Environment, LOST, run_trial};
pub use workspace::{TOP, Workspace};
