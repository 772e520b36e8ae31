//! History files: JSON lines, a header first. `docs/history.md` describes them for people.
//!
//! [`HistoryWriter`] is what a run writes with; [`HistoryReader`] gives the events one by one and keeps none.

mod lines;
mod read;
mod trial;
mod wire;
mod write;

pub use lines::lines_at;
pub use read::{HistoryReader, Numbered};
pub use trial::write_trial;
pub use write::HistoryWriter;
