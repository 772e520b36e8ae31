//! Holders of one lock according to the contenders on one clock, and acquires that may be stuck.

use std::collections::{BTreeMap, BTreeSet};

use super::clocks::Moment;
use super::contender::CalledAcquire;
use super::judgement::{Breach, Overlaps};
use super::overlap::{LOOKED_AT, Overlap, Party, Traces};
use crate::inside::{Evidence, Inside};
use crate::weigh::{Granted, Soundness};
use zklockbench_record::history::{LinePosition, LockClaim, LockKind};

/// Number of new unclassified overlaps that triggers a merge of overlaps with the same open states.
const MERGED: usize = 64;
/// Maximum number of unclassified overlaps after merging. Beyond it, the oldest are classified from what is known.
const WAITING: usize = 256;
/// Maximum total number of insiders in unclassified overlaps. Up to [`KEPT`] overlaps may exceed it.
const INSIDERS: usize = 2 * WAITING * LOOKED_AT;
const KEPT: usize = 8;
const EXAMPLES: usize = 20;

/// One hold, from the return of acquire to the release call.
#[derive(Debug)]
pub struct Hold {
    pub number: u64,
    pub claim: LockClaim,
    /// Time of the acquire call.
    pub asked_us: Option<u64>,
    /// Whether the acquire's outcome is unknown.
    pub possible: bool,
    pub suspended: bool,
    pub traces: Traces,
    /// Set once the holder has been notified of its session's end.
    pub lost: Option<OverdueHold>,
    /// Number of untracked acquisitions during the release, which overlap this hold if the release fails.
    pub overlooked: u64,
}

/// A hold that should have ended with its session.
#[derive(Debug)]
pub struct OverdueHold {
    pub at: Moment,
    pub others: u64,
    pub first: Option<(u64, Traces)>,
}

/// A classified overlap, kept as an example.
#[derive(Debug, Clone)]
pub struct Example {
    pub breach: Breach,
    pub inside: Traces,
    /// Other contenders inside whose sessions have the same soundness as that of `inside`.
    pub beside: Vec<usize>,
    pub entered: Traces,
    pub since_us: u64,
    pub length_us: u64,
}

/// State of one lock on one clock.
#[derive(Debug, Default)]
pub struct Occupancy {
    inside: Inside<Hold>,
    /// Current holds that may never have existed.
    possible: BTreeSet<u64>,
    /// Holds with a release that was called but has not succeeded yet.
    leaving: Vec<Hold>,
    waiting: Vec<Overlap>,
    /// Number of unclassified overlaps at which they are merged.
    merge_at: usize,
    pub entries: u64,
    pub waits: Waits,
    pub violations: Overlaps,
    pub zombies: Overlaps,
    /// Overlaps that cannot be classified.
    pub uncertain: Overlaps,
    /// Holders that kept the lock after being notified of their session's end, while other contenders acquired it.
    pub ignored_expiry: u64,
    pub examples: Vec<Example>,
}

impl Occupancy {
    pub fn new(kind: LockKind) -> Self {
        Self { inside: Inside::new(kind), merge_at: MERGED, ..Self::default() }
    }

    /// Registers an acquire. Returns the total time that its claim has been blocked so far.
    pub fn asks(&mut self, claim: LockClaim, t_us: u64) -> u64 {
        self.inside.asks(claim, t_us)
    }

    /// Total time that the claim has been blocked.
    pub fn kept_out_us(&self, claim: LockClaim, t_us: u64) -> u64 {
        self.inside.kept_out(claim, t_us)
    }

    /// Returns whether an acquisition conflicts with holds that count as evidence, and marks those holds as
    /// doubtful: if the lock works, they ended unnoticed.
    pub fn meets_evidence(&mut self, claim: LockClaim, t_us: u64) -> bool {
        if !self.inside.certainly_excludes(claim) {
            return false;
        }
        let met: Vec<u64> = self.inside.in_the_way(claim).map(|(_, hold)| hold.number).collect();
        met.into_iter().for_each(|number| self.inside.doubt(number, t_us));
        true
    }

