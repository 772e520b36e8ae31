//! The charts of a comparison: the ratio of every figure with its interval and every repetition of both sides, and the waits
//! of both sides by percentile.

use super::percentile;
use crate::answer::compare::{CellUnderLoad, Comparison, Role, Row, Side, StoredRatio};
use crate::report::document::{Axis, Chart, ChartKind, Curve, Lines, Mark, Panels, RatioRow, Ratios};
use crate::words::measure::Measure;
use crate::words::units::number;

pub fn ratios(compared: &Comparison) -> Result<Chart, String> {
    let how_to_read = "Bar: interval of new / base, of each comparison alone. Upper dots: each repetition of the base, \
                       lower: of the new, divided by the base's median. Thick line: no change; thin lines: the margin."
        .to_owned();
    let sides = format!("base: {}; new: {}", compared.base.path, compared.new.path);
    let rows = compared.rows.iter().filter(|row| row.compared.p.is_some()).map(ratio_row).collect();
    let of = Ratios { of: "new / base", rows };
    of_ratios("comparison", of, [how_to_read, sides].into_iter().chain(forced(compared)).collect())
}

/// A chart of these, the worst first; says why when there is none.
pub(super) fn of_ratios(id: &str, mut ratios: Ratios, caption: Vec<String>) -> Result<Chart, String> {
    if ratios.rows.is_empty() {
        return Err("no figure has a ratio".to_owned());
    }
    ratios.rows.sort_by_key(|row| row.verdict);
    let said = |row: &RatioRow| {
        let ratio = row.interval.and_then(|interval| interval.ratio).map(number);
        format!("{}: {}, {}", row.label, ratio.as_deref().unwrap_or("no ratio"), row.verdict.word())
    };
    let said: Vec<String> = ratios.rows.iter().map(said).collect();
    Ok(Chart {
        id: id.to_owned(),
        title: format!("{}, figure by figure", ratios.of),
        said: format!("{}.", said.join("; ")),
        caption,
        kind: ChartKind::Ratios(ratios),
    })
}

fn forced(compared: &Comparison) -> impl Iterator<Item = String> + '_ {
    compared.forced.iter().map(|why| format!("Forced, although it cannot be compared: {why}."))
}

fn ratio_row(row: &Row) -> RatioRow {
    let [above, below] = relative(row);
    let shown = if row.role == Role::Shown { " (only shown)" } else { "" };
    RatioRow {
        label: format!("{}, {}: {}{shown}", row.cell.strategy, row.cell.contenders, row.figure),
        verdict: row.compared.verdict,
        // An infinite one is drawn at the edge.
        interval: row.compared.ratio.map(|one| StoredRatio { ratio: Some(one.ratio), ..one.into() }),
        margin: row.compared.margin,
        above,
        below,
    }
}

/// The repetitions of either side, divided by the median of the base; none where that is 0.
fn relative(row: &Row) -> [Vec<f64>; 2] {
    let median = row.compared.base.median.filter(|median| *median > 0.0 && median.is_finite());
    let of = |values: &[f64]| {
        median.map_or_else(Vec::new, |median| values.iter().map(|value| value / median).collect())
    };
    [of(&row.compared.base.values), of(&row.compared.new.values)]
}

const SIDES: [&str; 2] = ["base", "new"];

/// The waits of both sides by percentile on the same axes, a panel for each cell, those with the worst verdicts first; says
/// why when neither side has a sample.
pub fn percentiles(base: &Side, new: &Side, compared: &Comparison) -> Result<Chart, String> {
    let mut rows: Vec<_> = compared.rows.iter().filter(|row| row.strategies.is_empty()).collect();
    rows.sort_by_key(|row| row.compared.verdict);
    let mut cells: Vec<&CellUnderLoad> = Vec::new();
    for row in rows {
        if !cells.contains(&&row.cell) {
            cells.push(&row.cell);
        }
    }
    let panels: Vec<(String, Lines)> =
        cells.into_iter().filter_map(|cell| panel(cell, [base, new])).collect();
    if panels.is_empty() {
        return Err("no sound trial of either side measured a wait".to_owned());
    }
    let how_to_read = "Wait: from when the acquire should have started to its return. The samples of all sound repetitions of a \
         side are pooled; a line ends where fewer than ten samples remain beyond it, or only unserved waits.";
    let headings: Vec<&str> = panels.iter().map(|(heading, _)| heading.as_str()).collect();
    let said = format!("{}.", headings.join("; "));
    let keys = SIDES.iter().zip([&compared.base.path, &compared.new.path]);
    let (panels, more) = Panels::of(keys.map(|(side, path)| format!("{side}: {path}")).collect(), panels);
    Ok(Chart {
        id: "waits".to_owned(),
        title: "Wait by percentile, both sides".to_owned(),
        said,
        caption: std::iter::once(how_to_read.to_owned()).chain(forced(compared)).chain(more).collect(),
        kind: ChartKind::Panels(panels),
    })
}

fn panel(cell: &CellUnderLoad, sides: [&Side; 2]) -> Option<(String, Lines)> {
    let of = |(look, side): (usize, &&Side)| {
        let samples = side.pooled(cell, Measure::Wait)?;
        Some(percentile::series(look, SIDES[look], &samples, Mark::default()))
    };
    let series: Vec<Curve> = sides.iter().enumerate().filter_map(of).collect();
    if series.is_empty() {
        return None;
    }
    let furthest = Curve::furthest(&series, 10.0);
    let y = Axis::durations("wait", series.iter().flat_map(Curve::heights));
    let grew: Vec<&str> = SIDES
        .into_iter()
        .zip(sides)
        .filter(|(_, side)| side.queue_grew(cell))
        .map(|(name, _)| name)
        .collect();
    let grew = match grew.as_slice() {
        [] => String::new(),
        names => format!(" (the queue of the {} grew)", names.join(" and the ")),
    };
    let heading = format!("{}{grew}", cell.name());
    Some((heading, Lines::new(Axis::percentiles(furthest), y, series)))
}
