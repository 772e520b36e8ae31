//! ZooKeeper as it is: sessions with it, proxies before it, the ensembles that the suite starts or finds, and what can be broken of
//! them on purpose.
//!
//! Uses: words.

pub mod ensemble;
pub mod driver;
pub mod fault;
pub mod proxy;
pub mod zk;
