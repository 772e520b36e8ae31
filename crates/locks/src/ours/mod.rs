//! Locks that none of the sources has, and the one that is none.

pub mod ahead;
pub mod atomic_multi;
pub mod baton;
pub mod cohort;
pub mod count;
pub mod count_semaphore;
pub mod no_lock;
pub mod ticket;
