//! Two inside at once: kept as they are seen, and put into classes when it is known how both holds ended.

use std::collections::HashMap;

use super::scene::Occupant;
use crate::clock::{self, Stamp};
use crate::record::{CLOCKS_DIFFER_MS, Excused, Facts, Holder, Life, OverlapClass, Trial, Violation};

/// Overlaps kept for their class; a lock that excludes nobody would fill the memory. What is not kept counts as a
/// violation.
const KEPT: usize = 10_000;

/// A contender entered while another was inside.
#[derive(Debug, Clone, Copy)]
pub struct Overlap {
    /// Which of the trial's lock paths.
    pub lock: usize,
    /// Who was inside.
    pub inside: Occupant,
    /// Who entered.
    pub entered: Occupant,
    /// When.
    pub at: Stamp,
}

/// Why it is doubtful whether a hold was one to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doubt {
    /// The session had ended.
    Expired,
    /// The session had lost its connection, for the first time in the hold at that time.
    Suspended(Stamp),
    /// The release may or may not have happened.
    Unknown,
}

/// A hold: its contender, and when it began.
type Hold = (usize, Stamp);

/// All overlaps of one thread, or of all.
#[derive(Debug, Default)]
pub struct Overlaps {
    kept: Vec<Overlap>,
    count: u64,
    /// Holds with a doubt, and when they ended.
    pub doubts: HashMap<Hold, (Doubt, Stamp)>,
}

/// The overlaps in their classes.
#[derive(Debug, Default)]
pub struct Classed {
    /// The first violations, in the order of time.
    pub violations: Vec<Violation>,
    /// All violations.
    pub violation_count: u64,
    /// The others.
    pub excused: Excused,
}

impl Overlaps {
    /// Notes one.
    pub fn note(&mut self, overlap: Overlap) {
        self.count += 1;
        if self.kept.len() < KEPT {
            self.kept.push(overlap);
        }
    }

    /// Adds those of another thread.
    pub fn merge(&mut self, other: Self) {
        self.count += other.count;
        self.kept.extend(other.kept);
        self.doubts.extend(other.doubts);
    }

    /// Adds what the servers' logs tell: a holder whose node went with its session had lost it, whatever it knew. Who
    /// entered by a node that had gone before is not excused by that. Of a node that the ensemble has forgotten nobody
    /// knows who held when.
    pub fn learn(&mut self, facts: &Facts) {
        let occupants = self.kept.iter().flat_map(|overlap| [overlap.inside, overlap.entered]);
        for occupant in occupants {
            let life = occupant.czxid.and_then(|czxid| facts.lives.get(&czxid));
            let was_there = |life: &Life| {
                let entered_ms = facts.wall.ms(occupant.entered);
                life.deleted_at_ms.is_none_or(|deleted| deleted + CLOCKS_DIFFER_MS >= entered_ms)
            };
            let hold = (occupant.contender, occupant.entered);
            if life.is_some_and(|life| facts.is_forgotten(life)) {
                self.doubts.entry(hold).or_insert((Doubt::Unknown, occupant.entered));
            }
            if life.is_some_and(|life| life.with_its_session && was_there(life)) {
                self.doubts.entry(hold).or_insert((Doubt::Expired, occupant.entered)).0 = Doubt::Expired;
            }
        }
    }

    /// Puts them into classes. `start` is when the trial began, which violations are told by.
    #[must_use]
    pub fn classed(mut self, start: Stamp) -> Classed {
        self.kept.sort_by_key(|overlap| overlap.at);
        let mut classed =
            Classed { violation_count: self.count - self.kept.len() as u64, ..Classed::default() };
        for overlap in &self.kept {
            match self.class(overlap) {
                (OverlapClass::Violation, _) => classed.violates(overlap, start),
                (OverlapClass::Zombie, until) => {
                    let unsafe_us = until.saturating_sub(overlap.at);
                    classed.excused.zombies += 1;
                    classed.excused.longest_unsafe_us = classed.excused.longest_unsafe_us.max(unsafe_us);
                }
                (OverlapClass::Uncertain, _) => classed.excused.uncertain += 1,
            }
        }
        classed
    }

    /// The class of one, and when the doubtful hold ended.
    fn class(&self, overlap: &Overlap) -> (OverlapClass, Stamp) {
        let doubt = |occupant: &Occupant| self.doubts.get(&(occupant.contender, occupant.entered)).copied();
        let doubts: Vec<(Doubt, Stamp)> =
            [doubt(&overlap.inside), doubt(&overlap.entered)].into_iter().flatten().collect();
        let was_lost = |(doubt, _): &&(Doubt, Stamp)| match doubt {
            Doubt::Expired => true,
            Doubt::Suspended(since) => *since <= overlap.at,
            Doubt::Unknown => false,
        };
        if let Some((_, left)) = doubts.iter().find(was_lost) {
            return (OverlapClass::Zombie, *left);
        }
        let is_open = doubts.iter().any(|(doubt, _)| *doubt == Doubt::Unknown);
        (if is_open { OverlapClass::Uncertain } else { OverlapClass::Violation }, 0)
    }
}

