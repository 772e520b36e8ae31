//! Classifies families and their loads.

use super::Sums;
use crate::recipe::Recipe;
use crate::summary::{Endings, FamilyKind, LearnedLoad};

/// Classifies a family. Ephemeral nodes that are not reused, or not held alternately, are not locks.
pub(super) fn kind(
    name: &str,
    recipe: Recipe,
    sums: &Sums,
    endings: &Endings,
    timeout_us: Option<u64>,
) -> FamilyKind {
    let ended = endings.released + endings.gave_up;
    let in_turns = 10 * endings.released >= 9 * ended
        || timeout_us.is_some()
        || sums.contended_grants > 0 && 2 * endings.released >= ended;
    match recipe {
        recipe if recipe.is_election() => FamilyKind::Election,
        Recipe::SingleNode => kind_of_single_node(name, sums, endings),
        Recipe::Sequential if sums.arrivals == 0 || !in_turns || ended == 0 => FamilyKind::Registry,
        Recipe::ClickHouse => FamilyKind::Registry,
        _ => FamilyKind::Lock,
    }
}

fn kind_of_single_node(name: &str, sums: &Sums, endings: &Endings) -> FamilyKind {
    let ended = endings.released + endings.gave_up;
    let by_sessions = endings.session_ended_holding + endings.session_ended_waiting;
    let is_contended = sums.contended_grants > 0;
    let is_reused = sums.arrivals > 0 && sums.arrivals >= 2 * sums.keys.len() as u64;
    let is_used = is_reused || is_contended;
    // The elections of Kafka and HBase.
    let is_named_election = name.ends_with("/controller") || name.ends_with("/hbase/master");
    if by_sessions > ended {
        if is_reused && is_contended { FamilyKind::Election } else { FamilyKind::Registry }
    } else if !is_used || endings.broken > ended {
        // Other sessions delete the nodes of barriers and tasks, but rarely those of locks.
        FamilyKind::Registry
    } else if is_named_election {
        FamilyKind::Election
    } else {
        FamilyKind::Lock
    }
}

/// Classifies a load: closed if its sessions request the lock again soon after a release.
pub(super) fn load(sums: &Sums) -> LearnedLoad {
    const SOON_MS: f64 = 20.0;
    let cycle_ms = sums.waits.mean_ms() + sums.holds.mean_ms();
    let returns = sums.since.count as f64 >= 0.8 * sums.arrivals as f64;
    let one_lock = sums.keys.len() == 1;
    match (sums.since.quantile(0.5), sums.since.quantile(0.9)) {
        (Some(median), Some(late))
            if returns && one_lock && f64::from(late) <= SOON_MS.max(cycle_ms / 4.0) =>
        {
            LearnedLoad::Closed { think_p50_us: u64::from(median) * 1_000 }
        }
        _ => LearnedLoad::Open,
    }
}
