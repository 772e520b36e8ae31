//! Charts of comparisons: each ratio with its interval and the values behind it. Stored runs also get the waits of both sides by
//! percentile; A/B runs also get the ratio of each block beside the noise.

use super::{one_by_one, times};
use crate::document::{
    Axis, Chart, ChartKind, Curve, Guide, GuideCourse, Lines, Mark, Panels, PlotPoint, RatioRow, Ratios,
    Weight,
};
use crate::table::ab::both_sides;
use crate::table::comparison::forced;
use zklockbench_analysis::ab::{self, AbFile, Values};
use zklockbench_analysis::compare::{CellUnderLoad, Comparison, Method, Role, Row, Side};
use zklockbench_core::measure::Measure;
use zklockbench_core::units::{distinct, number};

pub fn ratios_compared(compared: &Comparison) -> Result<Chart, String> {
    let how_to_read = "Bar: interval of new / base, of each comparison alone. Upper dots: each repetition of the base, \
                       lower: of the new, divided by the base's median. Thick line: no change; thin lines: the margin."
        .to_owned();
    let sides = format!("base: {}; new: {}", compared.base.path, compared.new.path);
    let is_measured = |row: &&Row| row.compared.method.is_some_and(|method| method != Method::Exact);
    let rows = compared.rows.iter().filter(is_measured).map(ratio_row).collect();
    let of = Ratios { of: "new / base", rows };
    let forced = forced(compared).map(|said| said + ".");
    of_ratios("comparison", of, [how_to_read, sides].into_iter().chain(forced).collect())
}

/// A chart of these ratios, worst verdict first; an error with the reason if there are none.
fn of_ratios(id: &str, mut ratios: Ratios, caption: Vec<String>) -> Result<Chart, String> {
    if ratios.rows.is_empty() {
        return Err("no metric has a ratio".to_owned());
    }
    ratios.rows.sort_by_key(|row| row.verdict);
    let said = |row: &RatioRow| {
        let ratio = row.interval.map(|interval| interval.value).filter(|ratio| ratio.is_finite()).map(number);
        format!("{}: {}, {}", row.label, ratio.as_deref().unwrap_or("no ratio"), row.verdict.word())
    };
    Ok(Chart {
        id: id.to_owned(),
        title: format!("{}, metric by metric", ratios.of),
        said: one_by_one(ratios.rows.iter().map(said)),
        caption,
        kind: ChartKind::Ratios(ratios),
    })
}

fn ratio_row(row: &Row) -> RatioRow {
    let [above, below] = relative(row);
    let shown = if row.role == Role::Shown { " (only shown)" } else { "" };
    RatioRow {
        label: format!("{}, {}: {}{shown}", row.cell.strategy, row.cell.contenders, row.figure),
        verdict: row.compared.verdict,
        interval: row.compared.ratio,
        margin: row.compared.margin,
        above,
        below,
    }
}

/// Repetitions of both sides divided by the base's median; empty if that median is 0.
fn relative(row: &Row) -> [Vec<f64>; 2] {
    let median = row.compared.base.median.filter(|median| *median > 0.0 && median.is_finite());
    let of = |values: &[f64]| {
        median.map_or_else(Vec::new, |median| values.iter().map(|value| value / median).collect())
    };
    [of(&row.compared.base.values), of(&row.compared.new.values)]
}

const SIDES: [&str; 2] = ["base", "new"];

/// Waits of both sides by percentile on shared axes, one panel per cell, worst verdicts first; an error with the reason if
/// neither side has samples.
pub fn percentiles_compared(base: &Side, new: &Side, compared: &Comparison) -> Result<Chart, String> {
    let mut rows: Vec<_> = compared.rows.iter().filter(|row| row.strategies.is_empty()).collect();
    rows.sort_by_key(|row| row.compared.verdict);
    let cells = distinct(rows.iter().map(|row| &row.cell));
    let panels: Vec<(String, Lines)> =
        cells.into_iter().filter_map(|cell| panel(cell, [base, new])).collect();
    if panels.is_empty() {
        return Err("no valid trial of either side measured a wait".to_owned());
    }
    let how_to_read = "Wait: from when the acquire should have started to its return. The samples of all \
        valid repetitions of a side are pooled; a line ends where fewer than ten samples remain beyond it, \
        or only unserved waits.";
    let forced = forced(compared).map(|said| said + ".");
    let caption = std::iter::once(how_to_read.to_owned()).chain(forced).collect();
    let keys = SIDES.iter().zip([&compared.base.path, &compared.new.path]);
    let keys = keys.map(|(side, path)| format!("{side}: {path}")).collect();
    Ok(of_panels("waits", "Wait by percentile, both sides", keys, panels, caption))
}

