//! The chart of a comparison: the ratio of every figure with its interval, and every repetition of both sides.

use super::axis::Axis;
use super::look::{FAINT_INK, GRID, INK, RULE};
use super::picture::{Anchor, Colour, MEDIUM, Picture, Point, SMALL, shorten, wrap};
use crate::compare::{Comparison, Row, Verdict};
use crate::units::number;

const WIDTH: f64 = 1000.0;
const MARGIN: f64 = 18.0;
const LABELS: f64 = 330.0;
const VERDICTS: f64 = 110.0;
const ROW: f64 = 26.0;
const LINE: f64 = 18.0;
/// Ratios beyond are drawn at the edge.
const FARTHEST: f64 = 10.0;

/// Draws it; says why when there is no ratio.
pub(super) fn draw(compared: &Comparison) -> Result<Picture, String> {
    let mut rows: Vec<&Row> = compared.rows.iter().filter(|row| row.compared.p.is_some()).collect();
    if rows.is_empty() {
        return Err("no figure has a ratio".to_owned());
    }
    rows.sort_by_key(|row| row.compared.verdict);
    let width = WIDTH - 2.0 * MARGIN;
    let heading = wrap(&compared.conclusion.sentence, MEDIUM + 2.0, width);
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
    let caption: Vec<String> = caption.iter().flat_map(|text| wrap(text, SMALL, width)).collect();
    let top = MARGIN + heading.len() as f64 * (LINE + 4.0) + 14.0;
    let bottom = top + rows.len() as f64 * ROW;
    let height = bottom + 54.0 + caption.len() as f64 * LINE + MARGIN;
    let mut picture = Picture::new(WIDTH, height.ceil());
    for (line, at) in heading.iter().zip(0_u32..) {
        let row = MARGIN + 8.0 + f64::from(at) * (LINE + 4.0);
        picture.text((MARGIN, row), line.as_str(), MEDIUM + 2.0, INK, Anchor::Start);
    }
    let field = Field { top, bottom, axis: axis(&rows, compared.limits.margin) };
    field.ground(&mut picture, compared.limits.margin);
    for (row, at) in rows.iter().zip(0_u32..) {
        field.row(&mut picture, row, top + (f64::from(at) + 0.5) * ROW);
    }
    for (line, at) in caption.iter().zip(0_u32..) {
        let row = bottom + 62.0 + f64::from(at) * LINE;
        picture.text((MARGIN, row), line.as_str(), SMALL, FAINT_INK, Anchor::Start);
    }
    Ok(picture)
}

/// The axis of ratios, wide enough for the intervals, the margin and the repetitions.
fn axis(rows: &[&Row], margin: f64) -> Axis {
    let ends = rows
        .iter()
        .filter_map(|row| row.compared.ratio)
        .flat_map(|ratio| [Some(ratio.ratio), ratio.low, ratio.high].into_iter().flatten());
    let all = ends
        .chain(rows.iter().flat_map(|row| relative(row).into_iter().flatten()))
        .chain([1.0 + margin, 1.0 / (1.0 + margin)]);
    let within: Vec<f64> = all.map(|ratio| ratio.clamp(1.0 / FARTHEST, FARTHEST)).collect();
    let low = within.iter().copied().fold(1.0, f64::min);
    let high = within.iter().copied().fold(1.0, f64::max);
    Axis::logarithmic("new / base", low, high)
}

/// The repetitions of either side, divided by the median of the base; none where that is 0.
fn relative(row: &Row) -> [Vec<f64>; 2] {
    let median = row.compared.base.median.filter(|median| *median > 0.0 && median.is_finite());
    let of = |values: &[f64]| {
        median.map_or_else(Vec::new, |median| values.iter().map(|value| value / median).collect())
    };
    [of(&row.compared.base.values), of(&row.compared.new.values)]
}

/// The rectangle of the intervals.
struct Field {
    top: f64,
    bottom: f64,
    axis: Axis,
}

impl Field {
    fn at(&self, ratio: f64) -> f64 {
        let share = self.axis.share(ratio.clamp(1.0 / FARTHEST, FARTHEST)).clamp(0.0, 1.0);
        LABELS + share * (WIDTH - MARGIN - VERDICTS - LABELS)
    }

    /// Ticks, the line of no change and those of the margin.
    fn ground(&self, picture: &mut Picture, margin: f64) {
        let down = |picture: &mut Picture, ratio: f64, colour: Colour, width: f64| {
            let x = self.at(ratio);
            picture.line(vec![(x, self.top), (x, self.bottom + 5.0)], colour, width);
        };
        for (tick, label) in &self.axis.ticks {
            down(picture, *tick, GRID, 1.0);
            picture.text((self.at(*tick), self.bottom + 16.0), label.as_str(), MEDIUM, INK, Anchor::Middle);
        }
        down(picture, 1.0, INK, 2.0);
        down(picture, 1.0 + margin, RULE, 1.0);
        down(picture, 1.0 / (1.0 + margin), RULE, 1.0);
        let middle = f64::midpoint(LABELS, WIDTH - MARGIN - VERDICTS);
        picture.text((middle, self.bottom + 38.0), self.axis.title.as_str(), MEDIUM, INK, Anchor::Middle);
    }

    fn row(&self, picture: &mut Picture, row: &Row, y: f64) {
        let label = format!("{}, {}: {}", row.cell.strategy, row.cell.contenders, row.figure);
        let label = shorten(&label, SMALL, LABELS - MARGIN - 10.0);
        picture.text((LABELS - 10.0, y), label, SMALL, INK, Anchor::End);
        let colour = colour(row.compared.verdict);
        for (values, (up, ink)) in relative(row).iter().zip([(-6.0, FAINT_INK), (6.0, colour)]) {
            for value in values {
                dot(picture, (self.at(*value), y + up), 2.0, ink);
            }
        }
        if let Some(ratio) = row.compared.ratio {
            if let (Some(low), Some(high)) = (ratio.low, ratio.high) {
                let (from, to) = (self.at(low), self.at(high));
                picture.line(vec![(from, y), (to, y)], colour, 3.0);
                picture.line(vec![(from, y - 4.0), (from, y + 4.0)], colour, 2.0);
                picture.line(vec![(to, y - 4.0), (to, y + 4.0)], colour, 2.0);
            }
            dot(picture, (self.at(ratio.ratio), y), 4.5, colour);
        }
        picture.text((WIDTH - MARGIN, y), row.compared.verdict.word(), SMALL, colour, Anchor::End);
    }
}

/// The colour of a verdict, whose word stands beside it. All can be read on white.
fn colour(verdict: Verdict) -> Colour {
    match verdict {
        Verdict::Regressed => (190, 0, 0),
        Verdict::Improved => (0, 110, 80),
        Verdict::Same => (0, 114, 178),
        Verdict::Differs | Verdict::Inconclusive | Verdict::NotMeasured => FAINT_INK,
    }
}

fn dot(picture: &mut Picture, (x, y): Point, radius: f64, colour: Colour) {
    let corners = 12_u32;
    let corner = |at: u32| {
        let angle = std::f64::consts::TAU * f64::from(at) / f64::from(corners);
        (x + radius * angle.cos(), y + radius * angle.sin())
    };
    picture.area((0..corners).map(corner).collect(), colour);
}
