//! The interval engine: who is inside one lock, along any axis that only grows (microseconds, milliseconds,
//! transactions). It counts who enters while too much is taken, and for how long others were kept out.

use std::collections::BTreeMap;
use std::io;

use serde::{Deserialize, Serialize};

use crate::record::KeptOut;
use crate::record::history::{LockClaim, LockKind};
use crate::words::catalog::Mode;

/// A place on the axis. Neither zxids nor the time since 1970 are negative.
pub(super) fn on_axis(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

/// Different claims on one lock that are followed; it takes an odd history to have more.
const CLAIMS: usize = 64;

/// For how long a contender was kept out, as far as others could run meanwhile and would have been seen entering.
#[derive(Debug, Default)]
struct ShutSpan {
    since: Option<u64>,
    total: u64,
    /// Where the last such time ended.
    ended: u64,
}

impl ShutSpan {
    /// It is shut from there on, or no longer. What ends was no evidence if it was the stay of one who entered at
    /// `alone_since` and in which no other could run.
    fn set(&mut self, is_shut: bool, at: u64, alone_since: Option<u64>) {
        if is_shut {
            self.since.get_or_insert(at);
        } else if let Some(since) = self.since.take().filter(|since| alone_since != Some(*since)) {
            self.total += at.saturating_sub(since);
            self.ended = at;
        }
    }

    fn until(&self, at: u64) -> u64 {
        self.total + self.since.map_or(0, |since| at.saturating_sub(since))
    }
}

#[derive(Debug)]
struct Stay<T> {
    claim: LockClaim,
    since: u64,
    who: T,
}

#[derive(Debug)]
pub(super) struct Inside<T> {
    kind: LockKind,
    stays: Vec<Stay<T>>,
    /// Leases of all who are inside, and of those among them who write.
    taken: u64,
    taken_by_writers: u64,
    shut: Vec<(LockClaim, ShutSpan)>,
}

impl<T> Inside<T> {
    pub fn new(kind: LockKind) -> Self {
        Self { kind, stays: Vec::new(), taken: 0, taken_by_writers: 0, shut: Vec::new() }
    }

    /// What a claim means to this kind of lock: only some know readers, and only some leases.
    fn in_force(&self, claim: LockClaim) -> LockClaim {
        match self.kind {
            LockKind::Mutex => LockClaim::WRITE,
            LockKind::ReadWrite => LockClaim { leases: 1, ..claim },
            LockKind::Semaphore(_) => LockClaim { mode: Mode::Write, ..claim },
        }
    }

    pub fn allowed_beside(&self, claim: LockClaim) -> u64 {
        let leases = match self.kind {
            LockKind::Semaphore(leases) => leases,
            LockKind::Mutex | LockKind::ReadWrite => 1,
        };
        u64::from(leases).saturating_sub(self.in_force(claim).leases.into())
    }

    /// Whether so much is taken that such a claim has to wait.
    pub fn keeps_out(&self, claim: LockClaim) -> bool {
        let in_the_way =
            if self.in_force(claim).mode == Mode::Read { self.taken_by_writers } else { self.taken };
        in_the_way > 0 && in_the_way > self.allowed_beside(claim)
    }

    /// A contender asks for that. Returns for how long the same request has been kept out by then.
    pub fn asks(&mut self, claim: LockClaim, at: u64) -> u64 {
        let claim = self.in_force(claim);
        if self.shut.len() < CLAIMS && !self.shut.iter().any(|(other, _)| *other == claim) {
            let since = self.keeps_out(claim).then_some(at);
            self.shut.push((claim, ShutSpan { since, ..ShutSpan::default() }));
        }
        self.kept_out(claim, at)
    }

    /// For how long in all that request has been kept out. Of a claim that is not followed it is known at
    /// least by those for fewer leases.
    pub fn kept_out(&self, claim: LockClaim, at: u64) -> u64 {
        self.shut_to(claim).map_or(0, |shut| shut.until(at))
    }

    /// Whether that request has been kept out at any place after the first and before the second, which is
    /// where the axis has come to.
    pub fn was_kept_out(&self, claim: LockClaim, asked: u64, at: u64) -> bool {
        let was = |shut: &ShutSpan| shut.ended > asked || shut.since.is_some_and(|since| since < at);
        asked < at && self.shut_to(claim).is_some_and(was)
    }

    fn shut_to(&self, claim: LockClaim) -> Option<&ShutSpan> {
        let claim = self.in_force(claim);
        let no_more =
            |other: &&(LockClaim, ShutSpan)| other.0.mode == claim.mode && other.0.leases <= claim.leases;
        let nearest = self.shut.iter().filter(no_more).max_by_key(|(other, _)| other.leases);
        nearest.map(|(_, shut)| shut)
    }

    pub fn enter(&mut self, claim: LockClaim, since: u64, who: T) {
        let claim = self.in_force(claim);
        self.taken += u64::from(claim.leases);
        self.taken_by_writers += leases_to_write(claim);
        self.stays.push(Stay { claim, since, who });
        self.changed(since, None);
    }

    /// The one for which `is` holds leaves. `alone` when no other could run while it was inside.
    pub fn leave(&mut self, at: u64, alone: bool, is: impl Fn(&T) -> bool) -> Option<T> {
        let found = self.stays.iter().position(|stay| is(&stay.who))?;
        let Stay { claim, since, who } = self.stays.remove(found);
        self.taken -= u64::from(claim.leases);
        self.taken_by_writers -= leases_to_write(claim);
        self.changed(at, alone.then_some(since));
        Some(who)
    }

    fn changed(&mut self, at: u64, alone_since: Option<u64>) {
        let mut all = std::mem::take(&mut self.shut);
        all.iter_mut().for_each(|(claim, shut)| shut.set(self.keeps_out(*claim), at, alone_since));
        self.shut = all;
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.stays.iter_mut().map(|stay| &mut stay.who)
    }

    /// Those who are in the way of a claim, with their leases.
    pub fn in_the_way(&mut self, claim: LockClaim) -> impl Iterator<Item = (u64, &mut T)> {
        let reads = self.in_force(claim).mode == Mode::Read;
        let stays = self.stays.iter_mut().filter(move |stay| !(reads && stay.claim.mode == Mode::Read));
        stays.map(|stay| (stay.claim.leases.into(), &mut stay.who))
    }
}

fn leases_to_write(claim: LockClaim) -> u64 {
    if claim.mode == Mode::Write { claim.leases.into() } else { 0 }
}

/// A hold whose whole length is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct HoldSpan {
    pub lock: usize,
    pub asked: u64,
    pub from: u64,
    pub until: u64,
    pub claim: LockClaim,
    /// By what it is held: holds by one and the same are one.
    pub node: i64,
    pub contender: usize,
    /// Its place among all of its lock, which decides between what happens at the same point of the axis.
    pub place: u64,
}

