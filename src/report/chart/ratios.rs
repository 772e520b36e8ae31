//! Ratios with their intervals, one below the other on one axis, with the values that they are of as dots.

use super::axis::Axis;
use super::look::{FAINT_INK, GRID, INK, RULE};
use super::picture::{Anchor, Colour, MEDIUM, Picture, Point, SMALL, shorten, wrap};
use crate::answer::compare::{ComparisonVerdict, StoredRatio};

const WIDTH: f64 = 1000.0;
const MARGIN: f64 = 18.0;
const LABELS: f64 = 330.0;
const VERDICTS: f64 = 110.0;
const ROW: f64 = 26.0;
const LINE: f64 = 18.0;
/// Ratios beyond are drawn at the edge.
const FARTHEST: f64 = 10.0;

pub(super) struct Bar {
    pub label: String,
    pub verdict: ComparisonVerdict,
    pub interval: Option<StoredRatio>,
    pub above: Vec<f64>,
    pub below: Vec<f64>,
}

pub(super) struct Ratios {
    pub heading: String,
    pub axis: &'static str,
    /// The smallest difference that matters, as a share.
    pub margin: f64,
    pub bars: Vec<Bar>,
    /// What has to be said, paragraph by paragraph.
    pub caption: Vec<String>,
}

impl Ratios {
    /// Draws them, the worst first; says why when there is none.
    pub fn draw(mut self) -> Result<Picture, String> {
        if self.bars.is_empty() {
            return Err("no figure has a ratio".to_owned());
        }
        self.bars.sort_by_key(|bar| bar.verdict);
        let width = WIDTH - 2.0 * MARGIN;
        let heading = wrap(&self.heading, MEDIUM + 2.0, width);
        let caption: Vec<String> = self.caption.iter().flat_map(|text| wrap(text, SMALL, width)).collect();
        let top = MARGIN + heading.len() as f64 * (LINE + 4.0) + 14.0;
        let bottom = top + self.bars.len() as f64 * ROW;
        let height = bottom + 54.0 + caption.len() as f64 * LINE + MARGIN;
        let mut picture = Picture::new(WIDTH, height.ceil());
        for (line, at) in heading.iter().zip(0_u32..) {
            let row = MARGIN + 8.0 + f64::from(at) * (LINE + 4.0);
            picture.text((MARGIN, row), line.as_str(), MEDIUM + 2.0, INK, Anchor::Start);
        }
        let field = Field { top, bottom, axis: self.across() };
        field.ground(&mut picture, self.margin);
        for (bar, at) in self.bars.iter().zip(0_u32..) {
            field.row(&mut picture, bar, top + (f64::from(at) + 0.5) * ROW);
        }
        for (line, at) in caption.iter().zip(0_u32..) {
            let row = bottom + 62.0 + f64::from(at) * LINE;
            picture.text((MARGIN, row), line.as_str(), SMALL, FAINT_INK, Anchor::Start);
        }
        Ok(picture)
    }

    /// The axis, wide enough for the intervals, the margin and the dots.
    fn across(&self) -> Axis {
        let ends = self.bars.iter().flat_map(|bar| {
            let ends = bar.interval.map(|interval| [interval.ratio, interval.low, interval.high]);
            ends.into_iter().flatten().flatten().chain(bar.above.iter().chain(&bar.below).copied())
        });
        let all = ends.chain([1.0 + self.margin, 1.0 / (1.0 + self.margin)]);
        let within: Vec<f64> = all.map(|ratio| ratio.clamp(1.0 / FARTHEST, FARTHEST)).collect();
        let low = within.iter().copied().fold(1.0, f64::min);
        let high = within.iter().copied().fold(1.0, f64::max);
        Axis::logarithmic(self.axis, low, high)
    }
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

    fn row(&self, picture: &mut Picture, bar: &Bar, y: f64) {
        let label = shorten(&bar.label, SMALL, LABELS - MARGIN - 10.0);
        picture.text((LABELS - 10.0, y), label, SMALL, INK, Anchor::End);
        let colour = colour(bar.verdict);
        for (values, up, ink) in [(&bar.above, -6.0, FAINT_INK), (&bar.below, 6.0, colour)] {
            for value in values {
                dot(picture, (self.at(*value), y + up), 2.0, ink);
            }
        }
        if let Some(interval) = bar.interval {
            if let (Some(low), Some(high)) = (interval.low, interval.high) {
                let (from, to) = (self.at(low), self.at(high));
                picture.line(vec![(from, y), (to, y)], colour, 3.0);
                picture.line(vec![(from, y - 4.0), (from, y + 4.0)], colour, 2.0);
                picture.line(vec![(to, y - 4.0), (to, y + 4.0)], colour, 2.0);
            }
            if let Some(middle) = interval.ratio {
                dot(picture, (self.at(middle), y), 4.5, colour);
            }
        }
        picture.text((WIDTH - MARGIN, y), bar.verdict.word(), SMALL, colour, Anchor::End);
    }
}

/// The colour of a verdict, whose word stands beside it. All can be read on white.
fn colour(verdict: ComparisonVerdict) -> Colour {
    match verdict {
        ComparisonVerdict::Regressed => (190, 0, 0),
        ComparisonVerdict::Improved => (0, 110, 80),
        ComparisonVerdict::Same => (0, 114, 178),
        ComparisonVerdict::Differs | ComparisonVerdict::Inconclusive | ComparisonVerdict::NotMeasured => {
            FAINT_INK
        }
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
