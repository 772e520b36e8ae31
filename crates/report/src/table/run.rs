//! A run with its tables and conclusions, for a terminal and as Markdown for READMEs and CI summaries.

use super::gates::{gates, gates_markdown};
use super::grids::tables;
use super::layout::{bullets, escaped, fitted, fitted_above, painted, table, wrapped};
use super::{ExplainedTable, Style, Table, comparison};
use crate::conclusions::Conclusion;
use crate::document::Value;
use crate::view::Cell;
use crate::{Headline, RunReport, View};
use zklockbench_analysis::compare::Comparison;
use zklockbench_core::units::{counted, format_micros, one_line};
use zklockbench_core::verdict::Verdict;

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
    let text = wrapped(&one_line(&headline.text()), "", width(style));
    let Some((word, rest)) = headline.alarm.and_then(|word| Some((word, text.strip_prefix(word)?))) else {
        return text;
    };
    format!("{}{rest}", painted(&Value::verdict(word, headline.verdict.tone()), style))
}

fn explained(ExplainedTable { table, legend, .. }: ExplainedTable, style: Style) -> Vec<String> {
    let mut shown: Vec<&'static str> = table.columns.iter().map(|column| column.heading).collect();
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

fn width(style: Style) -> usize {
    style.width.map_or(usize::MAX, usize::from).max(40)
}

fn conclusions_list(conclusions: &[Conclusion], style: Style) -> Option<String> {
    let line = |one: &Conclusion| wrapped(&one_line(&one.sentence), "  - ", width(style));
    let lines: Vec<String> = conclusions.iter().map(line).collect();
    (!lines.is_empty()).then(|| format!("Conclusions:\n{}\n", lines.join("\n")))
}

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
    let others = bullets(report.other_conclusions().iter().map(|one| &one.sentence));
    said.extend(others.map(|lines| format!("#### Conclusions\n\n{lines}")));
    let accounting = Table::accounting(view);
    if !accounting.rows.is_empty() {
        let summary = "<details><summary>Counts: client, cost model and servers</summary>";
        said.extend([summary.to_owned(), table(&accounting), "</details>".to_owned()]);
    }
    said.join("\n\n") + "\n"
}

/// What ran, and the verdict on its locks with the first reason; where some were violated, with that of each of these.
fn verdict_line(view: &View<'_>) -> String {
    let why = violated(view).or_else(|| view.judged.why.clone());
    let why = why.map_or_else(String::new, |why| format!(" ({why})"));
    let held = view.judged.verdict == Verdict::Held;
    let what = if held { "exclusion held" } else { view.judged.verdict.word() };
    format!("{}: {what}{why}", view.title)
}

/// The first reason of each lock that broke a promise, and how many more there are.
fn violated(view: &View<'_>) -> Option<String> {
    let first = |strategy: usize| {
        let trial = view.cells_of(strategy).flat_map(Cell::all).find(|trial| trial.is_violated())?;
        Some(format!("{}: {}", trial.name(), trial.judged.verdict.reasons().first()?))
    };
    let told: Vec<String> = (0..view.strategies.len()).filter_map(first).collect();
    let violated = view.cells.iter().flat_map(Cell::all).filter(|trial| trial.is_violated());
    let all: usize = violated.map(|trial| trial.judged.verdict.reasons().len()).sum();
    let more = match all - told.len() {
        0 => String::new(),
        1 => "; and one more reason".to_owned(),
        many => format!("; and {many} more reasons"),
    };
    (!told.is_empty()).then(|| told.join("; ") + &more)
}

/// What the verdict is and rests on, and where it was measured: a line each.
pub(crate) fn basis(view: &View<'_>) -> Vec<String> {
    let measured = format!("Measured on: {}.", view.place_line());
    std::iter::once(format!("{}.", verdict_line(view))).chain(evidence(view)).chain([measured]).collect()
}

/// What a verdict of held rests on, and what it does not say: that no contender believed that it held what the ensemble had
/// given to another. Nothing where neither is known.
fn evidence(view: &View<'_>) -> Option<String> {
    let evidence = view.evidence.as_ref().filter(|_| view.judged.verdict == Verdict::Held)?;
    let zombies: u64 = view.broken().map(|trial| trial.excused.zombies).sum();
    if zombies == 0 {
        return Some(format!("Evidence: {evidence}."));
    }
    let longest = view.broken().map(|trial| trial.excused.longest_unsafe_us).max().unwrap_or(0);
    Some(format!(
        "Evidence: {evidence}. Zombies: {} made while a holder without a live session was inside, for up to {}; \
         --strict counts that as a violation.",
        counted(zombies, "entry was", "entries were"),
        format_micros(longest)
    ))
}

/// The legend without the explanations of `known` columns that are not among those `shown`.
///
/// A legend is a row of explanations, `heading: what it is`, between semicolons, and of sentences.
fn only(legend: &str, known: &[&str], shown: &[&str]) -> String {
    const CUT: char = '\u{1}';
    let cut = legend.replace("; ", &format!("; {CUT}")).replace(". ", &format!(". {CUT}"));
    let is_needed = |part: &&str| match part.split_once(": ") {
        Some((heading, _)) => !known.contains(&heading) || shown.contains(&heading),
        None => true,
    };
    let kept: String = cut.split(CUT).filter(is_needed).collect();
    let kept = kept.trim_end();
    kept.strip_suffix(';').map_or_else(|| kept.to_owned(), |kept| format!("{kept}."))
}

#[cfg(test)]
mod tests {
    use super::only;

    #[test]
    fn what_is_not_shown_is_not_explained() {
        let legend = "Medians. acq: acquisition; fan-out: notifications; fairness: Jain's index.";
        let known = ["acq/s", "fan-out", "fairness"];
        assert_eq!(only(legend, &known, &known), legend);
        assert_eq!(
            only(legend, &known, &["acq/s", "fan-out"]),
            "Medians. acq: acquisition; fan-out: notifications."
        );
        assert_eq!(only(legend, &known, &[]), "Medians. acq: acquisition.");
    }
}
