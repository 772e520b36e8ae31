//! Tables of values.

use super::Value;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// The heading, with its unit where it has one.
    pub heading: &'static str,
    /// Whether it holds numbers, which stand at the right.
    pub numbers: bool,
    /// The larger, the sooner it is left out where there is little room; 0 stays.
    pub spare: u8,
}

pub const fn words(heading: &'static str) -> Column {
    Column { heading, numbers: false, spare: 0 }
}

pub const fn numbers(heading: &'static str, spare: u8) -> Column {
    Column { heading, numbers: true, spare }
}

/// Rows of values below headings.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    pub columns: Vec<Column>,
    /// How many columns at the left name what a row is about: these are not repeated from row to row, and wrapped where
    /// there is no room.
    pub labels: usize,
    pub rows: Vec<Vec<Value>>,
}

impl Table {
    /// Of texts; a dash is a missing value.
    pub fn of_texts(
        columns: Vec<Column>,
        labels: usize,
        rows: impl IntoIterator<Item = Vec<String>>,
    ) -> Self {
        let value = |text: String| if text == "-" { Value::NOT_MEASURED } else { Value::from(text) };
        let rows = rows.into_iter().map(|row| row.into_iter().map(value).collect()).collect();
        Self { columns, labels, rows }
    }

    /// Without the columns that hold no measurement in any row, and without `reps` where all are 1.
    pub fn without_idle_columns(self) -> Self {
        let idle = |at: usize| {
            let column = self.columns[at];
            let is_idle = |value: &Value| {
                value.is_not_measured()
                    || column.heading == "reps" && *value == (Value::OutOf { part: 1, whole: 1 })
            };
            column.spare > 0 && self.rows.iter().all(|row| is_idle(&row[at]))
        };
        let kept: Vec<usize> = (0..self.columns.len()).filter(|at| !idle(*at)).collect();
        self.only(&kept)
    }

    /// Without the columns that can be spared and are 0 wherever they were measured, and their headings.
    pub fn without_zeros(self) -> (Self, Vec<&'static str>) {
        let is_zero = |at: usize| {
            let mut values =
                self.rows.iter().map(|row| &row[at]).filter(|value| !value.is_not_measured()).peekable();
            self.columns[at].spare > 0 && values.peek().is_some() && values.all(Value::is_zero)
        };
        let (zeros, kept): (Vec<usize>, Vec<usize>) = (0..self.columns.len()).partition(|at| is_zero(*at));
        (self.only(&kept), zeros.iter().map(|at| self.columns[*at].heading).collect())
    }

    /// Without the column that can best be spared; `None` when all must stay.
    pub fn without_spare_column(&self) -> Option<(Self, &'static str)> {
        let spare =
            self.columns.iter().max_by_key(|column| column.spare).filter(|column| column.spare > 0)?;
        let kept: Vec<usize> = (0..self.columns.len()).filter(|at| self.columns[*at] != *spare).collect();
        Some((self.only(&kept), spare.heading))
    }

    fn only(&self, kept: &[usize]) -> Self {
        let pick = |row: &Vec<Value>| kept.iter().map(|at| row[*at].clone()).collect();
        Self {
            columns: kept.iter().map(|at| self.columns[*at]).collect(),
            labels: self.labels,
            rows: self.rows.iter().map(pick).collect(),
        }
    }
}
