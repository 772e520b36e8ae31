//! Locks from kazoo, a Python client.

pub mod lock;
pub mod read_write;
