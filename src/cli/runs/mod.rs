//! What commands share that measure by many runs: the ensemble that is kept for all of them, and each run as a process of
//! its own, told what one would tell `run` by hand.

pub mod child;
pub mod command;
pub mod place;
pub mod series;

use std::time::Duration;

use crate::words::error::Error;
use crate::words::units::format_duration;

/// How many runs together ended, in the words of the command, and what cut them short.
pub struct SeriesEnd<E> {
    pub ending: E,
    pub why: Option<String>,
}

impl<E> SeriesEnd<E> {
    pub fn of(ending: E) -> Self {
        Self { ending, why: None }
    }

    /// The end that an error makes: `interrupted` if the user stopped it, else `aborted`.
    pub fn by(error: Error, interrupted: E, aborted: E) -> Self {
        match error {
            Error::Interrupted => Self::of(interrupted),
            Error::Usage(why) | Error::Environment(why) | Error::Unknown(why) => {
                Self { ending: aborted, why: Some(why) }
            }
        }
    }
}

pub fn whole_seconds(time: Duration) -> String {
    format_duration(Duration::from_secs(time.as_secs_f64().ceil() as u64))
}
