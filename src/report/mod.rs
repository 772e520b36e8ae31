//! Renderers over one view model: terminal table, Markdown, charts, a summary for programs. The only input is a stored run.

pub mod chart;
pub mod ci;
pub mod summary;
mod table;
mod trend;
pub mod view;

pub use summary::Summary;
pub use table::{
    Style, ab, accounting_table, calibration, comparison, comparison_markdown, date, gates, gates_markdown,
    markdown, plan, sides, terminal, trend,
};
pub use trend::{Trend, TrendLine, TrendRun};
pub use view::View;
