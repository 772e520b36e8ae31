//! The table of drivers, with the cost of communicating with them.

use super::columns::{Columns, Grid};
use crate::View;
use crate::document::Value;
use crate::view::Cell;
use zklockbench_core::measure::Measure;
use zklockbench_record::{DriverRecord, EchoTimes};

type Row<'v> = (&'v Cell<'v>, &'v DriverRecord);

pub(super) fn grid<'v>(view: &'v View<'_>) -> Option<Grid> {
    let driver = |cell: &'v Cell<'v>| Some((cell, cell.all().find_map(|trial| trial.driver.as_ref())?));
    let echo =
        |times: Option<EchoTimes>| Value::or_missing(times, |times| Value::Duration(times.p50_us as f64));
    let pipe = |cell: &Cell<'_>, quantile| {
        Value::or_missing(cell.percentile(Measure::Pipe, quantile), |at| Value::Duration(at.us))
    };
    let grid = Columns::<Row<'_>>::new()
        .words("strategy", |(cell, _)| view.label(cell))
        .numbers("contenders", |(cell, _)| Value::Count(cell.contenders as u64))
        .words("program", |(_, driver)| driver.program.clone())
        .numbers("processes", |(_, driver)| Value::Count(driver.processes as u64))
        .spare(1)
        .words("clock", |(_, driver)| match driver.clock_fits {
            Some(true) => "ours",
            Some(false) => "its own",
            None => "not told",
        })
        .numbers("pipe p50", move |(cell, _)| pipe(cell, 0.5))
        .explained(
            "an acquire as the suite saw it, less the time within the library; part of the wait unless the clock is ours; every \
             handoff includes one way, that of the request to release",
        )
        .numbers("pipe p99", move |(cell, _)| pipe(cell, 0.99))
        .spare(2)
        .numbers("echo p50", move |(_, driver)| echo(driver.echo))
        .spare(1)
        .explained("a request that does nothing, there and back, before the load")
        .numbers("contender's echo p50", move |(_, driver)| echo(driver.contender_echo))
        .spare(3)
        .numbers("echo p50 under load", move |(_, driver)| echo(driver.echo_under_load))
        .spare(2)
        .grid("Drivers", 2, view.cells.iter().filter_map(driver));
    (!grid.is_empty()).then_some(grid)
}
