//! Holders of one lock along an ascending axis (microseconds, milliseconds, transactions). Counts acquisitions beyond
//! the limit, and measures how long other contenders were blocked.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use zklockbench_core::catalog::Mode;
use zklockbench_record::KeptOut;
use zklockbench_record::history::{LockClaim, LockKind};

/// Converts a value to a position on the axis. Neither zxids nor Unix times are negative.
pub(super) fn on_axis(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

/// Maximum number of different claims tracked per lock.
const CLAIMS: usize = 64;

/// Time during which a claim was blocked and a violation would have been noticed.
#[derive(Debug, Default)]
struct ShutSpan {
    since: Option<u64>,
    /// Whether another stay started while the claim was blocked.
    joined: bool,
    total: u64,
    /// End of the last blocked interval.
    ended: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StayChange {
    Began,
    Ended,
    /// A stay that started at this position ended, and no other contender could run during it.
    EndedAlone(u64),
    /// Stays ended at unknown positions; the first of these stays started at this position.
    EndedUnseen(u64),
}

impl ShutSpan {
    fn set(&mut self, is_shut: bool, at: u64, change: StayChange) {
        match (self.since, is_shut) {
            (None, true) => (self.since, self.joined) = (Some(at), false),
            (Some(_), true) => self.joined |= change == StayChange::Began,
            (Some(since), false) => {
                self.since = None;
                let counts = match change {
                    StayChange::Began | StayChange::Ended => true,
                    StayChange::EndedAlone(began) => self.joined || since != began,
                    StayChange::EndedUnseen(first) => since < first,
                };
                if counts {
                    self.total += at.saturating_sub(since);
                    self.ended = at;
                }
            }
            (None, false) => {}
        }
    }

    fn until(&self, at: u64) -> u64 {
        self.total + self.since.map_or(0, |since| at.saturating_sub(since))
    }
}

/// Leases taken by a set of holds.
#[derive(Debug, Default)]
struct Taken {
    all: u64,
    by_writers: u64,
}

impl Taken {
    fn add(&mut self, claim: LockClaim) {
        self.all += u64::from(claim.leases);
        self.by_writers += leases_to_write(claim);
    }

    fn remove(&mut self, claim: LockClaim) {
        self.all -= u64::from(claim.leases);
        self.by_writers -= leases_to_write(claim);
    }

    fn subtract(&mut self, other: &Self) {
        self.all -= other.all;
        self.by_writers -= other.by_writers;
    }

    /// Leases that conflict with a claim.
    fn in_the_way(&self, claim: LockClaim) -> u64 {
        if claim.mode == Mode::Read { self.by_writers } else { self.all }
    }
}

fn leases_to_write(claim: LockClaim) -> u64 {
    if claim.mode == Mode::Write { claim.leases.into() } else { 0 }
}

/// Whether a stay proves that other contenders were blocked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Evidence {
    Certain,
    /// The contender may never have held the lock, or may no longer hold it.
    Doubtful,
}

#[derive(Debug)]
struct Stay<T> {
    claim: LockClaim,
    since: u64,
    evidence: Evidence,
    who: T,
}

/// Current holds, by the caller's keys.
///
/// Only certain stays are evidence, and only while they are certain: a doubtful stay that turns out not to
/// have been a hold removes no evidence.
#[derive(Debug)]
pub(super) struct Inside<T> {
    kind: LockKind,
    stays: BTreeMap<u64, Stay<T>>,
    taken: Taken,
    certainly_taken: Taken,
    /// Leases of the stays without a key, and the start of the earliest of these stays.
    merged: Option<(Taken, u64)>,
    shut: Vec<(LockClaim, ShutSpan)>,
}

impl<T> Default for Inside<T> {
    fn default() -> Self {
        Self::new(LockKind::default())
    }
}

impl<T> Inside<T> {
    pub fn new(kind: LockKind) -> Self {
        let (taken, certainly_taken) = (Taken::default(), Taken::default());
        Self { kind, stays: BTreeMap::new(), taken, certainly_taken, merged: None, shut: Vec::new() }
    }

    pub fn kind(&self) -> LockKind {
        self.kind
    }

    /// Whether the claim must wait for leases of other holders.
    pub fn excludes(&self, claim: LockClaim) -> bool {
        self.exceeds(&self.taken, claim)
    }

    /// Whether the stays that are evidence exclude the claim.
    pub fn certainly_excludes(&self, claim: LockClaim) -> bool {
        self.exceeds(&self.certainly_taken, claim)
    }

    fn exceeds(&self, taken: &Taken, claim: LockClaim) -> bool {
        let in_the_way = taken.in_the_way(self.kind.in_force(claim));
        in_the_way > 0 && in_the_way > self.kind.allowed_beside(claim)
    }

    /// Registers a request. Returns the total time that its claim has been blocked so far.
    pub fn asks(&mut self, claim: LockClaim, at: u64) -> u64 {
        let claim = self.kind.in_force(claim);
        if self.shut.len() < CLAIMS && !self.shut.iter().any(|(other, _)| *other == claim) {
            let since = self.certainly_excludes(claim).then_some(at);
            self.shut.push((claim, ShutSpan { since, ..ShutSpan::default() }));
        }
        self.kept_out(claim, at)
    }

    /// Total time that the claim has been blocked. For an untracked claim, the time of a claim for fewer leases
    /// is used as a lower bound.
    pub fn kept_out(&self, claim: LockClaim, at: u64) -> u64 {
        self.shut_to(claim).map_or(0, |shut| shut.until(at))
    }

    /// Whether the claim was blocked at any position between `asked` and `at`, the current end of the axis.
    pub fn was_kept_out(&self, claim: LockClaim, asked: u64, at: u64) -> bool {
        let was = |shut: &ShutSpan| shut.ended > asked || shut.since.is_some_and(|since| since < at);
        asked < at && self.shut_to(claim).is_some_and(was)
    }

    fn shut_to(&self, claim: LockClaim) -> Option<&ShutSpan> {
        let claim = self.kind.in_force(claim);
        let no_more =
            |other: &&(LockClaim, ShutSpan)| other.0.mode == claim.mode && other.0.leases <= claim.leases;
        let nearest = self.shut.iter().filter(no_more).max_by_key(|(other, _)| other.leases);
        nearest.map(|(_, shut)| shut)
    }

    /// Starts a stay under an unused key.
    pub fn enter(&mut self, key: u64, claim: LockClaim, since: u64, evidence: Evidence, who: T) {
        let claim = self.kind.in_force(claim);
        self.taken.add(claim);
        if evidence == Evidence::Certain {
            self.certainly_taken.add(claim);
            self.changed(since, StayChange::Began);
        }
        self.stays.insert(key, Stay { claim, since, evidence, who });
    }

    /// Marks a stay as doubtful, so it is no longer evidence.
    pub fn doubt(&mut self, key: u64, at: u64) {
        let Some(stay) = self.stays.get_mut(&key) else { return };
        if std::mem::replace(&mut stay.evidence, Evidence::Doubtful) == Evidence::Certain {
            let claim = stay.claim;
            self.certainly_taken.remove(claim);
            self.changed(at, StayChange::Ended);
        }
    }

    /// Ends a stay. `alone` means that no other contender could run during the stay.
    pub fn leave(&mut self, key: u64, at: u64, alone: bool) -> Option<T> {
        let Stay { claim, since, evidence, who } = self.stays.remove(&key)?;
        self.taken.remove(claim);
        if evidence == Evidence::Certain {
            self.certainly_taken.remove(claim);
            self.changed(at, if alone { StayChange::EndedAlone(since) } else { StayChange::Ended });
        }
        Some(who)
    }

    /// Drops the key of a stay that certainly happened. The stay is then only counted, until the next eviction.
    pub fn merge(&mut self, key: u64) {
        if let Some(Stay { claim, since, .. }) = self.stays.remove(&key) {
            let (merged, first) = self.merged.get_or_insert((Taken::default(), since));
            merged.add(claim);
            *first = since.min(*first);
        }
    }

    /// Ends these certain stays and all merged stays at an unknown position before `at`.
    pub fn evict(&mut self, keys: &BTreeSet<u64>, at: u64) -> Vec<T> {
        let mut first = u64::MAX;
        let mut evicted = Vec::with_capacity(keys.len());
        for Stay { claim, since, who, .. } in keys.iter().filter_map(|key| self.stays.remove(key)) {
            self.taken.remove(claim);
            self.certainly_taken.remove(claim);
            first = since.min(first);
            evicted.push(who);
        }
        if let Some((merged, since)) = self.merged.take() {
            self.taken.subtract(&merged);
            self.certainly_taken.subtract(&merged);
            first = since.min(first);
        }
        self.changed(at, StayChange::EndedUnseen(first));
        evicted
    }

    fn changed(&mut self, at: u64, change: StayChange) {
        let mut all = std::mem::take(&mut self.shut);
        for (claim, shut) in &mut all {
            shut.set(self.exceeds(&self.certainly_taken, *claim), at, change);
        }
        self.shut = all;
    }

    pub fn get_mut(&mut self, key: u64) -> Option<&mut T> {
        self.stays.get_mut(&key).map(|stay| &mut stay.who)
    }

    /// The stays that conflict with a claim, with their leases, in key order.
    pub fn in_the_way(&mut self, claim: LockClaim) -> impl DoubleEndedIterator<Item = (u64, &mut T)> {
        let kind = self.kind;
        let stays = self.stays.values_mut();
        let weighed = stays.map(move |stay| (kind.weight_against(claim, stay.claim), &mut stay.who));
        weighed.filter(|(leases, _)| *leases > 0)
    }
}

/// A hold with a node and a known end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NodeHold {
    pub contender: usize,
    pub claim: LockClaim,
    /// Node of the hold; holds with the same node count as one.
    pub node: i64,
    pub from: u64,
    pub until: u64,
}

