//! Tests of locks, sessions and loads on a shared real ensemble.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "test setup may panic, and measurements are printed"
)]

mod acquire_endings;
mod article_classes;
mod batch_totals;
mod broken_connections;
mod calibration;
mod caught_up;
mod closed_loop;
mod cohort;
mod conformance;
mod curator_habits;
mod curator_troubles;
mod elections;
mod ended_sessions;
mod ensemble_view;
mod fresh_locks;
mod interference;
mod interop_curator;
mod interop_kazoo;
mod interop_revocation;
mod lost_creates;
mod matrix;
mod open_loop;
mod patched_client;
mod proxy;
mod random_schedule;
#[path = "../support/mod.rs"]
mod support;
mod tries;
mod watches_left;
mod wire_counts;
#[path = "../zookeeper/mod.rs"]
mod zookeeper;
