//! What was counted: requests by kind, on the wire, and what the client counted beside the cost model and the servers.

use std::collections::{BTreeMap, BTreeSet};

use super::{ExplainedTable, Table, numbers, words};
use crate::View;
use crate::document::{Column, Tone, Value};
use crate::view::{AccountingRow, CrossCheck, TwoCounts};
use zklockbench_core::measure::RequestKind;
use zklockbench_core::units::number;
use zklockbench_record::{CountedTurns, Counting};

pub(super) const HOW: &str = "counted on the wire, in a trial of its own in which nothing is timed";

pub(super) struct CountedRow<'a> {
    pub labels: Vec<Value>,
    pub counting: &'a Counting,
}

/// A row for each of these, with a column for each kind of request that occurs in any; `None` where nothing was counted.
pub(super) fn by_kind(labels: Vec<Column>, rows: &[CountedRow<'_>]) -> Option<ExplainedTable> {
    (!rows.is_empty())
        .then(|| ExplainedTable::new("Requests by kind", by_kind_table(labels, rows), by_kind_legend(rows)))
}

fn by_kind_table(labels: Vec<Column>, rows: &[CountedRow<'_>]) -> Table {
    let counts = || rows.iter().map(|row| &row.counting.counted);
    let kinds: Vec<RequestKind> = RequestKind::ALL
        .into_iter()
        .filter(|kind| counts().any(|counts| counts.requests.get(*kind) > 0))
        .collect();
    let has_multis = counts().any(|counts| !counts.parts_of_multis.is_empty());
    let has_others = counts().any(|counts| !counts.other_requests.is_empty());
    let row = |row: &CountedRow<'_>| {
        let counts = &row.counting.counted;
        let per = |times: u64| times as f64 / counts.acquired.max(1) as f64;
        let each = |times: u64| Value::Amount(per(times));
        let by_name = |named: &BTreeMap<String, u64>| {
            let told = named.iter().map(|(name, times)| format!("{} {name}", number(per(*times))));
            let told: Vec<String> = told.collect();
            Value::or_missing((!told.is_empty()).then(|| told.join(", ")), Value::Text)
        };
        let own = row.labels.iter().cloned().chain([Value::Count(counts.acquired)]);
        let kinds = kinds.iter().map(|kind| each(counts.requests.get(*kind)));
        let multis = has_multis.then(|| by_name(&counts.parts_of_multis));
        let others = has_others.then(|| by_name(&counts.other_requests));
        let sums = [
            each(counts.all_requests()),
            each(counts.notifications.total()),
            Value::or_missing(row.counting.by_release, each),
            each(counts.bytes_sent + counts.bytes_received),
        ];
        own.chain(kinds).chain(multis).chain(others).chain(sums).collect()
    };
    let places = labels.len();
    let columns = labels
        .into_iter()
        .chain([numbers("acquisitions", 4)])
        .chain(kinds.iter().map(|kind| numbers(heading(*kind), 0)))
        .chain(has_multis.then(|| words("in multis")))
        .chain(has_others.then(|| words("others")))
        .chain([
            numbers("requests", 1),
            numbers("notifications", 1),
            numbers("fan-out", 2),
            numbers("bytes", 3),
        ])
        .collect();
    Table { columns, labels: places, rows: rows.iter().map(row).collect() }
}

fn by_kind_legend(rows: &[CountedRow<'_>]) -> String {
    let turns: BTreeSet<&str> = rows.iter().map(|row| row.counting.turns.told()).collect();
    let all = rows.iter().filter(|row| row.counting.turns == CountedTurns::All).count();
    let told = match turns.len() {
        1 => turns.into_iter().collect(),
        _ => format!("each contender's first turn left out, but not in {all} of the rows"),
    };
    format!("Requests by kind, per acquisition: {HOW}; {told}. A watch: the read sets one.")
}

const fn heading(kind: RequestKind) -> &'static str {
    match kind {
        RequestKind::Create => "create",
        RequestKind::Delete => "delete",
        RequestKind::GetChildren => "children",
        RequestKind::GetChildrenWatch => "children, watch",
        RequestKind::GetData => "data",
        RequestKind::GetDataWatch => "data, watch",
        RequestKind::Exists => "exists",
        RequestKind::ExistsWatch => "exists, watch",
        RequestKind::SetData => "set data",
        RequestKind::Multi => "multi",
        RequestKind::Sync => "sync",
        RequestKind::RemoveWatches => "remove watches",
    }
}

impl Table {
    /// The three-way check: client, cost model, servers, count by count.
    pub(crate) fn accounting(view: &View<'_>) -> Self {
        let row = |row: AccountingRow| {
            vec![
                row.strategy.into(),
                Value::Count(row.contenders as u64),
                row.line.what.name().into(),
                counted(row.line.client),
                counted(row.line.expected),
                counted(row.line.servers),
                agree(row.agrees),
            ]
        };
        let columns = vec![
            words("strategy"),
            numbers("contenders", 0),
            words("counted"),
            numbers("client", 0),
            numbers("cost model", 0),
            numbers("servers", 0),
            words("agree"),
        ];
        Self { columns, labels: 1, rows: view.accounting().into_iter().map(row).collect() }
    }

    /// Client against servers in short: a row for each strategy and contender count.
    pub(super) fn cross_check(view: &View<'_>) -> Self {
        let row = |check: CrossCheck| {
            let agrees = check.counts.iter().flatten().map(|line| line.agrees).reduce(|all, one| all && one);
            let [reads, writes, notifications] = check.counts.map(both);
            let contenders = Value::Count(check.contenders as u64);
            vec![check.strategy.into(), contenders, reads, writes, notifications, agree(agrees)]
        };
        let columns = vec![
            words("client / servers"),
            numbers("contenders", 0),
            numbers("reads", 0),
            numbers("writes", 0),
            numbers("notifications", 0),
            words("agree"),
        ];
        Self { columns, labels: 1, rows: view.cross_checks().into_iter().map(row).collect() }
    }
}

fn counted(value: Option<u64>) -> Value {
    Value::or_missing(value, Value::Count)
}

fn both(line: Option<TwoCounts>) -> Value {
    Value::or_missing(line, |line| Value::from(format!("{} / {}", line.client, line.servers)))
}

fn agree(agrees: Option<bool>) -> Value {
    Value::or_missing(agrees, |agrees| match agrees {
        true => Value::verdict("yes", Tone::Plain),
        false => Value::verdict("NO", Tone::Bad),
    })
}
