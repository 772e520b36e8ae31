//! The two files of `github-action-benchmark`: it compares with the last commit, draws a chart of each name, and wants those
//! of which more is better apart from those of which less is.

use serde::Serialize;

use super::{CellFigures, CiReport, Value};
use crate::results::record::{Better, Unit};
use crate::words::units::number;

/// Its name where more is better: for `tool: customBiggerIsBetter`.
pub const BIGGER: &str = "bigger-is-better.json";
/// Its name where less is better: for `tool: customSmallerIsBetter`.
pub const SMALLER: &str = "smaller-is-better.json";

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Benchmark {
    /// Strategy, contenders and figure; each name is one chart.
    pub name: String,
    pub unit: &'static str,
    /// The median over the sound repetitions: always a number.
    pub value: f64,
    /// The smallest and the largest of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range: Option<String>,
    /// What else there is to say of it.
    pub extra: String,
}

/// Both files: first the figures of which more is better, then the others. What has no plain value is left out, because the
/// action would take it for 0.
///
/// # Errors
/// What the serializer says; it has no reason to.
pub fn render(document: &CiReport) -> Result<[(&'static str, String); 2], String> {
    let file = |better| {
        let text = serde_json::to_string_pretty(&benchmarks(document, better));
        text.map(|text| text + "\n").map_err(|error| error.to_string())
    };
    Ok([(BIGGER, file(Better::Higher)?), (SMALLER, file(Better::Lower)?)])
}

fn benchmarks(document: &CiReport, better: Better) -> Vec<Benchmark> {
    let all = document.cells.iter().flat_map(|cell| cell.plain().map(move |value| (cell, value)));
    all.filter(|(_, value)| value.figure.better() == better)
        .map(|(cell, value)| benchmark(cell, value))
        .collect()
}

fn benchmark(cell: &CellFigures, value: &Value) -> Benchmark {
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
