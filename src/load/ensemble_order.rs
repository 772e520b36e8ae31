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
    /// When it asked.
    pub called: Stamp,
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
            let (from, until) = (grant.zxid?, life.deleted.unwrap_or(i64::MAX));
            Some(Hold { grant, asked: grant.czxid, from, until })
        })
        .collect();
    holds.sort_by_key(|hold| (hold.grant.lock, hold.from));
    let seen = go_through(holds.into_iter(), places);
    order.checked_by_zxid = seen.checked;
    order.contested_by_zxid = seen.kept_out;
    order.too_early = seen.too_early;
    order.first = seen.first.map(|pair| describe_zxids(&pair));
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
        Hold { grant, asked: wall_ms(grant.called), from: wall_ms(grant.entered), until }
    });
    let seen = go_through(holds, places);
    order.checked = seen.checked;
    order.contested = seen.shares.round() as u64;
    order.overlaps = seen.too_early;
    // Of two accounts of the same, the one in milliseconds is the easier to read.
    order.first = seen.first.map(|pair| describe_times(&pair)).or(order.first.take());
}

/// A hold as the ensemble has it, in whatever it is counted.
#[derive(Debug, Clone, Copy)]
struct Hold {
    grant: Grant,
    asked: i64,
    from: i64,
    until: i64,
}

/// What going through holds shows.
#[derive(Default)]
struct Seen {
    checked: u64,
    /// Holds that began while too many others lasted.
    too_early: u64,
    /// The first of them, after the one that lasted longest of those before it.
    first: Option<(Hold, Hold)>,
    /// Holds that others kept from beginning for a part of their wait.
    kept_out: u64,
    /// The sum of these parts, as shares of the waits.
    shares: f64,
}

/// Goes through holds in the order of locks and beginnings.
fn go_through(holds: impl Iterator<Item = Hold>, places: usize) -> Seen {
    let mut seen = Seen::default();
    let mut inside = Inside::default();
    for hold in holds {
        seen.checked += 1;
        inside.until(&hold, places);
        if inside.holds.iter().any(|other| other.grant.czxid == hold.grant.czxid) {
            continue;
        }
        let kept_out = inside.kept_out(&hold);
        if kept_out > 0 {
            seen.kept_out += 1;
            seen.shares += (kept_out as f64 / hold.from.saturating_sub(hold.asked).max(1) as f64).min(1.0);
        }
        let in_the_way = || inside.holds.iter().filter(|other| excludes(other.grant.mode, hold.grant.mode));
        if in_the_way().count() >= places {
            seen.too_early += 1;
            let longest = in_the_way().max_by_key(|other| other.until).copied();
            seen.first = seen.first.or(longest.map(|longest| (longest, hold)));
        }
        inside.enter(hold, places);
    }
    seen
}

/// Who is inside one lock, and when it was shut.
#[derive(Default)]
struct Inside {
    lock: usize,
    holds: Vec<Hold>,
    shut: Shut,
    shut_to_readers: Shut,
}

impl Inside {
    /// Those leave who had left when this hold began.
    fn until(&mut self, hold: &Hold, places: usize) {
        if hold.grant.lock != self.lock {
            *self = Self { lock: hold.grant.lock, ..Self::default() };
        }
        if self.holds.iter().all(|other| other.until > hold.from) {
            return;
        }
        self.holds.sort_by_key(|other| std::cmp::Reverse(other.until));
        while let Some(gone) = self.holds.pop_if(|other| other.until <= hold.from) {
            if self.holds.len() + 1 == places {
                self.shut.ends(gone.until);
            }
            if gone.grant.mode == Mode::Write && self.writers() == 0 {
                self.shut_to_readers.ends(gone.until);
            }
        }
    }

    fn enter(&mut self, hold: Hold, places: usize) {
        if hold.grant.mode == Mode::Write && self.writers() == 0 {
            self.shut_to_readers.since = Some(hold.from);
        }
        self.holds.push(hold);
        if self.holds.len() == places {
            self.shut.since = Some(hold.from);
        }
    }

    fn writers(&self) -> usize {
        self.holds.iter().filter(|hold| hold.grant.mode == Mode::Write).count()
    }

    /// For how much of its wait a hold could not begin.
    fn kept_out(&self, hold: &Hold) -> i64 {
        let shut = if hold.grant.mode == Mode::Read { &self.shut_to_readers } else { &self.shut };
        shut.between(hold.asked, hold.from)
    }
}

/// When nobody else could enter, in the order of time.
#[derive(Default)]
struct Shut {
    since: Option<i64>,
    /// Beginnings and ends, and the sum of all times up to the end.
    times: Vec<(i64, i64, i64)>,
}

impl Shut {
    fn ends(&mut self, at: i64) {
        if let Some(since) = self.since.take().filter(|since| *since < at) {
            let before = self.times.last().map_or(0, |(_, _, sum)| *sum);
            self.times.push((since, at, before + (at - since)));
        }
    }

    /// For how long it was shut from one time to a later one that is not before anything that has ended.
    fn between(&self, from: i64, to: i64) -> i64 {
        let first = self.times.partition_point(|(_, end, _)| *end <= from);
        let ended = self.times.get(first).map_or(0, |(since, end, sum)| {
            let whole = self.times.last().map_or(0, |(_, _, last)| last - sum);
            whole + (end - (*since).max(from))
        });
        ended + self.since.map_or(0, |since| (to - since.max(from)).max(0))
    }
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
        Grant { lock: 0, contender, mode: Mode::Write, czxid, zxid: None, called: 0, entered }
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
    fn an_entry_could_have_been_caught_by_transactions_when_its_node_was_there_before_the_one_in_its_way_went()
     {
        // The second had to wait for the first; the third came when nobody was there.
        let order = found(&[(1, Some(1), 10), (2, Some(10), 20), (25, Some(25), 30)]);
        assert_eq!((order.checked_by_zxid, order.contested_by_zxid), (3, 1));
    }

    #[test]
    fn by_the_clock_an_entry_counts_by_the_share_of_its_wait_in_which_another_was_inside_beyond_doubt() {
        // In since 10 ms, gone at 50 ms, give or take 2: whoever asked at 0 ms and got in at 50 ms could have been seen for 38.
        let lives = Lives::from([life(1, 50), life(3, 90), life(5, 99)]);
        let grants = vec![grant(0, 1, 10_000), grant(1, 3, 50_000), grant(2, 5, 90_000)];
        let order = compared(grants, &lives, MUTEX);
        assert_eq!(
            (order.checked, order.contested),
            (3, 2),
            "38 of 50 ms and 76 of 90 ms make more than one and a half"
        );
        // Who holds for no longer than the clocks may differ shows nothing.
        let lives = Lives::from([life(1, 11), life(3, 13), life(5, 15)]);
        let grants = vec![grant(0, 1, 10_000), grant(1, 3, 12_000), grant(2, 5, 14_000)];
        assert_eq!(compared(grants, &lives, MUTEX).contested, 0);
    }

    #[test]
    fn an_entry_past_free_leases_or_among_readers_could_not_have_been_caught() {
        let lives = Lives::from([life(1, 100), life(3, 110), life(5, 120)]);
        let grants = vec![grant(0, 1, 10_000), grant(1, 3, 20_000), grant(2, 5, 60_000)];
        assert_eq!(compared(grants.clone(), &lives, Terms { places: 4, ..MUTEX }).contested, 0);
        let readers = grants.iter().map(|grant| Grant { mode: Mode::Read, ..*grant }).collect();
        assert_eq!(compared(readers, &lives, MUTEX).contested, 0);
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
