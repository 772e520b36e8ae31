//! Exclusion as the ensemble saw it: a holder must not be let in by a reply that is older than the deletion of the
//! node of any that was let in before it. It needs no clock, so it holds across machines.

use std::collections::BTreeMap;

use super::judgement::OrderReport;
use crate::check::inside::{Inside, on_axis};
use crate::record::history::{LinePosition, LockClaim, LockKind};

/// How many holds are kept to be put in the order in which they were found. More than this many holds lie between two
/// that are written out of order only where they cannot be compared anyway.
const WINDOW: usize = 512;
const EXAMPLES: usize = 20;

#[derive(Debug, Clone, Copy)]
pub struct Grant {
    pub who: usize,
    pub clock: usize,
    pub claim: LockClaim,
    /// The token: the zxid at which its node was created.
    pub token: i64,
    /// The zxid at which it found that it holds.
    pub zxid: Option<i64>,
    /// The zxid at which its node was deleted.
    pub deleted: Option<i64>,
    pub acquired: LinePosition,
    /// Where the release said what was deleted.
    pub released: Option<LinePosition>,
}

#[derive(Debug)]
pub struct LockHolds {
    /// By the zxid at which each was found, and its token.
    recent: BTreeMap<(i64, i64), Grant>,
    /// The place of the last that has been compared with those before it, and its clock.
    settled: Option<((i64, i64), usize)>,
    /// Those whose nodes were there by then.
    inside: Inside<Grant>,
    highest: Vec<(usize, i64)>,
    /// Holds of which it is not known at which zxid they were found.
    unfound: u64,
    pub report: OrderReport,
    /// Pairs of which the second was let in too early.
    pub examples: Vec<(Grant, Grant)>,
}

impl LockHolds {
    pub fn new(kind: LockKind) -> Self {
        Self {
            recent: BTreeMap::new(),
            settled: None,
            inside: Inside::new(kind),
            highest: Vec::new(),
            unfound: 0,
            report: OrderReport::default(),
            examples: Vec::new(),
        }
    }

    pub fn grant(&mut self, grant: Grant) {
        self.note_order(grant.clock, grant.token);
        // Threads that take turns under one node hold by the same token; the ensemble saw one hold.
        if self.all_kept().any(|other| other.token == grant.token) {
            return;
        }
        let Some(zxid) = grant.zxid else {
            self.unfound += 1;
            return;
        };
        let place = (zxid, grant.token);
        if let Some((_, clock)) = self.settled.filter(|(last, _)| *last > place) {
            self.miss(clock, &grant);
            return;
        }
        self.recent.insert(place, grant);
        if self.recent.len() > WINDOW {
            self.settle_first();
        }
    }

    fn note_order(&mut self, clock: usize, token: i64) {
        match self.highest.iter_mut().find(|(of, _)| *of == clock) {
            None => self.highest.push((clock, token)),
            Some((_, highest)) if *highest > token => self.report.out_of_order += 1,
            Some((_, highest)) => *highest = token,
        }
    }

    pub fn delete(&mut self, token: i64, zxid: i64, place: LinePosition) {
        if let Some(grant) = self.all_kept().find(|grant| grant.token == token) {
            grant.deleted = grant.deleted.max(Some(zxid));
            grant.released = Some(place);
        }
    }

    fn all_kept(&mut self) -> impl Iterator<Item = &mut Grant> {
        self.recent.values_mut().rev().chain(self.inside.iter_mut())
    }

    pub fn close(&mut self) {
        while !self.recent.is_empty() {
            self.settle_first();
        }
        self.report.not_compared += self.unfound;
        if self.highest.len() > 1 {
            self.report.not_compared_across_clocks += self.unfound;
        }
    }

    fn settle_first(&mut self) {
        let Some((place, next)) = self.recent.pop_first() else { return };
        let before = self.settled.replace((place, next.clock));
        let [asked, found] = [next.token, place.0].map(on_axis);
        self.leave_until(place.0);
        self.inside.asks(next.claim, found);
        let waited = self.inside.was_kept_out(next.claim, asked, found);
        let may_be_early = self.inside.keeps_out(next.claim);
        if may_be_early {
            // A deletion that was not written down leaves one comparison out, and not all that follow.
            while self.inside.leave(found, true, |other| other.deleted.is_none()).is_some() {}
        }
        let is_early = self.inside.keeps_out(next.claim);
        match before {
            Some((_, clock)) if may_be_early && !is_early => self.miss(clock, &next),
            Some((_, clock)) => {
                self.report.compared += 1;
                self.report.waited += u64::from(waited);
                self.report.waited_across_clocks += u64::from(waited && clock != next.clock);
            }
            None => {}
        }
        if is_early {
            self.report.too_early += 1;
            let in_the_way = self.inside.in_the_way(next.claim).map(|(_, other)| *other);
            let longest = in_the_way.max_by_key(|other| other.deleted);
            if let Some(longest) = longest.filter(|_| self.examples.len() < EXAMPLES) {
                self.examples.push((longest, next));
            }
        }
        if next.deleted.is_none_or(|deleted| deleted > place.0) {
            self.inside.enter(next.claim, found, next);
        }
    }

