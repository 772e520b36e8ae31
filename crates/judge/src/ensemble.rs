//! Exclusion according to the ensemble: no contender may enter before the nodes of all earlier holders are
//! deleted.
//!
//! Contenders can be wrong about the lock. The servers' transaction logs cannot: they record when each node
//! was deleted, by its holder or with its session. There are two checks.
//!
//! By transaction ([`LockHolds`]): the reply that shows a contender that it holds the lock reflects the state as of
//! some transaction. That transaction must not precede the deletion of an earlier holder's node. This check needs no
//! clock and detects overlaps of any length.
//!
//! By clock ([`NodeHolds`]): the servers run on this host and timestamp transactions with its clock, so their times
//! are comparable with the contenders' times. A contender is notified of a deletion only after the deletion was
//! proposed, so a correct lock never admits the contender earlier.
//!
//! An ensemble can lose acknowledged transactions (ZOOKEEPER-4643, -4646): a follower that recorded a new
//! epoch, but not its transactions, may be elected. A node that disappears without a deletion reveals the
//! loss.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::io;

use super::history::{LockHolds, OrderGrant};
use super::inside::{NodeHold, NodeHolds, on_axis};
use zklockbench_core::clock::Stamp;
use zklockbench_record::history::{LinePosition, LockKind, SessionState};
use zklockbench_record::{Deed, EnsembleOrder, Facts, KeptOut, Life, LockClaim, Moment};

/// Compares the acquisitions with the servers' logs; `None` if there is nothing to compare. Memory grows with
/// locks and contenders, not with acquisitions.
pub(super) fn judge(facts: &Facts) -> io::Result<Option<EnsembleOrder>> {
    if facts.lives.is_empty() {
        return Ok(None);
    }
    let mut view = EnsembleView { facts, locks: BTreeMap::new(), forgotten: HashSet::new(), first: None };
    for moment in facts.moments()? {
        view.happens(&moment?)?;
    }
    Ok(Some(view.conclude()).filter(|order| order.checked + order.forgotten > 0))
}

struct EnsembleView<'a> {
    facts: &'a Facts,
    locks: BTreeMap<usize, LockView>,
    /// Nodes that disappeared without a deletion.
    forgotten: HashSet<i64>,
    /// Description of the first acquisition that was too early according to the clock.
    first: Option<String>,
}

/// One lock according to the ensemble.
#[derive(Default)]
struct LockView {
    by_clock: NodeHolds,
    by_zxid: LockHolds,
    /// Time of each contender's latest acquire call.
    called: HashMap<usize, Stamp>,
    /// Node of each current holder, and the transaction that deleted it.
    inside: HashMap<usize, (i64, i64)>,
    /// Latest releases: time, node, and the transaction that deleted the node.
    released: VecDeque<(Stamp, i64, i64)>,
    /// Latest deletion among the releases dropped from `released`.
    deleted_before: i64,
}

/// Number of releases kept per lock, to place acquire calls on the transaction axis.
const RELEASES_KEPT: usize = 512;

impl LockView {
    fn new(kind: LockKind) -> Self {
        let (by_clock, by_zxid) = (NodeHolds::new(kind), LockHolds::new(kind));
        Self { by_clock, by_zxid, ..Self::default() }
    }

    /// Several contenders may hold the lock through one node in succession; only the last of them deletes the node.
    fn enters(&mut self, contender: usize, node: i64, deleted: i64) {
        self.released.retain(|(_, other, _)| *other != node);
        self.inside.insert(contender, (node, deleted));
    }

    fn leaves(&mut self, contender: usize, at: Stamp) {
        let Some((node, deleted)) = self.inside.remove(&contender) else { return };
        self.released.push_back((at, node, deleted));
        if self.released.len() > RELEASES_KEPT
            && let Some((_, _, deleted)) = self.released.pop_front()
        {
            self.deleted_before = deleted.max(self.deleted_before);
        }
    }

    /// Returns the zxid that stands for a contender's acquire call: the last deletion among the nodes released
    /// before the call, but no later than the creation of the contender's node.
    ///
    /// The call can precede the node, because contenders that share a position in the queue first wait within the
    /// process.
    fn asked(&self, contender: usize, node: i64) -> i64 {
        let Some(called) = self.called.get(&contender) else { return node };
        let before = self.released.iter().filter(|(left, ..)| left <= called);
        node.min(before.map(|(.., deleted)| *deleted).fold(self.deleted_before, i64::max))
    }
}

