//! The program from the user's point of view: its output, its exit codes, and the files and nodes that it leaves.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "test setup may panic, and measurements are printed"
)]

mod ab;
mod action;
mod alone;
mod articles_classes;
mod calibration;
mod ci;
mod command_line;
mod compose;
mod coordinators;
mod driver_check;
mod driver_endings;
mod drivers;
mod endurance;
mod engines;
mod ensemble_lifecycle;
mod evidence;
mod existing_ensemble;
mod explore;
mod first_contact;
mod gates;
mod history_check;
mod host_commands;
mod hostile_directories;
mod hostile_servers;
mod install_script;
mod killed_suite;
mod learn;
mod plan;
mod refusals;
mod report_page;
mod resumed_runs;
mod rootless;
mod run_endings;
mod security;
mod session_expiry;
mod shaken_ensemble;
mod shared_ensemble;
#[path = "../support/mod.rs"]
mod support;
mod sweep;
mod test_script;
mod thousand_contenders;
mod verbose;
mod workers;
