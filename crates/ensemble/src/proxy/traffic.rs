//! Traffic: bytes in both directions, and how long they had to wait.

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

/// Number of waits and their total duration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waits {
    pub times: u32,
    pub lasted: Duration,
}

impl Waits {
    fn count(&mut self, lasted: Duration) {
        *self += Self { times: 1, lasted };
    }

    /// Mean duration; `None` if there was no wait.
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

/// Traffic of one session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Passed {
    /// Connections, closed ones included.
    pub connections: u64,
    /// Bytes of requests.
    pub to_server: u64,
    /// Bytes of replies and notifications.
    pub to_client: u64,
    /// Waits of data in the proxy, from the read until all had gone.
    pub kept: Waits,
    /// Waits of incoming data until a slow reader read them.
    pub unread: Waits,
}

added_up!(Passed { connections, to_server, to_client, kept, unread });

/// Traffic of one session, or of one connection until its session is known.
#[derive(Debug, Default)]
pub struct Traffic(Mutex<Passed>);

impl Traffic {
    /// Traffic of a new connection.
    pub fn of_connection() -> Self {
        Self(Mutex::new(Passed { connections: 1, ..Passed::default() }))
    }

    /// Traffic so far, including everything that a client has received.
    pub fn passed(&self) -> Passed {
        *locked(&self.0)
    }

    /// Writes data and counts the written bytes. Readers of the count wait meanwhile, so no arrived byte is
    /// uncounted.
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

    /// Counts data that were held back for this long and have gone.
    pub fn kept(&self, lasted: Duration) {
        locked(&self.0).kept.count(lasted);
    }

    /// Counts data that were read this long after they had come.
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
    fn failed_write_does_not_count() {
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
