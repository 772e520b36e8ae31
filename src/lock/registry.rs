//! The list of strategies: one line each.

use super::{LockConfig, Strategy, curator_mutex, no_lock, parent_watch, polling, predecessor_watch};
use crate::catalog::LockCard;

/// A strategy's description and its constructor.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// What is known of it.
    pub card: LockCard,
    /// Builds one contender's lock object.
    pub build: fn(&LockConfig) -> Box<dyn Strategy>,
}

/// Every strategy, in the order in which lists show them.
pub const STRATEGIES: &[Entry] =
    &[polling::ENTRY, parent_watch::ENTRY, predecessor_watch::ENTRY, curator_mutex::ENTRY, no_lock::ENTRY];

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
