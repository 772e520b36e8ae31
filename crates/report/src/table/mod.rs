//! Tables of the document model, for a terminal and as Markdown, and the lines below them.

pub(super) mod ab;
pub(super) mod calibration;
pub(super) mod columns;
pub(super) mod comparison;
pub(super) mod counts;
mod drivers;
mod faults;
mod gates;
pub(super) mod grids;
mod layout;
pub(super) mod learned;
mod lost_holds;
pub(super) mod plan;
mod printed;
mod run;
pub(super) mod sweep;

use super::document::ExplainedTable;
use zklockbench_core::units::{distinct_sorted, grouped, listed, percent};

pub use ab::{ab, ab_headline, ab_markdown, sides};
pub use calibration::{calibration, headline as calibration_headline};
pub use columns::Columns;
pub use comparison::{comparison, comparison_markdown, power};
pub(super) use gates::{
    gate_check_told, gate_title, gates_not_passed, gates_sentence, gates_table, worth_showing,
};
pub use gates::{gates, gates_markdown};
pub use layout::{Style, table_text, wrapped};
pub use learned::{headline as learned_headline, learned};
pub use plan::{headline as plan_headline, plan};
pub(super) use run::basis;
pub use run::{markdown, terminal};
pub(super) use sweep::title as sweep_title;
pub use sweep::{headline as sweep_headline, sweep};

/// Placeholder for missing values, in tables with text cells.
const NOT_MEASURED: &str = "-";

/// A sentence with the margins of metrics, grouped by margin; empty if there are none.
fn margins(of_figures: impl IntoIterator<Item = (String, f64)>) -> String {
    let mut groups = grouped(of_figures.into_iter().map(|(figure, margin)| (margin, figure)));
    groups.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    let told = |(margin, figures): &(f64, Vec<String>)| {
        format!("{} of {}", percent(*margin), listed(&distinct_sorted(figures)))
    };
    match groups.as_slice() {
        [] => String::new(),
        [(margin, _)] => format!("Margin: {}.", percent(*margin)),
        some => format!("Margins: {}.", some.iter().map(told).collect::<Vec<_>>().join("; ")),
    }
}