    pub fn enter(&mut self, hold: Hold, since: Moment) {
        self.entries += 1;
        if !hold.possible {
            self.meet(&hold, since);
        }
        let evidence = if hold.possible { Evidence::Doubtful } else { Evidence::Certain };
        if hold.possible {
            self.possible.insert(hold.number);
        }
        self.inside.enter(hold.number, hold.claim, since.t_us, evidence, hold);
    }

    fn meet(&mut self, hold: &Hold, since: Moment) {
        let is_full = self.inside.excludes(hold.claim);
        if !is_full && self.leaving.is_empty() {
            return;
        }
        let kind = self.inside.kind();
        let allowed = kind.allowed_beside(hold.claim);
        let met: Vec<(u64, &mut Hold)> = self.inside.in_the_way(hold.claim).collect();
        let live: u64 = met.iter().filter(|(_, other)| other.lost.is_none()).map(|(leases, _)| leases).sum();
        let leaving = || {
            let leaving = self.leaving.iter().rev();
            leaving.map(|other| (kind.weight_against(hold.claim, other.claim), other))
        };
        if live + leaving().map(|(leases, _)| leases).sum::<u64>() > allowed {
            let met = met.iter().rev().map(|(leases, other)| (*leases, &**other));
            let met = met.filter(|(_, other)| other.lost.is_none());
            let insiders = met.map(|(leases, other)| insider(hold, other, leases));
            let leaving = leaving().filter(|(leases, _)| *leases > 0);
            let leaving =
                leaving.map(|(leases, other)| Party { is_leaving: true, ..insider(hold, other, leases) });
            let insiders = insiders.chain(leaving);
            let overlap = overlap(hold, since, allowed, live > allowed, insiders);
            // If the tracked holders leave enough leases, only releases beyond the tracking limit conflict.
            if overlap.is_none() {
                let is_too_much =
                    |other: &&mut Hold| live + kind.weight_against(hold.claim, other.claim) > allowed;
                self.leaving.iter_mut().filter(is_too_much).for_each(|other| other.overlooked += 1);
            } else {
                self.keep(overlap);
            }
        }
        if live > allowed {
            // A hold that may never have existed explains only one overlap.
            for number in std::mem::take(&mut self.possible) {
                self.inside.leave(number, since.t_us, false);
            }
        } else if is_full && let Some(zombie) = self.inside.in_the_way(hold.claim).find_map(lost) {
            zombie.others += 1;
            zombie.first.get_or_insert((since.t_us, hold.traces));
        }
    }

    /// Adds an unclassified overlap. Overlaps are merged in batches, so the cost per overlap is constant.
    fn keep(&mut self, overlap: Overlap) {
        let now_us = overlap.since.t_us;
        self.waiting.push(overlap);
        if self.waiting.len() < self.merge_at && self.insiders() <= INSIDERS {
            return;
        }
        self.merge();
        let is_too_much = |this: &Self| {
            let kept = this.waiting.len();
            kept > WAITING || kept > KEPT && this.insiders() > INSIDERS / 2
        };
        while is_too_much(self) {
            let mut oldest = self.waiting.remove(0);
            oldest.stop_waiting();
            self.settle(&oldest, now_us);
        }
        self.merge_at = self.waiting.len() + MERGED;
    }

    fn insiders(&self) -> usize {
        self.waiting.iter().map(|overlap| overlap.insiders.len()).sum()
    }

    /// Merges overlaps whose classes depend on the same open states.
    fn merge(&mut self) {
        let mut first = BTreeMap::new();
        for overlap in std::mem::take(&mut self.waiting) {
            match overlap.openness().map(|openness| *first.entry(openness).or_insert(self.waiting.len())) {
                Some(place) if place < self.waiting.len() => self.waiting[place].merge(&overlap),
                _ => self.waiting.push(overlap),
            }
        }
    }

    fn give_up(&mut self, mut overlap: Overlap, now_us: u64) {
        overlap.give_up();
        if !overlap.is_none() {
            self.settle(&overlap, now_us);
        }
    }

