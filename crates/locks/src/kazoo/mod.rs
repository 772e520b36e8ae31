//! The locks of kazoo, Python's client.

pub mod lock;
pub mod read_write;
