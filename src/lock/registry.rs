//! The list of strategies: one line each.

use super::{
    Entry, ahead, apache_write_lock, atomic_multi, baton, crate_lock, curator_multi, curator_mutex,
    curator_read_write, curator_semaphore, curator_semaphore_mutex, ephemeral_child, ephemeral_node,
    go_zookeeper, kazoo, kazoo_read_write, local_then_remote, no_lock, parent_watch, polling,
    predecessor_watch, predecessor_watch_wait_limited, shared_parent_watch, shared_predecessor_watch, ticket,
};
use crate::catalog::LockCard;

/// Every strategy, in the order in which lists show them.
pub const STRATEGIES: &[Entry] = &[
    ephemeral_node::ENTRY,
    ephemeral_child::ENTRY,
    polling::ENTRY,
    parent_watch::ENTRY,
    predecessor_watch::ENTRY,
    predecessor_watch_wait_limited::ENTRY,
    go_zookeeper::ENTRY,
    apache_write_lock::ENTRY,
    curator_mutex::ENTRY,
    curator_semaphore_mutex::ENTRY,
    curator_semaphore::ENTRY,
    curator_read_write::ENTRY,
    curator_multi::ENTRY,
    shared_parent_watch::ENTRY,
    shared_predecessor_watch::ENTRY,
    local_then_remote::ENTRY,
    kazoo::ENTRY,
    kazoo_read_write::ENTRY,
    crate_lock::ENTRY,
    ahead::ENTRY,
    baton::ENTRY,
    ticket::ENTRY,
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
