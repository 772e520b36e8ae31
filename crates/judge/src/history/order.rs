//! Exclusion according to the ensemble: a reply older than the deletion of an earlier holder's node must not
//! admit the next holder. The check needs no clock, so it works across machines.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::judgement::OrderReport;
use crate::inside::{Evidence, Inside, on_axis};
use zklockbench_record::history::{LinePosition, LockClaim, LockKind};

/// Number of holds kept for sorting by zxid. Holds further out of order are not compared.
const WINDOW: usize = 512;
const EXAMPLES: usize = 20;

#[derive(Debug, Clone, Copy)]
pub struct Grant {
    pub who: usize,
    pub clock: usize,
    pub claim: LockClaim,
    /// Token: the node's czxid.
    pub token: i64,
    /// zxid from which the acquire counts as waiting; at most the token.
    pub asked: i64,
    /// zxid of the state in which the contender found that it held the lock.
    pub zxid: Option<i64>,
    /// zxid of the node's deletion.
    pub deleted: Option<i64>,
    pub acquired: LinePosition,
    /// Line of the release that reported the deletion.
    pub released: Option<LinePosition>,
}

#[derive(Debug, Clone, Copy)]
enum Kept {
    /// Not compared yet; found at this zxid.
    Recent(i64),
    /// Compared, and inside under this key.
    Inside(u64),
}

#[derive(Debug, Default)]
pub struct LockHolds {
    /// Grants not compared yet, by the zxid at which they were found and their token.
    recent: BTreeMap<(i64, i64), Grant>,
    /// Position and clock of the last grant that was compared.
    settled: Option<((i64, i64), usize)>,
    /// Compared grants whose nodes still existed.
    inside: Inside<Grant>,
    compared: u64,
    /// Known deletions of the grants inside: zxid and key.
    deletions: BTreeSet<(i64, u64)>,
    /// Keys of the grants inside without a known deletion.
    undeleted: BTreeSet<u64>,
    /// Clocks of the merged grants, which are only counted.
    merged: BTreeSet<usize>,
    /// State and last holder of each kept grant, by token.
    kept: HashMap<i64, (Kept, usize)>,
    /// Each contender's latest token.
    latest: HashMap<usize, i64>,
    highest: Vec<(usize, i64)>,
    /// Number of holds without a zxid.
    unfound: u64,
    pub report: OrderReport,
    /// Pairs in which the second holder was admitted too early.
    pub examples: Vec<(Grant, Grant)>,
}

impl LockHolds {
    pub fn new(kind: LockKind) -> Self {
        Self { inside: Inside::new(kind), ..Self::default() }
    }

    pub fn grant(&mut self, grant: Grant) {
        self.note_order(grant.clock, grant.token);
        self.supersede(grant.who, grant.token);
        // Threads that alternate on one node share a token, so the ensemble sees only one hold.
        if let Some(clock) = self.kept_grant(grant.token).map(|kept| kept.clock) {
            if clock == grant.clock {
                self.kept.entry(grant.token).and_modify(|(_, holder)| *holder = grant.who);
            } else {
                self.miss(true);
            }
            return;
        }
        let Some(zxid) = grant.zxid else {
            self.unfound += 1;
            return;
        };
        let place = (zxid, grant.token);
        if let Some((_, clock)) = self.settled.filter(|(last, _)| *last > place) {
            self.miss(clock != grant.clock);
            return;
        }
        self.kept.insert(grant.token, (Kept::Recent(zxid), grant.who));
        self.recent.insert(place, grant);
        if self.recent.len() > WINDOW {
            self.settle_first();
        }
    }

    /// Records a contender's new token. No later event of this contender has the previous token.
    fn supersede(&mut self, who: usize, token: i64) {
        let Some(before) = self.latest.insert(who, token).filter(|before| *before != token) else { return };
        if let Some((Kept::Inside(key), holder)) = self.kept.get(&before)
            && *holder == who
            && self.undeleted.remove(key)
        {
            self.merged.extend(self.inside.get_mut(*key).map(|grant| grant.clock));
            self.inside.merge(*key);
            self.kept.remove(&before);
        }
    }

