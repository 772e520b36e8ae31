//! Classifies families and their loads.

use super::{CYCLES_LEAST, Sums};
use crate::recipe::Recipe;
use crate::summary::{Endings, FamilyKind, LearnedLoad};

impl Sums {
    /// Returns whether each of several sessions has a node of its own, without contention, and rarely creates it
    /// again. Members of a barrier or a party do so; clients that lock different keys request them more often.
    fn are_members(&self) -> bool {
        let sessions = self.sessions.len() as u64;
        let has_own = !self.are_sessions_roaming && self.sessions.len() == self.keys.len();
        sessions > 1 && has_own && self.contended_grants == 0 && self.arrivals < CYCLES_LEAST * sessions
    }
}

/// Classifies a family. Ephemeral nodes that are not reused, or not held alternately, are not locks. A client that
/// deletes a sequential node without a read in between, e.g. to draw a number, does not know its position in a queue.
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
    let (requests_known, immediate) = sums.immediate;
    match recipe {
        recipe if recipe.is_election() => FamilyKind::Election,
        Recipe::SingleNode => kind_of_single_node(name, sums, endings),
        Recipe::Sequential
            if sums.arrivals < 2 || !in_turns || ended == 0 || 2 * immediate > requests_known =>
        {
            FamilyKind::Registry
        }
        Recipe::ClickHouse => FamilyKind::Registry,
        _ => FamilyKind::Lock,
    }
}

fn kind_of_single_node(name: &str, sums: &Sums, endings: &Endings) -> FamilyKind {
    let ended = endings.released + endings.gave_up;
    let by_sessions = endings.session_ended_holding + endings.session_ended_waiting;
    let is_contended = sums.contended_grants > 0;
    let is_reused = sums.arrivals > 0 && sums.arrivals >= 2 * sums.keys.len() as u64;
    // Other sessions delete the nodes of barriers and tasks, but rarely break locks.
    let is_shared = 4 * endings.broken > ended;
    match name.rsplit('/').next() {
        _ if !is_reused && (!is_contended || by_sessions > ended) => FamilyKind::Registry,
        _ if by_sessions > ended && is_contended => FamilyKind::Election,
        _ if by_sessions > ended || is_shared || sums.are_members() => FamilyKind::Registry,
        Some("controller" | "leader" | "master") => FamilyKind::Election,
        _ => FamilyKind::Lock,
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
