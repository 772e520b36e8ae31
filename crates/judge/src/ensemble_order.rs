//! Exclusion according to the ensemble: was every earlier holder's node deleted when the next contender
//! entered?
//!
//! Contenders' beliefs can be wrong in both directions. The servers' transaction logs cannot: they record
//! when each node was deleted, by its holder or with its session. There are two checks.
//!
//! By transactions: a contender that learns from a reply that it holds does so as of some transaction. That
//! transaction must not precede the deletion of an earlier holder's node. No clock is involved, and no overlap
//! is too short to be detected. If an event let the contender in, or its node came without a number, the same
//! logs supply the missing data.
//!
//! By the clock: the servers run on this host and stamp transactions with its clock, so their times are
//! comparable with the times of entry. A contender learns of a deletion only after its proposal, so a correct
//! lock never enters before it.
//!
//! Ensembles can lose transactions. A follower that recorded a new epoch, but not yet the transactions sent
//! for it, may be elected. All others then discard what had been acknowledged (ZOOKEEPER-4643, -4646). A node
//! that is gone without ever having been deleted reveals this.

use std::io;

use super::inside::{HoldSpan, HoldsFound, on_axis, sweep};
use zklockbench_core::clock::Stamp;
use zklockbench_core::spool::{Sorted, Sorter};
use zklockbench_record::{EnsembleOrder, Facts, Grant, Life};

/// Compares the entries with the servers' logs of the nodes; `None` if the logs contain nothing. Needs little
/// memory for any number of entries: reordering happens on disk.
pub(super) fn judge(facts: &Facts) -> io::Result<Option<EnsembleOrder>> {
    let mut order = EnsembleOrder::default();
    let Holds { by_clock, found, ended } = Holds::of(facts, &mut order)?;
    let HoldsFound { holds, too_early, first, kept_out } = sweep(facts.kind, by_clock.iter()?)?;
    (order.checked, order.overlaps, order.contested) = (holds, too_early, kept_out.as_many_as());
    // Prefer the description in milliseconds, which is easier to read.
    order.first = first.map(|(before, next)| describe_times(facts, &before, &next));
    drop(by_clock);
    let by_transaction = with_asking(facts, &found, &ended)?;
    drop((found, ended));
    let HoldsFound { holds, too_early, first, kept_out } = sweep(facts.kind, by_transaction.iter()?)?;
    (order.checked_by_zxid, order.too_early, order.contested_by_zxid) = (holds, too_early, kept_out.waited);
    order.first = order.first.or_else(|| first.map(|(before, next)| describe_zxids(&before, &next)));
    Ok((order.checked + order.forgotten > 0).then_some(order))
}

/// Entries as holds, if the logs know their nodes.
struct Holds {
    /// Holds from a contender's entry to the proposal of its node's deletion.
    by_clock: Sorted<HoldSpan, (usize, u64, u64)>,
    /// Holds from the transaction as of which they were found to the one that deleted the node. They are
    /// ordered by the call of acquire. Several holds by one node are one hold for the ensemble; the first of
    /// them was found by a reply.
    found: Sorted<(Stamp, HoldSpan), (usize, Stamp)>,
    /// Ends of these holds by time: the lock, the time of the release, and the transaction that deleted the
    /// node.
    ended: Sorted<(usize, Stamp, i64), (usize, Stamp)>,
}

