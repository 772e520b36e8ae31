//! When something happened, by whose clock, and which line says so.

use crate::record::history::Place;

/// An event's time and line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Microseconds of its clock.
    pub t_us: u64,
    /// Its line.
    pub place: Place,
    /// The clock's number.
    pub clock: usize,
}
