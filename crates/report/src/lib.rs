//! Renderers of stored runs: terminal, Markdown, page, charts, and a summary for programs. All share one view
//! model and one document of typed values.

mod ab;
mod calibration;
pub mod chart;
pub mod ci;
mod comparison;
pub mod conclusions;
pub mod document;
pub mod draw;
pub mod html;
mod learned;
pub mod page;
pub mod picture;
mod plan;
mod run_report;
pub mod summary;
mod sweep;
mod table;
pub mod view;

pub use ab::{ab, ab_headline, ab_markdown, sides};
pub use calibration::{calibration, headline as calibration_headline};
pub use comparison::{comparison, comparison_markdown, power};
pub use document::Columns;
pub use learned::{headline as learned_headline, learned};
pub use plan::{headline as plan_headline, plan};
pub use run_report::{Gated, Headline, RunReport, Says};
pub use summary::Summary;
pub use sweep::{headline as sweep_headline, sweep};
pub use table::{Style, gates, gates_markdown, markdown, table_text, terminal, wrapped};
pub use view::View;
