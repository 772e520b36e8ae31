//! What commands share that measure by many runs: the ensemble that is kept for all of them, what each run is told, and how they
//! are resumed.

pub mod command;
pub mod ready_ensemble;

use std::path::Path;

use super::output;
use crate::words::error::Error;
use crate::words::units::{as_a_word, counted};

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

/// Tells how many runs are there already.
pub fn tell_resumed(runs: usize, is_quiet: bool) {
    if runs > 0 && !is_quiet {
        output::note(&format!("going on after {}, which are not repeated", counted(runs, "run", "runs")));
    }
}

pub fn command_line() -> Vec<String> {
    let mut hides = false;
    let kept = std::env::args().filter_map(|word| {
        let hidden = hides || word == "--auth" || word.starts_with("--auth=");
        hides = word == "--auth";
        (!hidden).then_some(word)
    });
    kept.collect()
}

/// The line that says how it goes on, if it can.
pub fn to_resume(how: Option<&str>) -> String {
    how.map_or_else(String::new, |how| format!("\nresume with: {how}"))
}

/// The command line by which the series in a directory goes on.
pub fn how_to_resume(directory: &Path) -> String {
    let words = command_line();
    let resume = format!("--resume {}", as_a_word(&directory.display().to_string()));
    let given = words.iter().any(|word| word == "--resume" || word.starts_with("--resume="));
    let told: Vec<String> = words.iter().map(|word| as_a_word(word)).collect();
    if given { told.join(" ") } else { format!("{} {resume}", told.join(" ")) }
}