    /// Starts a release. `alone` means that no other contender could run during the hold.
    pub fn leave(&mut self, number: u64, at: Moment, alone: bool) {
        let Some(hold) = self.inside.leave(number, at.t_us, alone) else { return };
        let traces = Traces { released: Some(at.place), ..hold.traces };
        if let Some(OverdueHold { others, first: Some((since_us, entered)), .. }) = hold.lost
            && since_us < at.t_us
        {
            let length_us = at.t_us.saturating_sub(since_us);
            self.zombies.add(others, length_us);
            self.ignored_expiry += 1;
            if self.wants(Breach::Zombie) {
                let (breach, inside, beside) = (Breach::Zombie, traces, Vec::new());
                self.examples.push(Example { breach, inside, beside, entered, since_us, length_us });
            }
        }
        if hold.lost.is_some() {
            // The checker does not report the result of this release.
            self.waiting.iter_mut().for_each(|overlap| overlap.is_gone(number));
        } else if !hold.possible {
            self.leaving.push(Hold { traces, ..hold });
        }
        self.end(number, at.t_us, Some(at.place));
    }

    /// Handles another release call after an unknown result: the holder may have been inside until now.
    pub fn leave_again(&mut self, number: u64, at: Moment) {
        if let Some(hold) = self.leaving.iter_mut().find(|hold| hold.number == number) {
            self.uncertain.add(std::mem::take(&mut hold.overlooked), 0);
            self.waiting.iter_mut().for_each(|overlap| overlap.may_have_stayed(number));
            self.end(number, at.t_us, Some(at.place));
        } else {
            self.leave(number, at, false);
        }
    }

    /// Ends a hold after its release took effect, or when its contender continues as if the release had taken
    /// effect.
    pub fn is_gone(&mut self, number: u64) {
        if self.stop_leaving(number).is_some() {
            self.waiting.iter_mut().for_each(|overlap| overlap.is_gone(number));
            self.settle_all();
        }
    }

    /// Handles a failed release: the holder remains inside.
    pub fn stays(&mut self, number: u64, at: Moment) {
        if let Some(mut hold) = self.stop_leaving(number) {
            self.uncertain.add(std::mem::take(&mut hold.overlooked), 0);
            self.waiting.iter_mut().for_each(|overlap| overlap.stays(number));
            self.inside.enter(number, hold.claim, at.t_us, Evidence::Certain, hold);
        }
    }

    fn stop_leaving(&mut self, number: u64) -> Option<Hold> {
        let found = self.leaving.iter().position(|hold| hold.number == number)?;
        Some(self.leaving.swap_remove(found))
    }

    /// Ends a hold as of the notification that its session has ended, or removes a hold that never existed.
    pub fn vanish(&mut self, number: u64) {
        let Some(hold) = self.inside.get_mut(number) else { return };
        let lost_us = hold.lost.as_ref().map(|lost| lost.at.t_us);
        self.possible.remove(&number);
        self.inside.leave(number, lost_us.unwrap_or_default(), false);
        if let Some(lost_us) = lost_us {
            self.end(number, lost_us, None);
        }
    }

    fn end(&mut self, number: u64, t_us: u64, place: Option<LinePosition>) {
        self.waiting.iter_mut().for_each(|overlap| overlap.leave(number, t_us, place));
        self.settle_all();
    }

    /// Sets the soundness of a hold's session.
    pub fn resolve(&mut self, number: u64, soundness: Soundness) {
        if !self.waiting.is_empty() {
            self.waiting.iter_mut().for_each(|overlap| overlap.resolve(number, soundness));
            self.settle_all();
        }
    }

    /// Suspends or reconnects a holder's session.
    pub fn suspend(&mut self, number: u64, suspended: bool, place: LinePosition) {
        if let Some(hold) = self.inside.get_mut(number) {
            hold.suspended = suspended;
            hold.traces.session = suspended.then_some(place);
        }
        if suspended {
            self.waiting.iter_mut().for_each(|overlap| overlap.trace_session(number, place));
        }
    }

    /// Handles the notification that a holder's session has ended.
    pub fn lose(&mut self, number: u64, at: Moment) {
        // The ensemble may have admitted another contender by now.
        self.inside.doubt(number, at.t_us);
        if let Some(hold) = self.inside.get_mut(number) {
            hold.lost.get_or_insert(OverdueHold { at, others: 0, first: None });
            hold.traces.session = Some(at.place);
        }
        self.expire(number, at.place);
    }

    /// Handles a session that ended before its holder's release took effect.
    pub fn expire(&mut self, number: u64, place: LinePosition) {
        self.waiting.iter_mut().for_each(|overlap| overlap.trace_session(number, place));
        self.resolve(number, Soundness::Lost);
    }

