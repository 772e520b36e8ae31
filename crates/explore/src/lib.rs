//! Message-by-message exploration of a lock. Contenders run against a real server through a network that delivers one
//! message at a time, so each message can be lost or delayed, and requests can be delivered in any order.
//!
//! Operators see how the lock behaved; maintainers get the shortest schedule that breaks it.

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
