//! Exclusion as the ensemble saw it: had every earlier holder's node been deleted when the next one entered?
//!
//! What contenders believe can deceive them both ways. The servers' transaction logs can not: they tell when each
//! node was deleted, by its holder or with its session. It is asked twice.
//!
//! By transactions: a contender that found by a reply that it holds found it as of some transaction. That one may not
//! be before the one that deleted the node of a holder before it. No clock has a part in this, and nothing is so short
//! that it passes. Locks that are let in by an event alone have no such reply.
//!
//! By the clock: the servers run on this host and stamp their transactions by its clock, so that their time can be
//! compared with the time at which a contender entered. A contender learns of a deletion only after it was proposed, so
//! a right lock never enters before that.
//!
//! Ensembles can forget: a follower that has noted a new epoch, but not yet the transactions that it was sent for it, may
//! be elected, and then all others throw away what had been acknowledged (ZOOKEEPER-4643, -4646). A node that is gone
//! without ever having been deleted tells of it.

use crate::catalog::Mode;
use crate::clock::Stamp;
use crate::ensemble::transactions::{Life, Lives};
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
    /// What for.
    pub mode: Mode,
    /// The transaction that created the node.
    pub czxid: i64,
    /// As of which transaction it found that it holds, where a reply told.
    pub zxid: Option<i64>,
    /// When it entered.
    pub entered: Stamp,
}

/// What the lock promises, and what is known of the ensemble.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    /// How many may be inside together: 1, or a semaphore's leases. Readers do not count for each other.
    pub places: usize,
    /// That no node of a contender is left.
    pub all_gone: bool,
}

/// Compares the entries with what the servers' logs tell of the nodes, whose times are the wall clock's. `None` when they
/// tell nothing.
#[must_use]
pub fn judge(
    lives: &Lives,
    grants: Vec<Grant>,
    terms: Terms,
    wall_ms: impl Fn(Stamp) -> i64,
) -> Option<EnsembleOrder> {
    let mut order = EnsembleOrder::default();
    let known = known(grants, lives, terms, &mut order);
    compare_zxids(&known, terms.places, &mut order);
    compare_times(known, terms.places, wall_ms, &mut order);
    (order.checked + order.forgotten > 0).then_some(order)
}

/// Whether a node is gone of whose end no server's log tells. Then the ensemble has lost transactions that it had
/// acknowledged, and nothing that depends on that node can be held against the lock.
#[must_use]
pub fn is_forgotten(life: &Life, all_gone: bool) -> bool {
    all_gone && life.deleted.is_none()
}

/// The entries whose nodes the logs know, in the order of the nodes; counts nodes that the ensemble has forgotten.
fn known(
    mut grants: Vec<Grant>,
    lives: &Lives,
    terms: Terms,
    order: &mut EnsembleOrder,
) -> Vec<(Grant, Life)> {
    grants.sort_by_key(|grant| (grant.lock, grant.czxid, grant.entered));
    let mut known = Vec::new();
    let mut last_forgotten = None;
    for grant in grants {
        match lives.get(&grant.czxid) {
            Some(life) if !is_forgotten(life, terms.all_gone) => known.push((grant, *life)),
            Some(_) if last_forgotten.replace(grant.czxid) != Some(grant.czxid) => order.forgotten += 1,
            _ => {}
        }
    }
    known
}

/// Each hold lasts from the transaction as of which it was found to the one that deleted its node. Takes the entries in
/// the order of their nodes.
fn compare_zxids(known: &[(Grant, Life)], places: usize, order: &mut EnsembleOrder) {
    // Several holds by one node are one to the ensemble; the first of them was found by a reply.
    let nodes = known.chunk_by(|(one, _), (next, _)| (one.lock, one.czxid) == (next.lock, next.czxid));
    let firsts = nodes.filter_map(|entries| entries.first().copied());
    let mut holds: Vec<Hold> = firsts
        .filter_map(|(grant, life)| {
            Some(Hold { grant, from: grant.zxid?, until: life.deleted.unwrap_or(i64::MAX) })
        })
        .collect();
    holds.sort_by_key(|hold| (hold.grant.lock, hold.from));
    let (checked, overlaps) = overlaps(holds.into_iter(), places);
    order.checked_by_zxid = checked;
    order.too_early = overlaps.count;
    order.first = overlaps.first.map(|pair| describe_zxids(&pair));
}