    /// Handles a holder that is still inside at the end. `lived` returns whether its session was alive at a line.
    pub fn remain(&mut self, number: u64, lived: impl Fn(LinePosition) -> bool) {
        for overlap in &mut self.waiting {
            let sound = lived(overlap.since.place);
            if sound && !lived(overlap.last) && overlap.depends_on(number) {
                self.uncertain = self.uncertain.and(std::mem::take(&mut overlap.merged));
            }
            overlap.resolve(number, if sound { Soundness::Sound } else { Soundness::Unknown });
        }
    }

    /// Ends the history: open states become unknown.
    pub fn close(&mut self, now_us: u64) {
        for overlap in std::mem::take(&mut self.waiting) {
            self.give_up(overlap, now_us);
        }
    }

    fn settle_all(&mut self) {
        self.waiting.retain(|overlap| !overlap.is_none());
        let settled = |overlap: &mut Overlap| overlap.ended_us.is_some() && overlap.breach().is_some();
        let settled: Vec<Overlap> = self.waiting.extract_if(.., settled).collect();
        settled.iter().for_each(|overlap| self.settle(overlap, overlap.since.t_us));
    }

    fn settle(&mut self, overlap: &Overlap, now_us: u64) {
        let breach = overlap.breach().unwrap_or(Breach::Uncertain);
        let length_us = overlap.length_us(now_us);
        let class = match breach {
            Breach::Violation => &mut self.violations,
            Breach::Zombie => &mut self.zombies,
            _ => &mut self.uncertain,
        };
        class.add(1, length_us);
        *class = class.and(overlap.merged);
        if let Some(inside) = overlap.counterpart(breach).filter(|_| self.wants(breach)) {
            let alike = |party: &&Party| party.hold != inside.hold && party.soundness == inside.soundness;
            let beside = overlap.insiders.iter().filter(alike).map(|party| party.traces.who).collect();
            let (inside, entered, since_us) = (inside.traces, overlap.entering.traces, overlap.since.t_us);
            self.examples.push(Example { breach, inside, beside, entered, since_us, length_us });
        }
    }

    /// Whether a class needs more examples.
    fn wants(&self, breach: Breach) -> bool {
        self.examples.iter().filter(|other| other.breach == breach).count() < EXAMPLES
    }
}

fn lost((_, hold): (u64, &mut Hold)) -> Option<&mut OverdueHold> {
    hold.lost.as_mut()
}

/// Creates an overlap. Tracks the latest insiders individually, because their overlaps are likely to last longest.
/// `exceeds` means that the insiders exceed the limit even if all pending releases succeed.
fn overlap(
    hold: &Hold,
    since: Moment,
    allowed: u64,
    exceeds: bool,
    mut insiders: impl Iterator<Item = Party>,
) -> Overlap {
    let beside = if exceeds { usize::try_from(allowed).unwrap_or(usize::MAX) } else { 0 };
    let looked_at: Vec<Party> = insiders.by_ref().take(beside.saturating_add(LOOKED_AT)).collect();
    Overlap {
        entering: party(hold, hold, hold.claim.leases.into()),
        since,
        insiders: looked_at,
        others: insiders.filter(|party| !party.is_leaving).map(|party| party.weight).sum(),
        allowed,
        ended_us: None,
        merged: Overlaps::default(),
        last: since.place,
    }
}

fn insider(entering: &Hold, other: &Hold, weight: u64) -> Party {
    let soundness = match (other.possible, other.suspended) {
        (true, _) => Soundness::Unknown,
        (_, true) => Soundness::Lost,
        _ => Soundness::Open,
    };
    Party { soundness, ..party(entering, other, weight) }
}

fn party(entering: &Hold, hold: &Hold, weight: u64) -> Party {
    Party {
        hold: hold.number,
        weight,
        soundness: Soundness::Open,
        granted: Granted::of(
            (hold.traces.token, hold.traces.entered_us),
            (entering.traces.token, entering.asked_us),
        ),
        inside: true,
        is_leaving: false,
        traces: hold.traces,
    }
}

