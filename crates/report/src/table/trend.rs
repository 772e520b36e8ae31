//! The table of a figure over runs.

use super::layout::fitted;
use super::{Style, Table, numbers, words};
use crate::document::Value;
use crate::{Trend, date};
use zklockbench_core::units::{counted, shown};

/// Below each cell, its runs; below the table, what makes these hard to compare.
pub fn trend(trend: &Trend, style: Style) -> String {
    let mut said: Vec<String> =
        trend.changes.iter().map(|change| format!("{}.", change.sentence(&trend.figure))).collect();
    if trend.changes.is_empty() {
        let of = format!("{} over {}", trend.figure, counted(trend.runs.len(), "run", "runs"));
        said.push(match trend.runs.len() < trend.runs_at_least {
            true => format!("{of}: whether it changed can be told from {} runs on.", trend.runs_at_least),
            false => format!("No clear change in {of}."),
        });
    }
    said.extend([String::new(), table(trend, style)]);
    let short = if trend.runs.len() < trend.runs_at_least { Vec::new() } else { trend.too_short() };
    said.extend(trend.notes.iter().chain(&short).map(|note| format!("! {note}")));
    said.join("\n") + "\n"
}

fn table(trend: &Trend, style: Style) -> String {
    let columns = vec![
        words("strategy"),
        numbers("contenders", 0),
        words("commit"),
        words("date"),
        words("host"),
        numbers("median", 0),
        numbers("smallest", 2),
        numbers("largest", 1),
        numbers("reps", 3),
    ];
    let rows = trend.lines.iter().flat_map(|line| {
        trend.runs.iter().zip(&line.points).map(|(run, point)| {
            let value = |value: f64| trend.unit.show(value);
            let values = match point {
                None => [const { Value::NotMeasured }; 4],
                Some(point) => [
                    Value::from(value(point.median)).at_least(point.at_least),
                    value(point.min).into(),
                    value(point.max).into(),
                    Value::Count(point.count as u64),
                ],
            };
            let names = [
                line.strategy.as_str().into(),
                Value::Count(line.contenders as u64),
                shown(&run.commit, 12).into(),
                date(run.started_at).into(),
                shown(&run.host, 24).into(),
            ];
            names.into_iter().chain(values).collect()
        })
    });
    let grid = Table { columns, labels: 2, rows: rows.collect() };
    fitted(grid, style).0 + "\n"
}
