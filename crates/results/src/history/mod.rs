//! History files: JSON lines that start with a header. `docs/results-format.md` describes them for users.
//!
//! [`HistoryWriter`] writes the history of a run; [`HistoryReader`] returns its events one at a time.

mod read;
mod wire;
mod write;

pub use read::{HistoryReader, Numbered, lines_at};
pub use write::{HistoryWriter, merge_histories, write_trial};
