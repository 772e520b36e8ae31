//! Locks of this suite, and `no-lock`, which does not lock.

pub mod ahead;
pub mod atomic_multi;
pub mod baton;
pub mod cohort;
pub mod count;
pub mod count_semaphore;
pub mod no_lock;
pub mod ticket;
