//! How many repetitions it takes to see a change.

use super::fitted::fitted;
use super::{Style, Table, numbers, words};
use crate::answer::compare::{Power, PowerRow};
use crate::report::document::Value;
use crate::results::record::Unit;
use crate::words::units::{counted, percent};

pub fn power(power: &Power, style: Style) -> String {
    let legend = format!(
        "spread: how far the repetitions lie apart (standard deviation); needed: about so many a side, so that the change is seen \
         with {} among {}. A change within a figure's margin fails nothing: lower --margin with it.",
        percent(power.seen),
        counted(power.family as u64, "comparison", "comparisons"),
    );
    let columns = vec![
        words("strategy"),
        numbers("contenders", 0),
        words("figure"),
        numbers("median", 2),
        numbers("spread", 1),
        numbers("reps", 1),
        numbers("needed", 0),
    ];
    let table = Table { columns, labels: 1, rows: power.rows.iter().map(row).collect() };
    [headline(power), String::new(), fitted(table, style).0, String::new(), legend].join("\n") + "\n"
}

fn headline(power: &Power) -> String {
    let change = percent(power.change);
    let most = power.rows.iter().filter_map(|row| row.repetitions).max();
    let open = power.rows.iter().filter(|row| row.repetitions.is_none()).count();
    if power.rows.iter().all(|row| row.spread.is_none()) {
        return "How far the repetitions lie apart is not known of one, nor where a queue grew: make more of them first.".into();
    }
    let Some(most) = most else {
        return format!("No number of repetitions up to 500 a side shows a change of {change}.");
    };
    let most = counted(most as u64, "repetition", "repetitions");
    let of = match open {
        0 => "in every figure".to_owned(),
        open => format!("in all but {}", counted(open as u64, "figure", "figures")),
    };
    format!("{most} a side show a change of {change} {of}.")
}

fn row(row: &PowerRow) -> Vec<Value> {
    let median = row.readings.median.filter(|median| median.is_finite());
    vec![
        row.cell.strategy.as_str().into(),
        Value::Count(row.cell.contenders as u64),
        row.figure.as_str().into(),
        Value::or_missing(median, |median| row.measured_in.unwrap_or(Unit::Amount).show(median).into()),
        Value::or_missing(row.spread, Value::Share),
        Value::Count(row.readings.values.len() as u64),
        match (row.repetitions, row.spread) {
            (Some(count), _) => Value::Count(count as u64),
            (None, Some(_)) => "more than 500".into(),
            (None, None) => "not known".into(),
        },
    ]
}
