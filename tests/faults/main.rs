//! Tests of deliberately broken locks and ensembles.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "test setup may panic, and measurements are printed"
)]

mod broken_locks;
mod contender_faults;
mod coordinated_omission;
mod counter_end;
mod doubts_kept;
mod ensemble_faults;
mod ensemble_links;
mod every_fault;
mod interrupted_faults;
mod lying_servers;
mod negative_controls;
mod overlapping_faults;
#[path = "../support/mod.rs"]
mod support;
mod uncommitted_creates;
