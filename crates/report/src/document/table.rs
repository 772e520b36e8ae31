//! Tables of typed values, built from rows. A column has a heading, an explanation and a function that reads
//! its value.

use super::Value;
use crate::View;
use crate::view::Cell;
use zklockbench_record::FigureEntry;

/// Heading of a column, including the unit if there is one.
type Heading = &'static str;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    pub heading: Heading,
    /// Whether the column contains numbers, which are right-aligned.
    pub numbers: bool,
    /// Order of omission if space is short: highest first. A column with 0 is never omitted.
    pub spare: u8,
}

/// Returns a column of text.
pub const fn words(heading: Heading) -> Column {
    Column { heading, numbers: false, spare: 0 }
}

/// A table with a short caption and explanations. A table without rows is not shown.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    pub caption: String,
    pub columns: Vec<Column>,
    /// Number of columns on the left that identify a row. Repeated labels are left blank.
    pub labels: usize,
    pub rows: Vec<Vec<Value>>,
    /// Explanations of columns by their headings, and of [`GAP`].
    explained: Vec<(Heading, String)>,
    /// Sentences about the table as a whole.
    note: String,
}

/// Placeholder for missing values.
pub const GAP: &str = "-";

impl Table {
    pub fn new(columns: Vec<Column>, labels: usize, rows: Vec<Vec<Value>>) -> Self {
        Self { caption: String::new(), columns, labels, rows, explained: Vec::new(), note: String::new() }
    }

    /// Replaces the caption and all explanations.
    pub fn captioned(self, caption: impl Into<String>, note: &str) -> Self {
        Self { caption: caption.into(), explained: Vec::new(), note: note.to_owned(), ..self }
    }

    pub fn noted(self, note: impl Into<String>) -> Self {
        Self { note: note.into(), ..self }
    }

    /// Removes all rows unless `is_shown`.
    pub fn shown_if(mut self, is_shown: bool) -> Self {
        self.rows.retain(|_| is_shown);
        self
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the explanations of the columns, except the omitted ones.
    pub fn legend(&self, left_out: &[&str]) -> String {
        let is_shown = |heading: &str| match heading {
            GAP => self.rows.iter().flatten().any(Value::is_not_measured),
            _ => self.columns.iter().any(|one| one.heading == heading) && !left_out.contains(&heading),
        };
        let explained = self.explained.iter().filter(|(heading, _)| is_shown(heading));
        let explained: Vec<String> = explained.map(|(heading, text)| format!("{heading}: {text}")).collect();
        let end = if explained.is_empty() { "" } else { "." };
        format!("{}{end} {}", explained.join("; "), self.note).trim().to_owned()
    }

    /// Removes columns whose values are all missing or zero. The note lists columns of zeros.
    pub fn lean(self) -> Self {
        let mut table = self.without_idle_columns();
        for (rows, has_gaps) in [("every row", false), ("every row with a value", true)] {
            let is_zero = |value: &Value| value.is_zero() || has_gaps && value.is_not_measured();
            let zeros = table.remove(|table, at| table.columns[at].spare > 0 && table.all(at, is_zero));
            if !zeros.is_empty() {
                table.note = format!("{} 0 in {rows}: {}.", table.note, zeros.join(", ")).trim().to_owned();
            }
        }
        table
    }

    /// Removes columns without measurements, and `reps` if all are 1.
    pub fn without_idle_columns(mut self) -> Self {
        let one = Value::OutOf(1, 1);
        self.remove(|table, at| {
            let is_idle = |value: &Value| *value == one && table.columns[at].heading == "reps";
            at >= table.labels && table.all(at, |value| value.is_not_measured() || is_idle(value))
        });
        self
    }

    /// Removes the most dispensable column and returns its heading; `None` if all columns are required.
    pub fn remove_spare_column(&mut self) -> Option<Heading> {
        let is_spare = |at: &usize| self.columns[*at].spare > 0;
        let rank = |at: &usize| (self.all(*at, Value::is_not_measured), self.columns[*at].spare);
        let spare = (0..self.columns.len()).filter(is_spare).max_by_key(rank)?;
        self.remove(|_, at| at == spare).pop()
    }

    /// Removes the columns that identify the rows.
    pub fn without_labels(mut self) -> Self {
        self.remove(|table, at| at < table.labels);
        Self { labels: 0, ..self }
    }

    /// Returns whether all values of the column have this property.
    fn all(&self, at: usize, has: impl Fn(&Value) -> bool) -> bool {
        self.rows.iter().all(|row| has(&row[at]))
    }

    /// Removes the columns with this property, and returns their headings.
    fn remove(&mut self, is_removed: impl Fn(&Self, usize) -> bool) -> Vec<Heading> {
        let removed: Vec<usize> = (0..self.columns.len()).filter(|at| is_removed(self, *at)).collect();
        let headings = removed.iter().map(|at| self.columns[*at].heading).collect();
        for at in removed.into_iter().rev() {
            self.columns.remove(at);
            self.rows.iter_mut().for_each(|row| drop(row.remove(at)));
        }
        headings
    }
}

/// Columns of a table, in order, with functions that read their values from a row.
pub struct Columns<'c, R> {
    columns: Vec<(Column, Read<'c, R>)>,
    explained: Vec<(Heading, String)>,
}

type Read<'c, R> = Box<dyn Fn(&R) -> Value + 'c>;

impl<'c, R> Columns<'c, R> {
    #[expect(clippy::new_without_default, reason = "a table needs columns")]
    pub fn new() -> Self {
        Self { columns: Vec::new(), explained: Vec::new() }
    }

