//! Classifies each entry that exceeded the limit of holders, by the sessions of all holds involved.

use std::collections::HashMap;
use std::io;

use super::weigh::{self, Granted, Soundness, Weighed};
use zklockbench_core::clock::{self, Stamp};
use zklockbench_record::history::LockKind;
use zklockbench_record::{
    Doubt, Excused, Facts, Hold, Holder, Life, Occupant, Overlap, OverlapClass, Overlaps, SessionEnd, Trial,
    Violation,
};

#[derive(Debug, Default)]
pub(super) struct Classed {
    /// First violations, in order of time.
    pub(super) violations: Vec<Violation>,
    pub(super) violation_count: u64,
    pub(super) excused: Excused,
}

/// Classifies and consumes the overlaps of a trial. If the servers' logs cannot be read, all are uncertain.
pub(super) fn class(facts: &mut Facts) -> (Classed, io::Result<()>) {
    let mut overlaps = std::mem::take(&mut facts.overlaps);
    let learned = learn(&mut overlaps, facts);
    let classed =
        if learned.is_ok() { classed(overlaps, facts.kind, facts.began) } else { unclassed(&overlaps) };
    (classed, learned)
}

fn unclassed(overlaps: &Overlaps) -> Classed {
    let excused = Excused { uncertain: overlaps.count, ..Excused::default() };
    Classed { excused, ..Classed::default() }
}

/// Adds facts from the servers' logs. A holder whose node went with its session had lost it, whether or not
/// it knew. That does not excuse an entry by a node that was gone earlier. A node that the ensemble lost
/// leaves unknown who held when.
fn learn(overlaps: &mut Overlaps, facts: &Facts) -> io::Result<()> {
    let Overlaps { kept, doubts, .. } = overlaps;
    for occupant in kept.iter().flat_map(|overlap| overlap.inside.iter().chain([&overlap.entered])) {
        let life = occupant.czxid.map(|czxid| facts.lives.get(czxid)).transpose()?.flatten();
        let was_there = |life: &Life| {
            let entered_ms = facts.wall.ms(occupant.entered);
            life.deleted_at_ms.is_none_or(|deleted| deleted + facts.clocks_differ_ms >= entered_ms)
        };
        let learned = match life {
            Some(life) if life.with_its_session && was_there(&life) => SessionEnd::Expired,
            Some(life) if facts.is_forgotten(&life) => SessionEnd::Unknown,
            _ => continue,
        };
        let left = occupant.entered;
        let doubt = doubts.entry(occupant.hold()).or_insert(Doubt { left, ..Doubt::default() });
        if learned == SessionEnd::Expired || doubt.session == SessionEnd::Alive {
            doubt.session = learned;
        }
    }
    Ok(())
}

/// `began` is the start of the trial, to which times of violations are relative.
fn classed(overlaps: Overlaps, kind: LockKind, began: Stamp) -> Classed {
    let Overlaps { kept, count, doubts, .. } = overlaps;
    let not_kept = count - kept.len() as u64;
    let mut classed = Classed::default();
    for entry in &by_entry(kept) {
        let judge = Judge { kind, entry, doubts: &doubts };
        match judge.class() {
            OverlapClass::Violation => classed.violates(&judge, began),
            OverlapClass::Zombie => {
                classed.excused.zombies += 1;
                classed.excused.longest_unsafe_us = classed.excused.longest_unsafe_us.max(judge.unsafe_us());
            }
            OverlapClass::Uncertain => classed.excused.uncertain += 1,
        }
    }
    // Overlaps that were not kept count as the worst class among the kept ones.
    if classed.violation_count > 0 {
        classed.violation_count += not_kept;
    } else {
        classed.excused.uncertain += not_kept;
    }
    classed
}

/// One overlap per entry, in order of time. Holds that become known late are recorded from both sides.
fn by_entry(mut kept: Vec<Overlap>) -> Vec<Overlap> {
    kept.sort_by_key(|overlap| (overlap.entered.entered, overlap.entered.contender));
    kept.dedup_by(|next, first| {
        let is_same = (first.lock, first.entered.hold()) == (next.lock, next.entered.hold());
        if is_same {
            let known: Vec<Hold> = first.inside.iter().map(Occupant::hold).collect();
            first.inside.extend(next.inside.iter().filter(|other| !known.contains(&other.hold())));
            first.others = first.others.max(next.others);
        }
        is_same
    });
    kept
}

