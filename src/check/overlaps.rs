//! Two inside at once: each overlap that was seen is put into its class, by what is known of both holds.

use std::io;

use crate::record::{
    Doubt, Excused, Facts, Holder, Life, Occupant, Overlap, OverlapClass, Overlaps, Trial, Violation,
};
use crate::words::clock::{self, Stamp};

#[derive(Debug, Default)]
pub(super) struct Classed {
    /// The first violations, in the order of time.
    pub(super) violations: Vec<Violation>,
    /// All violations. What was counted and not kept is one.
    pub(super) violation_count: u64,
    pub(super) excused: Excused,
}

/// Puts the overlaps of a trial into classes and drops them. Where the servers' logs can't be read, each is uncertain.
pub(super) fn class(facts: &mut Facts) -> (Classed, io::Result<()>) {
    let mut overlaps = std::mem::take(&mut facts.overlaps);
    let learned = learn(&mut overlaps, facts);
    let classed = if learned.is_ok() { classed(overlaps, facts.began) } else { unclassed(&overlaps) };
    (classed, learned)
}

fn unclassed(overlaps: &Overlaps) -> Classed {
    let excused = Excused { uncertain: overlaps.count, ..Excused::default() };
    Classed { excused, ..Classed::default() }
}

/// Adds what the servers' logs tell: a holder whose node went with its session had lost it, whatever it knew. Who
/// entered by a node that had gone before is not excused by that. Of a node that the ensemble has forgotten nobody
/// knows who held when.
fn learn(overlaps: &mut Overlaps, facts: &Facts) -> io::Result<()> {
    let Overlaps { kept, doubts, .. } = overlaps;
    for occupant in kept.iter().flat_map(|overlap| [overlap.inside, overlap.entered]) {
        let life = occupant.czxid.map(|czxid| facts.lives.get(czxid)).transpose()?.flatten();
        let was_there = |life: &Life| {
            let entered_ms = facts.wall.ms(occupant.entered);
            life.deleted_at_ms.is_none_or(|deleted| deleted + facts.clocks_differ_ms >= entered_ms)
        };
        let hold = (occupant.contender, occupant.entered);
        if life.is_some_and(|life| facts.is_forgotten(&life)) {
            doubts.entry(hold).or_insert((Doubt::Unknown, occupant.entered));
        }
        if life.is_some_and(|life| life.with_its_session && was_there(&life)) {
            doubts.entry(hold).or_insert((Doubt::Expired, occupant.entered)).0 = Doubt::Expired;
        }
    }
    Ok(())
}