impl Holds {
    /// Also counts the nodes that the ensemble has lost.
    fn of(facts: &Facts, order: &mut EnsembleOrder) -> io::Result<Self> {
        let mut by_clock = Sorter::by(HoldSpan::by_asking, &facts.scratch);
        let mut found = Sorter::by(|(called, hold): &(Stamp, HoldSpan)| (hold.lock, *called), &facts.scratch);
        let mut ended = Sorter::by(|(lock, left, _): &(usize, Stamp, i64)| (*lock, *left), &facts.scratch);
        let mut last = None;
        // End of the current node: several contenders may hold by it in succession, and the last one releases
        // it.
        let mut ending: Option<(usize, Stamp, i64)> = None;
        for (grant, place) in facts.grants.iter()?.zip(0..) {
            let grant = grant?;
            let node = (grant.lock, grant.czxid);
            let is_another = last.replace(node) != Some(node);
            // A hold with an unknown release ended no earlier than it began.
            let left = grant.left.unwrap_or(grant.entered);
            match &mut ending {
                Some(_) if is_another => ending.take().map_or(Ok(()), |ending| ended.push(ending))?,
                Some((_, latest, _)) => *latest = left.max(*latest),
                None => {}
            }
            let Some(life) = facts.lives.get(grant.czxid)? else { continue };
            if facts.is_forgotten(&life) {
                order.forgotten += u64::from(is_another);
                continue;
            }
            let by_time = by_the_clock(facts, &grant, &life, place);
            by_clock.push(by_time)?;
            let Some(zxid) = grant.zxid.filter(|_| is_another) else { continue };
            ending = life.deleted.map(|deleted| (grant.lock, left, deleted));
            let until = life.deleted.map_or(u64::MAX, on_axis);
            found.push((grant.called, HoldSpan { asked: 0, from: on_axis(zxid), until, ..by_time }))?;
        }
        ending.map_or(Ok(()), |ending| ended.push(ending))?;
        Ok(Self { by_clock: by_clock.finish(), found: found.finish(), ended: ended.finish() })
    }
}

fn by_the_clock(facts: &Facts, grant: &Grant, life: &Life, place: u64) -> HoldSpan {
    HoldSpan {
        lock: grant.lock,
        asked: on_axis(facts.wall.ms(grant.called)),
        from: on_axis(facts.wall.ms(grant.entered)),
        until: life.deleted_at_ms.map_or(u64::MAX, |at| on_axis(at - facts.clocks_differ_ms)),
        claim: grant.claim,
        node: grant.czxid,
        contender: grant.contender,
        place,
    }
}

/// Adds to each hold the latest position on the transaction axis by which its contender had called acquire.
///
/// The call came no later than the creation of its node. It may have come earlier, if the contender waited in
/// the process for others that share its position in the queue. A release after the call then had a node,
/// whose deletion follows the deletions of all nodes released before the call.
fn with_asking(
    facts: &Facts,
    found: &Sorted<(Stamp, HoldSpan), (usize, Stamp)>,
    ended: &Sorted<(usize, Stamp, i64), (usize, Stamp)>,
) -> io::Result<Sorted<HoldSpan, (usize, u64, u64)>> {
    let mut by_transaction = Sorter::by(HoldSpan::by_asking, &facts.scratch);
    let mut ended = ended.iter()?.peekable();
    // Latest transaction that deleted a node released by then.
    let mut latest = (0, 0);
    for hold in found.iter()? {
        let (called, hold) = hold?;
        let before = |ended: &io::Result<(usize, Stamp, i64)>| {
            ended.as_ref().map_or(true, |(lock, left, _)| (*lock, *left) <= (hold.lock, called))
        };
        while let Some(next) = ended.next_if(before) {
            let (lock, _, deleted) = next?;
            latest = if latest.0 == lock { (lock, latest.1.max(deleted)) } else { (lock, deleted) };
        }
        let released = if latest.0 == hold.lock { latest.1 } else { 0 };
        by_transaction.push(HoldSpan { asked: on_axis(hold.node.min(released)), ..hold })?;
    }
    Ok(by_transaction.finish())
}

fn describe_times(facts: &Facts, before: &HoldSpan, next: &HoldSpan) -> String {
    let deleted_ms = before.until.saturating_add(facts.clocks_differ_ms.unsigned_abs());
    let late = match before.until {
        u64::MAX => "to the end".to_owned(),
        _ => format!("for {} ms more", deleted_ms - next.from),
    };
    format!(
        "contender {} (node 0x{:x}) entered lock {} while the node 0x{:x} of contender {} was there {late}",
        next.contender, next.node, next.lock, before.node, before.contender
    )
}