/// One entry, and the doubts about all holds.
struct Judge<'a> {
    kind: LockKind,
    entry: &'a Overlap,
    doubts: &'a HashMap<Hold, Doubt>,
}

impl Judge<'_> {
    fn class(&self) -> OverlapClass {
        let Overlap { entered, inside, others, .. } = self.entry;
        let allowed = self.kind.allowed_beside(entered.claim);
        let weighed = inside.iter().map(|other| Weighed {
            leases: self.kind.weight_against(entered.claim, other.claim),
            soundness: self.soundness(other),
            granted: Granted::of((other.token(), other.entered), (entered.token(), Some(entered.asked))),
        });
        let class = weigh::class(allowed, self.own_soundness(), weighed.chain(Weighed::unknown(*others)));
        class.unwrap_or(OverlapClass::Uncertain)
    }

    /// Soundness of a holder at the time of the entry.
    fn soundness(&self, holder: &Occupant) -> Soundness {
        let at = self.entry.entered.entered;
        match self.doubts.get(&holder.hold()) {
            None => Soundness::Sound,
            Some(doubt) if doubt.session == SessionEnd::Expired || doubt.was_suspended(at) => Soundness::Lost,
            Some(doubt) if doubt.session == SessionEnd::Unknown => Soundness::Unknown,
            Some(_) => Soundness::Sound,
        }
    }

    /// Soundness of the entering contender. A lost connection proves nothing: the session may have lived on.
    fn own_soundness(&self) -> Soundness {
        match self.doubts.get(&self.entry.entered.hold()).map(|doubt| doubt.session) {
            Some(SessionEnd::Expired) => Soundness::Lost,
            Some(SessionEnd::Unknown) => Soundness::Unknown,
            Some(SessionEnd::Alive) | None => Soundness::Sound,
        }
    }

    /// Time for which holders without sessions stayed inside after the entry.
    fn unsafe_us(&self) -> u64 {
        let Overlap { entered, inside, .. } = self.entry;
        let left = |hold: Hold| self.doubts.get(&hold).map_or(0, |doubt| doubt.left);
        let lost = inside.iter().filter(|other| self.soundness(other) == Soundness::Lost);
        let latest = lost.map(|other| left(other.hold())).max().unwrap_or_else(|| left(entered.hold()));
        latest.saturating_sub(entered.entered)
    }

    /// The holder that best illustrates the violation.
    fn counterpart(&self) -> Option<&Occupant> {
        let inside = &self.entry.inside;
        inside.iter().find(|other| self.soundness(other) == Soundness::Sound).or_else(|| inside.first())
    }
}

