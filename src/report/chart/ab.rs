//! The charts of an A/B comparison: every ratio with its interval, and the ratios block by block, beside what noise does.

use super::axis::{Axis, float};
use super::look::{Look, Mark};
use super::panels::{Panel, Panels};
use super::picture::Picture;
use super::plot::{Key, Series};
use super::ratios::{Bar, Ratios};
use crate::answer::ab::{AbFile, Comparison, Turn, Values};
use crate::report::{ab_headline, sides};
use crate::words::units::number;

const OVER_A: [&str; 2] = ["B / A", "A again / A"];

/// Every ratio with its interval; says why when there is none.
pub(super) fn ratios(file: &AbFile) -> Result<Picture, String> {
    let mut caption = vec![format!(
        "Bar: interval of B / A. Lower dots: B / A in each block; upper dots: A again / A, the noise on this \
         machine. Thick line: no change; thin lines: the margin of {} %.",
        number(100.0 * file.terms.margin)
    )];
    caption.extend(told(file));
    Ratios {
        heading: ab_headline(file),
        axis: OVER_A[0],
        margin: file.terms.margin,
        bars: file.comparisons.iter().filter(|one| one.ratio.is_some()).map(bar).collect(),
        caption,
    }
    .draw()
}

fn bar(one: &Comparison) -> Bar {
    let [below, above] = [0, 1].map(|which| over_a(one, which).map(|(_, ratio)| ratio).collect());
    Bar { label: label(one), verdict: one.verdict, interval: one.ratio, above, below }
}

/// The ratios in the order in which they were measured: a drift or one bad block shows here and in no interval.
pub(super) fn blocks(file: &AbFile) -> Result<Picture, String> {
    let labels: Vec<String> = file.blocks.iter().map(|block| block.number.to_string()).collect();
    let mut comparisons: Vec<&Comparison> = file.comparisons.iter().collect();
    comparisons.sort_by_key(|one| one.verdict);
    let margin = file.terms.margin;
    let panel = |one: &Comparison| {
        let series: Vec<Series> = (0..OVER_A.len()).map(|which| series(one, which)).collect();
        let rules = vec![1.0 / (1.0 + margin), 1.0, 1.0 + margin];
        let heights = || series.iter().flat_map(Series::heights).chain(rules.iter().copied());
        let (low, high) =
            (heights().fold(f64::INFINITY, f64::min), heights().fold(f64::NEG_INFINITY, f64::max));
        (!series.iter().all(|series| series.line.is_empty())).then(|| Panel {
            heading: format!("{}: {}", label(one), one.verdict.word()),
            x: Axis::columns("block", &labels),
            y: Axis::logarithmic("ratio", low, high),
            series,
            rules,
        })
    };
    let panels: Vec<Panel> = comparisons.into_iter().filter_map(panel).collect();
    if panels.is_empty() {
        return Err("no block has a ratio".to_owned());
    }
    let key =
        |(at, name): (usize, &&str)| Key { look: Look::of(at), label: (*name).to_owned(), end: (1.0, 1.0) };
    let mut caption = vec![format!(
        "Dashed: no change, and the margin of {} %. A block that gave no ratio has no marker.",
        number(100.0 * margin)
    )];
    caption.extend(told(file));
    let panels = Panels {
        title: "Ratios block by block".to_owned(),
        place: ab_headline(file),
        keys: OVER_A.iter().enumerate().map(key).collect(),
        panels,
        caption,
    };
    Ok(panels.draw())
}

fn told(file: &AbFile) -> [String; 2] {
    [sides(Turn::A, &file.sides.a.differs), sides(Turn::B, &file.sides.b.differs)]
}

fn label(one: &Comparison) -> String {
    format!("{}, {}: {}", one.cells.strategy(), one.cells.contenders(), one.figure)
}

fn series(one: &Comparison, which: usize) -> Series {
    let line: Vec<(f64, f64)> = over_a(one, which).collect();
    let markers = line.iter().map(|point| (*point, Mark::default())).collect();
    Series { strategy: which, label: OVER_A[which].to_owned(), line, markers, dots: Vec::new() }
}

/// The ratio of each block that has one, with the block's place: of B, or of A again.
fn over_a(one: &Comparison, which: usize) -> impl Iterator<Item = (f64, f64)> + '_ {
    let value = move |values: &Values| if which == 0 { values.b } else { values.again };
    one.values.iter().enumerate().filter_map(move |(at, values)| {
        let (a, of) = (values.a?, value(values)?);
        (a > 0.0 && of > 0.0).then(|| (float(at) + 1.0, of / a))
    })
}
