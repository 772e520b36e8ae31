//! Two inside one lock at once, as the contenders of a trial saw it, and what was the matter with their holds. What it
//! means is for the judge.

use std::collections::HashMap;

use crate::words::clock::Stamp;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Occupant {
    pub contender: usize,
    pub sequence: Option<i64>,
    pub czxid: Option<i64>,
    pub entered: Stamp,
}

/// A contender entered while another was inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overlap {
    pub lock: usize,
    pub inside: Occupant,
    pub entered: Occupant,
    pub at: Stamp,
}

/// Why it is doubtful whether a hold was one to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doubt {
    Expired,
    /// The session had lost its connection, for the first time in the hold at that time.
    Suspended(Stamp),
    /// The release may or may not have happened.
    Unknown,
}

/// A hold: its contender, and when it began.
pub type Hold = (usize, Stamp);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overlaps {
    /// The first, in any order.
    pub kept: Vec<Overlap>,
    pub count: u64,
    /// Holds with a doubt, and when they ended.
    pub doubts: HashMap<Hold, (Doubt, Stamp)>,
    /// Holds whose session was being closed by another when they ended: the session, and when that was.
    pub closing: HashMap<Hold, (i64, Stamp)>,
}

impl Overlaps {
    /// How many of a thread are kept; a lock that excludes nobody would fill the memory.
    pub const KEPT: usize = 10_000;

    pub fn note(&mut self, overlap: Overlap) {
        self.count += 1;
        if self.kept.len() < Self::KEPT {
            self.kept.push(overlap);
        }
    }

    pub fn merge(&mut self, other: Self) {
        self.count += other.count;
        self.kept.extend(other.kept);
        self.doubts.extend(other.doubts);
        self.closing.extend(other.closing);
    }

    /// Takes the holds for lost whose sessions have been closed in them, as that function knows of a contender and a
    /// session. Where no server has answered, the session may be over or not: such a hold excuses nothing, and proves
    /// nothing either.
    pub fn settle(&mut self, was_closed: impl Fn(usize, i64) -> bool) {
        for (hold, (session, left)) in self.closing.drain() {
            if was_closed(hold.0, session) {
                self.doubts.insert(hold, (Doubt::Expired, left));
            } else {
                self.doubts.entry(hold).or_insert((Doubt::Unknown, left));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_that_was_to_be_closed_excuses_a_hold_only_once_a_server_has_said_so() {
        let mut overlaps = Overlaps::default();
        // Given two holds that ended while somebody else was closing their sessions
        overlaps.closing.insert((1, 100), (0xa, 150));
        overlaps.closing.insert((2, 200), (0xb, 250));
        // When the servers have closed one of the two
        overlaps.settle(|_, session| session == 0xb);
        // Then that one was lost, and of the other it is not known
        let doubts = [((2, 200), (Doubt::Expired, 250)), ((1, 100), (Doubt::Unknown, 150))];
        assert_eq!(overlaps.doubts, HashMap::from(doubts));
        assert!(overlaps.closing.is_empty());
    }
}
