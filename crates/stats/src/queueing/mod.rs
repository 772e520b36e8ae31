//! Locks as servers: a simulation that draws from measured times.
//!
//! A lock serves one client at a time; a service is the hold and the handoff to the next waiter. A lock without waiters is
//! entered by an uncontended acquire instead, which takes a different time. Times are in microseconds.

mod measured;
mod simulator;

pub use measured::{Empirical, Pace, STEP_US};
pub use simulator::{
    AlikeClients, Arrival, Closed, Handoff, Locks, Open, Order, SimulationOutcome, closed, open,
};
