//! Renderers over one view model and one document of typed values: terminal, Markdown, a page, charts, a summary for
//! programs. The only input is a stored run.
//!
//! Uses: words, results, answer.

pub mod chart;
pub mod ci;
pub mod conclusions;
pub mod document;
pub mod draw;
pub mod html;
pub mod page;
pub mod summary;
mod table;
mod trend;
pub mod view;

pub use summary::Summary;
pub use table::{
    Style, ab, ab_headline, ab_markdown, accounting_table, calibration, comparison, comparison_markdown,
    conclusions_markdown, date, gates, gates_markdown, markdown, plan, power, said, sides, sweep, terminal,
    trend,
};
pub use trend::{Trend, TrendChange, TrendLine, TrendRun};
pub use view::View;
