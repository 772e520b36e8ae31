//! Drivers: programs of others that take locks for contenders, by a protocol over their standard streams.

mod child;
mod past_turns;
mod process;
pub mod processes;
pub mod protocol;

pub use child::{DriverChild, DriverCommand, LastLines};
pub use past_turns::Behind;
pub use process::{DriverError, Mishap, Process, READY_WITHIN, TurnAsked};
pub use processes::{
    AcquireWanted, Granted, HELD_BACK, Link, NotGranted, PastHold, PipeEchoes, Processes, Wanted,
};
