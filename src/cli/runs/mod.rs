//! What commands share that measure by many runs: the ensemble that is kept for all of them, and each run as a process of
//! its own, told what one would tell `run` by hand.

pub mod child;
pub mod place;

use std::time::Duration;

use crate::units::format_duration;

pub fn whole_seconds(time: Duration) -> String {
    format_duration(Duration::from_secs(time.as_secs_f64().ceil() as u64))
}
