//! What has passed: bytes in both directions, and how far the client has seen the ensemble's order.

use std::io;
use std::ops::{Add, Sub};
use std::sync::Mutex;
use std::time::Duration;

use crate::words::locked::locked;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    ToServer,
    /// From the server to the client: replies and notifications.
    ToClient,
}

/// A reply that ends at that place of a piece of data, and the zxid in its header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// Bytes from the piece's beginning.
    pub end: usize,
    /// The last transaction that the server had applied.
    pub zxid: i64,
}

/// How often something was kept waiting, and for how long in all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waits {
    pub times: u32,
    pub lasted: Duration,
}

impl Waits {
    fn count(&mut self, lasted: Duration) {
        *self = *self + Self { times: 1, lasted };
    }

    /// How long each lasted on average; `None` where there was none.
    pub fn mean(&self) -> Option<Duration> {
        self.lasted.checked_div(self.times)
    }
}

impl Add for Waits {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let times = self.times.saturating_add(other.times);
        Self { times, lasted: self.lasted.saturating_add(other.lasted) }
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
    /// The highest zxid in a reply's header; 0 before the first.
    pub zxid: i64,
    /// What had been read and was kept back until all of it had gone.
    pub kept: Waits,
    /// What had come for a slow reader until it was read.
    pub unread: Waits,
}

impl Add for Passed {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            connections: self.connections + other.connections,
            to_server: self.to_server + other.to_server,
            to_client: self.to_client + other.to_client,
            zxid: self.zxid.max(other.zxid),
            kept: self.kept + other.kept,
            unread: self.unread + other.unread,
        }
    }
}

impl Passed {
    /// Counts a part of a piece that has passed: from its byte `from` on, so many.
    fn count(&mut self, direction: Direction, from: usize, bytes: usize, marks: &[Mark]) {
        match direction {
            Direction::ToServer => self.to_server += bytes as u64,
            Direction::ToClient => self.to_client += bytes as u64,
        }
        let passed = marks.iter().filter(|mark| mark.end > from && mark.end <= from + bytes);
        self.zxid = passed.map(|mark| mark.zxid).fold(self.zxid, i64::max);
    }
}

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

    /// Writes a piece of data from its byte `from` on and counts what went. A look meanwhile waits, so that
    /// nothing has arrived that is not counted.
    pub fn write(
        &self,
        direction: Direction,
        from: usize,
        marks: &[Mark],
        write: impl FnOnce() -> io::Result<usize>,
    ) -> io::Result<usize> {
        let mut passed = locked(&self.0);
        let written = write()?;
        passed.count(direction, from, written, marks);
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
        let mut own = locked(&self.0);
        *own = *own + other;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARKS: [Mark; 2] = [Mark { end: 20, zxid: 7 }, Mark { end: 40, zxid: 9 }];

    #[test]
    fn a_zxid_counts_when_the_last_byte_of_its_reply_has_passed() {
        let traffic = Traffic::default();
        let mut zxids = Vec::new();
        for (from, bytes) in [(0, 19), (19, 1), (20, 19), (39, 1)] {
            traffic.write(Direction::ToClient, from, &MARKS, || Ok(bytes)).unwrap();
            zxids.push(traffic.passed().zxid);
        }
        assert_eq!(zxids, [0, 7, 7, 9]);
        assert_eq!(traffic.passed().to_client, 40);
    }

    #[test]
    fn what_could_not_be_written_does_not_count() {
        let traffic = Traffic::default();
        let full = || Err(io::ErrorKind::WouldBlock.into());
        assert!(traffic.write(Direction::ToClient, 0, &MARKS, full).is_err());
        assert_eq!(traffic.passed(), Passed::default());
    }

    #[test]
    fn traffic_taken_over_is_counted_once_and_a_zxid_never_falls() {
        let (one, other) = (Traffic::default(), Traffic::default());
        one.write(Direction::ToClient, 0, &MARKS, || Ok(40)).unwrap();
        other.write(Direction::ToServer, 0, &[], || Ok(5)).unwrap();
        one.take_over(&other);
        one.take_over(&other);
        assert_eq!(one.passed(), Passed { to_server: 5, to_client: 40, zxid: 9, ..Passed::default() });
    }
}
