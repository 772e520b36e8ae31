//! Renderers over one view model: terminal table, Markdown, charts. The only input is a stored run.

pub mod chart;
mod table;
pub mod view;

pub use table::{Style, accounting_table, calibration, markdown, terminal};
pub use view::View;