/// `began` is when the trial did, which violations are told by.
fn classed(mut overlaps: Overlaps, began: Stamp) -> Classed {
    overlaps.kept.sort_by_key(|overlap| overlap.at);
    let not_kept = overlaps.count - overlaps.kept.len() as u64;
    let mut classed = Classed { violation_count: not_kept, ..Classed::default() };
    for overlap in &overlaps.kept {
        match class_of(overlap, &overlaps) {
            (OverlapClass::Violation, _) => classed.violates(overlap, began),
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
fn class_of(overlap: &Overlap, overlaps: &Overlaps) -> (OverlapClass, Stamp) {
    let doubt = |occupant: &Occupant| overlaps.doubts.get(&(occupant.contender, occupant.entered)).copied();
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

impl Classed {
    fn violates(&mut self, overlap: &Overlap, began: Stamp) {
        self.violation_count += 1;
        if self.violations.len() < Trial::VIOLATIONS_KEPT {
            let (inside, entered) = (holder(&overlap.inside, began), holder(&overlap.entered, began));
            self.violations.push(Violation { lock: overlap.lock, inside, entered, at: overlap.at });
        }
    }
}

fn holder(occupant: &Occupant, began: Stamp) -> Holder {
    Holder {
        contender: occupant.contender,
        sequence: occupant.sequence,
        czxid: occupant.czxid,
        entered_us: clock::signed_difference(occupant.entered, began),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::check::tests;
    use crate::record::history::LockKind;
    use crate::record::{CLOCKS_DIFFER_MS, Lives};

    /// With the life of one node.
    fn facts(created: i64, life: Life, all_gone: bool) -> Facts {
        let lives = Lives::from([(created, life)]);
        Facts { all_gone, ..tests::facts(Vec::new(), lives, LockKind::Mutex) }
    }

    fn occupant(contender: usize, entered: Stamp) -> Occupant {
        Occupant { contender, sequence: None, czxid: None, entered }
    }

    /// Contender 2 enters at 100 while contender 1 is inside since 50; with these doubts about their holds.
    fn with_doubts(doubts: &[(usize, Doubt)]) -> Classed {
        let mut overlaps = Overlaps::default();
        overlaps.note(Overlap { lock: 0, inside: occupant(1, 50), entered: occupant(2, 100), at: 100 });
        let entered = |contender| if contender == 1 { 50 } else { 100 };
        for (contender, doubt) in doubts {
            overlaps.doubts.insert((*contender, entered(*contender)), (*doubt, 130));
        }
        super::classed(overlaps, 40)
    }

    #[test]
    fn two_inside_with_nothing_the_matter_are_a_violation() {
        let classed = with_doubts(&[]);
        assert_eq!((classed.violation_count, classed.violations[0].entered.entered_us), (1, 60));
        assert_eq!(classed.excused, Excused::default());
    }

    #[test]
    fn what_is_told_of_a_trial_are_its_overlaps_each_in_its_class() {
        let mut facts = tests::facts(Vec::new(), Lives::default(), LockKind::Mutex);
        facts.overlaps.note(Overlap { lock: 0, inside: occupant(1, 50), entered: occupant(2, 100), at: 100 });
        let (classed, learned) = class(&mut facts);
        assert_eq!((classed.violation_count, learned.is_ok()), (1, true));
    }

    #[test]
    fn where_the_servers_logs_cannot_be_read_back_each_overlap_is_uncertain_and_none_is_dropped() {
        let mut overlaps = Overlaps::default();
        overlaps.note(Overlap { lock: 0, inside: occupant(1, 50), entered: occupant(2, 100), at: 100 });
        let classed = unclassed(&overlaps);
        assert_eq!((classed.violation_count, classed.excused.uncertain), (0, 1));
    }

    #[test]
    fn beside_somebody_whose_session_is_gone_it_is_a_zombie_and_its_time_is_measured() {
        for contender in [1, 2] {
            let classed = with_doubts(&[(contender, Doubt::Expired)]);
            assert_eq!((classed.violation_count, classed.excused.zombies), (0, 1));
            assert_eq!(classed.excused.longest_unsafe_us, 30);
        }
    }

    #[test]
    fn a_connection_that_was_lost_only_afterwards_excuses_nothing() {
        assert_eq!(with_doubts(&[(1, Doubt::Suspended(100))]).excused.zombies, 1);
        assert_eq!(with_doubts(&[(1, Doubt::Suspended(101))]).violation_count, 1);
    }

    #[test]
    fn what_may_have_been_released_is_uncertain() {
        let classed = with_doubts(&[(1, Doubt::Unknown)]);
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
        // It entered at 50 ms, and by so much the servers' clock may be behind.
        let for_sure = 50 - CLOCKS_DIFFER_MS;
        learn(&mut overlaps, &gone(for_sure - 1)).unwrap();
        assert_eq!(overlaps.doubts, HashMap::new(), "its node had gone before");
        learn(&mut overlaps, &gone(for_sure)).unwrap();
        assert_eq!(classed(overlaps, 0).excused.zombies, 1);
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
            learn(&mut overlaps, &facts(7, Life::default(), all_gone)).unwrap();
            classed(overlaps, 0).excused.uncertain
        };
        assert_eq!((uncertain(true), uncertain(false)), (1, 0));
    }

    #[test]
    fn what_is_not_kept_is_a_violation() {
        let mut overlaps = Overlaps::default();
        for at in 0..Overlaps::KEPT as u64 + 5 {
            overlaps.note(Overlap { lock: 0, inside: occupant(1, 1), entered: occupant(2, at), at });
        }
        let classed = classed(overlaps, 0);
        assert_eq!(classed.violation_count, Overlaps::KEPT as u64 + 5);
        assert_eq!(classed.violations.len(), Trial::VIOLATIONS_KEPT);
    }
}
