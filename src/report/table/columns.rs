//! The columns of the table: heading, side, and how soon one is left out where the terminal is narrow.

use crate::measure::{Histogram, Measure};
use crate::report::View;
use crate::report::view::{Cell, Repetition, Spread, verdict_word};
use crate::units::{format_micros, number};

/// One column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Column {
    /// The heading, with its unit where it has one.
    pub heading: &'static str,
    /// Whether it holds numbers, which stand at the right.
    pub numbers: bool,
    /// The larger, the sooner it is left out; 0 stays.
    pub spare: u8,
}

const fn words(heading: &'static str) -> Column {
    Column { heading, numbers: false, spare: 0 }
}

const fn numbers(heading: &'static str, spare: u8) -> Column {
    Column { heading, numbers: true, spare }
}

/// How many columns there are.
pub(super) const COUNT: usize = 18;

/// Every column, from left to right.
pub(super) const COLUMNS: [Column; COUNT] = [
    words("strategy"),
    numbers("contenders", 0),
    numbers("reps", 8),
    numbers("acq/s", 0),
    numbers("min-max", 4),
    numbers("wait p50", 0),
    numbers("wait p99", 0),
    numbers("wait max", 5),
    numbers("handoff p50", 3),
    numbers("fan-out", 0),
    numbers("requests/acq", 2),
    numbers("notifications/acq", 7),
    numbers("overtaken", 6),
    numbers("fairness", 9),
    numbers("readers", 10),
    numbers("violations", 1),
    words("verdict"),
    Column { heading: "marks", numbers: false, spare: 1 },
];

/// What stands where nothing was measured.
pub(super) const NOT_MEASURED: &str = "-";

/// One row: a text for each column.
pub(super) fn row(view: &View, cell: &Cell) -> [String; COUNT] {
    let wait = cell.merged(Measure::Wait);
    let handoff = cell.merged(Measure::Handoff);
    [
        view.label(cell).to_owned(),
        cell.contenders.to_string(),
        repetitions(cell),
        median(cell, |one| one.throughput),
        cell.spread(|one| one.throughput).map_or_else(not_measured, ends),
        percentile(wait.as_ref(), 0.5),
        percentile(wait.as_ref(), 0.99),
        percentile(wait.as_ref(), 1.0),
        percentile(handoff.as_ref(), 0.5),
        median(cell, |one| one.fan_out),
        median(cell, Repetition::requests_total),
        median(cell, |one| one.notifications),
        cell.median(|one| one.overtaken)
            .map_or_else(not_measured, |share| format!("{} %", number(100.0 * share))),
        median(cell, |one| one.fairness),
        median(cell, |one| one.readers),
        cell.violations().to_string(),
        verdict(cell).to_owned(),
        marks(cell),
    ]
}

fn not_measured() -> String {
    NOT_MEASURED.to_owned()
}

/// How many repetitions count, and of how many.
fn repetitions(cell: &Cell) -> String {
    let (sound, all) = (cell.repetitions.iter().filter(|one| one.is_sound()).count(), cell.repetitions.len());
    if sound == all { all.to_string() } else { format!("{sound} of {all}") }
}

/// The smallest and the largest; one repetition has no spread.
fn ends(spread: Spread) -> String {
    if spread.count > 1 { format!("{}-{}", number(spread.min), number(spread.max)) } else { not_measured() }
}

fn median(cell: &Cell, figure: impl Fn(&Repetition) -> Option<f64>) -> String {
    cell.median(figure).map_or_else(not_measured, number)
}

fn percentile(samples: Option<&Histogram>, quantile: f64) -> String {
    samples.map_or_else(not_measured, |samples| {
        // The histogram rounds up to its bucket's end, which may lie above the largest sample.
        format_micros(samples.value_at_quantile(quantile).min(samples.max()))
    })
}

/// The verdict in a word.
fn verdict(cell: &Cell) -> &'static str {
    let trials: Vec<&Repetition> = cell.repetitions.iter().collect();
    verdict_word(&trials, cell.contenders).unwrap_or(NOT_MEASURED)
}

/// How many trials are invalid or partial; the lines below the table say why.
fn marks(cell: &Cell) -> String {
    let count = |marked: fn(&Repetition) -> bool| cell.repetitions.iter().filter(|one| marked(one)).count();
    let marks =
        [(count(|one| one.invalid.is_some()), "invalid"), (count(|one| one.partial.is_some()), "partial")];
    let said: Vec<String> =
        marks.iter().filter(|(count, _)| *count > 0).map(|(count, mark)| format!("{count} {mark}")).collect();
    if said.is_empty() { NOT_MEASURED.to_owned() } else { said.join(", ") }
}
