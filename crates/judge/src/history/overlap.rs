//! An entry while others were inside, until it is known what it was.
//!
//! Whether the session of a holder was alive often shows only later, in the answer to its release: an overlap waits
//! for the ends of those it concerns.

use super::clocks::Moment;
use super::judgement::Breach;
use crate::weigh::{self, Granted, Soundness, Weighed};
use zklockbench_record::OverlapClass;
use zklockbench_record::history::LinePosition;

/// How many of those inside are looked at one by one. Of the others it stays unknown what they were.
pub const LOOKED_AT: usize = 64;

/// The lines of a hold that matter.
#[derive(Debug, Clone, Copy)]
pub struct Traces {
    pub who: usize,
    pub acquired: LinePosition,
    /// Where the session was suspended or expired.
    pub session: Option<LinePosition>,
    pub released: Option<LinePosition>,
}

impl Traces {
    pub fn lines(&self) -> impl Iterator<Item = LinePosition> {
        [Some(self.acquired), self.session, self.released].into_iter().flatten()
    }
}

/// One of the two sides.
#[derive(Debug, Clone, Copy)]
pub struct Party {
    pub hold: u64,
    pub weight: u64,
    pub soundness: Soundness,
    /// Relative to the grant of the contender that enters.
    pub granted: Granted,
    pub inside: bool,
    /// Its release had been called: it was in the way only if that failed.
    pub is_leaving: bool,
    pub traces: Traces,
}

/// One entry while others were inside.
#[derive(Debug)]
pub struct Overlap {
    pub entering: Party,
    pub since: Moment,
    pub insiders: Vec<Party>,
    /// Leases of those inside who are not looked at.
    pub others: u64,
    /// Leases that may be inside beside the one who enters.
    pub allowed: u64,
    /// When they were no longer inside together.
    pub ended_us: Option<u64>,
}

impl Overlap {
    /// What it is, once that is known. While a release that was called may turn out done, there may have been room for all.
    pub fn breach(&self) -> Option<Breach> {
        let is_leaving = self.insiders.iter().any(|party| party.is_leaving);
        if is_leaving && self.weight(|party| !party.is_leaving) + self.others <= self.allowed {
            return None;
        }
        let insiders = self.insiders.iter();
        let insiders = insiders.map(|Party { weight, soundness, granted, .. }| Weighed {
            leases: *weight,
            soundness: *soundness,
            granted: *granted,
        });
        let class = weigh::class(
            self.allowed,
            self.entering.soundness,
            insiders.chain(Weighed::unknown(self.others)),
        );
        class.map(|class| match class {
            OverlapClass::Violation => Breach::Violation,
            OverlapClass::Zombie => Breach::Zombie,
            OverlapClass::Uncertain => Breach::Uncertain,
        })
    }

    /// Whether all that were inside had room beside each other after all.
    pub fn is_none(&self) -> bool {
        self.weight(|_| true) + self.others <= self.allowed
    }

    fn weight(&self, counts: impl Fn(&Party) -> bool) -> u64 {
        self.insiders.iter().filter(|party| counts(party)).map(|party| party.weight).sum()
    }

    /// The one inside that shows best what it is.
    pub fn counterpart(&self, breach: Breach) -> Option<&Party> {
        let wanted = match breach {
            Breach::Violation => Soundness::Sound,
            Breach::Zombie => Soundness::Lost,
            _ => Soundness::Unknown,
        };
        self.insiders.iter().find(|party| party.soundness == wanted).or_else(|| self.insiders.first())
    }

    fn party(&mut self, hold: u64) -> Option<&mut Party> {
        if self.entering.hold == hold {
            return Some(&mut self.entering);
        }
        self.insiders.iter_mut().find(|party| party.hold == hold)
    }

    fn open_party(&mut self, hold: u64) -> Option<&mut Party> {
        self.party(hold).filter(|party| party.soundness == Soundness::Open && !party.is_leaving)
    }

    /// It is known what was behind a hold. What was known before stays.
    pub fn resolve(&mut self, hold: u64, soundness: Soundness) {
        if let Some(party) = self.open_party(hold) {
            party.soundness = soundness;
        }
    }