impl EnsembleView<'_> {
    fn happens(&mut self, moment: &Moment) -> io::Result<()> {
        let Moment { at, contender, lock, deed, .. } = *moment;
        match deed {
            Deed::Asks(claim) => {
                let at_ms = on_axis(self.facts.wall.ms(at));
                let lock = self.lock(lock);
                lock.by_clock.asks(contender, claim, at_ms);
                lock.called.insert(contender, at);
            }
            Deed::Enters { claim, token: Some(node), zxid } => {
                let Some(life) = self.facts.lives.get(node)? else { return Ok(()) };
                if self.facts.is_forgotten(&life) {
                    self.forgotten.insert(node);
                } else {
                    self.enter(moment, claim, node, &life);
                    self.grant(moment, claim, node, zxid, &life);
                }
            }
            Deed::Leaves { .. } | Deed::Session(SessionState::Expired) => {
                self.lock(lock).leaves(contender, at)
            }
            _ => {}
        }
        Ok(())
    }

    fn lock(&mut self, lock: usize) -> &mut LockView {
        let kind = self.facts.kind;
        self.locks.entry(lock).or_insert_with(|| LockView::new(kind))
    }

    /// Adds a hold to the check by clock: from the acquisition to the proposal of the node's deletion.
    fn enter(&mut self, moment: &Moment, claim: LockClaim, node: i64, life: &Life) {
        let differ_ms = self.facts.clocks_differ_ms;
        let hold = NodeHold {
            contender: moment.contender,
            claim,
            node,
            from: on_axis(self.facts.wall.ms(moment.at)),
            until: life.deleted_at_ms.map_or(u64::MAX, |at| on_axis(at - differ_ms)),
        };
        // The lock was granted in time, but the contender entered after its session had ended. The history's
        // checker decides whether the contender had been notified.
        if life.with_its_session && hold.until <= hold.from {
            return;
        }
        if let Some(before) = self.lock(moment.lock).by_clock.enter(hold) {
            self.first.get_or_insert_with(|| describe_times(moment.lock, differ_ms, &before, &hold));
        }
    }

    /// Adds a hold to the check by transaction: from the state that showed the hold to the deletion of its node.
    fn grant(&mut self, moment: &Moment, claim: LockClaim, token: i64, zxid: Option<i64>, life: &Life) {
        let contender = moment.contender;
        // Without a deletion, the node still exists.
        let deleted = life.deleted.unwrap_or(i64::MAX);
        let lock = self.lock(moment.lock);
        let grant = OrderGrant {
            who: contender,
            clock: 0,
            claim,
            token,
            asked: lock.asked(contender, token),
            zxid,
            deleted: Some(deleted),
            acquired: LinePosition { line: moment.at, offset: 0 },
            released: None,
        };
        lock.enters(contender, token, deleted);
        lock.by_zxid.grant(grant);
    }

    fn conclude(self) -> EnsembleOrder {
        let mut order = EnsembleOrder {
            forgotten: self.forgotten.len() as u64,
            // Prefer the description in milliseconds, which is easier to read.
            first: self.first,
            ..EnsembleOrder::default()
        };
        let mut contested = KeptOut::default();
        for (lock, LockView { by_clock, mut by_zxid, .. }) in self.locks {
            order.checked += by_clock.holds;
            order.overlaps += by_clock.too_early;
            contested += by_clock.kept_out;
            by_zxid.close();
            order.checked_by_zxid += by_zxid.report.compared;
            order.too_early += by_zxid.report.too_early;
            order.contested_by_zxid += by_zxid.report.waited;
            let first = by_zxid.examples.first();
            order.first =
                order.first.or_else(|| first.map(|(before, next)| describe_zxids(lock, before, next)));
        }
        order.contested = contested.as_many_as();
        order
    }
}

