//! Files for services that store metrics: Bencher and `github-action-benchmark`.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{ALONE, CellFigures, CiReport, TrackedValue};
use zklockbench_core::units::number;
use zklockbench_core::verdict::Verdict;
use zklockbench_record::{Better, Unit};

#[derive(Serialize)]
struct Metric {
    value: f64,
    /// Lower end of the interval, or the minimum if there are too few repetitions for an interval.
    lower_value: f64,
    upper_value: f64,
}

/// Renders the Bencher Metric Format (version 0): the measures of each strategy at each contender count, with
/// median and range. Metrics without a plain value are omitted.
pub fn bencher(document: &CiReport) -> Result<String, String> {
    let mut benchmarks: BTreeMap<String, BTreeMap<String, Metric>> = BTreeMap::new();
    for (cell, value) in plain(document) {
        let over = value.over;
        let (lower_value, upper_value) =
            over.interval.map_or((over.min, over.max), |one| (one.low, one.high));
        let metric = Metric { value: over.median, lower_value, upper_value };
        benchmarks.entry(cell.name()).or_default().insert(measure(value), metric);
    }
    pretty(&benchmarks)
}

/// Returns all plain values with their cells.
fn plain(document: &CiReport) -> impl Iterator<Item = (&CellFigures, &TrackedValue)> {
    document.cells.iter().flat_map(|cell| cell.plain().map(move |value| (cell, value)))
}

fn pretty(figures: &impl Serialize) -> Result<String, String> {
    serde_json::to_string_pretty(figures).map(|text| text + "\n").map_err(|error| error.to_string())
}

/// Returns the measure as a slug in Bencher's style, e.g. `wait-p99-us`. The format has no units, so the slug
/// includes the unit.
fn measure(value: &TrackedValue) -> String {
    let unit = match value.figure.unit() {
        Unit::Micros => "-us",
        Unit::PerSecond => "-per-s",
        Unit::Amount | Unit::Bytes | Unit::Share => "",
    };
    value.figure.to_string().replace(['.', '_'], "-") + unit
}

/// File name for `tool: customBiggerIsBetter`.
pub const BIGGER: &str = "bigger-is-better.json";
/// File name for `tool: customSmallerIsBetter`.
pub const SMALLER: &str = "smaller-is-better.json";

#[derive(Serialize)]
struct Benchmark {
    /// Strategy, contenders and metric; the action draws one chart per name.
    name: String,
    unit: &'static str,
    /// Median over the valid repetitions; always a number.
    value: f64,
    /// Minimum and maximum of the values.
    #[serde(skip_serializing_if = "Option::is_none")]
    range: Option<String>,
    extra: String,
}

/// Returns the two files of `github-action-benchmark`: metrics where higher is better, and the others.
/// Metrics without a plain value are omitted, because the action would read them as 0.
pub fn benchmark_action(document: &CiReport) -> Result<[(&'static str, String); 2], String> {
    let file = |better| {
        let own = plain(document).filter(|(_, value)| value.figure.better() == better);
        pretty(&own.map(benchmark).collect::<Vec<_>>())
    };
    Ok([(BIGGER, file(Better::Higher)?), (SMALLER, file(Better::Lower)?)])
}

fn benchmark((cell, value): (&CellFigures, &TrackedValue)) -> Benchmark {
    let over = value.over;
    let verdict = cell.verdict.as_ref().map_or(ALONE, Verdict::word);
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
