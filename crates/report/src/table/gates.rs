//! Results of gates, for a terminal and as Markdown: worst first, each with its observation.

use super::Style;
use super::layout::{escaped, painted};
use crate::document::{Finding, Link, Table, Tone, Value, words};
use zklockbench_analysis::gate::{Check, Outcome, overall};
use zklockbench_core::units::{cell_name, harmless, joined};
use zklockbench_core::verdict::Verdict;

/// Maximum width of the column of gates; longer gates break the alignment.
const GATE_WIDTH: usize = 60;

/// Maximum number of printed gates that did not pass, without `--all`.
const NOT_PASSED: usize = 3;

/// Returns a summary line and the first gates that did not pass; with `--all`, every gate. `None` if there is
/// only the implicit gate.
pub fn gates(outcomes: &[Outcome], style: Style) -> Option<String> {
    let of_scenario = worth_showing(outcomes)?;
    let most = if style.all { usize::MAX } else { NOT_PASSED };
    let is_named = |outcome: &&Outcome| style.all || outcome.verdict != Verdict::Held;
    let named: Vec<&Outcome> = of_scenario.iter().filter(is_named).take(most).collect();
    let widths = named.iter().map(|outcome| gate_title(outcome).chars().count());
    let width = widths.max().unwrap_or(0).min(GATE_WIDTH);
    let mut lines = vec![format!("Gates: {}.", gates_sentence(of_scenario))];
    for outcome in named {
        let word = painted(&Value::verdict(format!("{:7}", outcome.word()), tone(outcome)), style);
        let mut found = found(outcome).into_iter();
        let first = found.next().unwrap_or_default();
        let title = gate_title(outcome);
        let all = 2 + 7 + 2 + width.max(title.chars().count()) + 2 + first.chars().count();
        if style.width.is_some_and(|columns| all > usize::from(columns)) {
            lines.extend([format!("  {word}  {title}"), format!("  {:7}  {first}", "")]);
        } else {
            lines.push(format!("  {word}  {title:width$}  {first}").trim_end().to_owned());
        }
        lines.extend(found.map(|more| format!("  {:7}  {:width$}  {more}", "", "")));
    }
    // Names and labels are external text.
    let harmless = |line: String| -> String {
        line.chars().map(|c| if c == '\x1b' && style.colour { c.to_string() } else { harmless(c) }).collect()
    };
    Some(lines.into_iter().map(harmless).collect::<Vec<_>>().join("\n") + "\n")
}

/// Describes the number of gates with the worst result, e.g. `1 of 3 FAILED`.
pub(crate) fn gates_sentence(outcomes: &[Outcome]) -> String {
    let worst = match overall(outcomes) {
        Verdict::Held => return format!("all {} passed", outcomes.len()),
        Verdict::Violated(_) => "FAILED",
        Verdict::Unknown(_) => "unknown",
    };
    let count = outcomes.iter().filter(|outcome| outcome.word() == worst).count();
    format!("{count} of {} {worst}", outcomes.len())
}

/// Returns one row for each observation; empty if there is only the implicit gate.
pub(crate) fn gates_table(outcomes: &[Outcome]) -> Table {
    let row = |outcome: &Outcome| {
        let mut lines = found(outcome);
        if lines.is_empty() {
            lines.push(String::new());
        }
        let (title, word) = (gate_title(outcome), Value::verdict(outcome.word(), tone(outcome)));
        lines.into_iter().map(move |line| vec![title.clone().into(), word.clone(), line.into()])
    };
    let rows = worth_showing(outcomes).into_iter().flatten().flat_map(row).collect();
    Table::new(vec![words("gate"), words("verdict"), words("observed")], 1, rows)
}

fn tone(outcome: &Outcome) -> Tone {
    Value::from(&outcome.verdict).tone()
}

pub(crate) const GATES: Link = Link { section: "gates", text: "the gates" };

/// Returns the gates that did not pass, worst first, each with its first observation.
pub(crate) fn gates_not_passed(outcomes: &[Outcome]) -> impl Iterator<Item = Finding> {
    let not_passed = outcomes.iter().filter(|outcome| outcome.verdict != Verdict::Held);
    not_passed.map(|outcome| {
        let first = found(outcome).into_iter().next().map_or_else(String::new, |first| format!(": {first}"));
        let (topic, sentence) = (outcome.word(), format!("{}{first}.", gate_title(outcome)));
        Finding::new(format!("Gate {topic}"), tone(outcome), sentence, Some(GATES))
    })
}

pub fn gates_markdown(outcomes: &[Outcome]) -> Option<String> {
    let line = |outcome: &Outcome| {
        let found = joined(found(outcome).iter().map(|line| escaped(line)), "<br>");
        format!("| {} | {} | {found} |\n", outcome.word(), escaped(&gate_title(outcome)))
    };
    let lines: String = worth_showing(outcomes)?.iter().map(line).collect();
    Some(format!("#### Gates\n\n| | gate | observed |\n|---|---|---|\n{lines}"))
}

/// Returns all gates, if the scenario defines any.
pub(crate) fn worth_showing(outcomes: &[Outcome]) -> Option<&[Outcome]> {
    outcomes.iter().any(|outcome| !outcome.is_of_every_run()).then_some(outcomes)
}

pub(crate) fn gate_title(outcome: &Outcome) -> String {
    let name = outcome.name.as_ref().map_or_else(String::new, |name| format!("{name}: "));
    name + &outcome.gate
}

/// Returns the observations of all cells that did not pass or, if all passed, of the cell nearest to its limit.
fn found(outcome: &Outcome) -> Vec<String> {
    let bad = outcome.checks.iter().filter(|check| check.verdict != Verdict::Held);
    let bad: Vec<String> = bad.map(gate_check_told).collect();
    match (outcome.verdict.why(), outcome.checks.as_slice()) {
        _ if !bad.is_empty() => bad,
        (Some(why), _) => vec![why],
        (None, [only]) if !outcome.is_of_every_run() => vec![gate_check_told(only)],
        (None, [nearest, ..]) if !outcome.is_of_every_run() => {
            vec![format!("{}; nearest of {}", gate_check_told(nearest), outcome.checks.len())]
        }
        (None, _) => Vec::new(),
    }
}

pub(crate) fn gate_check_told(check: &Check) -> String {
    format!("{}: {}", cell_name(&check.strategy, check.contenders), check.sentence)
}