/// Each hold lasts from when its contender entered to when the deletion of its node was proposed.
fn compare_times(
    mut known: Vec<(Grant, Life)>,
    places: usize,
    wall_ms: impl Fn(Stamp) -> i64,
    order: &mut EnsembleOrder,
) {
    known.sort_by_key(|(grant, _)| (grant.lock, grant.entered));
    let holds = known.into_iter().map(|(grant, life)| {
        let until = life.deleted_at_ms.map_or(i64::MAX, |at| at - TOLERANCE_MS);
        Hold { grant, from: wall_ms(grant.entered), until }
    });
    let (checked, overlaps) = overlaps(holds, places);
    order.checked = checked;
    order.overlaps = overlaps.count;
    // Of two accounts of the same, the one in milliseconds is the easier to read.
    order.first = overlaps.first.map(|pair| describe_times(&pair)).or(order.first.take());
}

/// A hold as the ensemble has it, in whatever it is counted.
#[derive(Debug, Clone, Copy)]
struct Hold {
    grant: Grant,
    from: i64,
    until: i64,
}

/// Holds that began while too many others lasted.
#[derive(Default)]
struct Overlapping {
    count: u64,
    /// The first of them, after the one that lasted longest of those before it.
    first: Option<(Hold, Hold)>,
}

/// Goes through holds in the order of locks and beginnings. Returns how many there were, and which began too early.
fn overlaps(holds: impl Iterator<Item = Hold>, places: usize) -> (u64, Overlapping) {
    let (mut checked, mut found) = (0, Overlapping::default());
    let mut before: Vec<Hold> = Vec::new();
    for hold in holds {
        checked += 1;
        before.retain(|other| other.grant.lock == hold.grant.lock && other.until > hold.from);
        if before.iter().any(|other| other.grant.czxid == hold.grant.czxid) {
            continue;
        }
        let in_the_way = || before.iter().filter(|other| excludes(other.grant.mode, hold.grant.mode));
        if in_the_way().count() >= places {
            found.count += 1;
            let longest = in_the_way().max_by_key(|other| other.until).copied();
            found.first = found.first.or(longest.map(|longest| (longest, hold)));
        }
        before.push(hold);
    }
    (checked, found)
}

/// Whether one who is inside keeps another out.
fn excludes(inside: Mode, enters: Mode) -> bool {
    inside == Mode::Write || enters == Mode::Write
}

fn describe_times((before, next): &(Hold, Hold)) -> String {
    let late = before.until.saturating_add(TOLERANCE_MS).saturating_sub(next.from);
    let late = if before.until == i64::MAX { "to the end".into() } else { format!("for {late} ms more") };
    format!(
        "contender {} (node 0x{:x}) entered lock {} while the node 0x{:x} of contender {} was there {late}",
        next.grant.contender, next.grant.czxid, next.grant.lock, before.grant.czxid, before.grant.contender
    )
}

