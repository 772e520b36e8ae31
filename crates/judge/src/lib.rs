//! Derives verdicts on trials, runs and histories from their records.

mod ensemble;
mod exclusion;
pub mod history;
mod inside;
mod lost_holds;
mod timeline;
mod weigh;

pub use exclusion::{
    Difference, add_order, differences, judge, least_evidence, of_run, standing_still,
    too_little_across_workers, zombies,
};
pub use timeline::Timelines;
