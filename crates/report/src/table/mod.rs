//! Tables of a run and text around tables, for a terminal and as Markdown.

pub(super) mod counts;
mod faults;
mod gates;
mod grids;
mod layout;
mod printed;
mod run;

use super::document::Value;
use zklockbench_core::measure::Unit;
use zklockbench_core::units::{distinct_sorted, grouped, joined, listed, percent};
use zklockbench_record::FigureEntry;

pub(super) use gates::{
    GATES, gate_check_told, gate_title, gates_not_passed, gates_sentence, gates_table, worth_showing,
};
pub use gates::{gates, gates_markdown};
pub(super) use grids::tables;
pub use layout::{Style, table_text, wrapped};
pub(super) use layout::{bullets, escaped, folded, markdown_table};
pub(super) use printed::Printed;
pub(super) use run::basis;
pub use run::{markdown, terminal};

/// Returns a metric's value for tables.
pub(super) fn metric_value(entry: &FigureEntry, value: f64) -> Value {
    match entry.card.unit {
        Unit::Micros => Value::Duration(value),
        _ if entry.column.is_some_and(|column| column.in_percent) => Value::Share(value),
        Unit::PerSecond | Unit::Amount | Unit::Bytes | Unit::Share => Value::Amount(value),
    }
}

/// Returns a sentence with the margins of metrics, grouped by margin; empty if there are none.
pub(super) fn margins(of_figures: impl IntoIterator<Item = (String, f64)>) -> String {
    let mut groups = grouped(of_figures.into_iter().map(|(figure, margin)| (margin, figure)));
    groups.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    let told = |(margin, figures): (f64, Vec<String>)| {
        format!("{} of {}", percent(margin), listed(&distinct_sorted(figures)))
    };
    match groups.as_slice() {
        [] => String::new(),
        [(margin, _)] => format!("Margin: {}.", percent(*margin)),
        _ => format!("Margins: {}.", joined(groups.into_iter().map(told), "; ")),
    }
}
