//! ZooKeeper as it is: sessions with it, proxies before it, the ensembles that the suite starts or finds, what can be broken of
//! them on purpose, programs of others that take its locks, and whether these keep their protocol.
//!
//! Uses: words.

pub mod conformance;
pub mod driver;
pub mod ensemble;
pub mod fault;
pub mod proxy;
pub mod zk;
