//! zklockbench: load testing and benchmarking of ZooKeeper lock strategies on a real ensemble.
//!
//! A *scenario* is expanded into *trials*. In each trial, *contenders* use a *strategy* over *metered
//! sessions* on an *ensemble*. A *recorder* collects the events, a *judge* decides whether contenders
//! excluded each other, and *reports* are generated from the *results* on disk.
//!
//! The libraries are crates in `crates/`; this crate contains the command line and the loop over trials.

/// Returns a usage error with this message if the condition is met.
macro_rules! refuse_if {
    ($is_met:expr, $($message:tt)+) => {
        if $is_met {
            return Err(zklockbench_core::error::Error::usage(format_args!($($message)+)));
        }
    };
}

pub mod cli;
pub mod conformance;
pub mod run;
