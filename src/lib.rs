//! zklockbench: load testing and benchmarking of ZooKeeper lock strategies on a real ensemble.
//!
//! A *scenario* is expanded into *trials*. In each trial, *contenders* use a *strategy* over *metered sessions* on an *ensemble*.
//! A *recorder* keeps the events, a *checker* judges whether the lock kept its promise, and *results* on disk feed *reports*.
//!
//! The libraries are crates below `crates/`; this one contains the command line and the loop over trials.

// The loop over trials.
pub mod run;
// The command line.
pub mod cli;
// Checks that drivers follow their protocol.
pub mod conformance;
