//! A figure over runs: a line for each cell, a column for each run.

use std::path::Path;

use super::axis::{Axis, float};
use super::look::{FAINT_INK, Mark, RULE, dashed};
use super::paint;
use super::picture::{Anchor, Picture, SMALL, shorten};
use super::plot::{Series, draw_series};
use super::sheet::Sheet;
use crate::report::{Trend, TrendLine};
use crate::words::error::Error;
use crate::words::measure::Unit;
use crate::words::units::capitalised;

/// How many cells one chart shows at most: more cannot be told apart.
const LINES: usize = 10;

/// Draws it; the error says why not.
fn draw(trend: &Trend) -> Result<Picture, String> {
    let lines = trend.lines.iter().take(LINES).enumerate();
    let all: Vec<Series> = lines.map(|(at, line)| series(at, trend, line)).collect();
    if all.iter().all(|series| series.line.is_empty()) {
        return Err(format!("none of the runs measured {}", trend.figure));
    }
    let mut caption = vec![
        "Line: the median of a run's sound repetitions; small dots: the smallest and largest.".to_owned(),
    ];
    if trend.lines.len() > LINES {
        caption.push(format!(
            "Only {LINES} of {} cells are shown: choose some with --strategy and --contenders.",
            trend.lines.len()
        ));
    }
    caption.extend(trend.notes.iter().map(|note| format!("{}.", capitalised(note))));
    let keys: Vec<_> = all.iter().filter(|series| !series.line.is_empty()).map(Series::key).collect();
    let labels: Vec<String> = trend.runs.iter().map(|run| run.commit.chars().take(8).collect()).collect();
    let heights = all.iter().flat_map(Series::heights);
    let (title, place) =
        (format!("{} by commit", trend.figure), "One column for each run, the oldest first.");
    let mut sheet = Sheet::for_keys(place, &title, &caption, &keys);
    let y = match trend.unit {
        Unit::Micros => Axis::durations(&trend.figure, heights),
        Unit::PerSecond => Axis::amounts(&format!("{} (per second)", trend.figure), heights),
        Unit::Amount | Unit::Share => Axis::amounts(&trend.figure, heights),
        Unit::Bytes => Axis::amounts(&format!("{} (bytes)", trend.figure), heights),
    };
    let plot = sheet.plot(Axis::columns("commit", &labels), y, &keys);
    for (at, pair) in trend.runs.windows(2).enumerate().filter(|(_, pair)| pair[0].host != pair[1].host) {
        let column = plot.at(float(at) + 1.5, 0.0).0;
        let down = [(column, plot.top), (column, plot.bottom)];
        dashed(&mut sheet.picture, &down, &[2.0, 3.0], RULE, 1.0);
        let host = shorten(&format!("host {}", pair[1].host), SMALL, 160.0);
        sheet.picture.text((column + 4.0, plot.top + 8.0), host, SMALL, FAINT_INK, Anchor::Start);
    }
    draw_series(&mut sheet.picture, &plot, &all);
    Ok(sheet.picture)
}

fn series(at: usize, trend: &Trend, line: &TrendLine) -> Series {
    let mut series =
        Series { strategy: at, label: line.label(), line: Vec::new(), markers: Vec::new(), dots: Vec::new() };
    for (run, point) in line.points.iter().enumerate().take(trend.runs.len()) {
        let Some(point) = point else { continue };
        let column = float(run) + 1.0;
        series.line.push((column, point.median));
        series.markers.push(((column, point.median), Mark::default()));
        if point.count > 1 {
            series.dots.extend([point.min, point.max].map(|value| ((column, value), Mark::default())));
        }
    }
    series
}

/// Writes it as SVG.
///
/// # Errors
/// [`Error::Usage`] when there is nothing to draw; [`Error::Environment`] when the file can't be written.
pub fn draw_trend(trend: &Trend, file: &Path) -> Result<(), Error> {
    paint::svg(&draw(trend).map_err(Error::Usage)?, file)
}
