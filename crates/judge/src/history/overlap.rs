//! Tracks an acquisition during other holds until its class is known.
//!
//! Often only the answer to a release shows whether the holder's session was alive. An overlap therefore
//! waits for its holds to end.

use std::collections::BTreeMap;

use super::clocks::Moment;
use super::judgement::{Breach, Overlaps};
use crate::weigh::{self, Granted, Soundness};
use zklockbench_record::history::LinePosition;

/// Maximum number of insiders tracked individually. If the live holders alone exceed the lock's limit, the maximum is
/// higher by the leases allowed alongside the entering contender. The soundness of the others stays unknown.
pub const LOOKED_AT: usize = 64;

/// A hold, with its relevant lines.
#[derive(Debug, Clone, Copy)]
pub struct Traces {
    pub who: usize,
    pub token: Option<i64>,
    pub entered_us: u64,
    pub acquired: LinePosition,
    /// Line that reported the session as suspended or expired.
    pub session: Option<LinePosition>,
    pub released: Option<LinePosition>,
}

impl Traces {
    pub fn lines(&self) -> impl Iterator<Item = LinePosition> {
        [Some(self.acquired), self.session, self.released].into_iter().flatten()
    }
}

/// One side of an overlap.
#[derive(Debug, Clone, Copy)]
pub struct Party {
    pub hold: u64,
    pub weight: u64,
    pub soundness: Soundness,
    /// Order of this party's grant relative to the entering contender's grant.
    pub granted: Granted,
    pub inside: bool,
    /// Whether release had been called. The party was then inside only if the release failed.
    pub is_leaving: bool,
    pub traces: Traces,
}

/// An acquisition during other holds, or several whose class depends on the same open states.
#[derive(Debug)]
pub struct Overlap {
    pub entering: Party,
    pub since: Moment,
    pub insiders: Vec<Party>,
    /// Leases of the insiders that are not tracked individually.
    pub others: u64,
    /// Leases that others may hold alongside the entering contender.
    pub allowed: u64,
    /// Time at which the overlap ended; `None` while it lasts.
    pub ended_us: Option<u64>,
    /// Overlaps merged into this one.
    pub merged: Overlaps,
    /// Line of the latest acquisition, including the merged overlaps.
    pub last: LinePosition,
}

/// Everything on which the class of an ended overlap depends: the leases for others, the entering contender's
/// soundness, and the leases of the insiders. Insiders with a known soundness are only summed.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Openness {
    allowed: u64,
    entering: Soundness,
    others: u64,
    leases: BTreeMap<(Option<u64>, Soundness, Granted, bool), u64>,
}

impl Overlap {
    /// The overlap's key for merging; `None` if the overlap may still change in other ways.
    pub fn openness(&self) -> Option<Openness> {
        let (entering, others) = (self.entering.soundness, self.others);
        if self.ended_us.is_none() || entering == Soundness::Open {
            return None;
        }
        let mut leases = BTreeMap::new();
        for party in &self.insiders {
            let is_open = party.is_leaving || party.soundness == Soundness::Open;
            let key = (is_open.then_some(party.hold), party.soundness, party.granted, party.is_leaving);
            *leases.entry(key).or_insert(0) += party.weight;
        }
        Some(Openness { allowed: self.allowed, entering, others, leases })
    }

    /// Adds an ended overlap with the same [`Openness`].
    pub fn merge(&mut self, other: &Self) {
        self.merged.add(1, other.length_us(other.since.t_us));
        self.merged = self.merged.and(other.merged);
        self.last = self.last.max(other.last);
    }

    /// Class of the overlap; `None` until it is known. A pending release may still free enough leases.
    pub fn breach(&self) -> Option<Breach> {
        let is_leaving = self.insiders.iter().any(|party| party.is_leaving);
        if is_leaving && self.weight(|party| !party.is_leaving) + self.others <= self.allowed {
            return None;
        }
        let insiders = self.insiders.iter().map(|party| (party.weight, party.soundness, party.granted));
        let others = (self.others, Soundness::Unknown, Granted::Unknown);
        weigh::class(self.allowed, self.entering.soundness, insiders.chain([others]))
    }

    /// Whether there were enough leases for all holders.
    pub fn is_none(&self) -> bool {
        self.weight(|_| true) + self.others <= self.allowed
    }

    fn weight(&self, counts: impl Fn(&Party) -> bool) -> u64 {
        self.insiders.iter().filter(|party| counts(party)).map(|party| party.weight).sum()
    }

    /// The insider that best illustrates a class.
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

    /// Sets the soundness of a hold unless it is already known.
    pub fn resolve(&mut self, hold: u64, soundness: Soundness) {
        if let Some(party) = self.open_party(hold) {
            party.soundness = soundness;
        }
    }

    /// Whether the class depends on the soundness of a hold.
    pub fn depends_on(&mut self, hold: u64) -> bool {
        self.open_party(hold).is_some()
    }

    /// Removes a holder whose pending release succeeded.
    pub fn is_gone(&mut self, hold: u64) {
        self.insiders.retain(|party| !(party.is_leaving && party.hold == hold));
    }

    /// Handles a failed release: the holder was inside all along.
    pub fn stays(&mut self, hold: u64) {
        self.insiders
            .iter_mut()
            .filter(|party| party.hold == hold)
            .for_each(|party| party.is_leaving = false);
    }

