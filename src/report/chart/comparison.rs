//! The chart of a comparison: the ratio of every figure with its interval, and every repetition of both sides.

use super::picture::Picture;
use super::ratios::{Bar, Ratios};
use crate::answer::compare::{Comparison, Row, StoredRatio};
use crate::words::units::number;

/// Draws it; says why when there is no ratio.
pub(super) fn draw(compared: &Comparison) -> Result<Picture, String> {
    let sides = format!("base: {}; new: {}", compared.base.path, compared.new.path);
    let mut caption = vec![
        format!(
            "Bar: interval of new / base. Upper dots: each repetition of the base, lower: of the new, divided by the base's \
             median. Thick line: no change; thin lines: the margin of {} %.",
            number(100.0 * compared.limits.margin)
        ),
        sides,
    ];
    caption
        .extend(compared.forced.iter().map(|why| format!("Forced, although it cannot be compared: {why}.")));
    Ratios {
        heading: compared.conclusion.sentence.clone(),
        axis: "new / base",
        margin: compared.limits.margin,
        bars: compared.rows.iter().filter(|row| row.compared.p.is_some()).map(bar).collect(),
        caption,
    }
    .draw()
}

fn bar(row: &Row) -> Bar {
    let [above, below] = relative(row);
    Bar {
        label: format!("{}, {}: {}", row.cell.strategy, row.cell.contenders, row.figure),
        verdict: row.compared.verdict,
        // An infinite one is drawn at the edge.
        interval: row.compared.ratio.map(|one| StoredRatio { ratio: Some(one.ratio), ..one.into() }),
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