fn of_panels(
    id: &str,
    title: &str,
    keys: Vec<String>,
    panels: Vec<(String, Lines)>,
    mut caption: Vec<String>,
) -> Chart {
    let headings: Vec<&str> = panels.iter().map(|(heading, _)| heading.as_str()).collect();
    let said = format!("{}.", headings.join("; "));
    let (panels, more) = Panels::of(keys, panels);
    caption.extend(more);
    Chart { id: id.to_owned(), title: title.to_owned(), said, caption, kind: ChartKind::Panels(panels) }
}

fn panel(cell: &CellUnderLoad, sides: [&Side; 2]) -> Option<(String, Lines)> {
    let of = |(look, side): (usize, &&Side)| {
        let samples = side.pooled(cell, Measure::Wait)?;
        Some(times::series(look, SIDES[look], &samples, Mark::default()))
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

const OVER_A: [&str; 2] = ["B / A", "A again / A"];

pub fn ab_ratios(file: &AbFile) -> Result<Chart, String> {
    let how_to_read = "Bar: interval of B / A. Lower dots: B / A in each block; upper dots: A again / A, the noise on this \
                       machine. Thick line: no change; thin lines: the margin."
        .to_owned();
    let rows =
        file.comparisons.iter().filter(|one| one.ratio.is_some()).map(|one| ab_row(file, one)).collect();
    let of = Ratios { of: OVER_A[0], rows };
    of_ratios("ratios", of, std::iter::once(how_to_read).chain(both_sides(file)).collect())
}

fn ab_row(file: &AbFile, one: &ab::Comparison) -> RatioRow {
    let [below, above] = [0, 1].map(|which| over_a(one, which).map(|(_, ratio)| ratio).collect());
    RatioRow {
        label: label(one),
        verdict: one.verdict,
        interval: one.ratio,
        margin: file.margin_of(one),
        above,
        below,
    }
}

/// Ratios in the order of measurement. They reveal a drift or a single bad block, which intervals hide.
pub fn ab_blocks(file: &AbFile) -> Result<Chart, String> {
    let labels: Vec<String> = file.blocks.iter().map(|block| block.number.to_string()).collect();
    let mut comparisons: Vec<&ab::Comparison> = file.comparisons.iter().collect();
    comparisons.sort_by_key(|one| one.verdict);
    let panels: Vec<(String, Lines)> =
        comparisons.into_iter().filter_map(|one| block_panel(one, &labels, file.margin_of(one))).collect();
    if panels.is_empty() {
        return Err("no block has a ratio".to_owned());
    }
    let how_to_read =
        "Dashed: no change, and the margin. A block that gave no ratio has no marker.".to_owned();
    let caption = std::iter::once(how_to_read).chain(both_sides(file)).collect();
    let keys = OVER_A.map(str::to_owned).into();
    Ok(of_panels("blocks", "Ratios block by block", keys, panels, caption))
}

fn block_panel(one: &ab::Comparison, labels: &[String], margin: Option<f64>) -> Option<(String, Lines)> {
    let series: Vec<Curve> = (0..OVER_A.len())
        .map(|which| Curve::new(which, OVER_A[which]).through(over_a(one, which).collect(), Mark::default()))
        .collect();
    if series.iter().all(|series| series.line.is_empty()) {
        return None;
    }
    let ends = margin.map(|margin| [1.0 / (1.0 + margin), 1.0 + margin]);
    let rules: Vec<f64> = std::iter::once(1.0).chain(ends.into_iter().flatten()).collect();
    let heights = series.iter().flat_map(Curve::heights).chain(rules.iter().copied());
    let (x, y) = (Axis::columns("block", labels), Axis::logarithmic("ratio", heights));
    let guide = |rule: &f64| Guide::new(GuideCourse::Level(*rule), "", Weight::Faint);
    let guides = rules.iter().map(guide).collect();
    let heading = format!("{}: {}", label(one), one.verdict.word());
    Some((heading, Lines { guides, ..Lines::new(x, y, series) }))
}

fn label(one: &ab::Comparison) -> String {
    format!("{}, {}: {}", one.cells.strategy(), one.cells.contenders(), one.figure)
}

/// Ratio of each block that has one, with the block's position: B to A, or the repeated A to A.
fn over_a(one: &ab::Comparison, which: usize) -> impl Iterator<Item = PlotPoint> + '_ {
    let value = move |values: &Values| if which == 0 { values.b } else { values.again };
    one.values.iter().enumerate().filter_map(move |(at, values)| {
        let (a, of) = (values.a?, value(values)?);
        (a > 0.0 && of > 0.0).then(|| (at as f64 + 1.0, of / a))
    })
}
