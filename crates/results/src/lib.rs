//! The run directory: a run's output on disk, and the only input of every report.
//!
//! [`RunWriter`] fills a directory next to the final one and renames it when the run is over. [`read()`] loads
//! it and rejects anything incomplete or changed. Records are written unchanged; `files` adds the layout
//! version and derived values. `results/README.md` describes every file.

mod baselines;
mod calibration;
mod files;
pub mod history;
mod hlog;
pub mod layout;
mod read;
mod rows;
mod staging;
mod writer;

pub use baselines::{
    Baseline, BaselineFile, add as add_baseline, by_commit as baselines_by_commit,
    is_store as is_store_of_baselines, list as baselines, runs_of,
};
pub use calibration::{
    CALIBRATION_SCHEMA_VERSION, CalibrationFile, CalibrationWriter, calibration_schema, read_calibration,
};
pub use files::{
    RunFile, SCHEMA_VERSION, StoredRun, TrialFile, VersionedFile, digest_of, digest_of_file, schemas,
};
pub use read::{read, read_packed, recorded_run};
pub use staging::{create_dated, tidy};
pub use writer::{Resumed, RunWriter, SealedRun, SoFar, replace, replace_json};
