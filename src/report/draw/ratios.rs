//! Ratios with their intervals, one below the other on one axis, with the values that they are of as dots.

use super::frame::{ChartFrame, Medium};
use super::look::{Paint, Point};
use super::picture::{Anchor, Dot, MEDIUM, Picture, SMALL, shorten};
use crate::answer::compare::ComparisonVerdict;
use crate::report::document::{Axis, Chart, RatioRow, Ratios};

/// What labels take of the width, and what verdicts take.
const LABELS: f64 = 0.33;
const VERDICTS: f64 = 110.0;
const ROW: f64 = 26.0;
/// Ratios beyond are drawn at the edge.
const FARTHEST: f64 = 10.0;

pub(super) fn draw(chart: &Chart, ratios: &Ratios, medium: Medium<'_>) -> Picture {
    let rows = ratios.rows.len() as f64 * ROW;
    let mut frame = ChartFrame::holding(chart, medium, rows + 54.0);
    let field = RatioArea {
        top: frame.top,
        bottom: frame.top + rows,
        margin: medium.margin(),
        left: medium.width() * LABELS,
        right: medium.right() - VERDICTS,
        edge: medium.right(),
        axis: across(ratios),
    };
    field.ground(&mut frame.picture);
    for (row, at) in ratios.rows.iter().zip(0_u32..) {
        field.row(&mut frame.picture, row, field.top + (f64::from(at) + 0.5) * ROW);
    }
    frame.picture
}

/// The axis, wide enough for the intervals, the margins and the dots.
fn across(ratios: &Ratios) -> Axis {
    let ends = ratios.rows.iter().flat_map(|row| {
        let ends = row.interval.map(|interval| [interval.ratio, interval.low, interval.high]);
        ends.into_iter().flatten().flatten().chain(row.above.iter().chain(&row.below).copied())
    });
    let all = ends.chain(ratios.rows.iter().flat_map(ends_of_margin));
    let within: Vec<f64> = all.map(|ratio| ratio.clamp(1.0 / FARTHEST, FARTHEST)).collect();
    let low = within.iter().copied().fold(1.0, f64::min);
    let high = within.iter().copied().fold(1.0, f64::max);
    Axis::logarithmic(ratios.of, low, high)
}

fn ends_of_margin(row: &RatioRow) -> impl Iterator<Item = f64> {
    row.margin.into_iter().flat_map(|margin| [1.0 / (1.0 + margin), 1.0 + margin])
}

struct RatioArea {
    top: f64,
    bottom: f64,
    margin: f64,
    left: f64,
    right: f64,
    edge: f64,
    axis: Axis,
}

impl RatioArea {
    fn at(&self, ratio: f64) -> f64 {
        let share = self.axis.share(ratio.clamp(1.0 / FARTHEST, FARTHEST)).clamp(0.0, 1.0);
        self.left + share * (self.right - self.left)
    }

    fn ground(&self, picture: &mut Picture) {
        let down = |picture: &mut Picture, ratio: f64, paint: Paint, width: f64| {
            let x = self.at(ratio);
            picture.line(vec![(x, self.top), (x, self.bottom + 5.0)], paint, width);
        };
        for tick in &self.axis.ticks {
            down(picture, tick.at, Paint::Grid, 1.0);
            let at = (self.at(tick.at), self.bottom + 16.0);
            picture.text(at, tick.label.as_str(), MEDIUM, Paint::Ink, Anchor::Middle);
        }
        down(picture, 1.0, Paint::Ink, 2.0);
        let at = (f64::midpoint(self.left, self.right), self.bottom + 38.0);
        picture.text(at, self.axis.title.as_str(), MEDIUM, Paint::Ink, Anchor::Middle);
    }

    fn row(&self, picture: &mut Picture, row: &RatioRow, y: f64) {
        let label = shorten(&row.label, SMALL, self.left - self.margin - 10.0);
        picture.text((self.left - 10.0, y), label, SMALL, Paint::Ink, Anchor::End);
        let paint = paint(row.verdict);
        for end in ends_of_margin(row) {
            let x = self.at(end);
            picture.line(vec![(x, y - ROW / 2.0), (x, y + ROW / 2.0)], Paint::Rule, 1.0);
        }
        for (values, up, ink) in [(&row.above, -6.0, Paint::FaintInk), (&row.below, 6.0, paint)] {
            for value in values {
                dot(picture, (self.at(*value), y + up), 2.0, ink);
            }
        }
        if let Some(interval) = row.interval {
            if let (Some(low), Some(high)) = (interval.low, interval.high) {
                let (from, to) = (self.at(low), self.at(high));
                picture.line(vec![(from, y), (to, y)], paint, 3.0);
                picture.line(vec![(from, y - 4.0), (from, y + 4.0)], paint, 2.0);
                picture.line(vec![(to, y - 4.0), (to, y + 4.0)], paint, 2.0);
            }
            if let Some(middle) = interval.ratio {
                dot(picture, (self.at(middle), y), 4.5, paint);
            }
        }
        picture.text((self.edge, y), row.verdict.word(), SMALL, paint, Anchor::End);
    }
}

/// The colour of a verdict, whose word stands beside it. All can be read on white.
fn paint(verdict: ComparisonVerdict) -> Paint {
    match verdict {
        ComparisonVerdict::Regressed => Paint::Alarm,
        ComparisonVerdict::Improved => Paint::Good,
        ComparisonVerdict::Same => Paint::Look(0),
        ComparisonVerdict::Differs | ComparisonVerdict::Inconclusive | ComparisonVerdict::NotMeasured => {
            Paint::FaintInk
        }
    }
}

fn dot(picture: &mut Picture, at: Point, radius: f64, paint: Paint) {
    picture.dot(Dot { at, radius, paint, hollow: false, rimmed: false });
}
