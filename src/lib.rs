//! zklockbench: load-testing and benchmarking of ZooKeeper lock strategies on a real ensemble.
//!
//! A *scenario* is expanded into *trials*; in each trial *contenders* use a *strategy* over *metered
//! sessions* against an *ensemble*; a *recorder* keeps what happened, a *checker* says whether the lock
//! held its promise, and *results* on disk feed *reports*.
//!
//! Modules are listed in layer order: a module may import those of the layers above it in this list, and
//! the measuring half (`zk`, `ensemble`, `lock`, `load`) never meets the reading half (`report`) except in
//! [`results`] and [`cli`]. `tests/pure/architecture` enforces the rule.

// Layer 0: words.
pub mod catalog;
pub mod clock;
pub mod connect;
pub mod disk;
pub mod error;
pub mod jute;
pub mod measure;
pub mod spool;
pub mod units;
pub mod verdict;
// Layer 1: the question.
pub mod scenario;
// Layer 2: the world.
pub mod ensemble;
pub mod proxy;
pub mod zk;
// Layer 3: the subjects, and what goes wrong on purpose.
pub mod fault;
pub mod lock;
// Layer 4: the record.
pub mod record;
// Layer 5: doing, judging.
pub mod calibrate;
pub mod check;
pub mod load;
// Layer 6: the bridge on disk, and the loop over trials.
pub mod results;
pub mod run;
// Layer 7: reading.
pub mod ab;
pub mod articles;
pub mod compare;
pub mod gate;
pub mod model;
pub mod plan;
pub mod report;
pub mod sweep;
// Of the same layer, crates of their own: mathematics, which knows nothing of ZooKeeper.
pub use zklockbench_queueing as queueing;
pub use zklockbench_stats as stats;
// Layer 8: the door.
pub mod cli;
