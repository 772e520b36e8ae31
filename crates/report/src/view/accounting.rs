//! Counts of client, cost model and servers side by side.

use std::collections::BTreeSet;

use super::{Cell, View};
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
        let rows_of = |cell: &Cell<'_>| -> Vec<AccountingRow> {
            let row = |what| AccountingRow {
                strategy: self.label(cell).to_owned(),
                contenders: cell.contenders,
                line: sum(cell, what),
                agrees: lines(cell, what).filter_map(Accounting::agrees).reduce(|all, one| all && one),
            };
            whats(cell).into_iter().map(row).collect()
        };
        self.cells.iter().flat_map(rows_of).collect()
    }
}

/// Returns the counted quantities, in table order.
fn whats(cell: &Cell<'_>) -> BTreeSet<Counted> {
    cell.all().flat_map(|one| &one.accounting).map(|line| line.what).collect()
}

fn lines<'c>(cell: &'c Cell<'_>, what: Counted) -> impl Iterator<Item = &'c Accounting> {
    cell.all().flat_map(|one| &one.accounting).filter(move |line| line.what == what)
}

/// Sums one line. If a repetition lacks a count, the sum is also missing, because a partial sum would look
/// like a disagreement.
fn sum(cell: &Cell<'_>, what: Counted) -> Accounting {
    let total = |number: fn(&Accounting) -> Option<u64>| lines(cell, what).map(number).sum();
    Accounting {
        what,
        client: total(|line| line.client),
        expected: total(|line| line.expected),
        servers: total(|line| line.servers),
    }
}
