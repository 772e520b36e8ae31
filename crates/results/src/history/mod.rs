//! History files: JSON lines, a header first. `docs/results-format.md` describes them for people.
//!
//! [`HistoryWriter`] is what a run writes with; [`HistoryReader`] gives the events one by one and keeps none.

mod read;
mod wire;
mod write;

pub use read::{HistoryReader, Numbered, lines_at};
pub use write::{HistoryWriter, merge_histories, write_trial};
