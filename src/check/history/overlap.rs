//! An entry while others were inside, until it is known what it was.
//!
//! Whether the session of a holder was alive often shows only later, in the answer to its release: an overlap waits
//! for the ends of those it concerns.

use super::clocks::Moment;
use super::judgement::Breach;
use crate::record::history::LinePosition;

/// How many of those inside are looked at one by one. Of the others it stays unknown what they were.
pub const LOOKED_AT: usize = 64;

/// What is known of the session behind a hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Character {
    Open,
    /// The session was alive during the hold.
    Sound,
    /// It was suspended when another entered, or it had ended.
    Suspect,
    /// It will never be known.
    Unknown,
}

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
    pub character: Character,
    pub inside: bool,
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
    /// Whether the token of the one who enters is the older: then its own session matters, too.
    pub entering_is_older: bool,
    /// When they were no longer inside together.
    pub ended_us: Option<u64>,
}

impl Overlap {
    /// What it is, once that is known.
    pub fn breach(&self) -> Option<Breach> {
        let of = |character| self.weight(|party| party.character == character);
        let (sound, suspect, open) = (of(Character::Sound), of(Character::Suspect), of(Character::Open));
        let total = self.weight(|_| true) + self.others;
        let own = self.entering.character;
        if own == Character::Suspect {
            return Some(Breach::Zombie);
        }
        if sound > self.allowed {
            return match own {
                Character::Open if self.entering_is_older => None,
                Character::Unknown if self.entering_is_older => Some(Breach::Uncertain),
                _ => Some(Breach::Violation),
            };
        }
        if total - suspect <= self.allowed {
            return Some(Breach::Zombie);
        }
        (open == 0).then_some(Breach::Uncertain)
    }

    fn weight(&self, counts: impl Fn(&Party) -> bool) -> u64 {
        self.insiders.iter().filter(|party| counts(party)).map(|party| party.weight).sum()
    }

    /// The one inside that shows best what it is.
    pub fn counterpart(&self, breach: Breach) -> Option<&Party> {
        let wanted = match breach {
            Breach::Violation => Character::Sound,
            Breach::Zombie => Character::Suspect,
            _ => Character::Unknown,
        };
        self.insiders.iter().find(|party| party.character == wanted).or_else(|| self.insiders.first())
    }

    /// The side that this hold is, while it is open what was behind it, and as far as that matters.
    fn open_party(&mut self, hold: u64) -> Option<&mut Party> {
        if hold == self.entering.hold && !self.entering_is_older {
            return None;
        }
        self.party(hold).filter(|party| party.character == Character::Open)
    }

    fn party(&mut self, hold: u64) -> Option<&mut Party> {
        if self.entering.hold == hold {
            return Some(&mut self.entering);
        }
        self.insiders.iter_mut().find(|party| party.hold == hold)
    }

    /// It is known what was behind a hold. What was known before stays.
    pub fn resolve(&mut self, hold: u64, character: Character) {
        if let Some(party) = self.open_party(hold) {
            party.character = character;
        }
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
        if !self.entering.inside || self.weight(|party| party.inside) <= self.allowed {
            self.ended_us.get_or_insert(t_us);
        }
    }

    /// How long they were inside together, in microseconds; up to now, while they still are.
    pub fn length_us(&self, now_us: u64) -> u64 {
        self.ended_us.unwrap_or(now_us).saturating_sub(self.since.t_us)
    }

    /// Gives up waiting: what is not known will never be.
    pub fn give_up(&mut self) {
        let parties = self.insiders.iter_mut().chain([&mut self.entering]);
        parties.filter(|party| party.character == Character::Open).for_each(|party| {
            party.character = Character::Unknown;
        });
    }
}

#[cfg(test)]
mod tests {
    use super::Character::{Open, Sound, Suspect, Unknown};
    use super::*;

    fn at(line: u64) -> LinePosition {
        LinePosition { line, offset: 0 }
    }

    fn party(hold: u64, weight: u64, character: Character) -> Party {
        let traces = Traces { who: 0, acquired: at(hold), session: None, released: None };
        Party { hold, weight, character, inside: true, traces }
    }

    /// Hold 0 enters at 100 µs where holds 1, 2, ... of that weight and character are inside.
    fn overlap(allowed: u64, entering: Character, insiders: &[(u64, Character)]) -> Overlap {
        let insiders = (1..).zip(insiders).map(|(hold, (weight, of))| party(hold, *weight, *of)).collect();
        Overlap {
            entering: party(0, 1, entering),
            since: Moment { t_us: 100, place: at(50), clock: 0 },
            insiders,
            others: 0,
            allowed,
            entering_is_older: false,
            ended_us: None,
        }
    }

