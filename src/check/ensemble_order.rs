//! Exclusion as the ensemble saw it: had every earlier holder's node been deleted when the next one entered?
//!
//! What contenders believe can deceive them both ways. The servers' transaction logs can not: they tell when each
//! node was deleted, by its holder or with its session. It is asked twice.
//!
//! By transactions: a contender that found by a reply that it holds found it as of some transaction. That one may not
//! be before the one that deleted the node of a holder before it. No clock has a part in this, and nothing is so short
//! that it passes. Where an event let it in, or its node came without its number, the same logs say what is missing.
//!
//! By the clock: the servers run on this host and stamp their transactions by its clock, so that their time can be
//! compared with the time at which a contender entered. A contender learns of a deletion only after it was proposed, so
//! a right lock never enters before that.
//!
//! Ensembles can forget: a follower that has noted a new epoch, but not yet the transactions that it was sent for it, may
//! be elected, and then all others throw away what had been acknowledged (ZOOKEEPER-4643, -4646). A node that is gone
//! without ever having been deleted tells of it.

use super::inside::{Interval, Seen, on_axis, sweep};
use crate::clock::Stamp;
use crate::record::{CLOCKS_DIFFER_MS, EnsembleOrder, Facts, Grant, KeptOut, Life};

/// Compares the entries with what the servers' logs tell of the nodes. `None` when they tell nothing.
pub(super) fn judge(mut facts: Facts) -> Option<EnsembleOrder> {
    let mut order = EnsembleOrder::default();
    let known = known(&mut facts, &mut order);
    let mut kept_out = KeptOut::default();
    for lock in known.chunk_by(|(one, _), (next, _)| one.lock == next.lock) {
        compare_zxids(&facts, lock, &mut order);
        kept_out.merge(compare_times(&facts, lock, &mut order));
    }
    order.contested = kept_out.as_many_as();
    (order.checked + order.forgotten > 0).then_some(order)
}

/// The entries whose nodes the logs know, in the order of locks and nodes; counts nodes that the ensemble has
/// forgotten.
fn known(facts: &mut Facts, order: &mut EnsembleOrder) -> Vec<(Grant, Life)> {
    let mut grants = std::mem::take(&mut facts.grants);
    grants.sort_by_key(|grant| (grant.lock, grant.czxid, grant.entered));
    let mut known = Vec::new();
    let mut last_forgotten = None;
    for grant in grants {
        match facts.lives.get(&grant.czxid) {
            Some(life) if !facts.is_forgotten(life) => known.push((grant, *life)),
            Some(_) if last_forgotten.replace(grant.czxid) != Some(grant.czxid) => order.forgotten += 1,
            _ => {}
        }
    }
    known
}

/// Each hold lasts from the transaction as of which it was found to the one that deleted its node.
fn compare_zxids(facts: &Facts, known: &[(Grant, Life)], order: &mut EnsembleOrder) {
    // Several holds by one node are one to the ensemble; the first of them was found by a reply.
    let nodes = known.chunk_by(|(one, _), (next, _)| one.czxid == next.czxid);
    let found = nodes.filter_map(|entries| entries.first().filter(|(grant, _)| grant.zxid.is_some()));
    let found: Vec<&(Grant, Life)> = found.collect();
    let asked = Asked::of(&found);
    let hold = |(grant, life): &&(Grant, Life)| Interval {
        asked: on_axis(asked.at(grant)),
        from: on_axis(grant.zxid.unwrap_or_default()),
        until: life.deleted.map_or(u64::MAX, on_axis),
        claim: grant.claim,
        node: grant.czxid,
    };
    let holds: Vec<Interval> = found.iter().map(hold).collect();
    let Seen { too_early, first, kept_out } = sweep(facts.kind, &holds);
    order.checked_by_zxid += holds.len() as u64;
    order.contested_by_zxid += kept_out.waited;
    order.too_early += too_early;
    let told = || first.map(|(before, next)| describe_zxids(found[before], &found[next].0));
    order.first = order.first.take().or_else(told);
}

/// Where on the axis of transactions each contender had asked at the latest.
///
/// It had when its node was there. Before that it may have waited, too: in the process, for others that share a place in the
/// queue with it. Whoever called release after it had asked had a node then, which was deleted by a later transaction than
/// those of all that had been released before it asked.
struct Asked {
    /// When each was released, and the latest transaction that deleted a node of those that were released until then.
    released: Vec<(Stamp, i64)>,
}

