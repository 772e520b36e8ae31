//! Judging: pure functions of records.
//!
//! Uses: words, record.

mod ensemble_order;
mod exclusion;
pub mod history;
mod inside;
mod overlaps;

pub use exclusion::{add_order, judge, least_evidence, of_run, standing_still, zombies};

/// So many entries that could have been caught are enough to tell a lock from none: one that errs every time goes unseen
/// once in 150 times (e to the minus five). How many there were is always told, because an error may be rarer.
const ENOUGH: u64 = 5;

/// Whether so many that could have been caught suffice for a verdict of held, of a trial or of a history. Of few entries
/// it takes half of all but each lock's first.
fn suffices(caught: u64, entries: u64, locks: usize) -> bool {
    let most = entries.saturating_sub(locks as u64);
    caught >= ENOUGH.min(most.div_ceil(2)).max(1)
}

#[cfg(test)]
mod tests {
    use super::suffices;
    use crate::record::history::LockKind;
    use crate::record::{CLOCKS_DIFFER_MS, Facts, Grant, Lives, Overlaps};
    use crate::words::clock::WallClock;
    use crate::words::spool::Sorted;

    /// On a clock that counts from 1970, when no node is left.
    pub(super) fn facts(grants: Vec<Grant>, lives: Lives, kind: LockKind) -> Facts {
        let (overlaps, wall) = (Overlaps::default(), WallClock::default());
        let grants = Sorted::of(Grant::by_node, grants);
        let (clocks_differ_ms, scratch) = (CLOCKS_DIFFER_MS, std::env::temp_dir());
        Facts { kind, began: 0, overlaps, grants, lives, all_gone: true, wall, clocks_differ_ms, scratch }
    }

    #[test]
    fn it_takes_five_or_half_of_those_that_could_be_and_never_none() {
        assert!(suffices(5, 900, 1) && !suffices(4, 900, 1));
        assert!(suffices(2, 5, 1) && !suffices(1, 5, 1));
        assert!(suffices(1, 2, 1) && !suffices(0, 2, 1));
        assert!(!suffices(0, 0, 4), "nobody acquired anything");
    }
}