    /// Those leave whose nodes had been deleted by then.
    fn leave_until(&mut self, zxid: i64) {
        let deleted = |order: &mut Self| order.inside.iter_mut().filter_map(|grant| grant.deleted).min();
        while let Some(first) = deleted(self).filter(|first| *first <= zxid) {
            self.inside.leave(on_axis(first), false, |grant| grant.deleted == Some(first));
        }
    }

    fn miss(&mut self, clock_before: usize, next: &Grant) {
        self.report.not_compared += 1;
        self.report.not_compared_across_clocks += u64::from(clock_before != next.clock);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(token: i64, zxid: i64) -> Grant {
        let acquired = LinePosition { line: zxid.unsigned_abs(), offset: 0 };
        let claim = LockClaim::WRITE;
        Grant { who: 0, clock: 0, claim, token, zxid: Some(zxid), deleted: None, acquired, released: None }
    }

    /// A mutex with these holds: each one's token, as of which zxid it was found, and which one deleted its node.
    fn with(holds: impl IntoIterator<Item = (i64, i64, i64)>) -> LockHolds {
        let mut order = LockHolds::new(LockKind::Mutex);
        for (token, zxid, deleted) in holds {
            order.grant(grant(token, zxid));
            order.delete(token, deleted, LinePosition::default());
        }
        order.close();
        order
    }

    #[test]
    fn a_hold_is_compared_with_all_before_it_and_not_only_with_its_neighbours() {
        let order = with([(1, 2, 10), (2, 20, 30), (3, 5, 15)]);
        assert_eq!((order.report.compared, order.report.too_early), (2, 1));
        assert_eq!((order.examples[0].0.token, order.examples[0].1.token), (1, 3));
        // One that lasts long is in the way of all that come in its time
        let report = with([(1, 2, 100), (3, 5, 6), (7, 8, 9), (99, 100, 110)]).report;
        assert_eq!((report.compared, report.too_early), (3, 2));
    }

    #[test]
    fn holds_are_compared_in_the_order_in_which_they_were_found_and_not_of_their_lines() {
        let report = with([(3, 25, 30), (1, 2, 10), (2, 12, 20)]).report;
        assert_eq!((report.compared, report.too_early, report.out_of_order), (2, 0, 2));
    }

    #[test]
    fn whoever_was_let_in_by_an_older_reply_than_the_deletion_came_too_early() {
        let mut order = LockHolds::new(LockKind::Mutex);
        order.grant(grant(1, 2));
        order.grant(grant(3, 9));
        order.delete(1, 10, LinePosition::default());
        order.close();
        assert_eq!((order.report.too_early, order.report.waited), (1, 1));
        assert_eq!(order.examples[0].1.token, 3);
    }

    #[test]
    fn a_deletion_that_nobody_wrote_down_leaves_the_pair_uncompared() {
        let mut order = LockHolds::new(LockKind::Mutex);
        order.grant(grant(1, 2));
        order.grant(Grant { clock: 1, ..grant(3, 9) });
        order.close();
        let OrderReport { compared, not_compared, not_compared_across_clocks, .. } = order.report;
        assert_eq!((compared, not_compared, not_compared_across_clocks), (0, 1, 1));
    }

    #[test]
    fn memory_stays_within_the_window_however_many_holds_there_are() {
        let mut order = LockHolds::new(LockKind::Mutex);
        for token in 0..10 * WINDOW as i64 {
            order.grant(grant(2 * token, 2 * token));
            order.delete(2 * token, 2 * token + 1, LinePosition::default());
            assert!(order.recent.len() <= WINDOW);
        }
        order.close();
        assert_eq!(order.report.compared, 10 * WINDOW as u64 - 1);
    }

    #[test]
    fn a_hold_that_comes_out_of_order_by_more_than_the_window_is_not_compared() {
        let mut order = LockHolds::new(LockKind::Mutex);
        for token in 1..=WINDOW as i64 + 2 {
            order.grant(grant(10 * token, 10 * token));
            order.delete(10 * token, 10 * token + 1, LinePosition::default());
        }
        let compared = order.report.compared;
        order.grant(grant(5, 6));
        order.grant(grant(12, 13));
        assert_eq!((order.report.not_compared, order.report.compared), (2, compared));
        assert_eq!(order.report.out_of_order, 2);
    }

    #[test]
    fn holds_by_one_node_are_one_hold_and_in_order() {
        let mut order = LockHolds::new(LockKind::Mutex);
        order.grant(grant(1, 2));
        order.grant(grant(1, 3));
        order.delete(1, 9, LinePosition::default());
        order.grant(grant(5, 10));
        order.close();
        assert_eq!((order.report.compared, order.report.too_early, order.report.out_of_order), (1, 0, 0));
        assert_eq!(order.report.waited, 1);
    }

    #[test]
    fn of_several_deletions_the_last_lets_the_next_one_in() {
        let mut order = LockHolds::new(LockKind::Mutex);
        order.grant(grant(1, 2));
        order.delete(1, 9, LinePosition { line: 7, offset: 0 });
        order.delete(1, 4, LinePosition { line: 8, offset: 0 });
        order.delete(99, 50, LinePosition::default());
        order.grant(grant(12, 8));
        order.close();
        assert_eq!((order.report.too_early, order.report.waited), (1, 0), "it came after that deletion");
        let (before, _) = order.examples[0];
        assert_eq!((before.deleted, before.released.map(|place| place.line)), (Some(9), Some(8)));
    }

    #[test]
    fn a_deletion_counts_for_a_hold_that_has_been_settled() {
        let mut order = LockHolds::new(LockKind::Mutex);
        (1..=WINDOW as i64 + 1).for_each(|token| order.grant(grant(10 * token, 10 * token)));
        order.delete(10, 15, LinePosition::default());
        order.grant(grant(100_000, 100_000));
        assert_eq!((order.report.compared, order.report.not_compared), (1, 0));
    }

    #[test]
    fn an_unfair_lock_grants_in_another_order_than_that_of_its_nodes_whatever_the_clocks() {
        for clock in [0, 1] {
            let mut order = LockHolds::new(LockKind::Mutex);
            order.grant(Grant { deleted: Some(20), ..grant(5, 6) });
            order.grant(Grant { deleted: Some(30), clock, ..grant(3, 21) });
            order.close();
            assert_eq!((order.report.compared, order.report.too_early), (1, 0), "clock {clock}");
        }
    }

    #[test]
    fn all_that_came_too_early_are_counted_and_the_first_twenty_shown() {
        let order = with((1..=31).map(|token| (10 * token, 10 * token + 1, 10 * token + 50)));
        assert_eq!((order.report.too_early, order.report.compared, order.examples.len()), (30, 30, 20));
    }

    #[test]
    fn whoever_has_no_zxid_could_not_have_been_caught() {
        for clock in [0, 1] {
            let mut order = LockHolds::new(LockKind::Mutex);
            order.grant(Grant { deleted: Some(9), ..grant(1, 2) });
            order.grant(Grant { zxid: None, clock, ..grant(3, 9) });
            order.close();
            let OrderReport { waited, not_compared, not_compared_across_clocks, .. } = order.report;
            assert_eq!((waited, not_compared, not_compared_across_clocks), (0, 1, clock as u64));
        }
    }

    #[test]
    fn a_deletion_that_is_not_known_leaves_out_one_comparison_and_forgets_nothing() {
        let mut order = LockHolds::new(LockKind::Mutex);
        order.grant(Grant { deleted: Some(50), ..grant(1, 2) });
        for token in [3, 5, 60] {
            order.grant(grant(token, token + 1));
        }
        order.close();
        let OrderReport { compared, not_compared, too_early, .. } = order.report;
        assert_eq!((compared, not_compared, too_early), (2, 1, 2), "node 1 was there until 50");
    }

    #[test]
    fn of_a_semaphore_leases_are_added_up_and_readers_share() {
        let early = |kind, claim, third| {
            let mut order = LockHolds::new(kind);
            order.grant(Grant { claim, deleted: Some(20), ..grant(1, 2) });
            order.grant(Grant { claim, deleted: Some(30), ..grant(3, 4) });
            order.grant(Grant { claim: third, ..grant(5, 6) });
            order.close();
            (order.report.compared, order.report.too_early)
        };
        let leases = |leases| LockClaim { leases, ..LockClaim::WRITE };
        assert_eq!(early(LockKind::Semaphore(5), leases(2), leases(1)), (2, 0));
        assert_eq!(early(LockKind::Semaphore(5), leases(2), leases(2)), (2, 1));
        assert_eq!(early(LockKind::ReadWrite, LockClaim::READ, LockClaim::READ), (2, 0));
        assert_eq!(early(LockKind::ReadWrite, LockClaim::READ, LockClaim::WRITE), (2, 1));
    }
}