impl Classed {
    fn violates(&mut self, judge: &Judge<'_>, began: Stamp) {
        self.violation_count += 1;
        let Some(inside) = judge.counterpart().filter(|_| self.violations.len() < Trial::VIOLATIONS_KEPT)
        else {
            return;
        };
        let Overlap { lock, entered, .. } = judge.entry;
        let (inside, at) = (holder(inside, began), entered.entered);
        self.violations.push(Violation { lock: *lock, inside, entered: holder(entered, began), at });
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
    use super::*;
    use crate::tests;
    use zklockbench_record::{CLOCKS_DIFFER_MS, Lives, LockClaim};

    /// Facts with the life of one node.
    fn facts(created: i64, life: Life, all_gone: bool) -> Facts {
        let lives = Lives::from([(created, life)]);
        Facts { all_gone, ..tests::facts(Vec::new(), lives, LockKind::Mutex) }
    }

    /// A contender that called acquire before all others entered.
    fn occupant(contender: usize, entered: Stamp) -> Occupant {
        Occupant { contender, sequence: None, czxid: None, claim: LockClaim::WRITE, asked: 1, entered }
    }

    fn entry(entered: Occupant, inside: &[Occupant]) -> Overlap {
        Overlap::of(0, LockKind::Mutex, entered, inside.to_vec())
    }

    fn doubt(session: SessionEnd) -> Doubt {
        Doubt { session, left: 130, ..Doubt::default() }
    }

    fn suspended(lost: Stamp, back: Stamp) -> Doubt {
        Doubt { suspended: vec![(lost, back)], left: 130, ..Doubt::default() }
    }

    /// Contender 2 enters at 100 while contender 1 has been inside since 50, with these doubts about their holds.
    fn with_doubts(doubts: &[(usize, Doubt)]) -> Classed {
        let mut overlaps = Overlaps::default();
        overlaps.note(entry(occupant(2, 100), &[occupant(1, 50)]));
        let entered = |contender| if contender == 1 { 50 } else { 100 };
        for (contender, doubt) in doubts {
            overlaps.doubts.insert((*contender, entered(*contender)), doubt.clone());
        }
        super::classed(overlaps, LockKind::Mutex, 40)
    }

    fn counts(classed: &Classed) -> [u64; 3] {
        [classed.violation_count, classed.excused.zombies, classed.excused.uncertain]
    }

    #[test]
    fn overlaps_are_uncertain_without_the_servers_logs() {
        let mut overlaps = Overlaps::default();
        overlaps.note(entry(occupant(2, 100), &[occupant(1, 50)]));
        assert_eq!(counts(&unclassed(&overlaps)), [0, 0, 1]);
    }

    #[test]
    fn holder_without_a_session_is_a_zombie_for_a_measured_time() {
        let classed = with_doubts(&[(1, doubt(SessionEnd::Expired))]);
        assert_eq!((counts(&classed), classed.excused.longest_unsafe_us), ([0, 1, 0], 30));
    }

    #[test]
    fn lost_connection_excuses_entries_until_it_returns() {
        for (lost, back, expected) in [
            (100, Stamp::MAX, [0, 1, 0]),
            (101, Stamp::MAX, [1, 0, 0]),
            (60, 100, [1, 0, 0]),
            (60, 101, [0, 1, 0]),
        ] {
            assert_eq!(counts(&with_doubts(&[(1, suspended(lost, back))])), expected, "{lost} to {back}");
        }
    }

    #[test]
    fn entry_recorded_twice_counts_once_with_all_holders() {
        let mut overlaps = Overlaps::default();
        overlaps.note(entry(occupant(2, 100), &[occupant(0, 50)]));
        overlaps.note(entry(occupant(2, 100), &[occupant(1, 60)]));
        overlaps.doubts.insert((0, 50), doubt(SessionEnd::Expired));
        assert_eq!(counts(&super::classed(overlaps, LockKind::Mutex, 40)), [1, 0, 0]);
    }

    #[test]
    fn node_deleted_with_its_session_marks_its_holder_as_a_zombie() {
        let mut overlaps = Overlaps::default();
        let inside = Occupant { czxid: Some(7), ..occupant(1, 50_000) };
        overlaps.note(entry(occupant(2, 100_000), &[inside]));
        let gone = |deleted_at_ms| {
            let deleted_at_ms = Some(deleted_at_ms);
            facts(7, Life { deleted: Some(8), with_its_session: true, deleted_at_ms }, true)
        };
        // The holder entered at 50 ms, and the servers' clock may be this much behind.
        let for_sure = 50 - CLOCKS_DIFFER_MS;
        learn(&mut overlaps, &gone(for_sure - 1)).unwrap();
        assert_eq!(overlaps.doubts, HashMap::new(), "its node had gone before");
        learn(&mut overlaps, &gone(for_sure)).unwrap();
        assert_eq!(counts(&classed(overlaps, LockKind::Mutex, 0)), [0, 1, 0]);
    }

    #[test]
    fn entry_alongside_a_holder_with_a_forgotten_node_is_uncertain() {
        let uncertain = |all_gone| {
            let mut overlaps = Overlaps::default();
            overlaps.note(entry(occupant(2, 100), &[Occupant { czxid: Some(7), ..occupant(1, 50) }]));
            learn(&mut overlaps, &facts(7, Life::default(), all_gone)).unwrap();
            classed(overlaps, LockKind::Mutex, 0).excused.uncertain
        };
        assert_eq!((uncertain(true), uncertain(false)), (1, 0));
    }

    #[test]
    fn overlaps_not_kept_count_as_the_worst_kept_class() {
        let many = |doubts: Option<SessionEnd>| {
            let mut overlaps = Overlaps::default();
            for at in 0..Overlaps::KEPT as u64 + 5 {
                overlaps.note(entry(occupant(2, 10 + at), &[occupant(1, 1)]));
            }
            overlaps.doubts.extend(doubts.map(|session| ((1, 1), doubt(session))));
            classed(overlaps, LockKind::Mutex, 0)
        };
        let violated = many(None);
        assert_eq!(counts(&violated), [Overlaps::KEPT as u64 + 5, 0, 0]);
        assert_eq!(violated.violations.len(), Trial::VIOLATIONS_KEPT);
        assert_eq!(counts(&many(Some(SessionEnd::Expired))), [0, Overlaps::KEPT as u64, 5]);
    }
}
