//! Renders a run with its tables and conclusions, for a terminal and as Markdown for READMEs and CI
//! summaries.

use super::Style;
use super::counts::accounting;
use super::gates::{gates, gates_markdown};
use super::grids::tables;
use super::layout::{bullets, escaped, folded, markdown_table, painted, wrapped};
use super::printed::Printed;
use crate::comparison::comparison;
use crate::document::Value;
use crate::picture::timeline_text;
use crate::view::Cell;
use crate::{Headline, RunReport, View};
use zklockbench_analysis::compare::Comparison;
use zklockbench_core::units::{capitalised, counted, format_micros, joined, one_line};
use zklockbench_core::verdict::Verdict;

/// Renders the outcome, then the table and the remarks; with `--all`, every table and remark.
pub fn terminal(report: &RunReport<'_>, compared: Option<&Comparison>, style: Style) -> String {
    let view = report.view;
    let empty = view.cells.is_empty().then(|| "No trial ran; nothing to show.\n".to_owned());
    let notes = view.notes().into_iter().map(|note| format!("! {note}"));
    let mut conclusions = report.other_conclusions().iter().map(|one| one.sentence.clone());
    let first: Vec<String> = conclusions.by_ref().take(1).collect();
    let is_checked = view.accounting().iter().any(|row| row.line.servers.is_some());
    let unchecked = if is_checked { None } else { unchecked(view) };
    let tables = tables(view).into_iter().chain(is_checked.then(|| accounting(view))).collect();
    let against = compared.map(|one| format!("Against the baseline: {}.", one.conclusion.sentence));
    let (basis, gates) = (basis(view), gates(&report.gated.gates, style));
    let (basis, rest) = if style.all { (basis, Vec::new()) } else { (brief_basis(view), basis) };
    let printed = Printed {
        outcome: first_line(&report.headline, style),
        above: gates.into_iter().chain(empty).reduce(|gates, empty| gates + &empty),
        tables,
        pictures: pictures(view),
        remarks: against.into_iter().chain(first).chain(notes).chain(conclusions).collect(),
        basis,
        more: unchecked.into_iter().chain(rest).collect(),
    };
    let text = printed.text(style);
    let compared = compared.filter(|_| style.all).map(|one| format!("\n{}", comparison(one, style)));
    text + &compared.unwrap_or_default()
}

/// Returns the first violation of each strategy.
fn pictures(view: &View<'_>) -> Vec<String> {
    let first = |strategy| view.timelines_of(strategy).next();
    let all = (0..view.strategies.len()).filter_map(first);
    all.map(|(trial, timeline)| format!("{}:\n{}", one_line(&trial.name()), timeline_text(timeline)))
        .collect()
}

/// Returns the outcome, with its leading alarm word, if any, in colour.
fn first_line(headline: &Headline, style: Style) -> String {
    let text = wrapped(&one_line(&headline.text()), "", style.text_width());
    let Some((word, rest)) = headline.alarm.and_then(|word| Some((word, text.strip_prefix(word)?))) else {
        return text;
    };
    format!("{}{rest}", painted(&Value::verdict(word, headline.verdict.tone()), style))
}

/// Returns the reason for missing server counts; `None` if a remark already reports a disagreement.
fn unchecked(view: &View<'_>) -> Option<String> {
    let agrees = view.accounting().iter().filter_map(|row| row.agrees).reduce(|all, one| all && one);
    let why = match agrees {
        Some(false) => return None,
        Some(true) => "The servers returned no counts; the client's counts agree with the cost model.",
        None => "The client's counts could not be checked: the servers returned none.",
    };
    Some(why.to_owned())
}

/// Returns the first line, the gates and tables, and the remarks, with some details collapsed.
pub fn markdown(report: &RunReport<'_>) -> String {
    let view = report.view;
    let mut said = vec![format!("### {}", escaped(&report.headline.text()))];
    said.extend(gates_markdown(&report.gated.gates).map(|gates| gates.trim_end().to_owned()));
    said.extend(view.cells.is_empty().then(|| "No trial ran; nothing to show.".to_owned()));
    let (tables, accounting) = (tables(view), accounting(view));
    said.extend(tables.iter().map(markdown_table));
    said.extend(bullets(report.other_conclusions().iter().map(|one| &one.sentence)));
    said.extend(bullets(view.notes()));
    said.extend(basis(view).iter().map(|line| escaped(line)));
    let legends = joined(tables.iter().map(|table| escaped(&table.legend(&[]))), "\n\n");
    said.extend((!tables.is_empty()).then(|| folded("How to read this", &legends)));
    let counts = || folded("Counts: client, cost model and servers", &markdown_table(&accounting));
    said.extend((!accounting.is_empty()).then(counts));
    said.join("\n\n") + "\n"
}

/// Returns the scenario and the verdict on its locks, with the first reason of each violated lock or the
/// run's reason.
fn verdict_line(view: &View<'_>) -> String {
    let why = violated(view).or_else(|| view.judged.why.clone());
    let why = why.map_or_else(String::new, |why| format!(" ({why})"));
    let verdict = &view.judged.verdict;
    let word = if *verdict == Verdict::Held { "exclusion held" } else { verdict.word() };
    format!("{}: {word}{why}", view.title)
}

/// Returns the first reason of each lock that broke a promise, and the number of further reasons.
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

/// Returns the verdict, its evidence, and the measurement environment: one line each.
pub(crate) fn basis(view: &View<'_>) -> Vec<String> {
    let measured = format!("Measured on: {}.", view.place_line());
    std::iter::once(format!("{}.", verdict_line(view))).chain(evidence(view)).chain([measured]).collect()
}

/// Returns the verdict, and the ensemble's host and data, which affect every result.
fn brief_basis(view: &View<'_>) -> Vec<String> {
    let measured = view.place.iter().take_while(|place| !place.starts_with("scenario "));
    let measured = joined(measured.map(String::as_str), "; ");
    let evidence = view.evidence.as_ref().filter(|_| view.judged.verdict == Verdict::Held);
    let held = evidence.map(|evidence| format!("Exclusion held; {evidence}."));
    held.into_iter().chain([format!("{}.", capitalised(&measured))]).collect()
}

/// Describes the evidence for a verdict of held, with a note on holders without a live session (zombies).
/// `None` without evidence.
fn evidence(view: &View<'_>) -> Option<String> {
    let evidence = view.evidence.as_ref().filter(|_| view.judged.verdict == Verdict::Held)?;
    // Sessions may end without an injected fault, too.
    let trials = || view.cells.iter().flat_map(Cell::all);
    let zombies: u64 = trials().map(|trial| trial.excused.zombies).sum();
    if zombies == 0 {
        return Some(format!("Evidence: {evidence}."));
    }
    let longest = trials().map(|trial| trial.excused.longest_unsafe_us).max().unwrap_or(0);
    let (zombies, longest) =
        (counted(zombies, "acquisition was", "acquisitions were"), format_micros(longest));
    Some(format!(
        "Evidence: {evidence}. Zombies: {zombies} made while a holder without a live session was inside, for up to \
         {longest}; --strict counts that as a violation."
    ))
}
