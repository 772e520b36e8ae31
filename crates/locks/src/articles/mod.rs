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

/// Source text of the three-strategy article's classes, for checking the article's claim about their size. The
/// files are symbolic links to `drivers/articles`, so that they are packaged with this crate.
pub const COMPARED_SOURCES: [&str; 3] = [
    concat!(include_str!("printed/TaskLock.java"), include_str!("printed/ZKLock.java")),
    concat!(
        include_str!("printed/TaskLock.java"),
        include_str!("printed/FlaggedLock.java"),
        include_str!("printed/ZKLockTwo.java")
    ),
    concat!(
        include_str!("printed/TaskLock.java"),
        include_str!("printed/FlaggedLock.java"),
        include_str!("printed/ZKLockThree.java")
    ),
];