/// Holds of one lock through nodes with known ends, added in the order of the axis.
#[derive(Debug, Default)]
pub(super) struct NodeHolds {
    inside: Inside<NodeHold>,
    /// End and key of each current hold.
    ends: BTreeSet<(u64, u64)>,
    /// Nodes through which the lock is held.
    nodes: HashSet<i64>,
    /// Position of each contender's request, and the blocked time of its claim up to that position.
    asked: HashMap<usize, (u64, u64)>,
    pub holds: u64,
    /// Number of holds that started while too many leases were taken.
    pub too_early: u64,
    /// Evidence from acquisitions that had to wait for other holders.
    pub kept_out: KeptOut,
}

impl NodeHolds {
    pub fn new(kind: LockKind) -> Self {
        Self { inside: Inside::new(kind), ..Self::default() }
    }

    pub fn asks(&mut self, contender: usize, claim: LockClaim, at: u64) {
        self.leave_until(at);
        let kept_out = self.inside.asks(claim, at);
        self.asked.insert(contender, (at, kept_out));
    }

    /// Starts a hold. If the hold starts too early, returns the longest conflicting hold.
    pub fn enter(&mut self, hold: NodeHold) -> Option<NodeHold> {
        self.holds += 1;
        self.leave_until(hold.from);
        let asked = self.asked.remove(&hold.contender);
        if self.nodes.contains(&hold.node) {
            return None;
        }
        let (asked, kept_out_before) = asked.unwrap_or((hold.from, 0));
        let kept_out = self.inside.kept_out(hold.claim, hold.from).saturating_sub(kept_out_before);
        self.kept_out.entry(kept_out, hold.from.saturating_sub(asked));
        let is_early = self.inside.excludes(hold.claim);
        self.too_early += u64::from(is_early);
        let in_the_way = self.inside.in_the_way(hold.claim).map(|(_, other)| *other);
        let longest = in_the_way.max_by_key(|other| other.until).filter(|_| is_early);
        if hold.until > hold.from {
            self.ends.insert((hold.until, self.holds));
            self.nodes.insert(hold.node);
            self.inside.enter(self.holds, hold.claim, hold.from, Evidence::Certain, hold);
        }
        longest
    }

