//! The charts of an A/B comparison: every ratio with its interval, and the ratios block by block, beside what noise does.

use super::compared::of_ratios;
use crate::answer::ab::{AbFile, Comparison, Turn, Values};
use crate::report::document::{
    Axis, Chart, ChartKind, Curve, Guide, GuideCourse, Lines, Mark, Panels, PlotPoint, RatioRow, Ratios,
    Weight, float,
};
use crate::report::sides;

const OVER_A: [&str; 2] = ["B / A", "A again / A"];

pub fn ratios(file: &AbFile) -> Result<Chart, String> {
    let how_to_read = "Bar: interval of B / A. Lower dots: B / A in each block; upper dots: A again / A, the noise on this \
                       machine. Thick line: no change; thin lines: the margin."
        .to_owned();
    let rows =
        file.comparisons.iter().filter(|one| one.ratio.is_some()).map(|one| ratio_row(file, one)).collect();
    let of = Ratios { of: OVER_A[0], rows };
    of_ratios("ratios", of, std::iter::once(how_to_read).chain(told(file)).collect())
}

fn ratio_row(file: &AbFile, one: &Comparison) -> RatioRow {
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

/// The ratios in the order in which they were measured: a drift or one bad block shows here and in no interval.
pub fn blocks(file: &AbFile) -> Result<Chart, String> {
    let labels: Vec<String> = file.blocks.iter().map(|block| block.number.to_string()).collect();
    let mut comparisons: Vec<&Comparison> = file.comparisons.iter().collect();
    comparisons.sort_by_key(|one| one.verdict);
    let panels: Vec<(String, Lines)> =
        comparisons.into_iter().filter_map(|one| panel(one, &labels, file.margin_of(one))).collect();
    if panels.is_empty() {
        return Err("no block has a ratio".to_owned());
    }
    let how_to_read =
        "Dashed: no change, and the margin. A block that gave no ratio has no marker.".to_owned();
    let headings: Vec<&str> = panels.iter().map(|(heading, _)| heading.as_str()).collect();
    let said = format!("{}.", headings.join("; "));
    let (panels, more) = Panels::of(OVER_A.map(str::to_owned).into(), panels);
    Ok(Chart {
        id: "blocks".to_owned(),
        title: "Ratios block by block".to_owned(),
        said,
        caption: std::iter::once(how_to_read).chain(told(file)).chain(more).collect(),
        kind: ChartKind::Panels(panels),
    })
}

fn panel(one: &Comparison, labels: &[String], margin: Option<f64>) -> Option<(String, Lines)> {
    let series: Vec<Curve> = (0..OVER_A.len())
        .map(|which| Curve::new(which, OVER_A[which]).through(over_a(one, which).collect(), Mark::default()))
        .collect();
    if series.iter().all(|series| series.line.is_empty()) {
        return None;
    }
    let ends = margin.map(|margin| [1.0 / (1.0 + margin), 1.0 + margin]);
    let rules: Vec<f64> = std::iter::once(1.0).chain(ends.into_iter().flatten()).collect();
    let heights = || series.iter().flat_map(Curve::heights).chain(rules.iter().copied());
    let (low, high) = (heights().fold(f64::INFINITY, f64::min), heights().fold(f64::NEG_INFINITY, f64::max));
    let (x, y) = (Axis::columns("block", labels), Axis::logarithmic("ratio", low, high));
    let guide = |rule: &f64| Guide::new(GuideCourse::Level(*rule), "", Weight::Faint);
    let guides = rules.iter().map(guide).collect();
    let heading = format!("{}: {}", label(one), one.verdict.word());
    Some((heading, Lines { guides, ..Lines::new(x, y, series) }))
}

fn told(file: &AbFile) -> [String; 2] {
    [sides(Turn::A, &file.sides.a.differs), sides(Turn::B, &file.sides.b.differs)]
}

fn label(one: &Comparison) -> String {
    format!("{}, {}: {}", one.cells.strategy(), one.cells.contenders(), one.figure)
}

/// The ratio of each block that has one, with the block's place: of B, or of A again.
fn over_a(one: &Comparison, which: usize) -> impl Iterator<Item = PlotPoint> + '_ {
    let value = move |values: &Values| if which == 0 { values.b } else { values.again };
    one.values.iter().enumerate().filter_map(move |(at, values)| {
        let (a, of) = (values.a?, value(values)?);
        (a > 0.0 && of > 0.0).then(|| (float(at) + 1.0, of / a))
    })
}
