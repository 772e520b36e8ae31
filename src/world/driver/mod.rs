//! Drivers: programs of others that take locks for contenders, by a protocol over their standard streams.

mod process;
pub mod processes;
pub mod protocol;

pub use process::{DriverCommand, DriverError, Mishap, Process};
pub use processes::{Link, NotGranted, Processes, Wanted};