/// An acquire is stuck if it waited at least [`AT_LEAST_US`] and at least this many times as long as any finished
/// acquire.
const TIMES_AS_LONG: u64 = 10;
/// Minimum wait of a stuck acquire, in microseconds.
const AT_LEAST_US: u64 = 1_000_000;

/// Successful waits for one lock on one clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct Waits {
    longest_us: u64,
    latest_called_us: Option<u64>,
}

impl Waits {
    pub fn ended(&mut self, called_us: u64, now_us: u64) {
        self.longest_us = self.longest_us.max(now_us.saturating_sub(called_us));
        self.latest_called_us = self.latest_called_us.max(Some(called_us));
    }

    /// Whether an unfinished acquire counts as stuck at its process's last event: a later call acquired the lock,
    /// and every successful wait was far shorter.
    pub fn is_stuck(&self, asked: &CalledAcquire, heard_us: u64) -> bool {
        let waited = heard_us.saturating_sub(asked.at.t_us);
        let passed = self.latest_called_us.is_some_and(|called| called > asked.at.t_us);
        passed && waited >= AT_LEAST_US.max(self.longest_us.saturating_mul(TIMES_AS_LONG))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use zklockbench_core::catalog::Mode;
    use zklockbench_record::history::StatedClaim;

    fn moment(t_us: u64) -> Moment {
        Moment { t_us, place: LinePosition { line: t_us, offset: 0 }, clock: 0 }
    }

    fn hold(number: u64) -> Hold {
        let acquired = LinePosition::default();
        let traces =
            Traces { who: 0, token: None, entered_us: number, acquired, session: None, released: None };
        Hold {
            number,
            claim: LockClaim::WRITE,
            asked_us: Some(u64::MAX),
            possible: false,
            suspended: false,
            traces,
            lost: None,
            overlooked: 0,
        }
    }

    /// A lock with this many holders.
    fn held(kind: LockKind, holders: u64) -> Occupancy {
        let mut occupancy = Occupancy::new(kind);
        (0..holders).for_each(|number| occupancy.enter(hold(number), moment(number)));
        occupancy
    }

    /// Ends a hold whose node is gone.
    fn ends(occupancy: &mut Occupancy, number: u64, at: u64, soundness: Soundness) {
        occupancy.leave(number, moment(at), false);
        occupancy.is_gone(number);
        occupancy.resolve(number, soundness);
    }

    /// Numbers of violations, zombies and uncertain overlaps.
    fn counts(occupancy: &Occupancy) -> [u64; 3] {
        [occupancy.violations.count, occupancy.zombies.count, occupancy.uncertain.count]
    }

    #[test]
    fn overlaps_that_are_no_longer_tracked_are_uncertain() {
        let all = WAITING as u64 + MERGED as u64;
        let kept = WAITING as u64;
        for (is_known, expected) in [(false, [0, 0, all]), (true, [kept, 0, all - kept])] {
            let mut occupancy = Occupancy::new(LockKind::Mutex);
            // Given more open overlaps than the limit
            for number in 0..=all {
                occupancy.enter(hold(number), moment(1 + number));
            }
            assert_eq!((counts(&occupancy), occupancy.waiting.len()), ([0, 0, all - kept], WAITING));
            // When all sessions turn out to have been alive, or remain unknown
            for number in (0..=all).filter(|_| is_known) {
                occupancy.leave(number, moment(1_000 + number), false);
                occupancy.resolve(number, Soundness::Sound);
            }
            occupancy.close(2_000);
            assert_eq!(counts(&occupancy), expected, "{is_known}");
        }
    }

    /// A lock whose hold 1 is stuck, and 1,000 later holds that exclude each other.
    fn beside_a_stuck_hold(stuck: fn(&mut Occupancy)) -> Occupancy {
        let mut occupancy = Occupancy::new(LockKind::Mutex);
        occupancy.enter(hold(1), moment(1));
        stuck(&mut occupancy);
        for number in 2..1_002 {
            let at = 10 * number;
            occupancy.enter(hold(number), moment(at));
            ends(&mut occupancy, number, at + 5, Soundness::Sound);
            assert!(occupancy.waiting.len() <= 2 * MERGED, "{}", occupancy.waiting.len());
        }
        occupancy
    }

    fn enters_beside_an_intruder(occupancy: &mut Occupancy) {
        occupancy.enter(hold(2_000), moment(20_000));
        occupancy.enter(hold(2_001), moment(20_001));
        for number in [2_000, 2_001] {
            ends(occupancy, number, 20_010 + number, Soundness::Sound);
        }
    }

    #[test]
    fn acquisitions_during_a_frozen_hold_are_classified_by_the_holders_session() {
        for (soundness, expected) in [(Soundness::Lost, [1, 1_001, 0]), (Soundness::Sound, [1_002, 0, 0])] {
            let mut occupancy = beside_a_stuck_hold(|_| {});
            enters_beside_an_intruder(&mut occupancy);
            occupancy.resolve(1, soundness);
            assert_eq!(counts(&occupancy), expected, "{soundness:?}");
        }
    }

    #[test]
    fn merged_acquisitions_after_the_last_sign_of_life_of_a_holder_are_uncertain() {
        for (last_line, expected) in [(500, [1, 0, 999]), (10_010, [1_000, 0, 0]), (0, [0, 0, 1_000])] {
            let mut occupancy = beside_a_stuck_hold(|_| {});
            occupancy.remain(1, |place| place.line <= last_line);
            occupancy.close(30_000);
            assert_eq!(counts(&occupancy), expected, "{last_line}");
        }
    }

    #[test]
    fn any_number_of_acquisitions_after_a_release_without_an_answer_are_no_overlaps() {
        let counts_after = |then: fn(&mut Occupancy)| {
            let mut occupancy = beside_a_stuck_hold(|occupancy| occupancy.leave(1, moment(2), false));
            then(&mut occupancy);
            occupancy.close(30_000);
            counts(&occupancy)
        };
        assert_eq!(counts_after(|_| {}), [0, 0, 0]);
        let beside_an_intruder = counts_after(enters_beside_an_intruder);
        assert_eq!(beside_an_intruder, [1, 0, 0], "the intruder is not hidden by the others");
        let failed = counts_after(|occupancy| {
            occupancy.stays(1, moment(25_000));
            occupancy.resolve(1, Soundness::Sound);
        });
        assert_eq!(failed, [1_000, 0, 0], "the release failed after all");
    }

    #[test]
    fn one_live_holder_too_many_is_a_violation_even_with_many_leases() {
        for (is_last_lost, expected) in [(false, [1, 0, 0]), (true, [0, 1, 0])] {
            let mut occupancy = held(LockKind::Semaphore(500), 501);
            for number in 0..501 {
                let is_lost = is_last_lost && number == 0;
                let soundness = if is_lost { Soundness::Lost } else { Soundness::Sound };
                ends(&mut occupancy, number, 600 + number, soundness);
            }
            assert_eq!(counts(&occupancy), expected, "{is_last_lost}");
        }
    }

    #[test]
    fn handoffs_of_a_semaphore_with_many_leases_are_no_overlaps_after_an_unanswered_release() {
        let mut occupancy = held(LockKind::Semaphore(200), 200);
        occupancy.leave(0, moment(300), false);
        occupancy.enter(hold(200), moment(301));
        for number in 1..1_001 {
            let at = 300 + 10 * number;
            ends(&mut occupancy, number, at, Soundness::Sound);
            occupancy.enter(hold(200 + number), moment(at + 5));
        }
        assert!(occupancy.waiting.is_empty(), "{}", occupancy.waiting.len());
        occupancy.close(20_000);
        assert_eq!(counts(&occupancy), [0, 0, 0]);
    }

    #[test]
    fn acquisition_during_many_holds_with_a_failed_release_is_uncertain() {
        let mut occupancy = held(LockKind::Semaphore(65), 65);
        occupancy.leave(0, moment(300), false);
        occupancy.enter(hold(65), moment(301));
        occupancy.stays(0, moment(302));
        occupancy.close(400);
        assert_eq!(counts(&occupancy), [0, 0, 1]);
    }

    #[test]
    fn insiders_beyond_the_tracking_limit_count_as_unknown() {
        let most = LOOKED_AT as u64 + 1; // One lease is allowed.
        for (strangers, expected) in [(1, [0, 1, 0]), (2, [0, 0, 1])] {
            let inside = most + strangers;
            let mut occupancy = held(LockKind::Semaphore(u32::MAX), inside);
            // This claim for nearly all leases leaves only one lease for others.
            let claim = LockClaim { leases: u32::MAX - 1, ..LockClaim::WRITE };
            occupancy.enter(Hold { claim, ..hold(500) }, moment(500));
            for number in 0..inside {
                occupancy.expire(number, LinePosition::default());
                occupancy.leave(number, moment(600 + number), false);
            }
            occupancy.resolve(500, Soundness::Sound);
            assert_eq!(counts(&occupancy), expected, "{strangers} holders were not tracked individually");
        }
    }

    #[test]
    fn expired_holder_without_an_overlap_does_not_count_as_ignored_expiry() {
        let mut occupancy = Occupancy::new(LockKind::Semaphore(2));
        occupancy.enter(hold(1), moment(1));
        occupancy.lose(1, moment(3));
        occupancy.enter(hold(2), moment(10));
        occupancy.leave(1, moment(14), false);
        assert_eq!((counts(&occupancy), occupancy.ignored_expiry), ([0, 0, 0], 0));
    }

    #[test]
    fn holder_without_a_session_is_no_zombie_if_it_leaves_within_the_microsecond_of_an_acquisition() {
        for (left_us, zombies) in [(10, 0), (11, 1)] {
            let mut suspended = Occupancy::new(LockKind::Mutex);
            suspended.enter(Hold { suspended: true, ..hold(1) }, moment(5));
            let mut expired = Occupancy::new(LockKind::Mutex);
            expired.enter(hold(1), moment(5));
            expired.lose(1, moment(7));
            for occupancy in [&mut suspended, &mut expired] {
                occupancy.enter(hold(2), moment(10));
                occupancy.leave(1, moment(left_us), false);
                occupancy.is_gone(1);
                occupancy.leave(2, moment(20), false);
                occupancy.close(30);
                assert_eq!(counts(occupancy), [0, zombies, 0], "{left_us}");
            }
        }
    }

    /// One step of a contender at a lock.
    #[derive(Debug, Clone, Copy)]
    enum Deed {
        Enters { possible: bool },
        Loses,
        Leaves,
        Vanishes,
        Asks,
    }

    fn deed() -> impl Strategy<Value = Deed> {
        let enters = any::<bool>().prop_map(|possible| Deed::Enters { possible });
        prop_oneof![3 => enters, 1 => Just(Deed::Loses), 2 => Just(Deed::Leaves), 1 => Just(Deed::Vanishes), 2 => Just(Deed::Asks)]
    }

    fn claim() -> impl Strategy<Value = LockClaim> {
        (any::<bool>(), 1..3_u32).prop_map(|(reads, leases)| LockClaim {
            mode: if reads { Mode::Read } else { Mode::Write },
            leases,
        })
    }

    /// Whether these certain holds block a claim.
    fn is_full(kind: LockKind, held: &[LockClaim], claim: LockClaim) -> bool {
        let reads = |claim: &LockClaim| claim.mode == Mode::Read;
        match kind {
            LockKind::Mutex => !held.is_empty(),
            LockKind::ReadWrite => held.iter().any(|held| !(reads(held) && reads(&claim))),
            LockKind::Semaphore(all) => {
                let taken: u32 = held.iter().map(|held| held.leases).sum();
                taken > 0 && taken + claim.leases > all
            }
        }
    }

    proptest! {
        #[test]
        fn claim_counts_as_blocked_only_while_certain_holds_fill_the_lock(
            kind in prop_oneof![Just(LockKind::Mutex), Just(LockKind::ReadWrite), Just(LockKind::Semaphore(3))],
            steps in prop::collection::vec((0..4_usize, deed(), claim(), 0..4_u64), 0..60),
        ) {
            let mut occupancy = Occupancy::new(kind);
            let mut now = 0;
            let mut inside: [Option<u64>; 4] = [None; 4];
            // Claim of each hold, and the interval during which the hold was certain.
            let mut certain: Vec<(LockClaim, u64, u64)> = Vec::new();
            let mut asked: Vec<(LockClaim, u64, u64)> = Vec::new();
            for (who, deed, claim, after) in steps {
                now += after;
                match (deed, inside[who]) {
                    (Deed::Enters { possible }, None) => {
                        let number = certain.len() as u64;
                        occupancy.enter(Hold { possible, claim, ..hold(number) }, moment(now));
                        certain.push((claim, now, if possible { now } else { u64::MAX }));
                        inside[who] = Some(number);
                    }
                    (Deed::Asks, None) => asked.push((claim, now, occupancy.asks(claim, now))),
                    (Deed::Loses | Deed::Leaves | Deed::Vanishes, Some(number)) => {
                        let until = &mut certain[number as usize].2;
                        match deed {
                            // Only a doubtful hold can turn out not to have existed.
                            Deed::Vanishes if *until == u64::MAX => continue,
                            Deed::Vanishes => occupancy.vanish(number),
                            Deed::Leaves => occupancy.leave(number, moment(now), false),
                            _ => occupancy.lose(number, moment(now)),
                        }
                        *until = now.min(*until);
                        inside[who] = inside[who].filter(|_| matches!(deed, Deed::Loses));
                    }
                    _ => {}
                }
            }
            for (claim, from, before) in asked {
                let full = |at: &u64| {
                    let held = certain.iter().filter(|(_, from, until)| from <= at && at < until);
                    is_full(kind, &held.map(|(claim, ..)| *claim).collect::<Vec<_>>(), claim)
                };
                let expected = (from..now).filter(full).count() as u64;
                prop_assert_eq!(occupancy.kept_out_us(claim, now) - before, expected, "{:?} since {}", claim, from);
            }
        }
    }

    #[test]
    fn overlap_class_depends_on_grant_order_if_the_entering_session_expires() {
        // Tokens of both contenders, time of the second acquire call (the first hold began at 10), expected counts
        for (inside, entering, asked_us, expected) in [
            (Some(2), Some(1), 5, [0, 1, 0]),
            (Some(1), Some(2), 5, [1, 0, 0]),
            (Some(1), Some(1), 5, [1, 0, 0]),
            (None, None, 5, [0, 0, 1]),
            (None, None, 10, [1, 0, 0]),
            (Some(2), Some(1), 10, [1, 0, 0]),
        ] {
            let asked_us = Some(asked_us);
            let mut occupancy = Occupancy::new(LockKind::Mutex);
            let traces = |number, token| Traces { token, entered_us: 10, ..hold(number).traces };
            occupancy.enter(Hold { traces: traces(1, inside), ..hold(1) }, moment(10));
            occupancy.enter(Hold { traces: traces(2, entering), asked_us, ..hold(2) }, moment(20));
            occupancy.expire(2, LinePosition::default());
            occupancy.leave(2, moment(30), false);
            occupancy.leave(1, moment(35), false);
            occupancy.resolve(1, Soundness::Sound);
            occupancy.close(40);
            assert_eq!(counts(&occupancy), expected, "{inside:?} {entering:?} {asked_us:?}");
        }
    }

    fn asked(t_us: u64) -> CalledAcquire {
        let at = Moment { t_us, place: LinePosition::default(), clock: 0 };
        CalledAcquire { at, stated: StatedClaim::default(), kept_out_us: 0 }
    }

    #[test]
    fn acquire_is_stuck_only_if_a_later_call_acquired_the_lock() {
        let mut waits = Waits::default();
        assert!(!waits.is_stuck(&asked(10), 60_000_000), "no later call acquired the lock");
        waits.ended(10, 20);
        assert!(!waits.is_stuck(&asked(10), 60_000_000), "the other call was not later");
        waits.ended(11, 20);
        assert!(waits.is_stuck(&asked(10), 60_000_000));
        waits.ended(5, 30);
        assert!(waits.is_stuck(&asked(10), 60_000_000), "the latest call counts, not the latest end");
    }

    #[test]
    fn acquire_is_stuck_after_ten_times_the_longest_wait_but_at_least_one_second() {
        let long: &[(u64, u64)] = &[(0, 3_000_000), (4_000_000, 4_000_001)];
        for (ended, after) in [(&[(100, 200)][..], 1_000_000), (long, 30_000_000)] {
            let mut waits = Waits::default();
            ended.iter().for_each(|(called, acquired)| waits.ended(*called, *acquired));
            let found = [50 + after - 1, 50 + after].map(|now| waits.is_stuck(&asked(50), now));
            assert_eq!(found, [false, true], "{ended:?}");
        }
    }
}
