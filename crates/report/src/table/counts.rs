//! Tables of counts: requests by kind on the wire, and the client's counts next to the cost model and the
//! servers.

use std::collections::{BTreeMap, BTreeSet};

use crate::View;
use crate::document::{Columns, Table, Tone, Value};
use crate::view::AccountingRow;
use zklockbench_core::measure::RequestKind;
use zklockbench_core::units::joined;
use zklockbench_record::{CountedTurns, Counting};

pub(super) const HOW: &str = "counted on the wire, in a separate trial in which nothing is timed";

/// Counts of one strategy at one contender count, with its side in an A/B comparison.
pub(crate) struct CountedRow<'a> {
    pub side: Option<&'static str>,
    pub strategy: &'a str,
    pub contenders: usize,
    pub counting: &'a Counting,
}

impl CountedRow<'_> {
    fn each(&self, times: u64) -> Value {
        Value::Amount(times as f64 / self.counting.counted.acquired.max(1) as f64)
    }

    fn by_name(&self, named: &BTreeMap<String, u64>) -> Option<String> {
        let told = named.iter().map(|(name, times)| format!("{} {name}", self.each(*times).shown()));
        Some(joined(told, ", ")).filter(|told| !told.is_empty())
    }
}

/// Returns one row per strategy and contender count, with a column for each kind of request that occurs.
pub(crate) fn by_kind(rows: &[CountedRow<'_>]) -> Table {
    let counts = || rows.iter().map(|row| &row.counting.counted);
    let has_sides = rows.iter().any(|row| row.side.is_some());
    let mut columns = Columns::<&CountedRow<'_>>::new();
    if has_sides {
        columns = columns.words("side", |row| row.side);
    }
    columns = columns
        .words("strategy", |row| row.strategy)
        .numbers("contenders", 0, |row| row.contenders)
        .numbers("acquisitions", 4, |row| row.counting.counted.acquired);
    for kind in RequestKind::ALL {
        if counts().any(|counts| counts.requests.get(kind) > 0) {
            columns = columns
                .numbers(heading(kind), 0, move |row| row.each(row.counting.counted.requests.get(kind)));
        }
    }
    if counts().any(|counts| !counts.parts_of_multis.is_empty()) {
        columns = columns.words("in multis", |row| row.by_name(&row.counting.counted.parts_of_multis));
    }
    if counts().any(|counts| !counts.other_requests.is_empty()) {
        columns = columns.words("others", |row| row.by_name(&row.counting.counted.other_requests));
    }
    columns
        .numbers("requests", 1, |row| row.each(row.counting.counted.all_requests()))
        .numbers("notifications", 1, |row| row.each(row.counting.counted.notifications.total()))
        .numbers("fan-out", 2, |row| row.counting.by_release.map(|times| row.each(times)))
        .numbers("bytes", 3, |row| {
            row.each(row.counting.counted.bytes_sent + row.counting.counted.bytes_received)
        })
        .table("Requests by kind", if has_sides { 3 } else { 2 }, rows)
        .noted(format!(
            "Requests per acquisition: {HOW}; {}; watch: reads that also set a watch.",
            turns(rows)
        ))
}

/// Describes which cycles were counted.
fn turns(rows: &[CountedRow<'_>]) -> String {
    let turns: BTreeSet<&str> = rows.iter().map(|row| row.counting.turns.told()).collect();
    let all = rows.iter().filter(|row| row.counting.turns == CountedTurns::All).count();
    match turns.len() {
        1 => turns.into_iter().collect(),
        _ => format!("excluding each contender's first cycle, except in {all} of the rows"),
    }
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
        RequestKind::CheckWatches => "check watches",
    }
}

/// Returns the three-way check of each count: client, cost model, servers.
pub(crate) fn accounting(view: &View<'_>) -> Table {
    Columns::<AccountingRow>::new()
        .words("strategy", |row| row.strategy.clone())
        .numbers("contenders", 0, |row| row.contenders)
        .words("counted", |row| row.line.what.name())
        .numbers("client", 0, |row| row.line.client)
        .numbers("cost model", 0, |row| row.line.expected)
        .numbers("servers", 0, |row| row.line.servers)
        .words("agree", |row| match row.agrees? {
            true => Some(Value::verdict("yes", Tone::Plain)),
            false => Some(Value::verdict("NO", Tone::Bad)),
        })
        .explained("in each repetition")
        .table("Counts of the client, the cost model and the servers", 2, view.accounting())
        .noted("Sums over all repetitions.")
}
