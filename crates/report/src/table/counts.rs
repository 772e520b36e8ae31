//! Tables of counts: requests by kind on the wire, and the client's counts beside the cost model and the servers.

use std::collections::{BTreeMap, BTreeSet};

use super::columns::{Columns, Grid};
use crate::View;
use crate::document::{Column, Tone, Value};
use crate::view::AccountingRow;
use zklockbench_core::measure::RequestKind;
use zklockbench_core::units::number;
use zklockbench_record::{CountedTurns, Counting};

pub(super) const HOW: &str = "counted on the wire, in a separate trial in which nothing is timed";

pub(super) struct CountedRow<'a> {
    pub labels: Vec<Value>,
    pub counting: &'a Counting,
}

impl CountedRow<'_> {
    /// Number per acquisition.
    fn each(&self, times: u64) -> f64 {
        times as f64 / self.counting.counted.acquired.max(1) as f64
    }

    fn by_name(&self, named: &BTreeMap<String, u64>) -> Value {
        let told = named.iter().map(|(name, times)| format!("{} {name}", number(self.each(*times))));
        let told: Vec<String> = told.collect();
        Value::or_missing((!told.is_empty()).then(|| told.join(", ")), Value::Text)
    }
}

/// One row for each of these, with a column for each kind of request that occurs; `None` if nothing was counted.
pub(super) fn by_kind(labels: Vec<Column>, rows: &[CountedRow<'_>]) -> Option<Grid> {
    let counts = || rows.iter().map(|row| &row.counting.counted);
    let each = |row: &CountedRow<'_>, times: u64| Value::Amount(row.each(times));
    let count = labels.len();
    let mut columns = Columns::<&CountedRow<'_>>::new();
    for (at, label) in labels.into_iter().enumerate() {
        let read = move |row: &&CountedRow<'_>| row.labels[at].clone();
        columns = if label.numbers {
            columns.numbers(label.heading, read)
        } else {
            columns.words(label.heading, read)
        };
    }
    columns = columns.numbers("acquisitions", |row| Value::Count(row.counting.counted.acquired)).spare(4);
    for kind in RequestKind::ALL {
        if counts().any(|counts| counts.requests.get(kind) > 0) {
            columns =
                columns.numbers(heading(kind), move |row| each(row, row.counting.counted.requests.get(kind)));
        }
    }
    if counts().any(|counts| !counts.parts_of_multis.is_empty()) {
        columns = columns.words("in multis", |row| row.by_name(&row.counting.counted.parts_of_multis));
    }
    if counts().any(|counts| !counts.other_requests.is_empty()) {
        columns = columns.words("others", |row| row.by_name(&row.counting.counted.other_requests));
    }
    let columns = columns
        .numbers("requests", move |row| each(row, row.counting.counted.all_requests()))
        .spare(1)
        .numbers("notifications", move |row| each(row, row.counting.counted.notifications.total()))
        .spare(1)
        .numbers("fan-out", move |row| Value::or_missing(row.counting.by_release, |times| each(row, times)))
        .spare(2)
        .numbers("bytes", move |row| {
            let counted = &row.counting.counted;
            each(row, counted.bytes_sent + counted.bytes_received)
        })
        .spare(3);
    let note = || format!("Requests per acquisition: {HOW}; {}; watch: the read also sets one.", turns(rows));
    (!rows.is_empty()).then(|| columns.grid("Requests by kind", count, rows).noted(note()))
}

/// A sentence on which cycles were counted.
fn turns(rows: &[CountedRow<'_>]) -> String {
    let turns: BTreeSet<&str> = rows.iter().map(|row| row.counting.turns.told()).collect();
    let all = rows.iter().filter(|row| row.counting.turns == CountedTurns::All).count();
    match turns.len() {
        1 => turns.into_iter().collect(),
        _ => format!("each contender's first cycle left out, but not in {all} of the rows"),
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

/// The three-way check of each count: client, cost model, servers.
pub(crate) fn accounting(view: &View<'_>) -> Grid {
    let counted = |value| Value::or_missing(value, Value::Count);
    Columns::<AccountingRow>::new()
        .words("strategy", |row| row.strategy.clone())
        .numbers("contenders", |row| Value::Count(row.contenders as u64))
        .words("counted", |row| row.line.what.name())
        .numbers("client", move |row| counted(row.line.client))
        .numbers("cost model", move |row| counted(row.line.expected))
        .numbers("servers", move |row| counted(row.line.servers))
        .words("agree", |row| agree(row.agrees))
        .explained("in each repetition")
        .grid(
            "What the client counted, what the cost model expects, and what the servers counted",
            2,
            view.accounting(),
        )
        .noted("Sums over all repetitions.")
}

fn agree(agrees: Option<bool>) -> Value {
    Value::or_missing(agrees, |agrees| match agrees {
        true => Value::verdict("yes", Tone::Plain),
        false => Value::verdict("NO", Tone::Bad),
    })
}
