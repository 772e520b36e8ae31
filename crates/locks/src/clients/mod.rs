//! Locks that come with a client or with ZooKeeper itself.

pub mod apache_write_lock;
pub mod crate_lock;
pub mod go_zookeeper;