    /// Handles another release call: it is unknown whether the holder was inside.
    pub fn may_have_stayed(&mut self, hold: u64) {
        let leaving = self.insiders.iter_mut().filter(|party| party.is_leaving && party.hold == hold);
        leaving.for_each(|party| {
            party.is_leaving = false;
            party.soundness = Soundness::Unknown;
        });
    }

    /// Records the line that reported a hold's session as suspended or expired, unless the hold is resolved.
    pub fn trace_session(&mut self, hold: u64, place: LinePosition) {
        if let Some(party) = self.open_party(hold) {
            party.traces.session = Some(place);
        }
    }

    /// Records that a holder left at `t_us`, with the line of its release call.
    pub fn leave(&mut self, hold: u64, t_us: u64, place: Option<LinePosition>) {
        let is_entry = t_us == self.since.t_us && hold != self.entering.hold;
        let Some(party) = self.party(hold).filter(|party| party.inside) else { return };
        if is_entry && place.is_some() && matches!(party.soundness, Soundness::Open | Soundness::Lost) {
            // Within one microsecond, exits come first, as in a trial.
            party.is_leaving = true;
            party.traces.released = place;
            return;
        }
        party.inside = false;
        party.traces.released = place;
        if !self.entering.inside || self.weight(|party| party.inside && !party.is_leaving) <= self.allowed {
            self.ended_us.get_or_insert(t_us);
        }
    }

    /// Length of the overlap in microseconds, up to now if it has not ended.
    pub fn length_us(&self, now_us: u64) -> u64 {
        self.ended_us.unwrap_or(now_us).saturating_sub(self.since.t_us)
    }

    /// Stops waiting at the end: open states become unknown, and unanswered releases count as successful.
    pub fn give_up(&mut self) {
        self.insiders.retain(|party| !party.is_leaving);
        self.stop_waiting();
    }

    /// Stops waiting before the end: open states and the results of releases become unknown.
    pub fn stop_waiting(&mut self) {
        for party in self.insiders.iter_mut().chain([&mut self.entering]) {
            if std::mem::take(&mut party.is_leaving) || party.soundness == Soundness::Open {
                party.soundness = Soundness::Unknown;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Soundness::{Lost, Open, Sound, Unknown};
    use super::*;

    fn at(line: u64) -> LinePosition {
        LinePosition { line, offset: 0 }
    }

    fn traces(line: u64) -> Traces {
        Traces { who: 0, token: None, entered_us: line, acquired: at(line), session: None, released: None }
    }

    fn party(hold: u64, weight: u64, soundness: Soundness) -> Party {
        let traces = traces(hold);
        let granted = Granted::Before;
        Party { hold, weight, soundness, granted, inside: true, is_leaving: false, traces }
    }

    /// Hold 0 enters at 100 µs while holds 1, 2, ... are inside, given as weight and soundness.
    fn overlap(entering: Soundness, insiders: &[(u64, Soundness)]) -> Overlap {
        let insiders = (1..).zip(insiders).map(|(hold, (weight, of))| party(hold, *weight, *of)).collect();
        Overlap {
            entering: party(0, 1, entering),
            since: Moment { t_us: 100, place: at(50), clock: 0 },
            insiders,
            others: 0,
            allowed: 0,
            ended_us: None,
            merged: Overlaps::default(),
            last: at(50),
        }
    }

    #[test]
    fn ended_overlaps_merge_if_they_depend_on_the_same_holds() {
        let ended = |insiders: &[(u64, Soundness)], entering| {
            let mut overlap = overlap(entering, insiders);
            assert_eq!(overlap.openness(), None, "the overlap has not ended");
            overlap.leave(0, 130, None);
            overlap
        };
        let with = |insiders: &[(u64, Soundness)]| ended(insiders, Sound).openness();
        assert_eq!(with(&[(1, Open), (2, Sound), (1, Sound)]), with(&[(1, Open), (1, Sound), (2, Sound)]));
        assert_ne!(with(&[(1, Open), (1, Sound)]), with(&[(1, Sound), (1, Open)]), "another hold is open");
        assert_ne!(with(&[(1, Open), (1, Sound)]), with(&[(1, Open), (1, Lost)]));
        assert_eq!(ended(&[(1, Open)], Open).openness(), None, "the entering contender is unresolved");
        let mut merged = ended(&[(1, Open)], Sound);
        merged.merge(&ended(&[(1, Open)], Sound));
        assert_eq!(merged.merged, Overlaps { count: 1, longest_us: 30 });
    }

    #[test]
    fn counterpart_is_the_holder_that_determines_the_class() {
        let mixed = overlap(Open, &[(1, Open), (1, Unknown), (1, Lost), (1, Sound)]);
        let shown = |breach| mixed.counterpart(breach).map(|party| party.hold);
        assert_eq!(shown(Breach::Uncertain), Some(2));
        assert_eq!(shown(Breach::Zombie), Some(3));
        assert_eq!(shown(Breach::Violation), Some(4));
        let other = overlap(Open, &[(1, Open), (1, Open)]);
        assert_eq!(other.counterpart(Breach::Zombie).map(|party| party.hold), Some(1));
    }
}
