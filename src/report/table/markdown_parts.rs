//! Tables, lists and texts as Markdown.

use super::Table;
use crate::words::units::harmless;

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

pub(super) fn folded(summary: &str, text: &str) -> String {
    format!("<details><summary>{summary}</summary>\n\n{text}\n\n</details>")
}
