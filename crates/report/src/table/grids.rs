//! The tables of a run: each strategy with each number of contenders, arrivals of open loads, and requests by kind.

use super::columns::{Columns, Grid, metric_value};
use super::counts::{self, CountedRow};
use super::{drivers, faults, lost_holds};
use crate::View;
use crate::document::{ExplainedTable, Table, Tone, Value, numbers, words};
use crate::view::{Cell, Percentile};
use zklockbench_core::measure::{Measure, Statistic};
use zklockbench_core::units::{format_micros, listed, number};
use zklockbench_record::figures::{
    self, FAILED_TRY_P50, HANDOFF_P50, OFFERED, THROUGHPUT, TOTAL_TIME, UTILISATION_BUSIEST, WAIT_MAX,
    WAIT_P50, WAIT_P99,
};
use zklockbench_record::{Arrived, FigureEntry, Timing, Trial};

/// The tables of a run, most important first: locks under faults, then all metrics, then arrivals.
pub(crate) fn grids(view: &View<'_>) -> Vec<Grid> {
    let metrics = (!view.cells.is_empty()).then(|| main_table(view).lean());
    let open = view.cells.iter().any(Cell::is_open).then(|| arrivals(view).lean());
    let all = [faults::grid(view), metrics, lost_holds::grid(view), drivers::grid(view), by_kind(view), open];
    all.into_iter().flatten().collect()
}

/// The same tables with explanations, for pages and files.
pub(crate) fn tables(view: &View<'_>) -> Vec<ExplainedTable> {
    grids(view).into_iter().map(ExplainedTable::from).collect()
}

impl Table {
    /// The main table: one row for each strategy and number of contenders.
    pub fn whole(view: &View<'_>) -> Self {
        main_table(view).table
    }
}

fn by_kind(view: &View<'_>) -> Option<Grid> {
    let cells = view.cells.iter().filter_map(|cell| Some((cell, cell.on_the_wire()?)));
    let rows = cells.map(|(cell, counting)| CountedRow {
        labels: vec![view.label(cell).into(), Value::Count(cell.contenders as u64)],
        counting,
    });
    let rows: Vec<CountedRow<'_>> = rows.collect();
    counts::by_kind(vec![words("strategy"), numbers("contenders", 0)], &rows)
}

fn main_table(view: &View<'_>) -> Grid {
    let mut columns = Columns::<&Cell<'_>>::new()
        .words("strategy", |cell| view.label(cell))
        .numbers("contenders", |cell| contenders(cell))
        .words("verdict", |cell| verdict(cell))
        .numbers("reps", |cell| repetitions(cell))
        .spare(8)
        .explained("valid repetitions");
    columns = metric(columns, &OFFERED);
    columns = metric(columns, &THROUGHPUT)
        .numbers("min-max", |cell| range(cell))
        .spare(4)
        .explained("smallest and largest repetition");
    for entry in [&TOTAL_TIME, &WAIT_P50, &WAIT_P99, &WAIT_MAX, &HANDOFF_P50, &FAILED_TRY_P50] {
        columns = metric(columns, entry);
    }
    let (handoffs, uncontended) = floors(view);
    columns = columns
        .numbers("handoff/floor", |cell| Value::or_missing(view.handoff_over_floor(cell), Value::Multiple))
        .spare(3)
        .explained(handoffs)
        .numbers("uncontended/floor", |cell| {
            Value::or_missing(view.uncontended_over_floor(cell), Value::Multiple)
        })
        .spare(8)
        .explained(uncontended)
        .numbers("unserved", |cell| unserved(cell))
        .spare(1)
        .explained("waits that ended without the lock, or had not ended at the end")
        .numbers("standstill", |cell| standstill(cell))
        .spare(1)
        .explained("longest time that a lock was free, wanted and not acquired");
    let with_a_column = figures::ALL.iter().filter(|entry| entry.column.is_some());
    for entry in
        with_a_column.filter(|entry| ![THROUGHPUT.card, OFFERED.card, TOTAL_TIME.card].contains(&entry.card))
    {
        columns = metric(columns, entry);
    }
    let columns = columns
        .numbers("violations", |cell| Value::Count(cell.violations()))
        .spare(1)
        .words("marks", |cell| marks(cell))
        .spare(1);
    columns.grid("Each strategy with each number of contenders", 1, &view.cells).noted(note(view))
}