impl Asked {
    fn of(holds: &[&(Grant, Life)]) -> Self {
        // Of whom nobody knows when it was released, that was not before it entered.
        let left = |grant: &Grant| grant.left.unwrap_or(grant.entered);
        let ended = holds.iter().filter_map(|(grant, life)| Some((left(grant), life.deleted?)));
        let mut released: Vec<(Stamp, i64)> = ended.collect();
        released.sort_unstable();
        let mut latest = 0;
        for (_, deleted) in &mut released {
            latest = latest.max(*deleted);
            *deleted = latest;
        }
        Self { released }
    }

    fn at(&self, grant: &Grant) -> i64 {
        let before = self.released.partition_point(|(left, _)| *left <= grant.called);
        let deleted = before.checked_sub(1).map_or(0, |last| self.released[last].1);
        grant.czxid.min(deleted)
    }
}

/// Each hold lasts from when its contender entered to when the deletion of its node was proposed.
fn compare_times(facts: &Facts, known: &[(Grant, Life)], order: &mut EnsembleOrder) -> KeptOut {
    let hold = |(grant, life): &(Grant, Life)| Interval {
        asked: on_axis(facts.wall.ms(grant.called)),
        from: on_axis(facts.wall.ms(grant.entered)),
        until: life.deleted_at_ms.map_or(u64::MAX, |at| on_axis(at - CLOCKS_DIFFER_MS)),
        claim: grant.claim,
        node: grant.czxid,
    };
    let holds: Vec<Interval> = known.iter().map(hold).collect();
    let Seen { too_early, first, kept_out } = sweep(facts.kind, &holds);
    order.checked += holds.len() as u64;
    // Of two accounts of the same, the one in milliseconds is the easier to read.
    if let Some((before, next)) = first.filter(|_| order.overlaps == 0) {
        let next_ms = facts.wall.ms(known[next].0.entered);
        order.first = Some(describe_times(&known[before], &known[next].0, next_ms));
    }
    order.overlaps += too_early;
    kept_out
}

fn describe_times((before, life): &(Grant, Life), next: &Grant, next_ms: i64) -> String {
    let late = life
        .deleted_at_ms
        .map_or("to the end".to_owned(), |until| format!("for {} ms more", until - next_ms));
    format!(
        "contender {} (node 0x{:x}) entered lock {} while the node 0x{:x} of contender {} was there {late}",
        next.contender, next.czxid, next.lock, before.czxid, before.contender
    )
}