impl Classed {
    fn violates(&mut self, overlap: &Overlap, start: Stamp) {
        self.violation_count += 1;
        if self.violations.len() < Trial::VIOLATIONS_KEPT {
            let (inside, entered) = (holder(&overlap.inside, start), holder(&overlap.entered, start));
            self.violations.push(Violation { lock: overlap.lock, inside, entered, at: overlap.at });
        }
    }
}

fn holder(occupant: &Occupant, start: Stamp) -> Holder {
    Holder {
        contender: occupant.contender,
        sequence: occupant.sequence,
        czxid: occupant.czxid,
        entered_us: clock::signed_difference(occupant.entered, start),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::WallClock;
    use crate::record::Lives;
    use crate::record::history::LockKind;

    /// With the life of one node, by a clock that counts from 1970.
    fn facts(created: i64, life: Life, all_gone: bool) -> Facts {
        let lives = Lives::from([(created, life)]);
        Facts { kind: LockKind::Mutex, grants: Vec::new(), lives, all_gone, wall: WallClock::default() }
    }

    fn occupant(contender: usize, entered: Stamp) -> Occupant {
        Occupant { contender, sequence: None, czxid: None, entered }
    }

    /// Contender 2 enters at 100 while contender 1 is inside since 50; with these doubts about their holds.
    fn classed(doubts: &[(usize, Doubt)]) -> Classed {
        let mut overlaps = Overlaps::default();
        overlaps.note(Overlap { lock: 0, inside: occupant(1, 50), entered: occupant(2, 100), at: 100 });
        let entered = |contender| if contender == 1 { 50 } else { 100 };
        for (contender, doubt) in doubts {
            overlaps.doubts.insert((*contender, entered(*contender)), (*doubt, 130));
        }
        overlaps.classed(40)
    }

    #[test]
    fn two_inside_with_nothing_the_matter_are_a_violation() {
        let classed = classed(&[]);
        assert_eq!((classed.violation_count, classed.violations[0].entered.entered_us), (1, 60));
        assert_eq!(classed.excused, Excused::default());
    }

    #[test]
    fn beside_somebody_whose_session_is_gone_it_is_a_zombie_and_its_time_is_measured() {
        for contender in [1, 2] {
            let classed = classed(&[(contender, Doubt::Expired)]);
            assert_eq!((classed.violation_count, classed.excused.zombies), (0, 1));
            assert_eq!(classed.excused.longest_unsafe_us, 30);
        }
    }

    #[test]
    fn a_connection_that_was_lost_only_afterwards_excuses_nothing() {
        assert_eq!(classed(&[(1, Doubt::Suspended(100))]).excused.zombies, 1);
        assert_eq!(classed(&[(1, Doubt::Suspended(101))]).violation_count, 1);
    }

    #[test]
    fn what_may_have_been_released_is_uncertain() {
        let classed = classed(&[(1, Doubt::Unknown)]);
        assert_eq!((classed.violation_count, classed.excused.uncertain), (0, 1));
    }

    #[test]
    fn a_node_that_went_with_its_session_tells_what_its_holder_did_not_know() {
        let mut overlaps = Overlaps::default();
        let inside = Occupant { czxid: Some(7), ..occupant(1, 50_000) };
        overlaps.note(Overlap { lock: 0, inside, entered: occupant(2, 100_000), at: 100_000 });
        let gone = |deleted_at_ms| {
            let deleted_at_ms = Some(deleted_at_ms);
            facts(7, Life { deleted: Some(8), with_its_session: true, deleted_at_ms }, true)
        };
        overlaps.learn(&gone(20));
        assert_eq!(overlaps.doubts, HashMap::new(), "it entered at 50 ms, and its node had gone at 20 ms");
        overlaps.learn(&gone(90));
        assert_eq!(overlaps.classed(0).excused.zombies, 1);
    }

    #[test]
    fn beside_a_holder_whose_node_the_ensemble_has_forgotten_an_entry_is_uncertain() {
        let overlap = Overlap {
            lock: 0,
            inside: Occupant { czxid: Some(7), ..occupant(1, 50) },
            entered: occupant(2, 100),
            at: 100,
        };
        let uncertain = |all_gone| {
            let mut overlaps = Overlaps::default();
            overlaps.note(overlap);
            overlaps.learn(&facts(7, Life::default(), all_gone));
            overlaps.classed(0).excused.uncertain
        };
        assert_eq!((uncertain(true), uncertain(false)), (1, 0));
    }

    #[test]
    fn what_is_not_kept_is_a_violation() {
        let mut overlaps = Overlaps::default();
        for at in 0..KEPT as u64 + 5 {
            overlaps.note(Overlap { lock: 0, inside: occupant(1, 1), entered: occupant(2, at), at });
        }
        let classed = overlaps.classed(0);
        assert_eq!(classed.violation_count, KEPT as u64 + 5);
        assert_eq!(classed.violations.len(), Trial::VIOLATIONS_KEPT);
    }
}
