//! Renderers over one view model: terminal table, Markdown, charts, a summary for programs. The only input is a stored run.

pub mod chart;
pub mod summary;
mod table;
pub mod view;

pub use summary::Summary;
pub use table::{Style, accounting_table, calibration, markdown, terminal};
pub use view::View;
