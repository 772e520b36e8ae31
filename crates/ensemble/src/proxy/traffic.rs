//! Traffic: bytes in both directions, and how long data waited in the proxy.

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

    /// Returns the mean duration; `None` if there was no wait.
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

/// Data passed on in one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Passage {
    pub bytes: u64,
    /// How long data waited in the proxy, from the read to the last write.
    pub kept: Waits,
}

added_up!(Passage { bytes, kept });

/// Total traffic of one or several clients.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Passed {
    /// Number of connections, including closed ones.
    pub connections: u64,
    pub to_server: Passage,
    pub to_client: Passage,
}

added_up!(Passed { connections, to_server, to_client });

impl Passed {
    fn way(&mut self, direction: Direction) -> &mut Passage {
        match direction {
            Direction::ToServer => &mut self.to_server,
            Direction::ToClient => &mut self.to_client,
        }
    }
}

/// Traffic counter of one client.
#[derive(Debug, Default)]
pub struct Traffic(Mutex<Passed>);

impl Traffic {
    pub fn connected(&self) {
        locked(&self.0).connections += 1;
    }

    /// Returns the traffic so far, including everything that a client has received.
    pub fn passed(&self) -> Passed {
        *locked(&self.0)
    }

    /// Writes data and counts the bytes under one lock, so that a byte is counted by the time it is received.
    pub fn write(
        &self,
        direction: Direction,
        write: impl FnOnce() -> io::Result<usize>,
    ) -> io::Result<usize> {
        let mut passed = locked(&self.0);
        let written = write()?;
        passed.way(direction).bytes += written as u64;
        Ok(written)
    }

    /// Counts data that was held back for this long before it was sent.
    pub fn kept(&self, direction: Direction, lasted: Duration) {
        locked(&self.0).way(direction).kept.count(lasted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_write_is_not_counted() {
        let traffic = Traffic::default();
        let full = || Err(io::ErrorKind::WouldBlock.into());
        assert!(traffic.write(Direction::ToClient, full).is_err());
        assert_eq!(traffic.passed(), Passed::default());
    }
}
