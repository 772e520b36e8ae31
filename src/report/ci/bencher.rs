//! Bencher Metric Format (version 0): for each strategy and number of contenders its measures, each with its median and
//! between which values that lies.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{CiReport, Value};
use crate::results::record::Unit;

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Metric {
    pub value: f64,
    /// The lower end of its interval or, of fewer repetitions than an interval takes, the smallest.
    pub lower_value: f64,
    pub upper_value: f64,
}

/// The file. What has no plain value is left out.
///
/// # Errors
/// What the serializer says; it has no reason to.
pub fn render(document: &CiReport) -> Result<String, String> {
    let benchmarks: BTreeMap<String, BTreeMap<String, Metric>> = document
        .cells
        .iter()
        .map(|cell| (cell.name(), cell.plain().map(|value| (measure(value), metric(value))).collect()))
        .filter(|(_, measures): &(String, BTreeMap<_, _>)| !measures.is_empty())
        .collect();
    let text = serde_json::to_string_pretty(&benchmarks).map_err(|error| error.to_string())?;
    Ok(text + "\n")
}

fn metric(Value { over, .. }: &Value) -> Metric {
    let (low, high) = over.interval.map_or((over.min, over.max), |interval| (interval.low, interval.high));
    Metric { value: over.median, lower_value: low, upper_value: high }
}

/// The measure as Bencher writes names in addresses, e.g. `wait-p99-us`. The format has no units, so the name tells it.
fn measure(value: &Value) -> String {
    let unit = match value.figure.unit() {
        Unit::Micros => "-us",
        Unit::PerSecond => "-per-s",
        Unit::Amount | Unit::Bytes | Unit::Share => "",
    };
    value.figure.to_string().replace(['.', '_'], "-") + unit
}
