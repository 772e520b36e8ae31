//! Exclusion as the ensemble saw it: had every earlier holder's node been deleted when the next one entered?
//!
//! What contenders believe can deceive them both ways. The servers' transaction logs can not: they tell when each
//! node was deleted, by its holder or with its session. The servers run on this host and stamp their transactions
//! by its clock, so that their time can be compared with the time at which a contender entered. A contender learns of
//! a deletion only after it was proposed, so a right lock never enters before that.

use std::collections::BTreeMap;

use crate::clock::{self, Stamp};
use crate::ensemble::transactions::Lives;
use crate::record::EnsembleOrder;

/// Both clocks count whole milliseconds, or are read one after the other.
pub const TOLERANCE_MS: i64 = 2;
/// Entries kept; further ones are not looked at.
pub const KEPT: usize = 1_000_000;

/// A contender entered by virtue of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    /// Which of the trial's lock paths.
    pub lock: usize,
    /// Who.
    pub contender: usize,
    /// The transaction that created the node.
    pub czxid: i64,
    /// When it entered.
    pub entered: Stamp,
}

/// Compares the entries with what the servers' logs tell of the nodes. `None` when they tell nothing.
#[must_use]
pub fn judge(lives: &Lives, grants: Vec<Grant>) -> Option<EnsembleOrder> {
    let order = compare(grants, lives, clock::wall_ms);
    (order.checked > 0).then_some(order)
}

fn compare(mut grants: Vec<Grant>, lives: &Lives, wall: impl Fn(Stamp) -> i64) -> EnsembleOrder {
    grants.sort_by_key(|grant| grant.entered);
    let mut order = EnsembleOrder::default();
    // For each lock the earlier holder whose node lived longest.
    let mut longest: BTreeMap<usize, (i64, Grant)> = BTreeMap::new();
    for grant in grants {
        let Some(life) = lives.get(&grant.czxid) else { continue };
        order.checked += 1;
        let ends = life.deleted_at_ms.unwrap_or(i64::MAX);
        match longest.get(&grant.lock) {
            // Several holds by one node are one to the ensemble.
            Some((_, before)) if before.czxid == grant.czxid => continue,
            Some((until, before)) if *until > wall(grant.entered) + TOLERANCE_MS => {
                order.overlaps += 1;
                order.first.get_or_insert_with(|| describe(before, &grant, *until, wall(grant.entered)));
            }
            _ => {}
        }
        if longest.get(&grant.lock).is_none_or(|(until, _)| *until < ends) {
            longest.insert(grant.lock, (ends, grant));
        }
    }
    order
}

fn describe(before: &Grant, next: &Grant, deleted_ms: i64, entered_ms: i64) -> String {
    let late = deleted_ms.saturating_sub(entered_ms);
    format!(
        "contender {} (node 0x{:x}) entered lock {} while the node 0x{:x} of contender {} was there for {late} ms more",
        next.contender, next.czxid, next.lock, before.czxid, before.contender
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ensemble::transactions::Life;

    fn grant(contender: usize, czxid: i64, entered: Stamp) -> Grant {
        Grant { lock: 0, contender, czxid, entered }
    }

    fn life(created: i64, deleted_at_ms: i64) -> (i64, Life) {
        (
            created,
            Life {
                created,
                deleted: Some(created + 1),
                deleted_at_ms: Some(deleted_at_ms),
                ..Life::default()
            },
        )
    }

    fn ms(stamp: Stamp) -> i64 {
        i64::try_from(stamp).unwrap() / 1_000
    }

    #[test]
    fn whoever_enters_after_the_node_before_was_deleted_is_right() {
        let lives = BTreeMap::from([life(1, 50), life(3, 90)]);
        let order = compare(vec![grant(0, 1, 10_000), grant(1, 3, 51_000)], &lives, ms);
        assert_eq!((order.checked, order.overlaps), (2, 0));
    }

    #[test]
    fn whoever_enters_before_is_found_even_when_another_was_in_between() {
        let lives = BTreeMap::from([life(1, 500), life(3, 30), life(5, 600)]);
        let grants = vec![grant(0, 1, 10_000), grant(1, 3, 20_000), grant(2, 5, 40_000)];
        let order = compare(grants, &lives, ms);
        assert_eq!(order.overlaps, 2);
        assert!(order.first.unwrap().contains("contender 1 (node 0x3)"));
    }

    #[test]
    fn holds_by_one_node_do_not_overlap_and_unknown_nodes_are_not_judged() {
        let lives = BTreeMap::from([life(1, 500)]);
        let order = compare(vec![grant(0, 1, 10_000), grant(1, 1, 20_000), grant(2, 9, 30_000)], &lives, ms);
        assert_eq!((order.checked, order.overlaps), (2, 0));
    }
}