    /// Returns the columns for the strategy and the contender count of a row's cell.
    pub fn of_cells<'v: 'c>(view: &'c View<'_>, cell: fn(&R) -> &'v Cell<'v>) -> Self
    where
        R: 'c,
    {
        let columns = Self::new().words("strategy", move |row| view.label(cell(row)));
        columns.numbers("contenders", 0, move |row| cell(row).contenders)
    }

    pub fn column<V: Into<Value>>(mut self, column: Column, read: impl Fn(&R) -> V + 'c) -> Self {
        self.columns.push((column, Box::new(move |row| read(row).into())));
        self
    }

    pub fn words<V: Into<Value>>(self, heading: Heading, read: impl Fn(&R) -> V + 'c) -> Self {
        self.column(words(heading), read)
    }

    pub fn numbers<V: Into<Value>>(self, heading: Heading, spare: u8, read: impl Fn(&R) -> V + 'c) -> Self {
        self.column(Column { heading, numbers: true, spare }, read)
    }

    /// Adds the column of a metric, with its heading and explanation.
    pub fn metric<V: Into<Value>>(self, entry: &FigureEntry, read: impl Fn(&R) -> V + 'c) -> Self {
        match entry.column {
            Some(column) => self.numbers(column.heading, column.spare, read).explained(column.explained),
            None => self,
        }
    }

    /// Explains the last column.
    pub fn explained(mut self, text: impl Into<String>) -> Self {
        let (heading, text) = (self.columns.last().map(|(column, _)| column.heading), text.into());
        self.explained.retain(|(other, _)| Some(*other) != heading);
        self.explained.extend(heading.filter(|_| !text.is_empty()).map(|heading| (heading, text)));
        self
    }

    /// Returns the table of these rows. The first `labels` columns identify a row.
    pub fn table(
        self,
        caption: impl Into<String>,
        labels: usize,
        rows: impl IntoIterator<Item = R>,
    ) -> Table {
        let values = |row: R| self.columns.iter().map(|(_, read)| read(&row)).collect();
        let rows = rows.into_iter().map(values).collect();
        let columns = self.columns.iter().map(|(column, _)| *column).collect();
        let explained = [self.explained, vec![(GAP, "not measured".to_owned())]].concat();
        Table { caption: caption.into(), explained, ..Table::new(columns, labels, rows) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn note_on_columns_of_zeros_distinguishes_rows_without_a_value() {
        let table = Columns::<Option<u64>>::new()
            .numbers("row", 0, |_| 1_u64)
            .numbers("zeros", 1, |_| 0_u64)
            .numbers("gaps", 1, |row| *row)
            .table("", 1, [Some(0), None])
            .lean();
        assert_eq!(table.legend(&[]), "0 in every row: zeros. 0 in every row with a value: gaps.");
    }
}
