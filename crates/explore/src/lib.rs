//! Exploration of a lock, message by message: contenders run against a real server through a network that delivers one message
//! at a time, so that each message can be lost, delayed or cut, and requests can come in every order.
//!
//! The result shows an operator how the lock behaved, and a maintainer the shortest schedule that breaks it.

mod candidates;
mod cast;
mod habits;
mod judged;
mod moves;
mod names;
mod net;
mod outcome;
mod play;
mod pool;
mod schedule;
mod search;
mod stage;
mod stale;
mod wire;
mod world;

pub use cast::Lock;
pub use names::contender_name;
pub use outcome::{Fault, Outcome};
pub use play::RELEASES;
pub use pool::Site;
pub use schedule::{Act, Decision, Move, Schedule, TraceStep};
pub use search::{Explored, Finding, Scope, Seen, Tally, class_names, explore, replay};
pub use stale::{Held, Servers};
