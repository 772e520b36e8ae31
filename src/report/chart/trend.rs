//! A figure over runs: a line for each cell, a column for each run.

use crate::report::document::{
    Axis, Chart, ChartKind, Curve, Guide, GuideCourse, Lines, Mark, Weight, float,
};
use crate::report::{Trend, TrendLine};
use crate::words::measure::Unit;
use crate::words::units::{capitalised, shown};

/// How many cells one chart shows at most: more cannot be told apart.
const LINES: usize = 10;

/// Where the runs come from, below the title.
pub(super) const PLACE: &str = "One column for each run, the oldest first.";

pub fn by_commit(trend: &Trend) -> Result<Chart, String> {
    let lines = trend.lines.iter().take(LINES).enumerate();
    let mut all: Vec<Curve> = lines.map(|(at, line)| series(at, trend, line)).collect();
    all.retain(|series| !series.line.is_empty());
    if all.is_empty() {
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
    let labels: Vec<String> = trend.runs.iter().map(|run| run.commit.chars().take(8).collect()).collect();
    let heights = all.iter().flat_map(Curve::heights);
    let y = match trend.unit {
        Unit::Micros => Axis::durations(&trend.figure, heights),
        Unit::PerSecond => Axis::amounts(&format!("{} (per second)", trend.figure), heights),
        Unit::Amount | Unit::Share => Axis::amounts(&trend.figure, heights),
        Unit::Bytes => Axis::amounts(&format!("{} (bytes)", trend.figure), heights),
    };
    let title = format!("{} by commit", trend.figure);
    let lines = Lines { guides: hosts(trend), ..Lines::new(Axis::columns("commit", &labels), y, all) };
    Ok(Chart {
        id: "trend".to_owned(),
        said: format!("{title}."),
        title,
        caption,
        kind: ChartKind::Lines(lines),
    })
}

/// Where the host became another.
fn hosts(trend: &Trend) -> Vec<Guide> {
    let pairs = trend.runs.windows(2).enumerate().filter(|(_, pair)| pair[0].host != pair[1].host);
    let guide = |at: usize, host: &str| {
        let label = format!("host {}", shown(host, 18));
        Guide::new(GuideCourse::Upright(float(at) + 1.5), label, Weight::Faint)
    };
    pairs.map(|(at, pair)| guide(at, &pair[1].host)).collect()
}

fn series(at: usize, trend: &Trend, line: &TrendLine) -> Curve {
    let points = line.points.iter().take(trend.runs.len()).enumerate();
    let known = || points.clone().filter_map(|(run, point)| Some((float(run) + 1.0, point.as_ref()?)));
    let medians = known().map(|(column, point)| (column, point.median)).collect();
    let ends = known().filter(|(_, point)| point.count > 1);
    let dots = ends
        .flat_map(|(column, point)| [point.min, point.max].map(|value| ((column, value), Mark::default())));
    Curve { dots: dots.collect(), ..Curve::new(at, line.label()).through(medians, Mark::default()) }
}