fn metric<'c, 'v>(
    columns: Columns<'c, &'v Cell<'v>>,
    entry: &'static FigureEntry,
) -> Columns<'c, &'v Cell<'v>> {
    columns.metric(entry, move |cell| measured(cell, entry))
}

/// A metric of a cell over its repetitions.
fn measured(cell: &Cell<'_>, entry: &FigureEntry) -> Value {
    let Some((measure, statistic)) = entry.latency else {
        return Value::or_missing(cell.figure(entry), |value| metric_value(entry, value));
    };
    let found = match statistic {
        Statistic::Percentile(at) => cell.percentile(measure, f64::from(at) / 100_000.0),
        Statistic::Max | Statistic::Mean | Statistic::Min => cell.longest(measure),
    };
    match found {
        Some(value) => duration(value),
        None if measure == Measure::Wait && cell.is_unstable() => Value::Unstable,
        None => Value::NotMeasured,
    }
}

/// Notes on the whole table.
fn note(view: &View<'_>) -> String {
    let repeated = view.cells.iter().any(|cell| cell.trials.len() > 1);
    let has_unserved = view.cells.iter().any(|cell| cell.sum(Trial::unserved) > 0);
    let has_bound =
        view.cells.iter().any(|cell| cell.longest(Measure::Wait).is_some_and(|longest| longest.at_least));
    let notes = [
        repeated.then(|| "Medians of the valid repetitions.".to_owned()),
        (has_unserved && has_bound).then(|| "≥: at least, because of unserved waits.".to_owned()),
        is_below_floor(view)
            .then(|| "A multiple below 1: the host was slower while the floor was measured.".to_owned()),
        on_the_wire(view),
    ];
    notes.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// A sentence on the metrics of drivers' locks that a separate trial counted.
fn on_the_wire(view: &View<'_>) -> Option<String> {
    let is_driven = |cell: &&Cell<'_>| cell.all().any(Trial::is_counted_apart);
    let mut driven = view.cells.iter().filter(is_driven);
    driven.find(|cell| cell.on_the_wire().is_some())?;
    let counted = figures::ALL.iter().filter(|entry| entry.on_the_wire);
    let headings: Vec<&str> = counted.filter_map(|entry| Some(entry.column?.heading)).collect();
    Some(format!("{} of drivers: {}.", listed(&headings), counts::HOW))
}

/// Explanations of the multiples' bases; empty if no floor was measured.
fn floors(view: &View<'_>) -> (String, String) {
    let told = |what: &str, timing: Option<Timing>| {
        timing.map_or_else(String::new, |Timing { count, p50_us, .. }| {
            format!("its median as a multiple of {}, the median of {count} {what}", format_micros(p50_us))
        })
    };
    let floor = view.floor.as_ref();
    (
        told(
            "handoffs without a lock, measured before the first trial",
            floor.and_then(|floor| floor.handoff),
        ),
        told("uncontended acquires by raw requests", floor.and_then(|floor| floor.uncontended)),
    )
}

fn is_below_floor(view: &View<'_>) -> bool {
    /// Values shown as 1 are not below it.
    const BELOW_FLOOR: f64 = 0.995;
    let multiples = |cell| [view.handoff_over_floor(cell), view.uncontended_over_floor(cell)];
    view.cells.iter().flat_map(multiples).flatten().any(|multiple| multiple < BELOW_FLOOR)
}

fn duration(value: Percentile) -> Value {
    Value::Duration(value.us).at_least(value.at_least)
}

fn range(cell: &Cell<'_>) -> Value {
    let spread = cell.spread(|one| THROUGHPUT.of(one)).filter(|spread| spread.count > 1);
    Value::or_missing(spread, |spread| Value::Range(spread.min, spread.max))
}

fn repetitions(cell: &Cell<'_>) -> Value {
    let sound = cell.all().filter(|one| one.is_sound()).count();
    Value::OutOf { part: sound as u64, whole: cell.trials.len() as u64 }
}

/// Number of contenders, and how many of them had a session if some had none.
fn contenders(cell: &Cell<'_>) -> Value {
    let whole = cell.contenders as u64;
    Value::OutOf { part: cell.took_part().min(whole), whole }
}

fn unserved(cell: &Cell<'_>) -> Value {
    Value::or_missing(Some(cell.sum(Trial::unserved)).filter(|some| *some > 0), Value::Count)
}

fn standstill(cell: &Cell<'_>) -> Value {
    let all = cell.all().filter_map(|one| one.standstill.as_ref());
    Value::or_missing(all.map(|stood| stood.lasted_us).max(), |us| Value::Duration(us as f64))
}

fn verdict(cell: &Cell<'_>) -> Value {
    Value::or_missing(cell.verdict(), |verdict| Value::judged(&verdict, cell.is_only_stuck()))
}

/// Numbers of invalid and partial trials; the remarks have the reasons.
fn marks(cell: &Cell<'_>) -> Value {
    let count = |marked: fn(&Trial) -> bool| cell.all().filter(|one| marked(one)).count();
    let marks = [
        (count(|one| one.health.invalid.is_some()), "invalid"),
        (count(|one| one.cut_short.is_some()), "partial"),
    ];
    let said: Vec<String> =
        marks.iter().filter(|(count, _)| *count > 0).map(|(count, mark)| format!("{count} {mark}")).collect();
    Value::or_missing(Some(said).filter(|said| !said.is_empty()), |said| {
        Value::verdict(said.join(", "), Tone::Plain)
    })
}

fn arrivals(view: &View<'_>) -> Grid {
    let count = |cell: &Cell<'_>, count: fn(&Arrived) -> u64| {
        Value::Count(cell.sum(|one| one.arrived.as_ref().map_or(0, count)))
    };
    let part =
        |cell: &Cell<'_>, measure, quantile| Value::or_missing(cell.percentile(measure, quantile), duration);
    Columns::<&Cell<'_>>::new()
        .words("open load", |cell| view.label(cell))
        .numbers("contenders", |cell| contenders(cell))
        .numbers("offered", |cell| count(cell, |arrived| arrived.offered))
        .numbers("served", |cell| count(cell, |arrived| arrived.served))
        .numbers("unserved", |cell| count(cell, |arrived| arrived.unserved))
        .numbers("dropped", |cell| count(cell, |arrived| arrived.dropped))
        .spare(3)
        .numbers("in client p50", |cell| part(cell, Measure::ClientWait, 0.5))
        .spare(4)
        .explained("the part of the wait until a contender was free")
        .numbers("in client p99", |cell| part(cell, Measure::ClientWait, 0.99))
        .spare(1)
        .numbers("service p50", |cell| part(cell, Measure::Service, 0.5))
        .spare(5)
        .explained("the part of the wait from the call of acquire on")
        .numbers("service p99", |cell| part(cell, Measure::Service, 0.99))
        .spare(2)
        .numbers("lateness p99", |cell| {
            let late =
                |one: &Trial| Some(one.health.lateness_p99_us.filter(|_| one.arrived.is_some())? as f64);
            Value::or_missing(cell.median(late), Value::Duration)
        })
        .spare(6)
        .explained("how late the generator called acquire")
        .numbers("lock busy", |cell| Value::or_missing(cell.figure(&UTILISATION_BUSIEST), Value::Share))
        .spare(1)
        .explained("share of the time that the busiest lock was held or being handed over")
        .numbers("queue", |cell| {
            let grows = |one: &Trial| one.steady.as_ref().filter(|_| one.arrived.is_some())?.grows_per_s();
            Value::or_missing(cell.median(grows), |grows| format!("+{}/s", number(grows)).into())
        })
        .spare(1)
        .explained("how fast the queue grew")
        .grid("What became of the arrivals", 1, view.cells.iter().filter(|cell| cell.is_open()))
        .noted("A wait begins when the arrival is due.")
}
