//! Holders whose session ended: when they learned of it, and how long they stayed inside.

use super::columns::{Columns, Grid};
use crate::View;
use crate::document::Value;
use crate::view::Cell;
use zklockbench_record::LostHold;
use zklockbench_stats::median;

/// One strategy with one number of contenders.
struct Row<'a> {
    cell: &'a Cell<'a>,
    count: u64,
    holds: Vec<LostHold>,
}

/// One row for each cell in which a session ended during a hold; `None` if there are none.
pub(super) fn grid(view: &View<'_>) -> Option<Grid> {
    let grid = Columns::<Row<'_>>::new()
        .words("strategy", |row| view.label(row.cell))
        .numbers("contenders", |row| Value::Count(row.cell.contenders as u64))
        .words("on lost", |row| {
            row.cell.all().next().map_or(Value::NotMeasured, |trial| trial.spec.on_lost.name().into())
        })
        .explained("what a holder does when it learns that its session has ended")
        .numbers("sessions ended", |row| Value::Count(row.count))
        .explained("during a hold, by the servers' logs")
        .numbers("suspended before", |row| {
            let before = row.holds.iter().filter_map(|hold| hold.suspended_us.filter(|us| *us <= 0));
            middle(before.map(|us| us.unsigned_abs() as f64))
        })
        .explained("how long before the end the holder learned that its connection was gone")
        .numbers("told after", |row| middle(row.holds.iter().filter_map(|hold| Some(hold.told_us? as f64))))
        .explained("time from the end until the holder learned of it")
        .numbers("stayed inside", |row| middle(row.holds.iter().map(|hold| hold.inside_us as f64)))
        .explained("time from the end until the holder left its critical section")
        .grid("Holders whose session ended", 2, view.cells.iter().filter_map(row))
        .noted("Medians, with the shortest and the longest time.");
    (!grid.is_empty()).then_some(grid)
}

fn row<'a>(cell: &'a Cell<'a>) -> Option<Row<'a>> {
    let lost = || cell.all().filter_map(|trial| trial.lost_holds.as_ref());
    let count = lost().map(|holds| holds.count).sum();
    let holds = lost().flat_map(|holds| &holds.holds).copied().collect();
    (count > 0).then_some(Row { cell, count, holds })
}

fn middle(times: impl Iterator<Item = f64>) -> Value {
    let times: Vec<f64> = times.collect();
    let ends = times.iter().copied().reduce(f64::min).zip(times.iter().copied().reduce(f64::max));
    let Some((middle, (least, most))) = median(&times).zip(ends) else { return Value::NotMeasured };
    match times.as_slice() {
        [one] => Value::Duration(*one),
        _ => Value::Duration(middle).between(Value::Duration(least), Value::Duration(most)),
    }
}
