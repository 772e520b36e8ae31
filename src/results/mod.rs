//! The run directory: what a run leaves on disk, and the only input of every report.
//!
//! [`RunWriter`] fills a directory beside the final one and renames it when the run is over; [`read()`]
//! takes it in again and refuses what is not whole. [`wire`] holds the types of the JSON files. They
//! are versioned, and what is written of `record` keeps its names, so that the code may change without breaking
//! the directories that people keep. `results/README.md` describes every file.

mod evidence;
mod faults;
pub mod history;
mod hlog;
pub mod layout;
mod read;
mod staging;
mod summary;
mod timeline;
pub mod wire;
mod writer;

pub use read::read;
pub use staging::tidy;
pub use wire::{RunFile, StoredRun, TrialFile};
pub use writer::{RunWriter, SealedRun};
