//! A table with what is said of it.

use super::Table;

/// A table, what it shows in a few words, and what its columns are.
pub(in crate::report) struct ExplainedTable {
    pub caption: &'static str,
    pub table: Table,
    pub legend: String,
}

impl ExplainedTable {
    /// Columns that are 0 everywhere are told instead of shown.
    pub(super) fn without_zeros(caption: &'static str, table: Table, legend: String) -> Self {
        let (table, zeros) = table.without_zeros();
        let zeros =
            if zeros.is_empty() { String::new() } else { format!(" 0 in every row: {}.", zeros.join(", ")) };
        Self { caption, table, legend: legend + &zeros }
    }
}
