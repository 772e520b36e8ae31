//! The directory of a calibration: `calibration.json`, and the logs of servers that were started for it.
//!
//! The directory is hidden until it is complete, like a run's.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use schemars::{JsonSchema, Schema, schema_for};
use serde::{Deserialize, Serialize};

use super::files::VersionedFile;
use super::layout;
use super::staging::Staging;
use super::writer::write_json;
use zklockbench_core::error::Error;
use zklockbench_record::Calibration;

pub const CALIBRATION_SCHEMA_VERSION: u32 = 1;

const FILE: VersionedFile = VersionedFile {
    of: "calibration",
    name: layout::CALIBRATION,
    version: CALIBRATION_SCHEMA_VERSION,
    remedy: "the file was modified or damaged; calibrate again",
};

/// Contents of `calibration.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CalibrationFile {
    /// Version of this layout: 1.
    pub schema_version: u32,
    #[serde(flatten)]
    pub calibration: Calibration,
}

pub fn calibration_schema() -> Schema {
    schema_for!(CalibrationFile)
}

/// A calibration in progress, in a hidden directory next to its final one. Dropping the writer removes the
/// directory.
#[derive(Debug)]
pub struct CalibrationWriter {
    staging: Staging,
}

impl CalibrationWriter {
    /// Creates a directory in `parent`, named after the time. `parent` is created if missing; if the name is
    /// taken, a suffix (`-2`, `-3`, …) is appended.
    pub fn create_dated(parent: &Path, began: SystemTime) -> Result<Self, Error> {
        Ok(Self { staging: Staging::claim_numbered(parent, &layout::run_name("calibration", began))? })
    }

    /// Directory for server logs; created only if there are logs.
    pub fn server_logs(&self) -> PathBuf {
        self.staging.dir().join(layout::SERVER_LOGS)
    }

    /// Writes the results and makes the directory visible. Returns its path.
    pub fn publish(self, file: &CalibrationFile) -> Result<PathBuf, Error> {
        write_json(&self.staging.dir().join(layout::CALIBRATION), file)?;
        self.staging.publish()
    }
}

pub fn read_calibration(dir: &Path) -> Result<CalibrationFile, Error> {
    FILE.read(dir)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn read_calibration_distinguishes_missing_unrelated_and_damaged_files() {
        let dir = tempfile::tempdir().unwrap();
        let error = || {
            let error = read_calibration(dir.path()).unwrap_err();
            assert!(matches!(error, Error::Usage(_)), "{error}");
            error.to_string()
        };
        assert!(error().ends_with("is not the directory of a calibration: it has no calibration.json"));
        let path = dir.path().join(layout::CALIBRATION);
        fs::write(&path, r#"{"schema_version": 9, "future": true}"#).unwrap();
        assert!(error().contains("schema version 9, but this program reads version 1"), "{}", error());
        fs::write(&path, r#"{"schema_version": 1}"#).unwrap();
        assert!(error().contains("missing field"), "{}", error());
    }
}
