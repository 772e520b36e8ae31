//! Support code shared by several test binaries (lanes).

#![allow(dead_code, reason = "each lane uses only part of this module")]

pub mod answered;
pub mod breakable;
pub mod calm;
pub mod cards;
pub mod contender;
pub mod depth;
pub mod diagnosed;
pub mod docker;
pub mod drawn;
pub mod ensemble;
pub mod faults;
pub mod foreign;
pub mod inside;
pub mod json_schema;
pub mod lying;
pub mod oracle;
pub mod plans;
pub mod program;
pub mod proxy;
pub mod ranked;
pub mod records;
pub mod rehearsal;
pub mod run_dirs;
pub mod servers;
pub mod sessions;
pub mod shown;
pub mod skip;
pub mod story;
pub mod trials;
pub mod views;
pub mod ways;
