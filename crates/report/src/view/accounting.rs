//! Counts of client, cost model and servers side by side.

use super::{Cell, View};
use zklockbench_core::units::grouped;
use zklockbench_record::{Accounting, Counted};

/// One line of a cell's three-way check, summed over the repetitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountingRow {
    pub strategy: String,
    pub contenders: usize,
    pub line: Accounting,
    /// Whether the counts agree in each repetition; `None` if there is only one count.
    pub agrees: Option<bool>,
}

impl View<'_> {
    /// Returns the three-way check of every cell, line by line.
    pub fn accounting(&self) -> Vec<AccountingRow> {
        let rows_of = |cell: &Cell<'_>| {
            let mut lines = grouped(cell.all().flat_map(|one| &one.accounting).map(|line| (line.what, line)));
            lines.sort_by_key(|(what, _)| *what);
            let row = |(what, lines): (Counted, Vec<&Accounting>)| {
                // If a repetition lacks a count, the sum is also missing, because a partial sum would look like a
                // disagreement.
                let total =
                    |number: fn(&Accounting) -> Option<u64>| lines.iter().map(|one| number(one)).sum();
                let client = total(|line| line.client);
                let (expected, servers) = (total(|line| line.expected), total(|line| line.servers));
                AccountingRow {
                    strategy: self.label(cell).to_owned(),
                    contenders: cell.contenders,
                    line: Accounting { what, client, expected, servers },
                    agrees: lines.iter().filter_map(|line| line.agrees()).reduce(|all, one| all && one),
                }
            };
            lines.into_iter().map(row).collect::<Vec<_>>()
        };
        self.cells.iter().flat_map(rows_of).collect()
    }
}
