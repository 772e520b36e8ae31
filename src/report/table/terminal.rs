//! A run for a terminal.

use super::conclusions::{conclusions_list, wrapped};
use super::explained::ExplainedTable;
use super::explained::only;
use super::fitted::{Style, fitted, fitted_above, painted};
use super::gates::gates;
use super::grids::tables;
use super::{Table, basis, comparison};
use crate::answer::compare::Comparison;
use crate::report::document::Value;
use crate::report::{Headline, RunReport, View};
use crate::words::units::one_line;

/// The first line, the tables with what must be said of them, and what all of it rests on.
pub fn terminal(report: &RunReport<'_>, compared: Option<&Comparison>, style: Style) -> String {
    let view = report.view;
    let mut said = vec![first_line(&report.headline, style), String::new()];
    // What a build hangs on would be missed below the tables.
    said.extend(gates(&report.gated.gates, style));
    if view.cells.is_empty() {
        said.push("No trial ran; nothing to show.".to_owned());
    } else {
        said.extend(tables(view).into_iter().flat_map(|table| explained(table, style)));
        said.push(cross_check(view, style));
    }
    said.extend(view.notes().into_iter().map(|note| format!("! {note}")));
    said.extend(compared.map(|one| format!("\nAgainst the baseline: {}", comparison(one, style))));
    said.push(String::new());
    said.extend(conclusions_list(report.other_conclusions(), style));
    said.extend(basis(view));
    said.join("\n") + "\n"
}

/// The outcome; what is wrong or not known of it is coloured.
fn first_line(headline: &Headline, style: Style) -> String {
    let text = wrapped(&one_line(&headline.text()), "", style);
    let Some((word, rest)) = headline.alarm.and_then(|word| Some((word, text.strip_prefix(word)?))) else {
        return text;
    };
    format!("{}{rest}", painted(&Value::verdict(word, headline.verdict.tone()), style))
}

/// A table, and what the figures are that are shown of it.
fn explained(ExplainedTable { table, legend, .. }: ExplainedTable, style: Style) -> Vec<String> {
    let headings = |grid: &Table| grid.columns.iter().map(|column| column.heading).collect::<Vec<_>>();
    let mut shown = headings(&table);
    let mut said = fitted_above(table, style, |left_out| {
        shown.retain(|heading| !left_out.contains(heading));
        only(&legend, &Table::headings(), &shown)
    });
    said.push(String::new());
    said
}

/// What the client counted against what the servers did, or why that is not shown.
fn cross_check(view: &View<'_>, style: Style) -> String {
    let grid = Table::cross_check(view);
    if grid.rows.is_empty() {
        let rows = view.accounting();
        let agree = rows.iter().filter_map(|row| row.agrees).reduce(|all, one| all && one);
        return match agree {
            // Which counts disagree is told below.
            Some(false) => String::new(),
            Some(true) => "The servers told no counts; the client's agree with the cost model.\n".to_owned(),
            None => "The client's counts could not be checked: the servers told none.\n".to_owned(),
        };
    }
    fitted(grid, style).0 + "\n"
}

/// Client, cost model and servers side by side; empty when nothing was counted.
pub fn accounting_table(view: &View<'_>, style: Style) -> String {
    let grid = Table::accounting(view);
    if grid.rows.is_empty() { String::new() } else { fitted(grid, style).0 + "\n" }
}
