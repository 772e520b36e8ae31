//! What was counted, by whom, and whether they agree.

use super::Grid;
use super::columns::{Column, NOT_MEASURED};
use crate::report::View;
use crate::report::view::{AccountingLine, AccountingRow, CrossCheck};

impl Grid {
    /// The three-way check: client, cost model, servers, count by count.
    pub(super) fn accounting(view: &View) -> Self {
        let row = |row: AccountingRow| {
            vec![
                row.strategy,
                row.contenders.to_string(),
                row.line.what,
                number(row.line.client),
                number(row.line.expected),
                number(row.line.servers),
                agree(row.line.agrees).to_owned(),
            ]
        };
        let columns = vec![
            column("strategy", false),
            column("contenders", true),
            column("counted", false),
            column("client", true),
            column("cost model", true),
            column("servers", true),
            column("agree", false),
        ];
        Self { columns, labels: 1, rows: view.accounting().into_iter().map(row).collect() }
    }

    /// Client against servers in short: a row for each strategy and contender count.
    pub(super) fn cross_check(view: &View) -> Self {
        let row = |check: CrossCheck| {
            let lines = [&check.reads, &check.writes, &check.notifications];
            let agrees = lines.iter().filter_map(|line| line.as_ref()?.agrees).reduce(|all, one| all && one);
            let [reads, writes, notifications] = lines.map(|line| both(line.as_ref()));
            let contenders = check.contenders.to_string();
            vec![check.strategy, contenders, reads, writes, notifications, agree(agrees).to_owned()]
        };
        let columns = vec![
            column("client / servers", false),
            column("contenders", true),
            column("reads", true),
            column("writes", true),
            column("notifications", true),
            column("agree", false),
        ];
        Self { columns, labels: 1, rows: view.cross_checks().into_iter().map(row).collect() }
    }
}

const fn column(heading: &'static str, numbers: bool) -> Column {
    Column { heading, numbers, spare: 0 }
}

fn number(value: Option<u64>) -> String {
    value.map_or_else(|| NOT_MEASURED.to_owned(), |number| number.to_string())
}

fn both(line: Option<&AccountingLine>) -> String {
    line.map_or_else(
        || NOT_MEASURED.to_owned(),
        |line| format!("{} / {}", number(line.client), number(line.servers)),
    )
}

fn agree(agrees: Option<bool>) -> &'static str {
    match agrees {
        Some(true) => "yes",
        Some(false) => "NO",
        None => NOT_MEASURED,
    }
}
