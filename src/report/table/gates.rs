//! What gates came to, for a terminal and as Markdown: the worst first, each with what was observed.

use super::Style;
use super::markdown::escaped;
use crate::gate::{Check, Outcome};
use crate::units::{contenders, harmless};
use crate::verdict::Verdict;

/// Where the gates are wider than this, what was observed is not put below each other.
const GATE_WIDTH: usize = 60;

/// The gates line by line; nothing where there is none but the one that every run has.
pub fn gates(outcomes: &[Outcome], style: Style) -> Option<String> {
    let named = worth_showing(outcomes)?;
    let width =
        named.iter().map(|outcome| titled(outcome).chars().count()).max().unwrap_or(0).min(GATE_WIDTH);
    let mut lines = vec!["Gates:".to_owned()];
    for outcome in named {
        let word = console::style(format!("{:7}", outcome.word())).force_styling(style.colour);
        let word = match outcome.verdict {
            Verdict::Held => word.green(),
            Verdict::Violated(_) => word.red().bold(),
            Verdict::Unknown(_) => word.yellow(),
        };
        let mut found = found(outcome).into_iter();
        let first = found.next().unwrap_or_default();
        lines.push(format!("  {word}  {:width$}  {first}", titled(outcome)).trim_end().to_owned());
        lines.extend(found.map(|more| format!("  {:7}  {:width$}  {more}", "", "")));
    }
    // Names and labels are somebody's text.
    let harmless = |line: String| -> String {
        line.chars().map(|c| if c == '\x1b' && style.colour { c.to_string() } else { harmless(c) }).collect()
    };
    Some(lines.into_iter().map(harmless).collect::<Vec<_>>().join("\n") + "\n")
}

/// The same as Markdown.
pub fn gates_markdown(outcomes: &[Outcome]) -> Option<String> {
    let named = worth_showing(outcomes)?;
    let mut text = String::from("#### Gates\n\n| | gate | observed |\n|---|---|---|\n");
    for outcome in named {
        let found: Vec<String> = found(outcome).iter().map(|line| escaped(line)).collect();
        let line =
            format!("| {} | {} | {} |\n", outcome.word(), escaped(&titled(outcome)), found.join("<br>"));
        text.push_str(&line);
    }
    Some(text)
}

fn worth_showing(outcomes: &[Outcome]) -> Option<&[Outcome]> {
    outcomes.iter().any(|outcome| !outcome.is_of_every_run()).then_some(outcomes)
}

fn titled(outcome: &Outcome) -> String {
    match &outcome.name {
        Some(name) => format!("{name}: {}", outcome.gate),
        None => outcome.gate.clone(),
    }
}

/// What was observed: in every cell in which it did not pass or, where it passed in all, in the one that was nearest to its
/// limit.
fn found(outcome: &Outcome) -> Vec<String> {
    let bad: Vec<String> =
        outcome.checks.iter().filter(|check| check.verdict != Verdict::Held).map(described).collect();
    if !bad.is_empty() {
        return bad;
    }
    match (outcome.verdict.why(), outcome.checks.as_slice()) {
        (Some(why), _) => vec![why],
        (None, [first, rest @ ..]) if !outcome.is_of_every_run() => {
            let nearest = match rest.len() {
                0 => String::new(),
                more => format!("; nearest of {}", more + 1),
            };
            vec![format!("{}{nearest}", described(first))]
        }
        (None, _) => Vec::new(),
    }
}

fn described(check: &Check) -> String {
    format!("{}, {}: {}", check.strategy, contenders(check.contenders), check.sentence)
}
