//! A run as Markdown, for READMEs and CI summaries.

use super::conclusions::conclusions_markdown;
use super::explained::ExplainedTable;
use super::gates::gates_markdown;
use super::grids::tables;
use super::markdown_parts::{bullets, escaped, table};
use super::{Table, basis};
use crate::report::RunReport;

/// The first line, the gates and tables, what must be said of them, and the three-way check folded away.
pub fn markdown(report: &RunReport<'_>) -> String {
    let view = report.view;
    let mut said = vec![format!("### {}", escaped(&report.headline.text()))];
    said.extend(gates_markdown(&report.gated.gates).map(|gates| gates.trim_end().to_owned()));
    if view.cells.is_empty() {
        said.push("No trial ran; nothing to show.".to_owned());
    }
    for ExplainedTable { table: grid, legend, .. } in tables(view) {
        said.extend([table(&grid), escaped(&legend)]);
    }
    said.extend(bullets(view.notes()));
    said.extend(basis(view).iter().map(|line| escaped(line)));
    said.extend(conclusions_markdown(report.other_conclusions()));
    let accounting = Table::accounting(view);
    if !accounting.rows.is_empty() {
        let summary = "<details><summary>Counts: client, cost model and servers</summary>";
        said.extend([summary.to_owned(), table(&accounting), "</details>".to_owned()]);
    }
    said.join("\n\n") + "\n"
}