    /// A release that had been called when the other entered was done: its holder was not in the way.
    pub fn is_gone(&mut self, hold: u64) {
        self.insiders.retain(|party| !(party.is_leaving && party.hold == hold));
    }

    /// A release that had been called when the other entered failed: its holder was inside all along.
    pub fn stays(&mut self, hold: u64) {
        self.insiders
            .iter_mut()
            .filter(|party| party.hold == hold)
            .for_each(|party| party.is_leaving = false);
    }

    /// Whether that holder may have been inside is not known: its contender called release once more.
    pub fn may_have_stayed(&mut self, hold: u64) {
        let leaving = self.insiders.iter_mut().filter(|party| party.is_leaving && party.hold == hold);
        leaving.for_each(|party| {
            party.is_leaving = false;
            party.soundness = Soundness::Unknown;
        });
    }

    /// A hold's session was suspended or expired in that line. Where that is settled, an earlier line shows it.
    pub fn trace_session(&mut self, hold: u64, place: LinePosition) {
        if let Some(party) = self.open_party(hold) {
            party.traces.session = Some(place);
        }
    }

    /// A holder left at that time; `place` is where it called release.
    pub fn leave(&mut self, hold: u64, t_us: u64, place: Option<LinePosition>) {
        let Some(party) = self.party(hold).filter(|party| party.inside) else { return };
        party.inside = false;
        party.traces.released = place;
        if !self.entering.inside || self.weight(|party| party.inside && !party.is_leaving) <= self.allowed {
            self.ended_us.get_or_insert(t_us);
        }
    }

    /// How long they were inside together, in microseconds; up to now, while they still are.
    pub fn length_us(&self, now_us: u64) -> u64 {
        self.ended_us.unwrap_or(now_us).saturating_sub(self.since.t_us)
    }

    /// Gives up waiting: what is not known will never be. A release without an answer is taken for done.
    pub fn give_up(&mut self) {
        self.insiders.retain(|party| !party.is_leaving);
        let parties = self.insiders.iter_mut().chain([&mut self.entering]);
        parties.filter(|party| party.soundness == Soundness::Open).for_each(|party| {
            party.soundness = Soundness::Unknown;
        });
    }
}

#[cfg(test)]
mod tests {
    use super::Soundness::{Lost, Open, Sound, Unknown};
    use super::*;

    fn at(line: u64) -> LinePosition {
        LinePosition { line, offset: 0 }
    }

    fn party(hold: u64, weight: u64, soundness: Soundness) -> Party {
        let traces = Traces { who: 0, acquired: at(hold), session: None, released: None };
        let granted = Granted::Before;
        Party { hold, weight, soundness, granted, inside: true, is_leaving: false, traces }
    }

    /// Hold 0 enters at 100 µs where holds 1, 2, ... of that weight and soundness are inside.
    fn overlap(allowed: u64, entering: Soundness, insiders: &[(u64, Soundness)]) -> Overlap {
        let insiders = (1..).zip(insiders).map(|(hold, (weight, of))| party(hold, *weight, *of)).collect();
        Overlap {
            entering: party(0, 1, entering),
            since: Moment { t_us: 100, place: at(50), clock: 0 },
            insiders,
            others: 0,
            allowed,
            ended_us: None,
        }
    }

    #[test]
    fn holders_that_are_not_known_one_by_one_may_have_been_alive() {
        let breach = |others| Overlap { others, ..overlap(1, Open, &[(1, Lost), (1, Sound)]) }.breach();
        assert_eq!((breach(0), breach(1)), (Some(Breach::Zombie), Some(Breach::Uncertain)));
        let crowd = Overlap { others: 1, ..overlap(1, Sound, &[(1, Lost), (1, Sound)]) };
        assert_eq!(crowd.breach(), Some(Breach::Uncertain));
    }

