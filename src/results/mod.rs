//! The run directory: what a run leaves on disk, and the only input of every report.
//!
//! [`wire`] holds the types of the JSON files; they are versioned and apart from the types of `record`, so
//! that the code may change without breaking the directories that people keep.

pub mod wire;
