//! Client, cost model and servers side by side.

use super::{AccountingLine, Cell, View};

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

/// What the client counted in one cell against what the servers did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrossCheck {
    /// The strategy's label.
    pub strategy: String,
    /// Contenders.
    pub contenders: usize,
    /// Reads that succeeded.
    pub reads: Option<AccountingLine>,
    /// Writes that succeeded.
    pub writes: Option<AccountingLine>,
    /// Notifications of all kinds.
    pub notifications: Option<AccountingLine>,
}

impl View {
    /// Client against servers, cell by cell; empty where no server could be asked.
    #[must_use]
    pub fn cross_checks(&self) -> Vec<CrossCheck> {
        let check = |cell: &Cell| {
            let lines = sums(cell);
            let of = |kind: &str| together(lines.iter().filter(|line| line.what.starts_with(kind)));
            CrossCheck {
                strategy: self.label(cell).to_owned(),
                contenders: cell.contenders,
                reads: of("reads"),
                writes: of("writes"),
                notifications: of("notifications: "),
            }
        };
        let asked = |check: &CrossCheck| {
            [&check.reads, &check.writes, &check.notifications].into_iter().any(Option::is_some)
        };
        self.cells.iter().map(check).filter(asked).collect()
    }

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

/// Several lines that the servers counted as one; none when they counted one of them not.
fn together<'a>(lines: impl Iterator<Item = &'a AccountingLine> + Clone) -> Option<AccountingLine> {
    let (client, servers) = (
        lines.clone().map(|line| line.client).sum::<Option<u64>>()?,
        lines.clone().map(|line| line.servers).sum::<Option<u64>>()?,
    );
    Some(AccountingLine {
        what: lines.clone().next()?.what.clone(),
        client: Some(client),
        expected: None,
        servers: Some(servers),
        agrees: lines.filter_map(|line| line.agrees).reduce(|all, one| all && one),
    })
}
