//! Renderers that share one view model and one document of typed values: terminal, Markdown, page, charts, and a summary for
//! programs. The only input is a stored run.

pub mod chart;
pub mod ci;
pub mod conclusions;
pub mod document;
pub mod draw;
pub mod html;
pub mod page;
mod run_report;
pub mod summary;
mod table;
pub mod view;

pub use run_report::{Gated, Headline, RunReport, Says};
pub use summary::Summary;
pub use table::{
    Columns, Style, ab, ab_headline, ab_markdown, calibration, calibration_headline, comparison,
    comparison_markdown, gates, gates_markdown, learned, learned_headline, markdown, plan, plan_headline,
    power, sides, sweep, sweep_headline, table_text, terminal, wrapped,
};
pub use view::View;
