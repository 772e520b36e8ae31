//! Files for services that keep figures: Bencher's and those of `github-action-benchmark`.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{CellFigures, CiReport, TrackedValue};
use zklockbench_core::units::number;
use zklockbench_record::{Better, Unit};

#[derive(Serialize)]
struct Metric {
    value: f64,
    /// The lower end of its interval or, of fewer repetitions than an interval takes, the smallest.
    lower_value: f64,
    upper_value: f64,
}

/// Bencher Metric Format (version 0): for each strategy and number of contenders its measures, each with its median and between
/// which values that lies. What has no plain value is left out.
pub fn bencher(document: &CiReport) -> Result<String, String> {
    let benchmarks: BTreeMap<String, BTreeMap<String, Metric>> = document
        .cells
        .iter()
        .map(|cell| (cell.name(), cell.plain().map(|value| (measure(value), metric(value))).collect()))
        .filter(|(_, measures): &(String, BTreeMap<_, _>)| !measures.is_empty())
        .collect();
    pretty(&benchmarks)
}

fn pretty(figures: &impl Serialize) -> Result<String, String> {
    serde_json::to_string_pretty(figures).map(|text| text + "\n").map_err(|error| error.to_string())
}

fn metric(TrackedValue { over, .. }: &TrackedValue) -> Metric {
    let (low, high) = over.interval.map_or((over.min, over.max), |interval| (interval.low, interval.high));
    Metric { value: over.median, lower_value: low, upper_value: high }
}

/// The measure as Bencher writes names in addresses, e.g. `wait-p99-us`. The format has no units, so the name tells it.
fn measure(value: &TrackedValue) -> String {
    let unit = match value.figure.unit() {
        Unit::Micros => "-us",
        Unit::PerSecond => "-per-s",
        Unit::Amount | Unit::Bytes | Unit::Share => "",
    };
    value.figure.to_string().replace(['.', '_'], "-") + unit
}

/// Its name where more is better: for `tool: customBiggerIsBetter`.
pub const BIGGER: &str = "bigger-is-better.json";
/// Its name where less is better: for `tool: customSmallerIsBetter`.
pub const SMALLER: &str = "smaller-is-better.json";

#[derive(Serialize)]
struct Benchmark {
    /// Strategy, contenders and figure; each name is one chart.
    name: String,
    unit: &'static str,
    /// The median over the sound repetitions: always a number.
    value: f64,
    /// The smallest and the largest of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    range: Option<String>,
    extra: String,
}

/// The two files of `github-action-benchmark`, which compares with the last commit and draws a chart of each name: first the
/// figures of which more is better, then the others, as it wants them. What has no plain value is left out, because the action
/// would take it for 0.
pub fn benchmark_action(document: &CiReport) -> Result<[(&'static str, String); 2], String> {
    let file = |better| pretty(&benchmarks(document, better));
    Ok([(BIGGER, file(Better::Higher)?), (SMALLER, file(Better::Lower)?)])
}

fn benchmarks(document: &CiReport, better: Better) -> Vec<Benchmark> {
    let all = document.cells.iter().flat_map(|cell| cell.plain().map(move |value| (cell, value)));
    all.filter(|(_, value)| value.figure.better() == better).map(benchmark).collect()
}

fn benchmark((cell, value): (&CellFigures, &TrackedValue)) -> Benchmark {
    let over = value.over;
    let verdict =
        cell.verdict.as_ref().map_or("a single contender has nobody to exclude", |verdict| verdict.word());
    Benchmark {
        name: format!("{}: {}", cell.name(), value.figure),
        unit: unit(value.figure.unit()),
        value: over.median,
        range: (over.count > 1).then(|| format!("{} to {}", number(over.min), number(over.max))),
        extra: format!("median of {} repetitions; verdict: {verdict}", over.count),
    }
}

fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Micros => "us",
        Unit::PerSecond => "per second",
        Unit::Amount => "each",
        Unit::Bytes => "bytes",
        Unit::Share => "share",
    }
}
