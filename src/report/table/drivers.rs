//! Locks of other programs: what was taken by which, and what the way to it costs.

use super::{Table, numbers, words};
use crate::report::View;
use crate::report::document::{Column, Value};
use crate::report::table::explained::ExplainedTable;
use crate::report::view::Cell;
use crate::results::record::{DriverRecord, EchoTimes, Trial};
use crate::words::measure::Measure;

const COLUMNS: [Column; 11] = [
    words("strategy"),
    numbers("contenders", 0),
    words("program"),
    numbers("processes", 1),
    words("clock"),
    words("held by"),
    numbers("pipe p50", 0),
    numbers("pipe p99", 2),
    numbers("echo p50", 1),
    numbers("contender's echo p50", 3),
    numbers("echo p50 under load", 2),
];

const LEGEND: &str = "Drivers, and what the way to them costs. Pipe: what the suite saw of an acquire, less the time within the \
                      library; it lies in the wait unless the clock is ours. Echo: a request that asks for nothing, there and \
                      back, before the load. Held by the driver: it held and released by itself, so that no handoff has the \
                      pipe in it; held by the suite: each has one way in it, that of the request to release. Ahead: so many \
                      acquires of each contender were out at once, and done one after the other; an acquire then begins at \
                      the release before, by the driver's clock, and has no way to the driver in it.";

pub(super) fn table(view: &View<'_>) -> Option<ExplainedTable> {
    let driven = |cell: &Cell<'_>| cell.all().find_map(|trial: &Trial| trial.driver.clone());
    let rows: Vec<Vec<Value>> = view
        .cells
        .iter()
        .filter_map(|cell| Some(row(view.label(cell).into(), cell, &driven(cell)?)))
        .collect();
    (!rows.is_empty()).then(|| ExplainedTable {
        caption: "Drivers",
        legend: LEGEND.to_owned(),
        table: Table { columns: COLUMNS.to_vec(), labels: 2, rows },
    })
}

fn row(label: Value, cell: &Cell<'_>, driver: &DriverRecord) -> Vec<Value> {
    let micros = |us: Option<f64>| Value::or_missing(us, Value::Duration);
    let pipe = |quantile: f64| micros(cell.percentile(Measure::Pipe, quantile).map(|at| at.us));
    let echo = |times: Option<EchoTimes>| micros(times.map(|times| times.p50_us as f64));
    let clock = match driver.clock_fits {
        Some(true) => "ours",
        Some(false) => "its own",
        None => "not told",
    };
    vec![
        label,
        Value::Count(cell.contenders as u64),
        driver.program.clone().into(),
        Value::Count(driver.processes as u64),
        clock.into(),
        match driver.ahead {
            Some(ahead) => format!("the driver, {ahead} ahead"),
            None if driver.held_by_itself => "the driver".to_owned(),
            None => "the suite".to_owned(),
        }
        .into(),
        pipe(0.5),
        pipe(0.99),
        echo(driver.echo),
        echo(driver.contender_echo),
        echo(driver.echo_under_load),
    ]
}
