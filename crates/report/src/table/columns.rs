//! Tables from rows. Each column has a heading, a function that reads its value from a row, and an explanation.

use crate::document::{Block, Column, ExplainedTable, Table, Value};
use zklockbench_core::measure::Unit;
use zklockbench_record::FigureEntry;

/// Columns of a table, in order.
pub struct Columns<'c, R>(Vec<Entry<'c, R>>);

struct Entry<'c, R> {
    column: Column,
    explained: String,
    read: Box<dyn Fn(&R) -> Value + 'c>,
}

impl<'c, R> Columns<'c, R> {
    #[expect(clippy::new_without_default, reason = "a table without columns is no default")]
    pub fn new() -> Self {
        Self(Vec::new())
    }

    fn with<V: Into<Value>>(
        mut self,
        heading: &'static str,
        numbers: bool,
        read: impl Fn(&R) -> V + 'c,
    ) -> Self {
        let column = Column { heading, numbers, spare: 0 };
        let read = Box::new(move |row: &R| read(row).into());
        self.0.push(Entry { column, explained: String::new(), read });
        self
    }

    pub fn words<V: Into<Value>>(self, heading: &'static str, read: impl Fn(&R) -> V + 'c) -> Self {
        self.with(heading, false, read)
    }

    pub fn numbers<V: Into<Value>>(self, heading: &'static str, read: impl Fn(&R) -> V + 'c) -> Self {
        self.with(heading, true, read)
    }

    /// Adds the column of a metric, with its heading and explanation.
    pub fn metric(self, entry: &FigureEntry, read: impl Fn(&R) -> Value + 'c) -> Self {
        let Some(column) = entry.column else { return self };
        self.numbers(column.heading, read).spare(column.spare).explained(column.explained)
    }

    /// Sets the rank of the last column for omission if space is short; the largest rank goes first.
    pub fn spare(mut self, spare: u8) -> Self {
        if let Some(entry) = self.0.last_mut() {
            entry.column.spare = spare;
        }
        self
    }

    /// Sets the explanation of the last column.
    pub fn explained(mut self, text: impl Into<String>) -> Self {
        if let Some(entry) = self.0.last_mut() {
            entry.explained = text.into();
        }
        self
    }

    /// The table of these rows. The first `labels` columns identify a row.
    pub fn grid(self, caption: impl Into<String>, labels: usize, rows: impl IntoIterator<Item = R>) -> Grid {
        let values = |row: R| self.0.iter().map(|entry| (entry.read)(&row)).collect::<Vec<Value>>();
        let rows = rows.into_iter().map(values).collect();
        let columns = self.0.iter().map(|entry| entry.column).collect();
        let explained = self.0.iter().filter(|entry| !entry.explained.is_empty());
        Grid {
            caption: caption.into(),
            table: Table { columns, labels, rows },
            explained: explained.map(|entry| (entry.column.heading, entry.explained.clone())).collect(),
            note: String::new(),
        }
    }
}

/// A table with explanations of its columns.
#[derive(Debug, Clone)]
pub struct Grid {
    pub caption: String,
    pub table: Table,
    explained: Vec<(&'static str, String)>,
    /// Sentences about the table as a whole.
    note: String,
}

impl Grid {
    pub fn noted(self, note: impl Into<String>) -> Self {
        Self { note: note.into(), ..self }
    }

    /// Removes columns whose values are all missing or zero; the note lists the latter.
    pub fn lean(self) -> Self {
        let (table, zeros) = self.table.without_idle_columns().without_zeros();
        let zeros =
            if zeros.is_empty() { String::new() } else { format!("0 in every row: {}.", zeros.join(", ")) };
        let note = format!("{} {zeros}", self.note).trim().to_owned();
        Self { table, note, ..self }
    }

    pub fn is_empty(&self) -> bool {
        self.table.rows.is_empty()
    }

    /// Explanations of the columns, except the omitted ones.
    pub fn legend(&self, left_out: &[&str]) -> String {
        let is_shown = |heading: &str| {
            self.table.columns.iter().any(|column| column.heading == heading) && !left_out.contains(&heading)
        };
        let explained: Vec<String> = self
            .explained
            .iter()
            .filter(|(heading, _)| is_shown(heading))
            .map(|(heading, text)| format!("{heading}: {text}"))
            .collect();
        let has_gaps = self.table.rows.iter().flatten().any(Value::is_not_measured);
        let explained = explained.into_iter().chain(has_gaps.then(|| "-: not measured".to_owned()));
        let explained = explained.collect::<Vec<_>>().join("; ");
        let end = if explained.is_empty() { "" } else { "." };
        format!("{explained}{end} {}", self.note).trim().to_owned()
    }
}

impl From<Grid> for ExplainedTable {
    fn from(grid: Grid) -> Self {
        let legend = grid.legend(&[]);
        Self::new(grid.caption, grid.table, legend)
    }
}

impl From<Grid> for Block {
    fn from(grid: Grid) -> Self {
        Self::Table(grid.into())
    }
}

/// A metric's value for tables.
pub(crate) fn metric_value(entry: &FigureEntry, value: f64) -> Value {
    match entry.card.unit {
        Unit::Micros => Value::Duration(value),
        _ if entry.column.is_some_and(|column| column.in_percent) => Value::Share(value),
        Unit::PerSecond | Unit::Amount | Unit::Bytes | Unit::Share => Value::Amount(value),
    }
}