fn describe_zxids((before, life): &(Grant, Life), next: &Grant) -> String {
    let deleted = life.deleted.map_or("never".to_owned(), |deleted| format!("by transaction 0x{deleted:x}"));
    format!(
        "contender {} (node 0x{:x}) found that it holds lock {} as of transaction 0x{:x}; the node 0x{:x} of \
         contender {} was deleted {deleted}",
        next.contender,
        next.czxid,
        next.lock,
        next.zxid.unwrap_or_default(),
        before.czxid,
        before.contender
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Stamp, WallClock};
    use crate::record::history::LockKind;
    use crate::record::{Claim, Lives, Overlaps};

    fn grant(contender: usize, czxid: i64, entered: Stamp) -> Grant {
        let claim = Claim::WRITE;
        Grant { lock: 0, contender, claim, czxid, zxid: None, called: 0, entered, left: None }
    }

    /// By the nodes that these transactions created and deleted; each was found as of that one.
    fn found(holds: &[(i64, Option<i64>, i64)]) -> EnsembleOrder {
        let life = |created, deleted| {
            (created, Life { deleted: Some(deleted), deleted_at_ms: Some(0), ..Life::default() })
        };
        let lives = holds.iter().map(|(created, _, deleted)| life(*created, *deleted)).collect();
        let grants =
            holds.iter().map(|(created, zxid, _)| Grant { zxid: *zxid, ..grant(0, *created, 0) }).collect();
        compared(grants, &lives, LockKind::Mutex)
    }

    /// On a clock that counts from 1970, when no node is left.
    fn compared(grants: Vec<Grant>, lives: &Lives, kind: LockKind) -> EnsembleOrder {
        judged(facts(grants, lives.clone(), kind))
    }

    /// When no node is left.
    fn facts(grants: Vec<Grant>, lives: Lives, kind: LockKind) -> Facts {
        let (overlaps, wall) = (Overlaps::default(), WallClock::default());
        Facts { kind, began: 0, overlaps, grants, lives, all_gone: true, wall }
    }

    fn judged(facts: Facts) -> EnsembleOrder {
        judge(facts).unwrap_or_default()
    }

    #[test]
    fn a_hold_that_is_found_as_of_the_deletion_before_it_is_right_and_one_transaction_earlier_is_not() {
        let order = found(&[(1, Some(1), 10), (2, Some(10), 20), (3, Some(20), 30)]);
        assert_eq!((order.checked_by_zxid, order.too_early), (3, 0));
        let order = found(&[(1, Some(1), 10), (2, Some(9), 20)]);
        assert_eq!((order.checked_by_zxid, order.too_early), (2, 1));
        assert!(order.first.unwrap().ends_with("the node 0x1 of contender 0 was deleted by transaction 0xa"));
    }

    #[test]
    fn an_entry_could_have_been_caught_by_transactions_when_its_node_was_there_before_the_one_in_its_way_went()
     {
        // The second had to wait for the first; the third came when nobody was there.
        let order = found(&[(1, Some(1), 10), (2, Some(10), 20), (25, Some(25), 30)]);
        assert_eq!((order.checked_by_zxid, order.contested_by_zxid), (3, 1));
    }

    #[test]
    fn who_waits_within_the_process_could_have_been_caught_before_its_node_was_there() {
        // Both contenders share a place in the queue: the second has no node before the first one's has gone.
        let take_turns = |called| {
            let first = Grant { zxid: Some(1), left: Some(300), ..grant(0, 1, 100) };
            let second = Grant { zxid: Some(11), called, left: Some(600), ..grant(1, 11, 500) };
            let life = |deleted| Life { deleted: Some(deleted), deleted_at_ms: Some(0), ..Life::default() };
            let lives = Lives::from([(1, life(10)), (11, life(20))]);
            let order = compared(vec![first, second], &lives, LockKind::Mutex);
            (order.checked_by_zxid, order.contested_by_zxid, order.too_early)
        };
        assert_eq!(take_turns(200), (2, 1, 0), "it asked while the first was inside");
        assert_eq!(
            take_turns(300),
            (2, 0, 0),
            "it asked when the first had been released, and waited for nobody"
        );
    }

    #[test]
    fn by_the_clock_an_entry_counts_by_the_share_of_its_wait_in_which_another_was_inside_beyond_doubt() {
        // In since 10 ms, gone at 50 ms, give or take 2: whoever asked at 0 ms and got in at 50 ms could have been seen for 38.
        let lives = Lives::from([life(1, 50), life(3, 90), life(5, 99)]);
        let grants = vec![grant(0, 1, 10_000), grant(1, 3, 50_000), grant(2, 5, 90_000)];
        let order = compared(grants, &lives, LockKind::Mutex);
        assert_eq!(
            (order.checked, order.contested),
            (3, 2),
            "38 of 50 ms and 76 of 90 ms make more than one and a half"
        );
        // Who holds for no longer than the clocks may differ shows nothing.
        let lives = Lives::from([life(1, 11), life(3, 13), life(5, 15)]);
        let grants = vec![grant(0, 1, 10_000), grant(1, 3, 12_000), grant(2, 5, 14_000)];
        assert_eq!(compared(grants, &lives, LockKind::Mutex).contested, 0);
    }

    #[test]
    fn an_entry_past_free_leases_or_among_readers_could_not_have_been_caught() {
        let lives = Lives::from([life(1, 100), life(3, 110), life(5, 120)]);
        let grants = vec![grant(0, 1, 10_000), grant(1, 3, 20_000), grant(2, 5, 60_000)];
        assert_eq!(compared(grants.clone(), &lives, LockKind::Semaphore(4)).contested, 0);
        let readers = grants.iter().map(|grant| Grant { claim: Claim::READ, ..*grant }).collect();
        assert_eq!(compared(readers, &lives, LockKind::ReadWrite).contested, 0);
    }

    #[test]
    fn holds_are_put_in_the_order_in_which_they_were_found_not_in_that_of_their_nodes() {
        // A lock that is not fair: the third node's holder came before the second's
        let order = found(&[(1, Some(1), 10), (2, Some(20), 30), (3, Some(10), 20)]);
        assert_eq!((order.checked_by_zxid, order.too_early), (3, 0));
        // Two that found it in the same state of the queue can't both be right
        assert_eq!(found(&[(1, Some(5), 10), (2, Some(5), 20)]).too_early, 1);
    }

    #[test]
    fn an_entry_by_an_event_alone_is_not_compared_by_transactions() {
        let order = found(&[(1, Some(1), 10), (2, None, 20), (3, Some(20), 30)]);
        assert_eq!((order.checked_by_zxid, order.too_early), (2, 0));
    }

    fn life(created: i64, deleted_at_ms: i64) -> (i64, Life) {
        (created, Life { deleted: Some(created + 1), deleted_at_ms: Some(deleted_at_ms), ..Life::default() })
    }

    #[test]
    fn whoever_enters_after_the_node_before_was_deleted_is_right() {
        let lives = Lives::from([life(1, 50), life(3, 90)]);
        let order = compared(vec![grant(0, 1, 10_000), grant(1, 3, 51_000)], &lives, LockKind::Mutex);
        assert_eq!((order.checked, order.overlaps), (2, 0));
    }

    #[test]
    fn whoever_enters_before_is_found_even_when_another_was_in_between() {
        let lives = Lives::from([life(1, 500), life(3, 30), life(5, 600)]);
        let grants = vec![grant(0, 1, 10_000), grant(1, 3, 20_000), grant(2, 5, 40_000)];
        let order = compared(grants, &lives, LockKind::Mutex);
        assert_eq!(order.overlaps, 2);
        assert!(order.first.unwrap().contains("contender 1 (node 0x3)"));
    }

    #[test]
    fn holds_by_one_node_do_not_overlap_and_unknown_nodes_are_not_judged() {
        let lives = Lives::from([life(1, 500)]);
        let order = compared(
            vec![grant(0, 1, 10_000), grant(1, 1, 20_000), grant(2, 9, 30_000)],
            &lives,
            LockKind::Mutex,
        );
        assert_eq!((order.checked, order.overlaps), (2, 0));
    }

    #[test]
    fn a_node_that_is_gone_and_was_never_deleted_is_forgotten_and_nothing_is_held_against_the_next_one() {
        let lives = Lives::from([(1, Life::default()), life(3, 90)]);
        let grants = vec![grant(0, 1, 10_000), grant(0, 1, 11_000), grant(1, 3, 20_000)];
        let order = compared(grants.clone(), &lives, LockKind::Mutex);
        assert_eq!((order.forgotten, order.checked, order.overlaps), (1, 1, 0));
        // When it is still there it is in the way
        let order = judged(Facts { all_gone: false, ..facts(grants, lives, LockKind::Mutex) });
        assert_eq!((order.forgotten, order.overlaps), (0, 1));
        assert!(order.first.unwrap().ends_with("was there to the end"));
    }

    #[test]
    fn readers_are_inside_together_and_a_writer_alone() {
        let reader =
            |contender, czxid, entered| Grant { claim: Claim::READ, ..grant(contender, czxid, entered) };
        let lives = Lives::from([life(1, 100), life(3, 50), life(5, 120)]);
        let readers = vec![reader(0, 1, 10_000), reader(1, 3, 20_000)];
        assert_eq!(compared(readers.clone(), &lives, LockKind::ReadWrite).overlaps, 0);
        let writer_after = [readers.clone(), vec![grant(2, 5, 99_000)]].concat();
        assert_eq!(compared(writer_after, &lives, LockKind::ReadWrite).overlaps, 0);
        let writer_between = [readers, vec![grant(2, 5, 60_000)]].concat();
        let order = compared(writer_between, &lives, LockKind::ReadWrite);
        assert_eq!(order.overlaps, 1);
        assert!(order.first.unwrap().contains("the node 0x1 of contender 0"));
    }

    #[test]
    fn of_a_semaphore_as_many_are_inside_as_it_has_leases() {
        let lives = Lives::from([life(1, 100), life(3, 100), life(5, 120)]);
        let grants = vec![grant(0, 1, 10_000), grant(1, 3, 20_000), grant(2, 5, 60_000)];
        let leases = |leases| compared(grants.clone(), &lives, LockKind::Semaphore(leases)).overlaps;
        assert_eq!((leases(3), leases(2), leases(1)), (0, 1, 2));
    }

    #[test]
    fn of_a_semaphore_the_leases_that_each_has_taken_are_added_up() {
        let lives = Lives::from([life(1, 100), life(3, 100)]);
        let both_take = |leases| {
            let claim = Claim { leases, ..Claim::WRITE };
            let grants = [grant(0, 1, 10_000), grant(1, 3, 20_000)].map(|grant| Grant { claim, ..grant });
            compared(grants.into(), &lives, LockKind::Semaphore(5)).overlaps
        };
        assert_eq!((both_take(2), both_take(3)), (0, 1));
    }
}
