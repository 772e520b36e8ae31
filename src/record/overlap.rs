//! Two contenders inside one critical section at once: what was seen, what was the matter with their holds, and what it
//! means.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::words::clock::Stamp;
use crate::words::measure::added_up;
use crate::words::units::counted;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Occupant {
    pub contender: usize,
    pub sequence: Option<i64>,
    pub czxid: Option<i64>,
    pub entered: Stamp,
}

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

/// One of the two holders of a violation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Holder {
    /// The contender's number within the trial.
    pub contender: usize,
    /// The sequence number of its queue node; `None` for a lock without one.
    pub sequence: Option<i64>,
    /// The czxid of its node (the fencing token), if it has one.
    pub czxid: Option<i64>,
    /// When it entered, in microseconds since the trial's measured phase began (negative: before it).
    pub entered_us: i64,
}

/// Entry into a critical section while another contender was still in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Violation {
    /// Which of the trial's lock paths.
    pub lock: usize,
    /// The contender that was already inside.
    pub inside: Holder,
    /// The contender that entered.
    pub entered: Holder,
    /// When it was noticed.
    #[serde(rename = "noticed_us")]
    pub at: Stamp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OverlapClass {
    /// Nothing was the matter with either session: the lock let two in.
    Violation,
    /// A session of the two was suspended or had expired before the other entered: its contender believed that it
    /// held what the ensemble had given to the other. No lock with sessions can prevent that; fencing can.
    Zombie,
    /// The outcome of a request of the two is not known, so neither is who held.
    Uncertain,
}

/// Overlaps that are no violations, counted over a trial.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Excused {
    /// Of the class zombie.
    pub zombies: u64,
    /// Of the class uncertain.
    pub uncertain: u64,
    /// The longest time for which a zombie was inside beside another, in microseconds.
    pub longest_unsafe_us: u64,
}

/// How many entries could have shown that a lock does not exclude.
///
/// A lock that lets somebody in too early does so at some time of its wait. It shows only if others were in the way then,
/// so each entry counts by the share of its wait in which they were, and would have been seen to be.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub struct KeptOut {
    pub entries: u64,
    /// Entries that were kept out for a part of their wait.
    pub waited: u64,
    /// The sum of these parts, as shares of the waits.
    pub shares: f64,
}

impl KeptOut {
    /// A contender entered that had been kept out for so long of its wait.
    pub fn entry(&mut self, kept_out: u64, wait: u64) {
        self.entries += 1;
        if kept_out > 0 {
            self.waited += 1;
            self.shares += (kept_out as f64 / wait.max(1) as f64).min(1.0);
        }
    }

    /// As how many entries the shares count.
    pub fn as_many_as(&self) -> u64 {
        self.shares.round() as u64
    }
}

added_up!(KeptOut { entries, waited, shares });

/// How many entries of a trial could have shown that the lock does not exclude, and by which means. What no means could
/// have caught is no evidence that it does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    /// Entries of the whole trial.
    pub entries: u64,
    /// Of those, the ones that were kept out by others who were inside.
    pub waited: u64,
    /// As many as could have been seen entering while another was inside: each counts by the share of its wait in which
    /// somebody was inside and others could run.
    pub seen_inside: u64,
    /// Those for whom the servers' transactions show that they had to wait, and as of which one they entered.
    pub by_transactions: u64,
    /// As many as could have been caught by the servers' clock: each counts by the share of its wait for which the node
    /// in its way was there for longer than the clocks may differ.
    pub by_clock: u64,
    /// Holders that had asked for the deletion of their own node before they left.
    pub given_up_early: u64,
}

added_up!(Evidence { entries, waited, seen_inside, by_transactions, by_clock, given_up_early });

impl Evidence {
    /// As many entries as could have been caught, by the means that could catch the most.
    pub fn catchable(&self) -> u64 {
        self.seen_inside.max(self.by_transactions).max(self.by_clock)
    }

    /// How many could have been caught, and by what.
    pub fn describe(&self) -> String {
        format!(
            "a violation would have been detected at {} of {} ({} by seeing two inside, {} by the ensemble's \
             transactions, {} by its clock)",
            self.catchable(),
            counted(self.entries, "entry", "entries"),
            self.seen_inside,
            self.by_transactions,
            self.by_clock
        )
    }
}

/// Exclusion as the ensemble saw it, by its transaction logs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EnsembleOrder {
    /// Entries that could be compared with the logs.
    pub checked: u64,
    /// Entries while the node of an earlier holder was still there, by the servers' clock.
    pub overlaps: u64,
    /// Entries of which it is known as of which transaction the contender found that it holds.
    pub checked_by_zxid: u64,
    /// Of those, the ones as of a transaction before the one that deleted the node of an earlier holder.
    pub too_early: u64,
    /// Of the entries checked, as many as could have been caught by the servers' clock.
    pub contested: u64,
    /// Of those checked by transactions, the ones that had to wait for another's node to go.
    pub contested_by_zxid: u64,
    /// Nodes by which contenders held that are gone without any server's log telling of their end: the ensemble has lost
    /// transactions that it had acknowledged.
    pub forgotten: u64,
    /// The first that was wrong.
    pub first: Option<String>,
}

impl EnsembleOrder {
    pub fn is_broken(&self) -> bool {
        self.overlaps > 0 || self.too_early > 0
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
