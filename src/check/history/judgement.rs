//! What a history shows.

use crate::record::history::{LinePosition, LockKind};
use crate::words::verdict::Verdict;

/// What the whole history shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    pub verdict: Verdict,
    /// Lock by lock, by name; locks that were not asked for are left out.
    pub locks: Vec<LockReport>,
    /// The first of each kind of thing that went wrong, in the order of their lines.
    pub findings: Vec<Finding>,
    /// What could not be checked, and what a reader should know.
    pub notes: Vec<String>,
    pub events: u64,
    pub contenders: usize,
    /// Clocks that times were read from.
    pub clocks: usize,
}

/// What is wrong with something that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Breach {
    /// Two inside at once, though the session of the one before was alive.
    Violation,
    /// A holder was let in before the node of the one before it was deleted.
    Order,
    /// The fenced resource accepted an older token after a newer one.
    StaleWrite,
    /// An acquire that never ended.
    Stuck,
    /// Two inside at once, after the session of one was suspended or had expired.
    Zombie,
    /// Two inside at once, and it is unknown whether a session had ended.
    Uncertain,
}

impl Breach {
    pub fn name(self) -> &'static str {
        match self {
            Self::Violation => "violation",
            Self::Order => "order",
            Self::StaleWrite => "stale write",
            Self::Stuck => "stuck",
            Self::Zombie => "zombie",
            Self::Uncertain => "uncertain",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub breach: Breach,
    pub lock: String,
    pub what: String,
    /// The lines that show it, and no others.
    pub lines: Vec<LinePosition>,
}

/// Overlaps of one class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Overlaps {
    pub count: u64,
    /// The longest that the two were inside together, in microseconds.
    pub longest_us: u64,
}

impl Overlaps {
    pub fn add(&mut self, count: u64, us: u64) {
        self.count += count;
        self.longest_us = self.longest_us.max(us);
    }

    pub fn merge(&mut self, other: Self) {
        self.add(other.count, other.longest_us);
    }
}

/// Exclusion as the ensemble saw it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OrderReport {
    pub compared: u64,
    /// Pairs that could not be, for lack of a zxid.
    pub not_compared: u64,
    /// Of those, pairs whose two holders are on different clocks.
    pub not_compared_across_clocks: u64,
    /// Of the pairs compared, those in which the later one was let in too early.
    pub too_early: u64,
    /// Pairs in which the later one's node was there before the earlier one's was deleted: it had waited.
    pub waited: u64,
    /// Of these, pairs on different clocks.
    pub waited_across_clocks: u64,
    /// Grants with a token older than one granted before; a fair lock has none.
    pub out_of_order: u64,
    pub without_token: u64,
}

/// What the fenced resource did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WriteReport {
    pub accepted: u64,
    /// Writes accepted with an older token than one accepted before: the resource does not fence.
    pub stale_accepted: u64,
    /// Writes turned away for their old token.
    pub stale_rejected: u64,
    /// Writes turned away although their token was the newest.
    pub other_rejected: u64,
    /// Writes accepted with an older token, but perhaps before the newer one.
    pub undecided: u64,
    pub without_token: u64,
    /// Writes that could not be put in order with the ones before, for those are on another clock.
    pub across_clocks: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockReport {
    pub name: String,
    pub kind: LockKind,
    pub acquired: u64,
    pub failed: u64,
    pub unknown: u64,
    /// Acquisitions that others who were inside kept out for a part of their wait.
    pub waited: u64,
    /// As many as could have been seen entering while others were inside: each counts by that part.
    pub seen_inside: u64,
    /// Whether more than one contender got it.
    pub contended: bool,
    /// Whether contenders on different clocks got it.
    pub several_clocks: bool,
    pub violations: Overlaps,
    /// Overlaps with a holder whose session was suspended or had expired.
    pub zombies: Overlaps,
    /// Overlaps that cannot be classed.
    pub uncertain: Overlaps,
    /// Holders that stayed inside although they had been told that their session had ended, while others entered.
    pub ignored_expiry: u64,
    pub order: OrderReport,
    pub writes: WriteReport,
    /// Acquires that never ended though others passed, or though the history is complete.
    pub stuck: u64,
    /// Acquires that had not ended when the history did.
    pub unfinished: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_breach_has_a_name_and_the_worst_comes_first() {
        let worst_first = [
            (Breach::Violation, "violation"),
            (Breach::Order, "order"),
            (Breach::StaleWrite, "stale write"),
            (Breach::Stuck, "stuck"),
            (Breach::Zombie, "zombie"),
            (Breach::Uncertain, "uncertain"),
        ];
        assert!(worst_first.iter().all(|(breach, name)| breach.name() == *name));
        assert!(worst_first.is_sorted_by_key(|(breach, _)| *breach));
    }
}
