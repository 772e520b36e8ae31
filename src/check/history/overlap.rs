//! An entry while others were inside, until it is known what it was.
//!
//! Whether the session of a holder was alive often shows only later, in the answer to its release: an overlap waits
//! for the ends of those it concerns.

use super::judgement::Breach;
use super::moment::Moment;
use crate::record::history::Place;

/// How many of those inside are looked at one by one. Of the others it stays unknown what they were.
pub const LOOKED_AT: usize = 64;

/// What is known of the session behind a hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Character {
    /// Nothing yet.
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
    /// Whose hold.
    pub who: usize,
    /// Where acquire returned.
    pub acquired: Place,
    /// Where the session was suspended or expired.
    pub session: Option<Place>,
    /// Where release was called.
    pub released: Option<Place>,
}

impl Traces {
    /// Those lines.
    pub fn lines(&self) -> impl Iterator<Item = Place> {
        [Some(self.acquired), self.session, self.released].into_iter().flatten()
    }
}

/// One of the two sides.
#[derive(Debug, Clone, Copy)]
pub struct Party {
    /// The hold's number.
    pub hold: u64,
    /// How many leases it has.
    pub weight: u64,
    /// What is known of its session.
    pub character: Character,
    /// Whether it is still inside.
    pub inside: bool,
    /// Its lines.
    pub traces: Traces,
}

/// One entry while others were inside.
#[derive(Debug)]
pub struct Overlap {
    /// Who entered, and when.
    pub entering: Party,
    /// When that was.
    pub since: Moment,
    /// Those inside.
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

    /// Both sides, as far as it concerns that hold.
    fn party(&mut self, hold: u64) -> Option<&mut Party> {
        if self.entering.hold == hold {
            return Some(&mut self.entering);
        }
        self.insiders.iter_mut().find(|party| party.hold == hold)
    }

    /// It is known what was behind a hold. What was known before stays.
    pub fn resolve(&mut self, hold: u64, character: Character) {
        if hold == self.entering.hold && !self.entering_is_older {
            return;
        }
        if let Some(party) = self.party(hold)
            && party.character == Character::Open
        {
            party.character = character;
        }
    }

    /// A hold's session was suspended or expired in that line. Where that is settled, an earlier line shows it.
    pub fn trace_session(&mut self, hold: u64, place: Place) {
        if hold == self.entering.hold && !self.entering_is_older {
            return;
        }
        if let Some(party) = self.party(hold)
            && party.character == Character::Open
        {
            party.traces.session = Some(place);
        }
    }

    /// A holder left at that time; `place` is where it called release.
    pub fn leave(&mut self, hold: u64, t_us: u64, place: Option<Place>) {
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
