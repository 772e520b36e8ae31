//! What must be said of faults below a table: who is stuck, what was left, and which fault did not do its part.

use super::{Broken, Cell, Fault, Repetition, View};
use crate::units::contenders;

/// Stuck contenders that are told of one by one, for each trial. When a lock stands still, all of them are stuck.
const STUCK_TOLD: usize = 20;

impl View {
    /// One line for each stuck contender, for each trial that left nodes behind, and for each fault that was not
    /// proved or not undone.
    pub(super) fn fault_notes(&self) -> Vec<String> {
        let trials = self.cells.iter().flat_map(|cell| cell.repetitions.iter().map(move |one| (cell, one)));
        trials
            .filter_map(|(cell, one)| Some(self.notes_on(cell, one, one.broken.as_ref()?)))
            .flatten()
            .collect()
    }

    fn notes_on(&self, cell: &Cell, repetition: &Repetition, broken: &Broken) -> Vec<String> {
        let count = contenders(cell.contenders);
        let of = format!("{}, {count}, repetition {}", self.label(cell), repetition.number);
        let mut notes = stuck(broken, &of, repetition.trial);
        notes.extend(broken.orphans.filter(|left| *left > 0).map(|left| orphans(left, &of)));
        for fault in &broken.faults {
            let which = || format!("{of}: fault {} ({} on {})", fault.number, fault.label, fault.target);
            notes.extend(doubts(fault).map(|(what, why)| format!("{what}: {}: {why}", which())));
        }
        notes
    }
}

fn stuck(broken: &Broken, of: &str, trial: usize) -> Vec<String> {
    let told = broken.stuck.iter().take(STUCK_TOLD);
    let mut notes: Vec<String> = told.map(|who| format!("stuck: {of}: {who}")).collect();
    if broken.stuck.len() > STUCK_TOLD {
        let more = broken.stuck.len() - STUCK_TOLD;
        notes.push(format!("stuck: {of}: {more} more; trials/{trial:03}.json has them all"));
    }
    notes
}

fn orphans(left: u64, of: &str) -> String {
    let nodes = if left == 1 { "1 ephemeral node was" } else { &format!("{left} ephemeral nodes were") };
    format!("orphans: {of}: {nodes} left when all had released")
}

fn doubts(fault: &Fault) -> impl Iterator<Item = (&'static str, &str)> {
    let unproved = fault.unproved.iter().map(|why| ("not proved", why.as_str()));
    unproved.chain(fault.left.iter().map(|why| ("not undone", why.as_str())))
}
