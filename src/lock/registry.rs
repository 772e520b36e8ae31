//! The list of strategies: one line each.

use super::{
    Entry, atomic_multi, curator_multi, curator_mutex, curator_semaphore, curator_semaphore_mutex, no_lock,
    parent_watch, polling, predecessor_watch,
};
use crate::catalog::LockCard;

/// Every strategy, in the order in which lists show them.
pub const STRATEGIES: &[Entry] = &[
    polling::ENTRY,
    parent_watch::ENTRY,
    predecessor_watch::ENTRY,
    curator_mutex::ENTRY,
    curator_semaphore_mutex::ENTRY,
    curator_semaphore::ENTRY,
    curator_multi::ENTRY,
    atomic_multi::ENTRY,
    no_lock::ENTRY,
];

/// The descriptions of all strategies.
#[must_use]
pub fn cards() -> Vec<LockCard> {
    STRATEGIES.iter().map(|entry| entry.card).collect()
}

/// The strategy of that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Entry> {
    STRATEGIES.iter().find(|entry| entry.card.name == name)
}