fn describe_times(lock: usize, differ_ms: i64, before: &NodeHold, next: &NodeHold) -> String {
    let late = match before.until {
        u64::MAX => "until the end".to_owned(),
        until => format!("for another {} ms", until.saturating_add(differ_ms.unsigned_abs()) - next.from),
    };
    format!(
        "contender {} (node 0x{:x}) entered lock {lock} although the node 0x{:x} of contender {} still existed {late}",
        next.contender, next.node, before.node, before.contender
    )
}

fn describe_zxids(lock: usize, before: &OrderGrant, next: &OrderGrant) -> String {
    let deleted = match before.deleted {
        Some(i64::MAX) | None => "never deleted".to_owned(),
        Some(deleted) => format!("deleted by transaction 0x{deleted:x}"),
    };
    format!(
        "contender {} (node 0x{:x}) found that it held lock {lock} as of transaction 0x{:x}; the node 0x{:x} of \
         contender {} was {deleted}",
        next.who,
        next.token,
        next.zxid.unwrap_or_default(),
        before.token,
        before.who
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use zklockbench_record::{CLOCKS_DIFFER_MS, Lives};

    /// An acquisition through a node, with its acquire call and its release.
    #[derive(Debug, Clone, Copy)]
    struct Grant {
        left: Option<Stamp>,
        contender: usize,
        claim: LockClaim,
        czxid: i64,
        zxid: Option<i64>,
        called: Stamp,
        entered: Stamp,
    }

    fn grant(contender: usize, czxid: i64, entered: Stamp) -> Grant {
        Grant { contender, claim: LockClaim::WRITE, czxid, zxid: None, called: 0, entered, left: None }
    }

    fn facts(grants: &[Grant], lives: Lives, kind: LockKind) -> Facts {
        let moments = grants.iter().flat_map(|grant| {
            let Grant { contender, claim, czxid, zxid, called, entered, left } = *grant;
            let enters = Deed::Enters { claim, token: Some(czxid), zxid };
            let leaves = left.map(|left| (left, Deed::Leaves { alone: false }));
            let deeds = [(called, Deed::Asks(claim)), (entered, enters)].into_iter().chain(leaves);
            deeds.map(move |(at, deed)| Moment { at, contender, lock: 0, session: None, deed })
        });
        Facts { lives, ..Facts::without_moments(kind) }.with_moments(moments.collect())
    }

    /// Judges mutex holds, each given as three zxids: the node's creation, the discovery of the hold and the
    /// node's deletion.
    fn found(holds: &[(i64, Option<i64>, i64)]) -> EnsembleOrder {
        let life = |created, deleted| {
            (created, Life { deleted: Some(deleted), deleted_at_ms: Some(0), ..Life::default() })
        };
        let lives = holds.iter().map(|(created, _, deleted)| life(*created, *deleted)).collect();
        let grants: Vec<_> = holds
            .iter()
            .map(|(created, zxid, _)| Grant { zxid: *zxid, left: Some(0), ..grant(0, *created, 0) })
            .collect();
        compared(&grants, &lives, LockKind::Mutex)
    }

    fn compared(grants: &[Grant], lives: &Lives, kind: LockKind) -> EnsembleOrder {
        judged(&facts(grants, lives.clone(), kind))
    }

    fn judged(facts: &Facts) -> EnsembleOrder {
        judge(facts).unwrap().unwrap_or_default()
    }

    fn life(created: i64, deleted_at_ms: i64) -> (i64, Life) {
        (created, Life { deleted: Some(created + 1), deleted_at_ms: Some(deleted_at_ms), ..Life::default() })
    }

    #[test]
    fn hold_found_before_the_previous_deletion_is_too_early() {
        let order = found(&[(1, Some(1), 10), (2, Some(10), 20), (3, Some(20), 30)]);
        assert_eq!((order.checked_by_zxid, order.too_early), (2, 0));
        let order = found(&[(1, Some(1), 10), (2, Some(9), 20)]);
        assert_eq!((order.checked_by_zxid, order.too_early), (1, 1));
        assert!(order.first.unwrap().ends_with("the node 0x1 of contender 0 was deleted by transaction 0xa"));
    }

    #[test]
    fn acquisition_counts_as_contested_if_its_node_existed_before_the_previous_deletion() {
        // The second acquisition had to wait for the first; the third found the lock free.
        let order = found(&[(1, Some(1), 10), (2, Some(10), 20), (25, Some(25), 30)]);
        assert_eq!((order.checked_by_zxid, order.contested_by_zxid), (2, 1));
    }

    #[test]
    fn waits_count_even_before_the_contender_has_a_node() {
        // Both contenders share a queue position: the second has no node until the first one's is deleted.
        let order_if_second_called_at = |called| {
            let first = Grant { zxid: Some(1), left: Some(300), ..grant(0, 1, 100) };
            let second = Grant { zxid: Some(11), called, left: Some(600), ..grant(1, 11, 500) };
            let life = |deleted| Life { deleted: Some(deleted), deleted_at_ms: Some(0), ..Life::default() };
            let lives = Lives::from([(1, life(10)), (11, life(20))]);
            let order = compared(&[first, second], &lives, LockKind::Mutex);
            (order.checked_by_zxid, order.contested_by_zxid, order.too_early)
        };
        let found = order_if_second_called_at(200);
        assert_eq!(found, (1, 1, 0), "the second called acquire during the first hold");
        let found = order_if_second_called_at(301);
        assert_eq!(found, (1, 0, 0), "the second called acquire after the release and did not wait");
    }

    #[test]
    fn shared_node_is_released_by_its_last_holder() {
        // The first contender has left and acquires again while the second holds through the same node.
        let first = Grant { zxid: Some(1), left: Some(200), ..grant(0, 1, 100) };
        let second = Grant { left: Some(400), ..grant(1, 1, 300) };
        let again = Grant { zxid: Some(11), called: 250, left: Some(600), ..grant(0, 11, 500) };
        let life = |deleted| Life { deleted: Some(deleted), deleted_at_ms: Some(0), ..Life::default() };
        let lives = Lives::from([(1, life(10)), (11, life(20))]);
        let order = compared(&[first, second, again], &lives, LockKind::Mutex);
        assert_eq!((order.checked_by_zxid, order.contested_by_zxid, order.too_early), (1, 1, 0));
    }

    #[test]
    fn holds_are_ordered_by_discovery_not_by_node() {
        // An unfair lock: the holder of the third node preceded the holder of the second node
        let order = found(&[(1, Some(1), 10), (2, Some(20), 30), (3, Some(10), 20)]);
        assert_eq!((order.checked_by_zxid, order.too_early), (2, 0));
        // Two holds found in the same state of the queue cannot both be correct
        assert_eq!(found(&[(1, Some(5), 10), (2, Some(5), 20)]).too_early, 1);
    }

    #[test]
    fn acquisition_without_a_zxid_is_not_checked_by_zxid() {
        let order = found(&[(1, Some(1), 10), (2, None, 20), (3, Some(20), 30)]);
        assert_eq!((order.checked_by_zxid, order.too_early), (1, 0));
    }

    #[test]
    fn clock_evidence_counts_the_certainly_blocked_share_of_a_wait() {
        // Held from 10 ms to 50 ms ± 2 ms: for 38 ms of the wait, an overlap would have been detected.
        let lives = Lives::from([life(1, 50), life(3, 90), life(5, 99)]);
        let grants = [grant(0, 1, 10_000), grant(1, 3, 50_000), grant(2, 5, 90_000)];
        let order = compared(&grants, &lives, LockKind::Mutex);
        assert_eq!(order.checked, 3, "the shares 38/50 and 76/90 round to two acquisitions");
        assert_eq!(order.contested, 2, "the shares 38/50 and 76/90 round to two acquisitions");
        // A hold no longer than the clock tolerance is not evidence.
        let lives = Lives::from([life(1, 11), life(3, 13), life(5, 15)]);
        let grants = [grant(0, 1, 10_000), grant(1, 3, 12_000), grant(2, 5, 14_000)];
        assert_eq!(compared(&grants, &lives, LockKind::Mutex).contested, 0);
    }

    #[test]
    fn overlaps_within_a_clock_adjustment_are_not_counted() {
        // The second contender enters 6 ms before the first one's node is deleted.
        let entered = |clocks_differ_ms| {
            let lives = Lives::from([life(1, 50), life(3, 90)]);
            let grants = [grant(0, 1, 10_000), grant(1, 3, 44_000)];
            judged(&Facts { clocks_differ_ms, ..facts(&grants, lives, LockKind::Mutex) })
        };
        let was_not_set = entered(CLOCKS_DIFFER_MS);
        assert_eq!(was_not_set.overlaps, 1);
        assert!(was_not_set.first.unwrap().ends_with("still existed for another 6 ms"));
        assert_eq!(entered(CLOCKS_DIFFER_MS + 5).overlaps, 0);
    }

    #[test]
    fn early_acquisition_is_detected_despite_a_hold_in_between() {
        let lives = Lives::from([life(1, 500), life(3, 30), life(5, 600)]);
        let grants = [grant(0, 1, 10_000), grant(1, 3, 20_000), grant(2, 5, 40_000)];
        let order = compared(&grants, &lives, LockKind::Mutex);
        assert_eq!(order.overlaps, 2);
        assert!(order.first.unwrap().contains("contender 1 (node 0x3)"));
    }

    #[test]
    fn acquisition_after_an_unnoticed_session_end_is_not_a_violation() {
        // The second contender was already inside when the first noticed its own grant.
        let entered = |with_its_session| {
            let gone = Life { with_its_session, ..life(1, 20).1 };
            let lives = Lives::from([(1, gone), life(3, 90)]);
            compared(&[grant(1, 3, 30_000), grant(0, 1, 40_000)], &lives, LockKind::Mutex)
        };
        assert_eq!((entered(true).checked, entered(true).overlaps), (1, 0));
        assert_eq!((entered(false).checked, entered(false).overlaps), (2, 1), "the holder deleted its node");
    }

    #[test]
    fn holds_through_one_node_do_not_overlap_and_unknown_nodes_are_skipped() {
        let lives = Lives::from([life(1, 500)]);
        let grants = [grant(0, 1, 10_000), grant(1, 1, 20_000), grant(2, 9, 30_000)];
        let order = compared(&grants, &lives, LockKind::Mutex);
        assert_eq!((order.checked, order.overlaps), (2, 0));
    }

    #[test]
    fn node_lost_without_a_deletion_is_counted_but_is_not_an_overlap() {
        let lives = Lives::from([(1, Life::default()), life(3, 90)]);
        let grants = [grant(0, 1, 10_000), grant(0, 1, 11_000), grant(1, 3, 20_000)];
        let order = compared(&grants, &lives, LockKind::Mutex);
        assert_eq!((order.forgotten, order.checked, order.overlaps), (1, 1, 0));
        // If the node still exists, it blocks the lock
        let order = judged(&Facts { all_gone: false, ..facts(&grants, lives, LockKind::Mutex) });
        assert_eq!((order.forgotten, order.overlaps), (0, 1));
        assert!(order.first.unwrap().ends_with("still existed until the end"));
    }

    #[test]
    fn readers_share_the_lock_and_a_writer_holds_it_alone() {
        let reader =
            |contender, czxid, entered| Grant { claim: LockClaim::READ, ..grant(contender, czxid, entered) };
        let lives = Lives::from([life(1, 100), life(3, 50), life(5, 120)]);
        let readers = [reader(0, 1, 10_000), reader(1, 3, 20_000)];
        assert_eq!(compared(&readers, &lives, LockKind::ReadWrite).overlaps, 0);
        let with = |writer| compared(&[readers[0], readers[1], writer], &lives, LockKind::ReadWrite);
        assert_eq!(with(grant(2, 5, 99_000)).overlaps, 0);
        let order = with(grant(2, 5, 60_000));
        assert_eq!(order.overlaps, 1);
        assert!(order.first.unwrap().contains("the node 0x1 of contender 0"));
    }

    #[test]
    fn each_lock_is_judged_separately() {
        let lives = Lives::from([life(1, 100), life(3, 100)]);
        let grants = [grant(0, 1, 10_000), grant(1, 3, 20_000)];
        let mut facts = facts(&grants, lives, LockKind::Mutex);
        assert_eq!(judged(&facts).overlaps, 1);
        let moments = facts.moments().unwrap().map(Result::unwrap);
        let moments = moments.map(|moment| Moment { lock: moment.contender, ..moment }).collect();
        facts = facts.clone().with_moments(moments);
        let order = judged(&facts);
        assert_eq!((order.checked, order.overlaps), (2, 0));
    }
}