    fn breach(allowed: u64, entering: Character, insiders: &[(u64, Character)]) -> Option<Breach> {
        overlap(allowed, entering, insiders).breach()
    }

    #[test]
    fn beside_one_holder_it_is_what_is_known_of_its_session() {
        assert_eq!(breach(0, Open, &[(1, Sound)]), Some(Breach::Violation));
        assert_eq!(breach(0, Open, &[(1, Suspect)]), Some(Breach::Zombie));
        assert_eq!(breach(0, Open, &[(1, Unknown)]), Some(Breach::Uncertain));
        assert_eq!(breach(0, Open, &[(1, Open)]), None, "that may still show");
    }

    #[test]
    fn whoever_enters_without_a_session_is_the_zombie_whoever_is_inside() {
        for inside in [Open, Sound, Suspect, Unknown] {
            assert_eq!(breach(0, Suspect, &[(1, inside)]), Some(Breach::Zombie), "{inside:?}");
        }
    }

    #[test]
    fn the_older_grant_that_enters_last_may_be_the_one_at_fault() {
        let older = |own| Overlap { entering_is_older: true, ..overlap(0, own, &[(1, Sound)]) }.breach();
        assert_eq!(older(Open), None, "its own session matters, and is not known yet");
        assert_eq!(older(Unknown), Some(Breach::Uncertain));
        assert_eq!(older(Sound), Some(Breach::Violation));
        assert_eq!(breach(0, Unknown, &[(1, Sound)]), Some(Breach::Violation), "the newer one is not asked");
    }

    #[test]
    fn leases_are_counted_by_their_weight_against_what_is_allowed_beside() {
        assert_eq!(breach(2, Open, &[(2, Sound), (1, Sound)]), Some(Breach::Violation));
        assert_eq!(breach(2, Open, &[(2, Sound), (1, Suspect)]), Some(Breach::Zombie));
        assert_eq!(breach(2, Open, &[(2, Sound), (1, Open)]), None);
        assert_eq!(breach(2, Open, &[(2, Sound), (1, Unknown)]), Some(Breach::Uncertain));
        assert_eq!(breach(1, Open, &[(2, Suspect), (2, Unknown)]), Some(Breach::Uncertain));
        let crowd = Overlap { others: 1, ..overlap(1, Open, &[(1, Suspect), (1, Sound)]) };
        assert_eq!(crowd.breach(), Some(Breach::Uncertain), "those not looked at may have been alive");
    }

    #[test]
    fn the_one_shown_is_the_one_that_makes_it_what_it_is() {
        let mixed = overlap(0, Open, &[(1, Open), (1, Unknown), (1, Suspect), (1, Sound)]);
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
        overlap.resolve(1, Suspect);
        overlap.resolve(1, Sound);
        overlap.trace_session(1, at(70));
        overlap.trace_session(2, at(71));
        let [first, second] = &overlap.insiders[..] else { panic!("two are inside") };
        assert_eq!((first.character, first.traces.session), (Suspect, None));
        assert_eq!((second.character, second.traces.session), (Open, Some(at(71))));
    }

    #[test]
    fn the_session_of_the_one_who_enters_matters_only_when_its_grant_is_the_older() {
        for older in [false, true] {
            let mut overlap = Overlap { entering_is_older: older, ..overlap(0, Open, &[(1, Open)]) };
            overlap.trace_session(0, at(70));
            overlap.resolve(0, Suspect);
            let own = &overlap.entering;
            assert_eq!((own.character == Suspect, own.traces.session.is_some()), (older, older));
            assert_eq!(overlap.insiders[0].character, Open);
        }
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
        let mut overlap = overlap(0, Open, &[(1, Open), (1, Sound), (1, Suspect)]);
        overlap.give_up();
        let of: Vec<Character> = overlap.insiders.iter().map(|party| party.character).collect();
        assert_eq!((overlap.entering.character, of), (Unknown, vec![Unknown, Sound, Suspect]));
    }

    #[test]
    fn a_hold_is_shown_by_all_its_lines() {
        let traces = Traces { who: 0, acquired: at(1), session: Some(at(2)), released: Some(at(3)) };
        assert_eq!(traces.lines().map(|place| place.line).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(party(4, 1, Open).traces.lines().count(), 1);
    }
}
