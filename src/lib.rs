//! zklockbench: load-testing and benchmarking of ZooKeeper lock strategies on a real ensemble.
//!
//! A *scenario* is expanded into *trials*; in each trial *contenders* use a *strategy* over *metered
//! sessions* against an *ensemble*; a *recorder* keeps what happened, a *checker* says whether the lock
//! held its promise, and *results* on disk feed *reports*.
//!
//! Each module is a floor of the house, in the order in which data flow. What a floor may use of the others is said in its
//! `mod.rs`; the measuring half ([`world`], [`lock`], [`load`]) never meets the reading half ([`answer`], [`report`]) except in
//! [`results`] and [`cli`]. `tests/pure/architecture` enforces both, and the rules within a floor.

// What both halves share, and the halves: crates of their own, the halves compiled side by side.
pub use zklockbench_measuring::{load, lock, world};
pub use zklockbench_reading::{answer, check, report};
pub use zklockbench_records::{record, results, scenario, words};

// The loop over trials.
pub mod run;
// The door.
pub mod cli;
