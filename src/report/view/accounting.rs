//! Client, cost model and servers side by side.

use super::accounting_line::AccountingLine;
use super::{Cell, View};

/// One line of the three-way check of a cell: the sums over its repetitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountingRow {
    /// The strategy's label.
    pub strategy: String,
    /// Contenders.
    pub contenders: usize,
    /// The sums. They agree only if each repetition's numbers did.
    pub line: AccountingLine,
}

impl View {
    /// The three-way check of every cell, what by what.
    #[must_use]
    pub fn accounting(&self) -> Vec<AccountingRow> {
        let rows_of = |cell: &Cell| -> Vec<AccountingRow> {
            let row = |line| AccountingRow {
                strategy: self.label(cell).to_owned(),
                contenders: cell.contenders,
                line,
            };
            sums(cell).into_iter().map(row).collect()
        };
        self.cells.iter().flat_map(rows_of).collect()
    }
}

fn sums(cell: &Cell) -> Vec<AccountingLine> {
    let mut whats: Vec<&str> = Vec::new();
    for line in cell.repetitions.iter().flat_map(|repetition| &repetition.accounting) {
        if !whats.contains(&line.what.as_str()) {
            whats.push(&line.what);
        }
    }
    whats.into_iter().map(|what| sum(cell, what)).collect()
}

/// Adds up one line. A number that one repetition lacks is missing from the sum too: a part would look like
/// a disagreement.
fn sum(cell: &Cell, what: &str) -> AccountingLine {
    let lines: Vec<&AccountingLine> =
        cell.repetitions.iter().flat_map(|r| &r.accounting).filter(|line| line.what == what).collect();
    let total = |number: fn(&AccountingLine) -> Option<u64>| lines.iter().map(|line| number(line)).sum();
    AccountingLine {
        what: what.to_owned(),
        client: total(|line| line.client),
        expected: total(|line| line.expected),
        servers: total(|line| line.servers),
        agrees: lines.iter().filter_map(|line| line.agrees).reduce(|all, one| all && one),
    }
}
