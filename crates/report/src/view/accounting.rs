//! Client, cost model and servers side by side.

use std::collections::BTreeSet;

use super::{Cell, View};
use zklockbench_record::{Accounting, Counted};

/// One line of the three-way check of a cell: the sums over its repetitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountingRow {
    pub strategy: String,
    pub contenders: usize,
    pub line: Accounting,
    /// Whether the numbers of each repetition agree; `None` where only one of them counted.
    pub agrees: Option<bool>,
}

impl View<'_> {
    /// The three-way check of every cell, what by what.
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

/// What was counted, in the order of the table.
fn whats(cell: &Cell<'_>) -> BTreeSet<Counted> {
    cell.all().flat_map(|one| &one.accounting).map(|line| line.what).collect()
}

fn lines<'c>(cell: &'c Cell<'_>, what: Counted) -> impl Iterator<Item = &'c Accounting> {
    cell.all().flat_map(|one| &one.accounting).filter(move |line| line.what == what)
}

/// Adds up one line. A number that one repetition lacks is missing from the sum: a part would look like a disagreement.
fn sum(cell: &Cell<'_>, what: Counted) -> Accounting {
    let total = |number: fn(&Accounting) -> Option<u64>| lines(cell, what).map(number).sum();
    Accounting {
        what,
        client: total(|line| line.client),
        expected: total(|line| line.expected),
        servers: total(|line| line.servers),
    }
}
