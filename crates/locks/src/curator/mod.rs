//! Locks from Apache Curator, a Java client.

pub mod multi;
pub mod mutex;
pub mod queue;
pub mod read_write;
pub mod revocation;
pub mod semaphore;
pub mod semaphore_mutex;
