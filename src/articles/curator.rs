//! What Java's Curator leaves on the servers, as `benches/java/CuratorWatches.java` counted it.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::claim::{Answer, Found, Of};
use crate::error::Error;

/// The file with it, in a directory of its own.
pub const FILE: &str = "curator-watches.json";

/// Watches that the servers had around each removal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CuratorWatches {
    /// Curator's version.
    pub curator: String,
    /// The servers' version.
    pub zookeeper: String,
    /// Each way to have a watch removed.
    pub steps: Vec<WatchStep>,
}

/// One watch and its removal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchStep {
    /// The way.
    pub what: String,
    /// Watches on all servers before.
    pub before: u64,
    /// While it was set.
    pub set: u64,
    /// After its removal was asked for.
    pub after: u64,
}

/// Asks in the foreground.
pub const FOREGROUND: &str = "watches().remove in the foreground";
/// Asks in the background.
pub const BACKGROUND: &str = "watches().remove in the background";

impl WatchStep {
    fn is_left(&self) -> bool {
        self.after > self.before
    }
}

impl CuratorWatches {
    /// Reads that file.
    ///
    /// # Errors
    /// When it cannot be read or is damaged, with its name.
    pub fn read(file: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(file)
            .map_err(|error| Error::environment(format!("cannot read {}: {error}", file.display())))?;
        serde_json::from_str(&text).map_err(|error| Error::usage(format!("{}: {error}", file.display())))
    }

    /// Whether only a removal in the foreground takes a watch off the servers.
    pub(super) fn removed_in_the_foreground_only(&self) -> Option<Found> {
        let of = |what: &str| self.steps.iter().find(|step| step.what == what);
        let (foreground, background) = (of(FOREGROUND)?, of(BACKGROUND)?);
        let found = match [foreground, background] {
            watched if watched.iter().any(|step| step.set <= step.before) => {
                Found::new(Answer::NotDecided, "the servers counted no watch that could have been removed")
            }
            [foreground, background] => match (foreground.is_left(), background.is_left()) {
                (false, true) => Found::new(
                    Answer::Confirmed,
                    "a watch was off the servers after a removal in the foreground, and still there after one in the background",
                ),
                (true, true) => Found::new(
                    Answer::Refuted,
                    "neither took the watch off the servers: the client forgets it, the server keeps it until it fires",
                ),
                (false, false) => Found::new(
                    Answer::Refuted,
                    "in the background, too, the watch was off the servers afterwards",
                ),
                (true, false) => Found::new(
                    Answer::Refuted,
                    "it is the other way round: only the one in the background took it off",
                ),
            },
        };
        Some(self.steps.iter().fold(found, |found, step| {
            found.with(
                format!("watches left on the servers by {}", step.what),
                step.after.saturating_sub(step.before) as f64,
                Of::Amount,
            )
        }))
    }
}
