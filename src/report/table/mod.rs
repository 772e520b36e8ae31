//! The table, for a terminal and as Markdown, and the lines below it.

mod ab;
mod calibration;
mod comparison;
mod gates;
mod grids;
mod legend;
mod markdown;
mod terminal;
mod trend;

pub use ab::{ab, sides};
pub use calibration::calibration;
pub use comparison::{comparison, comparison_markdown};
pub use gates::{gates, gates_markdown};
pub use markdown::markdown;
pub use terminal::{Style, accounting_table, terminal};
pub use trend::{date, trend};

use super::View;
use crate::units::{counted, format_micros};
use crate::verdict::Verdict;

/// One column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Column {
    /// The heading, with its unit where it has one.
    heading: &'static str,
    /// Whether it holds numbers, which stand at the right.
    numbers: bool,
    /// The larger, the sooner it is left out; 0 stays.
    spare: u8,
}

const fn words(heading: &'static str) -> Column {
    Column { heading, numbers: false, spare: 0 }
}

const fn numbers(heading: &'static str, spare: u8) -> Column {
    Column { heading, numbers: true, spare }
}

/// What stands where nothing was measured.
const NOT_MEASURED: &str = "-";

/// Rows of texts below headings.
struct Grid {
    columns: Vec<Column>,
    /// How many columns at the left name what a row is about: these are not repeated from row to row, and wrapped
    /// where there is no room.
    labels: usize,
    rows: Vec<Vec<String>>,
}

impl Grid {
    /// Without the columns that hold no measurement in any row, and without `reps` where all are 1.
    fn without_idle_columns(self) -> Self {
        let idle = |at: usize| {
            let same = |text: &str| self.rows.iter().all(|row| row[at] == text);
            let column = self.columns[at];
            column.spare > 0 && (same(NOT_MEASURED) || column.heading == "reps" && same("1"))
        };
        let kept: Vec<usize> = (0..self.columns.len()).filter(|at| !idle(*at)).collect();
        self.only(&kept)
    }

    /// Without the column that can best be spared; `None` when all must stay.
    fn without_spare_column(&self) -> Option<(Self, &'static str)> {
        let spare =
            self.columns.iter().max_by_key(|column| column.spare).filter(|column| column.spare > 0)?;
        let kept: Vec<usize> = (0..self.columns.len()).filter(|at| self.columns[*at] != *spare).collect();
        Some((self.only(&kept), spare.heading))
    }

    fn only(&self, kept: &[usize]) -> Self {
        let pick = |row: &Vec<String>| kept.iter().map(|at| row[*at].clone()).collect();
        Self {
            columns: kept.iter().map(|at| self.columns[*at]).collect(),
            labels: self.labels,
            rows: self.rows.iter().map(pick).collect(),
        }
    }
}

/// The first line: what ran, and the verdict with its first reason.
fn headline(view: &View) -> String {
    let why = view.judged.why.as_ref().map_or_else(String::new, |why| format!(" ({why})"));
    let held = view.judged.verdict == Verdict::Held;
    let what = if held { "exclusion held" } else { view.judged.verdict.word() };
    format!("{}: {what}{why}", view.title)
}

/// What a verdict of held rests on, and what it does not say: that nobody believed that it held what the ensemble had
/// given to another. Nothing where neither is known.
fn evidence(view: &View) -> Option<String> {
    let evidence = view.evidence.as_ref().filter(|_| view.judged.verdict == Verdict::Held)?;
    let broken =
        || view.cells.iter().flat_map(|cell| &cell.repetitions).filter_map(|one| one.broken.as_ref());
    let zombies: u64 = broken().map(|broken| broken.zombies).sum();
    if zombies == 0 {
        return Some(format!("Evidence: {evidence}."));
    }
    let longest = broken().map(|broken| broken.longest_unsafe_us).max().unwrap_or(0);
    Some(format!(
        "Evidence: {evidence}. Zombies: {} made while a holder without a live session was inside, for up to {}; \
         --strict counts that as a violation.",
        counted(zombies, "entry was", "entries were"),
        format_micros(longest)
    ))
}
