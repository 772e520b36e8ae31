//! What Java's Curator leaves on the servers, as `benches/java/CuratorWatches.java` counted it.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::words::disk::{self, MIB};
use crate::words::error::Error;

/// The file with it, in a directory of its own.
pub const FILE: &str = "curator-watches.json";

/// Watches that the servers had around each removal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CuratorWatches {
    pub curator: String,
    pub zookeeper: String,
    pub steps: Vec<WatchStep>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchStep {
    pub what: String,
    /// Watches on all servers before.
    pub before: u64,
    /// While it was set.
    pub set: u64,
    /// After its removal was asked for.
    pub after: u64,
}

pub const FOREGROUND: &str = "watches().remove in the foreground";
pub const BACKGROUND: &str = "watches().remove in the background";

impl WatchStep {
    pub(super) fn is_left(&self) -> bool {
        self.after > self.before
    }
}

impl CuratorWatches {
    /// Reads that file.
    ///
    /// # Errors
    /// When it cannot be read or is damaged, with its name.
    pub fn read(file: &Path) -> Result<Self, Error> {
        let dir = file.parent().unwrap_or(Path::new(""));
        let text = disk::read(dir, FILE, MIB).map_err(|why| why.of(file))?;
        disk::from_json(&text).map_err(|error| Error::usage(format!("{}: {error}", file.display())))
    }
}
