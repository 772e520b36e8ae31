//! The same tables as Markdown, for READMEs and CI summaries.

use super::grids::{OPEN_LEGEND, faults_legend, legend};
use super::{Table, evidence, headline};
use crate::report::View;
use crate::report::view::Cell;
use crate::words::units::harmless;

/// The main table, what must be said of it, and the three-way check folded away.
pub fn markdown(view: &View<'_>) -> String {
    let mut said = vec![format!("### {}", escaped(&headline(view)))];
    said.extend(evidence(view).as_deref().map(escaped));
    said.push(format!("Measured on: {}.", escaped(&view.place_line())));
    if view.cells.is_empty() {
        said.push("No trial ran; nothing to show.".to_owned());
    } else {
        said.extend([table(&Table::of(view)), legend(view)]);
    }
    if view.cells.iter().any(Cell::is_open) {
        said.extend([table(&Table::open(view)), OPEN_LEGEND.to_owned()]);
    }
    if view.has_faults() {
        said.extend([table(&Table::faults(view)), escaped(&faults_legend(view))]);
    }
    said.extend(bullets(view.notes()));
    let accounting = Table::accounting(view);
    if !accounting.rows.is_empty() {
        let summary = "<details><summary>Counts: client, cost model and servers</summary>";
        said.extend([summary.to_owned(), table(&accounting), "</details>".to_owned()]);
    }
    said.join("\n\n") + "\n"
}

pub(super) fn table(grid: &Table) -> String {
    let line = |cells: Vec<String>| format!("| {} |", cells.join(" | "));
    let headings = line(grid.columns.iter().map(|column| column.heading.to_owned()).collect());
    let rule =
        line(grid.columns.iter().map(|column| if column.numbers { "---:" } else { "---" }.into()).collect());
    let rows = grid.rows.iter().map(|row| line(row.iter().map(|value| escaped(&value.shown())).collect()));
    [headings, rule].into_iter().chain(rows).collect::<Vec<_>>().join("\n")
}

/// A text that Markdown shows as it is, on one line.
pub(super) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '|' | '\\' | '`' | '*' | '[' | ']' => safe.extend(['\\', letter]),
            '<' => safe.push_str("&lt;"),
            '\n' | '\r' => safe.push(' '),
            other => safe += &harmless(other),
        }
    }
    safe
}

/// A list; `None` where there is nothing in it.
pub(super) fn bullets<T: AsRef<str>>(lines: impl IntoIterator<Item = T>) -> Option<String> {
    let lines: Vec<String> = lines.into_iter().map(|line| format!("- {}", escaped(line.as_ref()))).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// A part that is folded until it is opened.
pub(super) fn folded(summary: &str, text: &str) -> String {
    format!("<details><summary>{summary}</summary>\n\n{text}\n\n</details>")
}
