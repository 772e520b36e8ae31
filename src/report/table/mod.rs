//! Tables of the document model, for a terminal and as Markdown, and the lines below them.

pub(super) mod ab;
mod by_kind;
pub(super) mod calibration;
pub(super) mod comparison;
mod conclusions;
mod drivers;
mod explained;
mod fitted;
mod gates;
pub(super) mod grids;
mod markdown;
mod markdown_parts;
pub(super) mod plan;
mod power;
pub(super) mod sweep;
mod terminal;
mod trend;

pub use ab::{ab, ab_headline, ab_markdown, sides};
pub use calibration::{calibration, headline as calibration_headline};
pub use comparison::{comparison, comparison_markdown};
pub(super) use explained::ExplainedTable;
pub use fitted::Style;
pub use gates::{gates, gates_markdown};
pub(super) use gates::{gates_not_passed, gates_sentence, gates_table, worth_showing};
pub use markdown::markdown;
pub use plan::{headline as plan_headline, plan};
pub use power::power;
pub(super) use sweep::title as sweep_title;
pub use sweep::{headline as sweep_headline, sweep};
pub use terminal::{accounting_table, terminal};
pub use trend::trend;

use super::View;
use super::document::{Table, numbers, words};
use super::view::Cell;
use crate::words::units::{counted, format_micros, grouped, listed, number, percent};
use crate::words::verdict::Verdict;

/// What stands where nothing was measured, in tables whose cells are texts.
const NOT_MEASURED: &str = "-";

/// A probability: below a thousandth how far does not matter.
fn probability(p: f64) -> String {
    if p < 0.001 { "< 0.001".to_owned() } else { number(p) }
}

/// The margin of each figure in a sentence, the figures that share one together; nothing where there is none.
fn margins(of_figures: impl IntoIterator<Item = (String, f64)>) -> String {
    let mut groups = grouped(of_figures.into_iter().map(|(figure, margin)| (margin, figure)));
    groups.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    let told = |(margin, figures): &(f64, Vec<String>)| {
        let mut figures = figures.clone();
        figures.sort_unstable();
        figures.dedup();
        format!("{} of {}", percent(*margin), listed(&figures))
    };
    match groups.as_slice() {
        [] => String::new(),
        [(margin, _)] => format!("Margin: {}.", percent(*margin)),
        some => format!("Margins: {}.", some.iter().map(told).collect::<Vec<_>>().join("; ")),
    }
}

/// What ran, and the verdict on its locks with the first reason; where some were violated, with that of each of these.
pub(super) fn verdict_line(view: &View<'_>) -> String {
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
pub(super) fn basis(view: &View<'_>) -> Vec<String> {
    let measured = format!("Measured on: {}.", view.place_line());
    std::iter::once(format!("{}.", verdict_line(view))).chain(evidence(view)).chain([measured]).collect()
}

/// What a verdict of held rests on, and what it does not say: that no contender believed that it held what the ensemble had
/// given to another. Nothing where neither is known.
pub(super) fn evidence(view: &View<'_>) -> Option<String> {
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
