//! zklockbench: load-testing and benchmarking of ZooKeeper lock strategies on a real ensemble.
//!
//! A *scenario* is expanded into *trials*; in each trial *contenders* use a *strategy* over *metered
//! sessions* against an *ensemble*; a *recorder* keeps what happened, a *checker* says whether the lock
//! held its promise, and *results* on disk feed *reports*.
//!
//! Each module is a floor of the house, in the order in which data flow. What a floor may use of the others is said in its
//! `mod.rs`; the measuring half ([`world`], [`lock`], [`load`]) never meets the reading half ([`answer`], [`report`]) except in
//! [`results`] and [`cli`]. `tests/pure/architecture` enforces both, and the rules within a floor.

// The vocabulary of everything else.
pub mod words;
// The question.
pub mod scenario;
// ZooKeeper, and what goes wrong on purpose.
pub mod world;
// The subjects.
pub mod lock;
// What happened.
pub mod record;
// Doing.
pub mod load;
// Judging.
pub mod check;
// The bridge on disk.
pub mod results;
// The loop over trials.
pub mod run;
// Reading.
pub mod answer;
// Showing.
pub mod report;
// The door.
pub mod cli;
