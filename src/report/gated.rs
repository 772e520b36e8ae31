//! What decides beside a run itself whether a build may go on.

use std::path::Path;

use serde::Deserialize;

use crate::answer::gate::Outcome;
use crate::words::disk::{self, MIB, Unreadable};
use crate::words::error::Error;

pub const SUMMARY: &str = "summary.json";

/// The part of a summary that no run holds.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Gated {
    #[serde(default)]
    pub gates: Vec<Outcome>,
    #[serde(default)]
    pub baseline: Option<String>,
}

impl Gated {
    /// What the gates of a stored run came to, by its summary; nothing where an older version has left no summary.
    ///
    /// # Errors
    /// When the file is there and cannot be read, or is no summary.
    pub fn of_stored(run: &Path) -> Result<Self, Error> {
        let path = run.join(SUMMARY);
        let bytes = match disk::read(run, SUMMARY, 64 * MIB) {
            Ok(bytes) => bytes,
            Err(Unreadable::Missing) => return Ok(Self::default()),
            Err(why) => return Err(why.of(&path)),
        };
        disk::from_json(&bytes)
            .map_err(|error| Error::usage(format!("{}: not a run's summary: {error}", path.display())))
    }
}
