//! What the load half tells the world while it runs: one enum, one sink.

use std::time::Duration;

/// Something that a progress display may want to show.
#[derive(Debug, Clone)]
pub enum Event<'a> {
    /// A phase of the current trial has begun.
    Phase {
        /// Its name.
        name: &'static str,
        /// How long it is meant to take, where that is known.
        expected: Option<Duration>,
    },
    /// The current trial goes on.
    Tick {
        /// Locks acquired so far.
        acquired: u64,
        /// How many there will be, where the scenario says so.
        of: Option<u64>,
    },
    /// Something that has happened and that a user who watches may like to know.
    Note(&'a str),
    /// Something the user should know; it is repeated at the end.
    Warning(&'a str),
}

/// Where events go.
pub type Sink<'a> = &'a (dyn Fn(Event<'_>) + Sync);
