//! Locks that articles describe, including ZooKeeper's own recipes.

mod class;
pub mod ephemeral_child;
pub mod ephemeral_node;
pub mod local_then_remote;
pub mod parent_watch;
pub mod polling;
pub mod predecessor_watch;
pub mod predecessor_watch_wait_limited;
pub mod shared_parent_watch;
pub mod shared_predecessor_watch;

/// Source text of the three strategies that the comparison describes; one of its claims is about their size.
pub const COMPARED_SOURCES: [&str; 3] =
    [include_str!("polling.rs"), include_str!("parent_watch.rs"), include_str!("predecessor_watch.rs")];
