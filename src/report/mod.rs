//! Renderers over one view model: terminal table, Markdown, charts. The only input is a stored run.

pub mod chart;
mod number;
pub mod view;

pub use view::View;