    fn leave_until(&mut self, at: u64) {
        while let Some((until, key)) = self.ends.first().copied().filter(|(until, _)| *until <= at) {
            self.ends.pop_first();
            if let Some(hold) = self.inside.leave(key, until, false) {
                self.nodes.remove(&hold.node);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn writer(leases: u32) -> LockClaim {
        LockClaim { leases, ..LockClaim::WRITE }
    }

    #[test]
    fn two_leases_do_not_fit_when_three_of_four_are_taken() {
        let mut inside = Inside::new(LockKind::Semaphore(4));
        inside.enter(1, writer(3), 10, Evidence::Certain, 'a');
        assert!(!inside.excludes(writer(1)) && inside.excludes(writer(2)));
        inside.enter(2, writer(1), 20, Evidence::Certain, 'b');
        assert!(inside.excludes(writer(1)));
        assert_eq!(inside.leave(1, 30, false), Some('a'));
        assert!(!inside.excludes(writer(3)) && inside.excludes(writer(4)));
    }

    #[test]
    fn requests_for_more_leases_wait_longer() {
        let mut inside = Inside::new(LockKind::Semaphore(4));
        assert_eq!([1, 2, 4].map(|leases| inside.asks(writer(leases), 0)), [0, 0, 0]);
        inside.enter(1, writer(3), 10, Evidence::Certain, 'a');
        inside.enter(2, writer(1), 20, Evidence::Certain, 'b');
        inside.leave(1, 30, false);
        inside.leave(2, 50, false);
        assert_eq!([1, 2, 4].map(|leases| inside.kept_out(writer(leases), 90)), [10, 20, 40]);
        assert_eq!(inside.asks(writer(3), 60), 0, "no claim for three leases was tracked before");
    }

    #[test]
    fn blocks_that_start_or_end_at_the_edge_of_the_range_do_not_count() {
        let mut inside = Inside::new(LockKind::Mutex);
        inside.asks(writer(1), 0);
        inside.enter(1, writer(1), 10, Evidence::Certain, 'a');
        let kept_out = |inside: &Inside<char>, asked, at| inside.was_kept_out(writer(1), asked, at);
        assert_eq!([10, 11].map(|at| kept_out(&inside, 0, at)), [false, true]);
        assert!(!kept_out(&inside, 15, 15), "an empty range has no blocked time");
        inside.leave(1, 20, false);
        assert_eq!([19, 20].map(|asked| kept_out(&inside, asked, 30)), [true, false]);
    }

    #[test]
    fn untracked_claim_uses_the_blocked_time_of_a_smaller_claim() {
        let mut inside = Inside::new(LockKind::Semaphore(1000));
        for leases in 1..=CLAIMS as u32 + 5 {
            inside.asks(writer(leases), 0);
        }
        assert_eq!(inside.shut.len(), CLAIMS);
        inside.enter(1, writer(1000), 10, Evidence::Certain, ());
        assert_eq!(inside.kept_out(writer(999), 30), 20);
    }

    #[test]
    fn readers_share_a_read_write_lock_but_not_a_mutex() {
        for (kind, alone) in [(LockKind::Mutex, true), (LockKind::ReadWrite, false)] {
            let mut inside = Inside::new(kind);
            inside.enter(1, LockClaim::READ, 1, Evidence::Certain, ());
            assert_eq!((inside.excludes(LockClaim::READ), inside.excludes(LockClaim::WRITE)), (alone, true));
        }
    }

    /// A hold, with the position of its request.
    type AskedHold = (u64, NodeHold);

    /// Expected result of [`NodeHolds`], from comparing all pairs at every position.
    fn pair_by_pair(kind: LockKind, holds: &[AskedHold]) -> (u64, KeptOut) {
        let capacity = if let LockKind::Semaphore(leases) = kind { leases } else { 1 };
        let weight = |hold: &NodeHold| {
            if kind == LockKind::Mutex || kind == LockKind::ReadWrite { 1 } else { hold.claim.leases }
        };
        let share = |one: &NodeHold, other: &NodeHold| {
            kind == LockKind::ReadWrite && one.claim.mode == Mode::Read && other.claim.mode == Mode::Read
        };
        let mut order: Vec<usize> = (0..holds.len()).collect();
        order.sort_by_key(|place| (holds[*place].1.from, *place));
        let mut begun: Vec<&NodeHold> = Vec::new();
        let (mut too_early, mut kept_out) = (0, KeptOut::default());
        for (asked, hold) in order.into_iter().map(|place| &holds[place]) {
            let there = |at: u64, other: &&&NodeHold| other.from <= at && at < other.until;
            if begun.iter().filter(|other| there(hold.from, other)).any(|other| other.node == hold.node) {
                continue;
            }
            let full = |at: u64| {
                let met = begun.iter().filter(|other| there(at, other) && !share(other, hold));
                let taken: u32 = met.map(|other| weight(other)).sum();
                taken > 0 && taken + weight(hold) > capacity
            };
            too_early += u64::from(full(hold.from));
            let times = (*asked..hold.from).filter(|at| full(*at)).count();
            kept_out.entry(times as u64, hold.from.saturating_sub(*asked));
            begun.push(hold);
        }
        (too_early, kept_out)
    }

    fn hold() -> impl Strategy<Value = AskedHold> {
        (0..40_u64, 0..12_u64, 0..12_u64, any::<bool>(), 1..4_u32, 0..6_i64).prop_map(
            |(asked, wait, length, reads, leases, node)| {
                let mode = if reads { Mode::Read } else { Mode::Write };
                let from = asked + wait;
                let (claim, until) = (LockClaim { mode, leases }, from + length);
                (asked, NodeHold { contender: 0, claim, node, from, until })
            },
        )
    }

    fn kind() -> impl Strategy<Value = LockKind> {
        prop_oneof![
            Just(LockKind::Mutex),
            Just(LockKind::ReadWrite),
            (1..5_u32).prop_map(LockKind::Semaphore)
        ]
    }

    proptest! {
        #[test]
        fn node_holds_match_a_comparison_of_all_pairs(
            kind in kind(),
            holds in prop::collection::vec(hold(), 0..24),
        ) {
            let holds: Vec<AskedHold> = holds
                .into_iter()
                .zip(0..)
                .map(|((asked, hold), contender)| (asked, NodeHold { contender, ..hold }))
                .collect();
            let mut turns: Vec<(u64, bool, usize)> = holds
                .iter()
                .flat_map(|(asked, hold)| [(*asked, false, hold.contender), (hold.from, true, hold.contender)])
                .collect();
            turns.sort_unstable();
            let (mut found, mut early) = (NodeHolds::new(kind), 0);
            for (at, begins, contender) in turns {
                let hold = holds[contender].1;
                if begins {
                    early += u64::from(found.enter(hold).is_some());
                } else {
                    found.asks(contender, hold.claim, at);
                }
            }
            let (too_early, kept_out) = pair_by_pair(kind, &holds);
            prop_assert_eq!((found.too_early, early), (too_early, too_early));
            prop_assert_eq!((found.holds, found.kept_out.entries, found.kept_out.waited),
                (holds.len() as u64, kept_out.entries, kept_out.waited));
            prop_assert!((found.kept_out.shares - kept_out.shares).abs() < 1e-9);
        }
    }
}
