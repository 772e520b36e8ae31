//! The table, for a terminal and as Markdown, and the lines below it.

mod columns;
mod counts;
mod faults;
mod markdown;
mod terminal;

pub use markdown::markdown;
pub use terminal::{Style, accounting_table, terminal};

use columns::{COLUMNS, Column};

use super::View;

/// Rows of texts below headings.
struct Grid {
    columns: Vec<Column>,
    /// How many columns at the left name what a row is about: these are not repeated from row to row, and wrapped
    /// where there is no room.
    labels: usize,
    rows: Vec<Vec<String>>,
}

impl Grid {
    /// The main table: one row for each strategy and contender count.
    fn of(view: &View) -> Self {
        let rows = view.cells.iter().map(|cell| columns::row(view, cell).to_vec()).collect();
        Self { columns: COLUMNS.to_vec(), labels: 1, rows }.without_idle_columns()
    }

    /// Without the columns that hold no measurement in any row, and without `reps` where all are 1.
    fn without_idle_columns(self) -> Self {
        let idle = |at: usize| {
            let same = |text: &str| self.rows.iter().all(|row| row[at] == text);
            let column = self.columns[at];
            column.spare > 0 && (same(columns::NOT_MEASURED) || column.heading == "reps" && same("1"))
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

/// What the table's figures are, in one sentence.
fn legend(view: &View) -> String {
    let repeated = view.cells.iter().any(|cell| cell.repetitions.len() > 1);
    let figures = if repeated { "Medians over the sound repetitions. " } else { "" };
    format!(
        "{figures}acq: acquisition; fan-out: notifications caused by a release, per release; -: not measured."
    )
}

/// What the figures of the table of faults are.
fn faults_legend(view: &View) -> String {
    let several = view.fault_sets().iter().any(|set| set.single().is_none());
    [faults::LEGEND, if several { faults::SEVERAL } else { "" }].join(" ").trim_end().to_owned()
}

/// The first line: what ran, and the verdict with its first reason.
fn headline(view: &View) -> String {
    let why = view.verdict.reasons().first().map_or_else(String::new, |why| format!(" ({why})"));
    format!("{}: {}{why}", view.title, view.verdict.word())
}