impl HoldSpan {
    fn asked(&self) -> u64 {
        self.asked.min(self.from)
    }

    /// The order in which [`sweep`] takes them.
    pub fn by_asking(&self) -> (usize, u64, u64) {
        (self.lock, self.asked(), self.place)
    }
}

#[derive(Debug, Default, PartialEq)]
pub(super) struct HoldsFound {
    pub holds: u64,
    /// How many began while too much was taken.
    pub too_early: u64,
    /// The first of them, of the first lock that has one, after the one in its way that lasted longest.
    pub first: Option<(HoldSpan, HoldSpan)>,
    /// What others kept from beginning.
    pub kept_out: KeptOut,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum HoldEvent {
    Ends,
    IsAsked,
    Begins,
}

/// When something happens to a hold, what, and the hold's place.
type Turn = (u64, HoldEvent, u64);

/// Goes through the holds of each lock along the axis. They come in the order of [`HoldSpan::by_asking`], and as many are in
/// memory as are waited for or held at the same point.
pub(super) fn sweep(
    kind: LockKind,
    holds: impl Iterator<Item = io::Result<HoldSpan>>,
) -> io::Result<HoldsFound> {
    let mut seen = HoldsFound::default();
    let mut holds = holds.peekable();
    while let Some(Ok(first)) = holds.peek() {
        let lock = first.lock;
        let of_lock = |hold: &io::Result<HoldSpan>| hold.as_ref().map_or(true, |hold| hold.lock == lock);
        let mut line = LockJudge { inside: Inside::new(kind), pending: BTreeMap::new() };
        while let Some(hold) = holds.next_if(of_lock) {
            let hold = hold?;
            seen.holds += 1;
            let asked = (hold.asked(), HoldEvent::IsAsked, hold.place);
            line.go_on(Some(asked), &mut seen);
            line.happens(asked, hold, 0, &mut seen);
        }
        line.go_on(None, &mut seen);
    }
    holds.next().map_or(Ok(seen), |failed| failed.map(|_| HoldsFound::default()))
}

struct LockJudge {
    inside: Inside<HoldSpan>,
    /// The holds to which something will happen; with each, for how long the same request had been kept out when it asked.
    pending: BTreeMap<Turn, (HoldSpan, u64)>,
}

impl LockJudge {
    /// Goes on to that point, or to the end.
    fn go_on(&mut self, until: Option<Turn>, seen: &mut HoldsFound) {
        while let Some(first) = self.pending.first_entry()
            && until.is_none_or(|until| *first.key() < until)
        {
            let (turn, (hold, kept_out_before)) = first.remove_entry();
            self.happens(turn, hold, kept_out_before, seen);
        }
    }

