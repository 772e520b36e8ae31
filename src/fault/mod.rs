//! What goes wrong on purpose: one kind a file, each with its card and how it is done.
//!
//! A new one is a file and a line in `registry`.

mod active;
mod aim;
mod amends;
mod bandwidth;
mod burst;
mod clock_jump;
mod crash;
mod delay;
mod door;
mod drop_reply;
mod drop_request;
mod entry;
mod expire;
mod freeze;
mod isolate;
mod kill;
mod lose_majority;
mod lost_message;
mod outage;
mod partition;
mod pause;
mod reference;
mod refuse;
mod registry;
mod reset;
mod restart;
mod rolling_restart;
mod schedule;
mod seen;
mod site;
mod slow_consumer;
mod stall;
mod wipe;
mod wire;

pub use active::Active;
pub use door::Door;
pub use entry::Entry;
pub use reference::reference;
pub use registry::{FAULTS, cards, find};
pub use schedule::{Fired, News, Schedule, run};
pub use site::{Contenders, Doing, Site};
