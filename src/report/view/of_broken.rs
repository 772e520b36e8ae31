//! From what is stored of a trial's faults to what the renderers see of them.

use super::{Broken, Fault, Order};
use crate::measure::Outcome;
use crate::results::wire::{StoredEnsembleOrder, StoredFault, StoredStuck, TrialFile};
use crate::units::format_micros;

/// What was broken in a trial; `None` when nothing was.
pub(super) fn broken(trial: &TrialFile) -> Option<Broken> {
    let stored = trial.broken.as_ref()?;
    let outcome = |outcome| trial.whole.outcome(outcome);
    Some(Broken {
        faults: stored.faults.iter().map(fault).collect(),
        order: stored.ensemble_order.as_ref().map(order),
        zombies: trial.excused.zombies,
        longest_unsafe_us: trial.excused.longest_unsafe_us,
        uncertain: trial.excused.uncertain,
        stuck: stored.stuck.iter().map(stuck).collect(),
        orphans: stored.orphans,
        sessions_lost: trial.sessions.expired,
        holds_lost: outcome(Outcome::LostWhileHeld),
        waits_lost: outcome(Outcome::SessionExpired) + outcome(Outcome::ConnectionLost),
        stale_writes: stored.fencing.stale,
        stale_rejected: stored.fencing.stale_rejected,
    })
}

fn order(stored: &StoredEnsembleOrder) -> Order {
    Order { compared: stored.checked, too_early: stored.overlaps.max(stored.too_early) }
}

fn fault(stored: &StoredFault) -> Fault {
    Fault {
        number: stored.number,
        label: stored.label.clone(),
        target: stored.target.clone(),
        asked_us: stored.asked_us,
        ended_us: stored.ended_us,
        unproved: (!stored.proved).then(|| stored.proof.clone()),
        left: stored.left.clone(),
        elected_us: stored.elected_us,
        longest_gap_us: stored.longest_gap_us,
        recovered_us: stored.recovered_us,
    }
}

/// Who waited how long, and where it stood.
fn stuck(stored: &StoredStuck) -> String {
    let waited = format_micros(stored.waited_us);
    let mut said = vec![format!("contender {} waited {waited} for lock {}", stored.contender, stored.lock)];
    said.push(stored.node.as_ref().map_or_else(|| "no node found".to_owned(), |node| format!("node {node}")));
    said.extend(stored.position.map(|before| format!("nodes before it: {before}")));
    said.extend(stored.blocked_by.as_ref().map(|first| format!("blocked by {first}")));
    said.push(match stored.watches.as_slice() {
        [] => "watches nothing".to_owned(),
        paths => format!("watches {}", paths.join(" ")),
    });
    said.join(", ")
}