    #[test]
    fn a_holder_whose_release_was_called_is_in_the_way_only_if_it_failed() {
        let leaving = || {
            let mut overlap = overlap(0, Open, &[(1, Open)]);
            overlap.insiders[0].is_leaving = true;
            overlap.resolve(1, Lost);
            assert_eq!(overlap.breach(), None, "that may still show");
            overlap
        };
        let mut gone = leaving();
        gone.is_gone(1);
        assert!(gone.is_none());
        let mut unanswered = leaving();
        unanswered.give_up();
        assert!(unanswered.is_none());
        let mut failed = leaving();
        failed.stays(1);
        failed.is_gone(1);
        failed.resolve(1, Sound);
        assert_eq!(failed.breach(), Some(Breach::Violation));
        let mut called_again = leaving();
        called_again.may_have_stayed(1);
        called_again.resolve(1, Sound);
        assert_eq!(called_again.breach(), Some(Breach::Uncertain));
    }

    #[test]
    fn the_one_shown_is_the_one_that_makes_it_what_it_is() {
        let mixed = overlap(0, Open, &[(1, Open), (1, Unknown), (1, Lost), (1, Sound)]);
        let shown = |breach| mixed.counterpart(breach).map(|party| party.hold);
        assert_eq!(shown(Breach::Uncertain), Some(2));
        assert_eq!(shown(Breach::Zombie), Some(3));
        assert_eq!(shown(Breach::Violation), Some(4));
        let other = overlap(0, Open, &[(1, Open), (1, Open)]);
        assert_eq!(other.counterpart(Breach::Zombie).map(|party| party.hold), Some(1));
    }

    #[test]
    fn what_is_known_of_a_session_is_not_changed_by_what_comes_later() {
        let mut overlap = overlap(0, Open, &[(1, Open), (1, Open)]);
        overlap.resolve(1, Lost);
        overlap.resolve(1, Sound);
        overlap.trace_session(1, at(70));
        overlap.trace_session(2, at(71));
        let [first, second] = &overlap.insiders[..] else { panic!("two are inside") };
        assert_eq!((first.soundness, first.traces.session), (Lost, None));
        assert_eq!((second.soundness, second.traces.session), (Open, Some(at(71))));
    }

    #[test]
    fn they_are_together_until_one_leaves_and_the_first_end_counts() {
        let mut either = [overlap(0, Open, &[(1, Open)]), overlap(0, Open, &[(1, Open)])];
        assert_eq!(either[0].length_us(130), 30, "still together");
        either[0].leave(1, 120, Some(at(60)));
        either[0].leave(0, 140, Some(at(61)));
        assert_eq!((either[0].ended_us, either[0].length_us(500)), (Some(120), 20));
        assert_eq!(either[0].insiders[0].traces.released, Some(at(60)));
        assert_eq!(either[0].entering.traces.released, Some(at(61)));
        either[1].leave(0, 140, None);
        assert_eq!(either[1].length_us(500), 40);
    }

    #[test]
    fn with_leases_they_are_together_until_as_many_are_left_as_may_be() {
        let mut overlap = overlap(2, Open, &[(2, Sound), (1, Sound), (1, Sound)]);
        overlap.leave(2, 110, None);
        assert_eq!(overlap.ended_us, None, "three leases are still out beside the new one");
        overlap.leave(2, 115, None);
        overlap.leave(9, 116, None);
        assert_eq!(overlap.ended_us, None, "the same one cannot leave twice, and a stranger not at all");
        overlap.leave(3, 120, None);
        assert_eq!(overlap.ended_us, Some(120));
    }

    #[test]
    fn when_nothing_follows_only_what_is_open_becomes_unknown() {
        let mut overlap = overlap(0, Open, &[(1, Open), (1, Sound), (1, Lost)]);
        overlap.give_up();
        let of: Vec<Soundness> = overlap.insiders.iter().map(|party| party.soundness).collect();
        assert_eq!((overlap.entering.soundness, of), (Unknown, vec![Unknown, Sound, Lost]));
    }

    #[test]
    fn a_hold_is_shown_by_all_its_lines() {
        let traces = Traces { who: 0, acquired: at(1), session: Some(at(2)), released: Some(at(3)) };
        assert_eq!(traces.lines().map(|place| place.line).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(party(4, 1, Open).traces.lines().count(), 1);
    }
}
