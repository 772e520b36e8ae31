//! Drivers: programs of others that take locks for contenders, by a protocol over their standard streams.

mod child;
mod process;
pub mod processes;
pub mod protocol;

pub use child::{DriverChild, DriverCommand, LastLines};
pub use process::{DriverError, Mishap, Process, READY_WITHIN};
pub use processes::{AcquireWanted, Granted, Link, NotGranted, PastHold, PipeEchoes, Processes, Wanted};
