//! Simulates locks as queueing servers with measured times.
//!
//! A lock serves one client at a time; its service time is the hold plus the handoff to the next waiter.
//! Acquiring an idle lock takes the uncontended time instead. Times are in microseconds.

mod measured;
mod simulator;

pub use measured::{Empirical, Pace, STEP_US};
pub use simulator::{
    AlikeClients, Arrival, Closed, Handoff, Locks, Open, Order, SimulationOutcome, closed, open,
};
