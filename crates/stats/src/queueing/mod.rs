//! Locks as servers: a simulation that draws from measured times.
//!
//! A lock serves one client at a time; a service is the hold and the handoff to the next in line. A lock that no client
//! waits for is entered by an uncontended acquire instead, which takes another time. Times are microseconds.

mod measured;
mod simulator;

pub use measured::{Empirical, Pace, STEP_US};
pub use simulator::{
    AlikeClients, Arrival, Closed, Handoff, Locks, Open, Order, SimulationOutcome, closed, open,
};