    /// Whether the last holder of a token has a newer token.
    fn is_superseded(&self, token: i64) -> bool {
        let holder = self.kept.get(&token).map(|(_, holder)| holder);
        holder.and_then(|holder| self.latest.get(holder)).is_some_and(|latest| *latest != token)
    }

    fn note_order(&mut self, clock: usize, token: i64) {
        match self.highest.iter_mut().find(|(of, _)| *of == clock) {
            None => self.highest.push((clock, token)),
            Some((_, highest)) if *highest > token => self.report.out_of_order += 1,
            Some((_, highest)) => *highest = token,
        }
    }

    fn kept_grant(&mut self, token: i64) -> Option<&mut Grant> {
        match self.kept.get(&token)?.0 {
            Kept::Recent(found) => self.recent.get_mut(&(found, token)),
            Kept::Inside(key) => self.inside.get_mut(key),
        }
    }

    pub fn delete(&mut self, token: i64, zxid: i64, place: LinePosition) {
        let Some((kept, _)) = self.kept.get(&token).copied() else { return };
        let Some(grant) = self.kept_grant(token) else { return };
        let before = grant.deleted;
        grant.deleted = before.max(Some(zxid));
        grant.released = Some(place);
        let deleted = grant.deleted;
        if let Kept::Inside(key) = kept {
            self.undeleted.remove(&key);
            self.deletions.extend(deleted.map(|deleted| (deleted, key)));
            if let Some(before) = before.filter(|before| *before < zxid) {
                self.deletions.remove(&(before, key));
            }
        }
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
        let [asked, found] = [next.asked, place.0].map(on_axis);
        self.leave_until(place.0);
        self.inside.asks(next.claim, found);
        let waited = self.inside.was_kept_out(next.claim, asked, found);
        let may_be_early = self.inside.excludes(next.claim);
        let mut evicted = BTreeSet::new();
        if may_be_early {
            // A node whose deletion was never recorded prevents only one comparison.
            evicted = std::mem::take(&mut self.merged);
            for grant in self.inside.evict(&std::mem::take(&mut self.undeleted), found) {
                self.kept.remove(&grant.token);
                evicted.insert(grant.clock);
            }
        }
        let is_early = self.inside.excludes(next.claim);
        match before {
            Some(_) if may_be_early && !is_early => {
                self.miss(evicted.iter().any(|clock| *clock != next.clock));
            }
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
        match next.deleted {
            Some(deleted) if deleted <= place.0 => drop(self.kept.remove(&next.token)),
            _ => self.enter(next, found),
        }
    }

    fn enter(&mut self, grant: Grant, found: u64) {
        let key = self.compared;
        self.compared += 1;
        self.inside.enter(key, grant.claim, found, Evidence::Certain, grant);
        match grant.deleted {
            Some(deleted) => drop(self.deletions.insert((deleted, key))),
            None if self.is_superseded(grant.token) => {
                self.merged.insert(grant.clock);
                self.inside.merge(key);
                self.kept.remove(&grant.token);
                return;
            }
            None => drop(self.undeleted.insert(key)),
        }
        if let Some((kept, _)) = self.kept.get_mut(&grant.token) {
            *kept = Kept::Inside(key);
        }
    }

    /// Ends the holds whose nodes were deleted at or before `zxid`.
    fn leave_until(&mut self, zxid: i64) {
        while let Some((deleted, key)) = self.deletions.first().copied().filter(|(first, _)| *first <= zxid) {
            self.deletions.pop_first();
            if let Some(grant) = self.inside.leave(key, on_axis(deleted), false) {
                self.kept.remove(&grant.token);
            }
        }
    }

    fn miss(&mut self, is_across_clocks: bool) {
        self.report.not_compared += 1;
        self.report.not_compared_across_clocks += u64::from(is_across_clocks);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use zklockbench_core::catalog::Mode;

    fn grant(token: i64, zxid: i64) -> Grant {
        let acquired = LinePosition { line: zxid.unsigned_abs(), offset: 0 };
        let claim = LockClaim::WRITE;
        let zxid = Some(zxid);
        Grant { who: 0, clock: 0, claim, token, asked: token, zxid, deleted: None, acquired, released: None }
    }

    /// The report on these grants.
    fn report(kind: LockKind, grants: &[Grant]) -> OrderReport {
        let mut order = LockHolds::new(kind);
        grants.iter().for_each(|grant| order.grant(*grant));
        order.close();
        order.report
    }

    #[test]
    fn unrecorded_deletion_leaves_the_pair_uncompared() {
        let report = report(LockKind::Mutex, &[grant(1, 2), Grant { clock: 1, ..grant(3, 9) }]);
        let OrderReport { compared, not_compared, not_compared_across_clocks, .. } = report;
        assert_eq!((compared, not_compared, not_compared_across_clocks), (0, 1, 1));
    }

    #[test]
    fn unrecorded_deletion_of_a_reader_leaves_the_writer_uncompared() {
        for (reader_clock, across) in [(0, 0), (1, 1)] {
            let reader = |token| Grant { claim: LockClaim::READ, who: 1, ..grant(token, token) };
            let first = Grant { clock: reader_clock, who: 2, ..reader(1) };
            let grants = [first, Grant { deleted: Some(4), ..reader(2) }, grant(3, 4)];
            let report = report(LockKind::ReadWrite, &grants);
            assert_eq!((report.not_compared, report.not_compared_across_clocks), (1, across));
        }
    }

    #[test]
    fn at_most_a_window_of_grants_waits_for_comparison() {
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
    fn hold_out_of_order_by_more_than_the_window_is_not_compared() {
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
    fn holds_through_one_node_count_as_one_hold() {
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
    fn highest_of_several_deletion_zxids_is_used() {
        let mut order = LockHolds::new(LockKind::Mutex);
        order.grant(grant(1, 2));
        order.delete(1, 9, LinePosition { line: 7, offset: 0 });
        order.delete(1, 4, LinePosition { line: 8, offset: 0 });
        order.delete(99, 50, LinePosition::default());
        order.grant(grant(12, 8));
        order.close();
        assert_eq!(order.report.too_early, 1, "the new node was created after the deletion");
        assert_eq!(order.report.waited, 0, "the new node was created after the deletion");
        let (before, _) = order.examples[0];
        assert_eq!((before.deleted, before.released.map(|place| place.line)), (Some(9), Some(8)));
    }

    #[test]
    fn deletion_counts_even_if_recorded_after_its_hold_was_compared() {
        let mut order = LockHolds::new(LockKind::Mutex);
        for token in 1..=WINDOW as i64 + 1 {
            order.grant(Grant { who: token as usize, ..grant(10 * token, 10 * token) });
        }
        order.delete(10, 15, LinePosition::default());
        order.grant(grant(100_000, 100_000));
        assert_eq!((order.report.compared, order.report.not_compared), (1, 0));
    }

    #[test]
    fn memory_grows_only_with_contenders_if_deletions_are_never_recorded() {
        let mut order = LockHolds::new(LockKind::ReadWrite);
        for turn in 0..20 * WINDOW as i64 {
            let reader = Grant { claim: LockClaim::READ, ..grant(2 * turn + 1, 2 * turn + 2) };
            order.grant(Grant { who: turn as usize % 4, ..reader });
            let kept = order.kept.len();
            assert!(kept <= WINDOW + 4, "{kept} grants are kept after grant {turn}");
        }
        let token = 1_000_001;
        order.grant(grant(token, token));
        order.grant(Grant { deleted: Some(token + 9), ..grant(token + 1, token + 2) });
        order.close();
        let OrderReport { compared, not_compared, too_early, .. } = order.report;
        assert_eq!((compared, not_compared), (20 * WINDOW as u64 - 1, 2), "neither writer is compared");
        assert_eq!(too_early, 0, "neither writer is compared");
    }

    #[test]
    fn deletion_by_the_last_holder_of_a_shared_node_counts() {
        let mut order = LockHolds::new(LockKind::Semaphore(3));
        order.grant(grant(1, 2));
        order.grant(Grant { who: 1, ..grant(1, 3) });
        order.grant(grant(20, 30)); // Contender 0 has a new node; contender 1 still uses the old one.
        for token in 100..100 + WINDOW as i64 {
            order.grant(Grant { who: 2, deleted: Some(token), ..grant(token, token) });
        }
        assert!(order.recent.len() < WINDOW + 1 && order.settled.is_some(), "both holds are inside");
        order.delete(1, 5000, LinePosition::default());
        order.delete(20, 5000, LinePosition::default());
        order.grant(Grant { who: 2, deleted: Some(5000), ..grant(4000, 4001) });
        order.grant(Grant { who: 3, ..grant(4002, 4003) });
        order.close();
        assert_eq!(order.report.too_early, 1);
    }

    /// Expected report (compared, not compared, too early), from comparing each hold with all earlier holds.
    fn one_by_one(kind: LockKind, holds: &[Grant]) -> [u64; 3] {
        let mut order: Vec<&Grant> = holds.iter().collect();
        order.sort_by_key(|grant| (grant.zxid, grant.token));
        let is_in_the_way = |others: &[&Grant], next: &Grant| {
            let reads = |grant: &Grant| kind == LockKind::ReadWrite && grant.claim.mode == Mode::Read;
            let shares = |other: &Grant| reads(other) && reads(next);
            let (all, is_semaphore) =
                if let LockKind::Semaphore(all) = kind { (all, true) } else { (1, false) };
            let leases = |grant: &Grant| if is_semaphore { grant.claim.leases } else { 1 };
            let taken: u32 = others.iter().filter(|other| !shares(other)).map(|other| leases(other)).sum();
            taken > 0 && taken + leases(next) > all
        };
        let (mut found, mut inside) = ([0; 3], Vec::<&Grant>::new());
        for (place, next) in order.into_iter().enumerate() {
            inside.retain(|other| other.deleted.is_none_or(|deleted| Some(deleted) > next.zxid));
            let may_be_early = is_in_the_way(&inside, next);
            if may_be_early {
                inside.retain(|other| other.deleted.is_some());
            }
            let is_early = is_in_the_way(&inside, next);
            if place > 0 {
                found[usize::from(may_be_early && !is_early)] += 1;
            }
            found[2] += u64::from(is_early);
            inside.push(next);
        }
        found
    }

    proptest! {
        #[test]
        fn report_matches_a_comparison_of_all_pairs(
            kind in prop_oneof![Just(LockKind::Mutex), Just(LockKind::ReadWrite), Just(LockKind::Semaphore(3))],
            holds in prop::collection::vec(
                (0..3_usize, any::<bool>(), 1..3_u32, 0..4_i64, 0..12_i64, prop::option::of(0..40_i64)), 0..40),
            window in 1..6_usize,
        ) {
            let holds: Vec<Grant> = (0..).zip(holds).map(|(number, (who, reads, leases, wait, after, lasts))| {
                let (mode, token) = (if reads { Mode::Read } else { Mode::Write }, 5 * number + 1);
                let zxid = token + wait + after / 4;
                let claim = LockClaim { mode, leases };
                Grant { who, claim, deleted: lasts.map(|lasts| zxid + lasts), ..grant(token, zxid) }
            }).collect();
            let mut order = LockHolds::new(kind);
            for grant in &holds {
                // Deletions of even tokens are known with the grant, deletions of odd tokens only afterwards.
                order.grant(Grant { deleted: grant.deleted.filter(|_| grant.token % 2 == 0), ..*grant });
                if let Some(deleted) = grant.deleted {
                    order.delete(grant.token, deleted, LinePosition::default());
                }
                while order.recent.len() > window + 10 {
                    order.settle_first();
                }
            }
            order.close();
            let OrderReport { compared, not_compared, too_early, .. } = order.report;
            prop_assert_eq!([compared, not_compared, too_early], one_by_one(kind, &holds));
        }
    }
}