fn describe_zxids((before, next): &(Hold, Hold)) -> String {
    let deleted = if before.until == i64::MAX {
        "never".into()
    } else {
        format!("by transaction 0x{:x}", before.until)
    };
    format!(
        "contender {} (node 0x{:x}) found that it holds lock {} as of transaction 0x{:x}; the node 0x{:x} of \
         contender {} was deleted {deleted}",
        next.grant.contender,
        next.grant.czxid,
        next.grant.lock,
        next.from,
        before.grant.czxid,
        before.grant.contender
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(contender: usize, czxid: i64, entered: Stamp) -> Grant {
        Grant { lock: 0, contender, mode: Mode::Write, czxid, zxid: None, entered }
    }

    /// By the nodes that these transactions created and deleted; each was found as of that one.
    fn found(holds: &[(i64, Option<i64>, i64)]) -> EnsembleOrder {
        let life = |created, deleted| (created, Life { created, deleted: Some(deleted), ..Life::default() });
        let lives = holds.iter().map(|(created, _, deleted)| life(*created, *deleted)).collect();
        let grants =
            holds.iter().map(|(created, zxid, _)| Grant { zxid: *zxid, ..grant(0, *created, 0) }).collect();
        compared(grants, &lives, MUTEX)
    }

    const MUTEX: Terms = Terms { places: 1, all_gone: true };

    fn compared(grants: Vec<Grant>, lives: &Lives, terms: Terms) -> EnsembleOrder {
        let mut order = EnsembleOrder::default();
        let known = known(grants, lives, terms, &mut order);
        if known.iter().any(|(grant, _)| grant.zxid.is_some()) {
            compare_zxids(&known, terms.places, &mut order);
        } else {
            compare_times(known, terms.places, ms, &mut order);
        }
        order
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
        let lives = Lives::from([life(1, 50), life(3, 90)]);
        let order = compared(vec![grant(0, 1, 10_000), grant(1, 3, 51_000)], &lives, MUTEX);
        assert_eq!((order.checked, order.overlaps), (2, 0));
    }

    #[test]
    fn whoever_enters_before_is_found_even_when_another_was_in_between() {
        let lives = Lives::from([life(1, 500), life(3, 30), life(5, 600)]);
        let grants = vec![grant(0, 1, 10_000), grant(1, 3, 20_000), grant(2, 5, 40_000)];
        let order = compared(grants, &lives, MUTEX);
        assert_eq!(order.overlaps, 2);
        assert!(order.first.unwrap().contains("contender 1 (node 0x3)"));
    }

    #[test]
    fn holds_by_one_node_do_not_overlap_and_unknown_nodes_are_not_judged() {
        let lives = Lives::from([life(1, 500)]);
        let order =
            compared(vec![grant(0, 1, 10_000), grant(1, 1, 20_000), grant(2, 9, 30_000)], &lives, MUTEX);
        assert_eq!((order.checked, order.overlaps), (2, 0));
    }

    #[test]
    fn a_node_that_is_gone_and_was_never_deleted_is_forgotten_and_nothing_is_held_against_the_next_one() {
        let lives = Lives::from([(1, Life { created: 1, ..Life::default() }), life(3, 90)]);
        let grants = vec![grant(0, 1, 10_000), grant(0, 1, 11_000), grant(1, 3, 20_000)];
        let order = compared(grants.clone(), &lives, MUTEX);
        assert_eq!((order.forgotten, order.checked, order.overlaps), (1, 1, 0));
        // When it is still there it is in the way
        let order = compared(grants, &lives, Terms { all_gone: false, ..MUTEX });
        assert_eq!((order.forgotten, order.overlaps), (0, 1));
        assert!(order.first.unwrap().ends_with("was there to the end"));
    }

    #[test]
    fn readers_are_inside_together_and_a_writer_alone() {
        let reader =
            |contender, czxid, entered| Grant { mode: Mode::Read, ..grant(contender, czxid, entered) };
        let lives = Lives::from([life(1, 100), life(3, 50), life(5, 120)]);
        let readers = vec![reader(0, 1, 10_000), reader(1, 3, 20_000)];
        assert_eq!(compared(readers.clone(), &lives, MUTEX).overlaps, 0);
        let writer_after = [readers.clone(), vec![grant(2, 5, 99_000)]].concat();
        assert_eq!(compared(writer_after, &lives, MUTEX).overlaps, 0);
        let writer_between = [readers, vec![grant(2, 5, 60_000)]].concat();
        let order = compared(writer_between, &lives, MUTEX);
        assert_eq!(order.overlaps, 1);
        assert!(order.first.unwrap().contains("the node 0x1 of contender 0"));
    }

    #[test]
    fn of_a_semaphore_as_many_are_inside_as_it_has_leases() {
        let lives = Lives::from([life(1, 100), life(3, 100), life(5, 120)]);
        let grants = vec![grant(0, 1, 10_000), grant(1, 3, 20_000), grant(2, 5, 60_000)];
        let leases = |places| compared(grants.clone(), &lives, Terms { places, all_gone: true }).overlaps;
        assert_eq!((leases(3), leases(2), leases(1)), (0, 1, 2));
    }
}