    fn happens(
        &mut self,
        (at, event, place): Turn,
        hold: HoldSpan,
        kept_out_before: u64,
        seen: &mut HoldsFound,
    ) {
        let Self { inside, pending } = self;
        match event {
            HoldEvent::IsAsked => {
                let kept_out_before = inside.asks(hold.claim, at);
                pending.insert((hold.from, HoldEvent::Begins, place), (hold, kept_out_before));
            }
            HoldEvent::Ends => drop(inside.leave(at, false, |other| other.place == place)),
            HoldEvent::Begins => {
                if inside.iter_mut().any(|other| other.node == hold.node) {
                    return;
                }
                let kept_out = inside.kept_out(hold.claim, at) - kept_out_before;
                seen.kept_out.entry(kept_out, at.saturating_sub(hold.asked));
                if inside.keeps_out(hold.claim) {
                    seen.too_early += 1;
                    let in_the_way = inside.in_the_way(hold.claim).map(|(_, other)| *other);
                    let longest = in_the_way.max_by_key(|other| other.until);
                    seen.first = seen.first.or(longest.map(|longest| (longest, hold)));
                }
                if hold.until > at {
                    inside.enter(hold.claim, at, hold);
                    pending.insert((hold.until, HoldEvent::Ends, place), (hold, kept_out_before));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::words::spool::Sorted;

    fn writer(leases: u32) -> LockClaim {
        LockClaim { leases, ..LockClaim::WRITE }
    }

    #[test]
    fn leases_are_added_up_by_how_many_each_takes() {
        // Three of four leases are taken: there is room for one more, not for two.
        let mut inside = Inside::new(LockKind::Semaphore(4));
        inside.enter(writer(3), 10, 'a');
        assert!(!inside.keeps_out(writer(1)) && inside.keeps_out(writer(2)));
        inside.enter(writer(1), 20, 'b');
        assert!(inside.keeps_out(writer(1)));
        assert_eq!(inside.leave(30, false, |who| *who == 'a'), Some('a'));
        assert!(!inside.keeps_out(writer(3)) && inside.keeps_out(writer(4)));
    }

    #[test]
    fn who_wants_more_is_kept_out_for_longer() {
        let mut inside = Inside::new(LockKind::Semaphore(4));
        assert_eq!([1, 2, 4].map(|leases| inside.asks(writer(leases), 0)), [0, 0, 0]);
        inside.enter(writer(3), 10, 'a');
        inside.enter(writer(1), 20, 'b');
        inside.leave(30, false, |who| *who == 'a');
        inside.leave(50, false, |who| *who == 'b');
        assert_eq!([1, 2, 4].map(|leases| inside.kept_out(writer(leases), 90)), [10, 20, 40]);
        assert_eq!(inside.asks(writer(3), 60), 0, "nobody has asked for three before");
    }

    #[test]
    fn between_two_places_who_is_shut_out_at_the_second_only_was_not_kept_out() {
        let mut inside = Inside::new(LockKind::Mutex);
        inside.asks(writer(1), 0);
        inside.enter(writer(1), 10, 'a');
        let kept_out = |inside: &Inside<char>, asked, at| inside.was_kept_out(writer(1), asked, at);
        assert_eq!([10, 11].map(|at| kept_out(&inside, 0, at)), [false, true]);
        assert!(!kept_out(&inside, 15, 15), "between a place and itself is nothing");
        inside.leave(20, false, |_| true);
        assert_eq!([19, 20].map(|asked| kept_out(&inside, asked, 30)), [true, false]);
    }

    #[test]
    fn of_more_claims_than_are_followed_the_time_is_that_of_a_smaller_one() {
        let mut inside = Inside::new(LockKind::Semaphore(1000));
        for leases in 1..=CLAIMS as u32 + 5 {
            inside.asks(writer(leases), 0);
        }
        assert_eq!(inside.shut.len(), CLAIMS);
        inside.enter(writer(1000), 10, ());
        assert_eq!(inside.kept_out(writer(999), 30), 20);
    }

    #[test]
    fn readers_share_a_read_write_lock_and_no_mutex() {
        for (kind, keeps_out) in [(LockKind::Mutex, true), (LockKind::ReadWrite, false)] {
            let mut inside = Inside::new(kind);
            inside.enter(LockClaim::READ, 1, ());
            assert_eq!(
                (inside.keeps_out(LockClaim::READ), inside.keeps_out(LockClaim::WRITE)),
                (keeps_out, true)
            );
        }
    }

    /// What [`sweep`] should find, looking at every pair and at every point of the axis.
    fn pair_by_pair(kind: LockKind, holds: &[HoldSpan]) -> (u64, KeptOut) {
        let capacity = if let LockKind::Semaphore(leases) = kind { leases } else { 1 };
        let weight = |hold: &HoldSpan| {
            if kind == LockKind::Mutex || kind == LockKind::ReadWrite { 1 } else { hold.claim.leases }
        };
        let share = |one: &HoldSpan, other: &HoldSpan| {
            kind == LockKind::ReadWrite && one.claim.mode == Mode::Read && other.claim.mode == Mode::Read
        };
        let mut order: Vec<usize> = (0..holds.len()).collect();
        order.sort_by_key(|place| (holds[*place].from, *place));
        let mut begun: Vec<&HoldSpan> = Vec::new();
        let (mut too_early, mut kept_out) = (0, KeptOut::default());
        for hold in order.into_iter().map(|place| &holds[place]) {
            let there = |at: u64, other: &&&HoldSpan| other.from <= at && at < other.until;
            if begun.iter().filter(|other| there(hold.from, other)).any(|other| other.node == hold.node) {
                continue;
            }
            let full = |at: u64| {
                let met = begun.iter().filter(|other| there(at, other) && !share(other, hold));
                let taken: u32 = met.map(|other| weight(other)).sum();
                taken > 0 && taken + weight(hold) > capacity
            };
            too_early += u64::from(full(hold.from));
            let times = (hold.asked..hold.from).filter(|at| full(*at)).count();
            kept_out.entry(times as u64, hold.from.saturating_sub(hold.asked));
            begun.push(hold);
        }
        (too_early, kept_out)
    }

    fn hold() -> impl Strategy<Value = HoldSpan> {
        (0..40_u64, 0..12_u64, 0..12_u64, any::<bool>(), 1..4_u32, 0..6_i64).prop_map(
            |(asked, wait, length, reads, leases, node)| {
                let mode = if reads { Mode::Read } else { Mode::Write };
                let from = asked + wait;
                let (claim, until) = (LockClaim { mode, leases }, from + length);
                HoldSpan { lock: 0, asked, from, until, claim, node, contender: 0, place: 0 }
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
        fn going_along_the_axis_finds_what_looking_at_every_pair_finds(
            kind in kind(),
            holds in prop::collection::vec(hold(), 0..24),
        ) {
            let placed = holds.iter().zip(0..).map(|(hold, place)| HoldSpan { place, ..*hold });
            let in_order = Sorted::of(HoldSpan::by_asking, placed.collect());
            let seen = sweep(kind, in_order.iter().unwrap()).unwrap();
            let (too_early, kept_out) = pair_by_pair(kind, &holds);
            prop_assert_eq!((seen.too_early, seen.kept_out.entries, seen.kept_out.waited),
                (too_early, kept_out.entries, kept_out.waited));
            prop_assert!((seen.kept_out.shares - kept_out.shares).abs() < 1e-9);
            prop_assert_eq!(seen.first.is_some(), too_early > 0);
        }
    }
}
