//! zklockbench: load-testing and benchmarking of ZooKeeper lock strategies on a real ensemble.
//!
//! A *scenario* is expanded into *trials*; in each trial *contenders* use a *strategy* over *metered
//! sessions* against an *ensemble*; a *recorder* keeps what happened, a *checker* says whether the lock
//! held its promise, and *results* on disk feed *reports*.
//!
//! The libraries are crates below `crates/`; this one holds the command line and the loop over trials.

// The loop over trials.
pub mod run;
// The door.
pub mod cli;
// Checks that the programs of drivers keep their protocol.
pub mod conformance;
