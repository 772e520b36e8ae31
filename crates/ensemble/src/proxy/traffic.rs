//! What has passed: bytes in both directions, and how long it was kept waiting.

use std::io;
use std::ops::{AddAssign, Sub};
use std::sync::Mutex;
use std::time::Duration;

use zklockbench_core::locked::locked;
use zklockbench_core::measure::added_up;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    ToServer,
    /// From the server to the client: replies and notifications.
    ToClient,
}

/// How often something was kept waiting, and for how long in all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waits {
    pub times: u32,
    pub lasted: Duration,
}

impl Waits {
    fn count(&mut self, lasted: Duration) {
        *self += Self { times: 1, lasted };
    }

    /// How long each lasted on average; `None` where there was none.
    pub fn mean(&self) -> Option<Duration> {
        self.lasted.checked_div(self.times)
    }
}

impl AddAssign for Waits {
    fn add_assign(&mut self, other: Self) {
        self.times = self.times.saturating_add(other.times);
        self.lasted = self.lasted.saturating_add(other.lasted);
    }
}

impl Sub for Waits {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        let times = self.times.saturating_sub(earlier.times);
        Self { times, lasted: self.lasted.saturating_sub(earlier.lasted) }
    }
}

/// What has passed on the connections of one session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Passed {
    /// The connections, those that are gone among them.
    pub connections: u64,
    /// Bytes of requests.
    pub to_server: u64,
    /// Bytes of replies and notifications.
    pub to_client: u64,
    /// What had been read and was kept back until all of it had gone.
    pub kept: Waits,
    /// What had come for a slow reader until it was read.
    pub unread: Waits,
}

added_up!(Passed { connections, to_server, to_client, kept, unread });

/// What has passed for one session; for one connection until its session is known.
#[derive(Debug, Default)]
pub struct Traffic(Mutex<Passed>);

impl Traffic {
    /// That of one more connection, on which nothing has passed yet.
    pub fn of_connection() -> Self {
        Self(Mutex::new(Passed { connections: 1, ..Passed::default() }))
    }

    /// What has passed so far. What a client has received is in it.
    pub fn passed(&self) -> Passed {
        *locked(&self.0)
    }

    /// Writes a piece of data and counts what went. A look meanwhile waits, so that nothing has arrived that is not counted.
    pub fn write(
        &self,
        direction: Direction,
        write: impl FnOnce() -> io::Result<usize>,
    ) -> io::Result<usize> {
        let mut passed = locked(&self.0);
        let written = write()?;
        match direction {
            Direction::ToServer => passed.to_server += written as u64,
            Direction::ToClient => passed.to_client += written as u64,
        }
        Ok(written)
    }

    /// Counts a piece of data that was kept back for so long, and has gone.
    pub fn kept(&self, lasted: Duration) {
        locked(&self.0).kept.count(lasted);
    }

    /// Counts a piece of data that was read so long after it had come.
    pub fn unread(&self, lasted: Duration) {
        locked(&self.0).unread.count(lasted);
    }

    pub fn take_over(&self, other: &Self) {
        let other = std::mem::take(&mut *locked(&other.0));
        *locked(&self.0) += other;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_not_be_written_does_not_count() {
        let traffic = Traffic::default();
        let full = || Err(io::ErrorKind::WouldBlock.into());
        assert!(traffic.write(Direction::ToClient, full).is_err());
        assert_eq!(traffic.passed(), Passed::default());
    }

    #[test]
    fn traffic_taken_over_is_counted_once() {
        let (one, other) = (Traffic::default(), Traffic::default());
        one.write(Direction::ToClient, || Ok(40)).unwrap();
        other.write(Direction::ToServer, || Ok(5)).unwrap();
        one.take_over(&other);
        one.take_over(&other);
        assert_eq!(one.passed(), Passed { to_server: 5, to_client: 40, ..Passed::default() });
    }
}