fn describe_zxids(before: &HoldSpan, next: &HoldSpan) -> String {
    let deleted = match before.until {
        u64::MAX => "never".to_owned(),
        deleted => format!("by transaction 0x{deleted:x}"),
    };
    format!(
        "contender {} (node 0x{:x}) found that it holds lock {} as of transaction 0x{:x}; the node 0x{:x} of \
         contender {} was deleted {deleted}",
        next.contender, next.node, next.lock, next.from, before.node, before.contender
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::tests::facts;
    use zklockbench_core::catalog::Mode;
    use zklockbench_core::clock::Stamp;
    use zklockbench_record::history::LockKind;
    use zklockbench_record::{CLOCKS_DIFFER_MS, Lives, LockClaim};

    fn grant(contender: usize, czxid: i64, entered: Stamp) -> Grant {
        let claim = LockClaim::WRITE;
        Grant { lock: 0, contender, claim, czxid, zxid: None, called: 0, entered, left: None }
    }

    /// Order of mutex holds given by the transactions that created their node, found the hold, and deleted
    /// the node.
    fn found(holds: &[(i64, Option<i64>, i64)]) -> EnsembleOrder {
        let life = |created, deleted| {
            (created, Life { deleted: Some(deleted), deleted_at_ms: Some(0), ..Life::default() })
        };
        let lives = holds.iter().map(|(created, _, deleted)| life(*created, *deleted)).collect();
        let grants =
            holds.iter().map(|(created, zxid, _)| Grant { zxid: *zxid, ..grant(0, *created, 0) }).collect();
        compared(grants, &lives, LockKind::Mutex)
    }

    fn compared(grants: Vec<Grant>, lives: &Lives, kind: LockKind) -> EnsembleOrder {
        judged(facts(grants, lives.clone(), kind))
    }

    fn judged(facts: Facts) -> EnsembleOrder {
        judge(&facts).unwrap().unwrap_or_default()
    }

    #[test]
    fn hold_found_before_the_previous_deletion_is_too_early() {
        let order = found(&[(1, Some(1), 10), (2, Some(10), 20), (3, Some(20), 30)]);
        assert_eq!((order.checked_by_zxid, order.too_early), (3, 0));
        let order = found(&[(1, Some(1), 10), (2, Some(9), 20)]);
        assert_eq!((order.checked_by_zxid, order.too_early), (2, 1));
        assert!(order.first.unwrap().ends_with("the node 0x1 of contender 0 was deleted by transaction 0xa"));
    }

    #[test]
    fn entry_counts_as_contested_if_its_node_existed_before_the_previous_deletion() {
        // The second had to wait for the first; the third came when the lock was free.
        let order = found(&[(1, Some(1), 10), (2, Some(10), 20), (25, Some(25), 30)]);
        assert_eq!((order.checked_by_zxid, order.contested_by_zxid), (3, 1));
    }

    #[test]
    fn wait_within_the_process_counts_before_the_node_exists() {
        // Both contenders share a position in the queue: the second has no node until the first one's is
        // gone.
        let order_if_second_called_at = |called| {
            let first = Grant { zxid: Some(1), left: Some(300), ..grant(0, 1, 100) };
            let second = Grant { zxid: Some(11), called, left: Some(600), ..grant(1, 11, 500) };
            let life = |deleted| Life { deleted: Some(deleted), deleted_at_ms: Some(0), ..Life::default() };
            let lives = Lives::from([(1, life(10)), (11, life(20))]);
            let order = compared(vec![first, second], &lives, LockKind::Mutex);
            (order.checked_by_zxid, order.contested_by_zxid, order.too_early)
        };
        assert_eq!(order_if_second_called_at(200), (2, 1, 0), "it asked while the first was inside");
        assert_eq!(
            order_if_second_called_at(300),
            (2, 0, 0),
            "it asked when the first had been released, and waited for nobody"
        );
    }

    #[test]
    fn shared_node_is_released_by_its_last_holder() {
        // The first has left and acquires again while the second holds by the same node.
        let first = Grant { zxid: Some(1), left: Some(200), ..grant(0, 1, 100) };
        let second = Grant { left: Some(400), ..grant(1, 1, 300) };
        let again = Grant { zxid: Some(11), called: 250, left: Some(600), ..grant(0, 11, 500) };
        let life = |deleted| Life { deleted: Some(deleted), deleted_at_ms: Some(0), ..Life::default() };
        let lives = Lives::from([(1, life(10)), (11, life(20))]);
        let order = compared(vec![first, second, again], &lives, LockKind::Mutex);
        assert_eq!((order.checked_by_zxid, order.contested_by_zxid, order.too_early), (2, 1, 0));
    }

    #[test]
    fn clock_evidence_counts_the_share_of_the_wait_with_a_certain_holder() {
        // Inside since 10 ms, gone at 50 ms ± 2 ms: an acquire from 0 ms to 50 ms could have been caught for
        // 38 ms.
        let lives = Lives::from([life(1, 50), life(3, 90), life(5, 99)]);
        let grants = vec![grant(0, 1, 10_000), grant(1, 3, 50_000), grant(2, 5, 90_000)];
        let order = compared(grants, &lives, LockKind::Mutex);
        assert_eq!(
            (order.checked, order.contested),
            (3, 2),
            "38 of 50 ms and 76 of 90 ms make more than one and a half"
        );
        // A hold no longer than the clocks may differ is no evidence.
        let lives = Lives::from([life(1, 11), life(3, 13), life(5, 15)]);
        let grants = vec![grant(0, 1, 10_000), grant(1, 3, 12_000), grant(2, 5, 14_000)];
        assert_eq!(compared(grants, &lives, LockKind::Mutex).contested, 0);
    }

    #[test]
    fn overlaps_within_a_clock_adjustment_are_not_counted() {
        // The second enters 6 ms before the first one's node is deleted.
        let entered = |clocks_differ_ms| {
            let lives = Lives::from([life(1, 50), life(3, 90)]);
            let grants = vec![grant(0, 1, 10_000), grant(1, 3, 44_000)];
            judged(Facts { clocks_differ_ms, ..facts(grants, lives, LockKind::Mutex) })
        };
        let was_not_set = entered(CLOCKS_DIFFER_MS);
        assert_eq!(was_not_set.overlaps, 1);
        assert!(was_not_set.first.unwrap().ends_with("was there for 6 ms more"));
        assert_eq!(entered(CLOCKS_DIFFER_MS + 5).overlaps, 0);
    }

    #[test]
    fn entries_with_free_leases_or_among_readers_are_not_contested() {
        let lives = Lives::from([life(1, 100), life(3, 110), life(5, 120)]);
        let grants = vec![grant(0, 1, 10_000), grant(1, 3, 20_000), grant(2, 5, 60_000)];
        assert_eq!(compared(grants.clone(), &lives, LockKind::Semaphore(4)).contested, 0);
        let readers = grants.iter().map(|grant| Grant { claim: LockClaim::READ, ..*grant }).collect();
        assert_eq!(compared(readers, &lives, LockKind::ReadWrite).contested, 0);
    }

    #[test]
    fn holds_are_ordered_by_when_they_were_found_not_by_node() {
        // An unfair lock: the holder of the third node came before that of the second
        let order = found(&[(1, Some(1), 10), (2, Some(20), 30), (3, Some(10), 20)]);
        assert_eq!((order.checked_by_zxid, order.too_early), (3, 0));
        // Two holds found in the same state of the queue cannot both be right
        assert_eq!(found(&[(1, Some(5), 10), (2, Some(5), 20)]).too_early, 1);
    }

    #[test]
    fn entry_by_an_event_alone_is_not_checked_by_zxid() {
        let order = found(&[(1, Some(1), 10), (2, None, 20), (3, Some(20), 30)]);
        assert_eq!((order.checked_by_zxid, order.too_early), (2, 0));
    }

    fn life(created: i64, deleted_at_ms: i64) -> (i64, Life) {
        (created, Life { deleted: Some(created + 1), deleted_at_ms: Some(deleted_at_ms), ..Life::default() })
    }

    #[test]
    fn entry_after_the_previous_deletion_is_no_overlap() {
        let lives = Lives::from([life(1, 50), life(3, 90)]);
        let order = compared(vec![grant(0, 1, 10_000), grant(1, 3, 51_000)], &lives, LockKind::Mutex);
        assert_eq!((order.checked, order.overlaps), (2, 0));
    }

    #[test]
    fn entry_before_an_earlier_deletion_is_found_despite_one_in_between() {
        let lives = Lives::from([life(1, 500), life(3, 30), life(5, 600)]);
        let grants = vec![grant(0, 1, 10_000), grant(1, 3, 20_000), grant(2, 5, 40_000)];
        let order = compared(grants, &lives, LockKind::Mutex);
        assert_eq!(order.overlaps, 2);
        assert!(order.first.unwrap().contains("contender 1 (node 0x3)"));
    }

    #[test]
    fn holds_by_one_node_do_not_overlap_and_unknown_nodes_are_skipped() {
        let lives = Lives::from([life(1, 500)]);
        let order = compared(
            vec![grant(0, 1, 10_000), grant(1, 1, 20_000), grant(2, 9, 30_000)],
            &lives,
            LockKind::Mutex,
        );
        assert_eq!((order.checked, order.overlaps), (2, 0));
    }

    #[test]
    fn node_gone_without_a_deletion_is_forgotten_and_blames_no_entry() {
        let lives = Lives::from([(1, Life::default()), life(3, 90)]);
        let grants = vec![grant(0, 1, 10_000), grant(0, 1, 11_000), grant(1, 3, 20_000)];
        let order = compared(grants.clone(), &lives, LockKind::Mutex);
        assert_eq!((order.forgotten, order.checked, order.overlaps), (1, 1, 0));
        // If the node still exists, it blocks the lock
        let order = judged(Facts { all_gone: false, ..facts(grants, lives, LockKind::Mutex) });
        assert_eq!((order.forgotten, order.overlaps), (0, 1));
        assert!(order.first.unwrap().ends_with("was there to the end"));
    }

    #[test]
    fn readers_share_and_a_writer_excludes() {
        let reader =
            |contender, czxid, entered| Grant { claim: LockClaim::READ, ..grant(contender, czxid, entered) };
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
    fn semaphore_admits_as_many_holders_as_leases() {
        let lives = Lives::from([life(1, 100), life(3, 100), life(5, 120)]);
        let grants = vec![grant(0, 1, 10_000), grant(1, 3, 20_000), grant(2, 5, 60_000)];
        let leases = |leases| compared(grants.clone(), &lives, LockKind::Semaphore(leases)).overlaps;
        assert_eq!((leases(3), leases(2), leases(1)), (0, 1, 2));
    }

    #[test]
    fn semaphore_adds_up_the_leases_of_its_holders() {
        let lives = Lives::from([life(1, 100), life(3, 100)]);
        let both_take = |leases| {
            let claim = LockClaim { leases, ..LockClaim::WRITE };
            let grants = [grant(0, 1, 10_000), grant(1, 3, 20_000)].map(|grant| Grant { claim, ..grant });
            compared(grants.into(), &lives, LockKind::Semaphore(5)).overlaps
        };
        assert_eq!((both_take(2), both_take(3)), (0, 1));
    }

    /// The expected result of [`judge`]: lock by lock, in memory, comparing every pair for the time of the
    /// call.
    fn lock_by_lock(facts: &Facts) -> EnsembleOrder {
        let all = facts.grants.iter().unwrap().map(Result::unwrap);
        let known: Vec<(Grant, Life, u64)> = all
            .zip(0..)
            .filter_map(|(grant, place)| Some((grant, facts.lives.get(grant.czxid).unwrap()?, place)))
            .collect();
        let mut order = EnsembleOrder::default();
        let (mut by_clock, mut by_zxid) = (None, None);
        for lock in known.chunk_by(|(one, ..), (next, ..)| one.lock == next.lock) {
            let nodes = lock.chunk_by(|(one, ..), (next, ..)| one.czxid == next.czxid);
            order.forgotten +=
                nodes.clone().filter(|entries| facts.is_forgotten(&entries[0].1)).count() as u64;
            let there = |(_, life, _): &&(Grant, Life, u64)| !facts.is_forgotten(life);
            let found: Vec<_> = nodes
                .map(|entries| {
                    // Released by the last of its holders.
                    let left = entries.iter().map(|(other, ..)| other.left.unwrap_or(other.entered)).max();
                    let (grant, life, place) = &entries[0];
                    (Grant { left, ..*grant }, *life, *place)
                })
                .filter(|hold| there(&hold))
                .filter(|(grant, ..)| grant.zxid.is_some())
                .collect();
            let asked = |grant: &Grant| {
                let left = |other: &Grant| other.left.unwrap_or(other.entered) <= grant.called;
                let ended =
                    found.iter().filter(|(other, ..)| left(other)).filter_map(|(_, life, _)| life.deleted);
                grant.czxid.min(ended.max().unwrap_or(0))
            };
            let by_transaction = |(grant, life, place): &(Grant, Life, u64)| HoldSpan {
                asked: on_axis(asked(grant)),
                from: on_axis(grant.zxid.unwrap()),
                until: life.deleted.map_or(u64::MAX, on_axis),
                ..by_the_clock(facts, grant, life, *place)
            };
            let seen = |holds: Vec<HoldSpan>| {
                sweep(facts.kind, Sorted::of(HoldSpan::by_asking, holds).iter().unwrap()).unwrap()
            };
            let clock = lock
                .iter()
                .filter(there)
                .map(|(grant, life, place)| by_the_clock(facts, grant, life, *place));
            let (clock, zxids) = (seen(clock.collect()), seen(found.iter().map(by_transaction).collect()));
            order.checked += clock.holds;
            order.overlaps += clock.too_early;
            order.checked_by_zxid += zxids.holds;
            order.too_early += zxids.too_early;
            order.contested_by_zxid += zxids.kept_out.waited;
            by_clock =
                by_clock.or_else(|| clock.first.map(|(before, next)| describe_times(facts, &before, &next)));
            by_zxid = by_zxid.or_else(|| zxids.first.map(|(before, next)| describe_zxids(&before, &next)));
        }
        order.first = by_clock.or(by_zxid);
        order
    }

    /// An entry with its node's life, on one of a few locks so that entries conflict.
    fn entry() -> impl Strategy<Value = (Grant, Life)> {
        let times = (0..60_u64, 0..20_u64, prop::option::of(0..20_u64));
        let zxids = (1..90_i64, prop::option::of(0..30_i64), prop::option::of(0..30_i64));
        (0..3_usize, 0..6_usize, times, zxids, any::<bool>()).prop_map(
            |(lock, contender, times, zxids, reads)| {
                let ((called, waits, holds), (czxid, found, deleted)) = (times, zxids);
                let entered = called + waits;
                let mode = if reads { Mode::Read } else { Mode::Write };
                let grant = Grant {
                    lock,
                    contender,
                    claim: LockClaim { mode, leases: 1 },
                    czxid,
                    zxid: found.map(|found| czxid + found),
                    called: 1_000 * called,
                    entered: 1_000 * entered,
                    left: holds.map(|holds| 1_000 * (entered + holds)),
                };
                let deleted = deleted.map(|later| czxid + later);
                (
                    grant,
                    Life {
                        deleted,
                        deleted_at_ms: deleted.map(|deleted| deleted + 4),
                        with_its_session: false,
                    },
                )
            },
        )
    }

    proptest! {
        #[test]
        fn judging_on_disk_equals_judging_in_memory(
            entries in prop::collection::vec(entry(), 0..120),
            kind in prop_oneof![
                Just(LockKind::Mutex), Just(LockKind::ReadWrite), (1..4_u32).prop_map(LockKind::Semaphore)
            ],
            all_gone in any::<bool>(),
        ) {
            let mut grants = Sorter::by(Grant::by_node, &std::env::temp_dir());
            entries.iter().for_each(|(grant, _)| grants.push(*grant).unwrap());
            let lives = entries.iter().map(|(grant, life)| (grant.czxid, *life)).collect();
            let facts = Facts { all_gone, grants: grants.finish(), ..facts(Vec::new(), lives, kind) };
            let expected = lock_by_lock(&facts);
            let is_any = expected.checked + expected.forgotten > 0;
            let contested = judged(facts.clone()).contested;
            prop_assert_eq!(judge(&facts).unwrap(), is_any.then_some(EnsembleOrder { contested, ..expected }));
        }
    }
}
