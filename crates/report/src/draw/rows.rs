//! Rows one below the other, over one axis. Bars: a name, a bar of one or several parts, what it comes to, and the single
//! repetitions as dots. Ratios: each with its interval, and with the values that it is of as dots.

use super::picture::{
    Anchor, Dot, Group, MEDIUM, Paint, Picture, Point, SMALL, flow, label_lines, shorten, text_width,
};
use super::{ChartFrame, Medium};
use crate::document::{Axis, Bar, Bars, Chart, PartName, RatioRow, Ratios, float};
use zklockbench_analysis::compare::ComparisonVerdict;

const LINE: f64 = 17.0;
/// The room of a bar that stands alone, and the height of the bar.
const ROW: f64 = 44.0;
const BAR: f64 = 28.0;
/// What labels and title of the axis take.
const BELOW: f64 = 48.0;
/// Room for what is written beside the longest bar.
const VALUE: f64 = 72.0;
const NAMES: f64 = 22.0;
const LEGEND_LINE: f64 = 22.0;

pub(super) fn draw_bars(chart: &Chart, bars: &Bars, medium: Medium<'_>) -> Picture {
    let (left, right) = (medium.margin(), medium.right());
    let width = medium.width() * 0.3;
    let names: Vec<Vec<String>> = bars.rows.iter().map(|row| label_lines(&row.label, width)).collect();
    let heights: Vec<f64> = names.iter().map(|lines| (float(lines.len()) * LINE + 8.0).max(ROW)).collect();
    let legend = if medium.is_page() { Vec::new() } else { legend(&bars.parts, left, right) };
    let legend_height = legend.last().map_or(0.0, |(_, (_, row))| row + LEGEND_LINE);
    let above = legend_height + if bars.references.is_empty() { 0.0 } else { NAMES };
    let mut frame = ChartFrame::holding(chart, medium, above + heights.iter().sum::<f64>() + BELOW);
    for (part, (across, below)) in legend {
        let row = frame.top + below;
        let to = (across + 14.0, row + 7.0);
        frame.picture.rectangle((across, row - 7.0), to, Paint::Part(part.colour));
        frame.picture.text((across + 20.0, row), part.name.as_str(), SMALL, Paint::Ink, Anchor::Start);
    }
    let widest = names.iter().flatten().map(|line| text_width(line, MEDIUM)).fold(0.0, f64::max);
    let top = frame.top + above;
    let field = BarArea {
        bars,
        left: left + widest + 12.0,
        right: right - VALUE,
        edge: right,
        top,
        bottom: top + heights.iter().sum::<f64>(),
    };
    field.axes(&mut frame.picture);
    let mut at = top;
    for ((row, name), height) in bars.rows.iter().zip(&names).zip(&heights) {
        field.row(&mut frame.picture, row, name, at + height / 2.0);
        at += height;
    }
    frame.picture
}

/// Where the names of parts stand, in as many rows as it takes; nothing where there is one only.
fn legend(parts: &[PartName], left: f64, right: f64) -> Vec<(&PartName, Point)> {
    let shown: Vec<&PartName> = parts.iter().filter(|_| parts.len() > 1).collect();
    let wide = |part: &&PartName| 20.0 + text_width(&part.name, SMALL) + 18.0;
    let places = flow(shown.iter().map(wide), 0.0, (left, right), LEGEND_LINE);
    shown.into_iter().zip(places).map(|(part, (across, row))| (part, (across, row + 8.0))).collect()
}

struct BarArea<'a> {
    bars: &'a Bars,
    left: f64,
    right: f64,
    edge: f64,
    top: f64,
    bottom: f64,
}

impl BarArea<'_> {
    fn across(&self, value: f64) -> f64 {
        self.left + self.bars.axis.share(value) * (self.right - self.left)
    }

    fn axes(&self, picture: &mut Picture) {
        draw_ticks(picture, &self.bars.axis, (self.top, self.bottom), |value| self.across(value));
        picture.line(vec![(self.left, self.top), (self.left, self.bottom)], Paint::Rule, 1.5);
        draw_title(picture, &self.bars.axis, (self.left, self.right), self.bottom);
        self.references(picture);
    }

    /// Thin lines with names above them; a name that would cover the one before it is left to the caption.
    fn references(&self, picture: &mut Picture) {
        let mut free = self.left;
        for (value, name) in &self.bars.references {
            let column = self.across(*value);
            picture.line(vec![(column, self.top - 6.0), (column, self.bottom)], Paint::Rule, 1.0);
            let wide = text_width(name, SMALL);
            let start = (column - wide / 2.0).max(free).min(self.edge - wide);
            if start >= free {
                let at = (start, self.top - 14.0);
                picture.text(at, name.as_str(), SMALL, Paint::FaintInk, Anchor::Start);
                free = start + wide + 16.0;
            }
        }
    }

    fn row(&self, picture: &mut Picture, row: &Bar, name: &[String], middle: f64) {
        let mut at = middle - float(name.len().saturating_sub(1)) * LINE / 2.0;
        for line in name {
            picture.text((self.left - 10.0, at), line.as_str(), MEDIUM, Paint::Ink, Anchor::End);
            at += LINE;
        }
        picture.group(Group::Series(row.look), |picture| self.bar(picture, row, middle));
        let dots = row.dots.iter().map(|(value, _)| *value);
        let length: f64 = row.parts.iter().map(|part| part.length).sum();
        let mut beside = self.across(dots.fold(length, f64::max)) + 14.0;
        if row.mark.violated {
            picture.cross((beside + 6.0, middle));
            beside += 22.0;
        }
        picture.text((beside, middle), row.value.as_str(), MEDIUM, Paint::Ink, Anchor::Start);
    }

    fn bar(&self, picture: &mut Picture, row: &Bar, middle: f64) {
        let (above, below) = (middle - BAR / 2.0, middle + BAR / 2.0);
        let is_whole = self.bars.parts.len() < 2;
        let mut done = 0.0;
        for part in &row.parts {
            let (from, to) = (self.across(done), self.across(done + part.length));
            done += part.length;
            let colour = self.bars.parts.get(part.of).map_or(0, |part| part.colour);
            let paint = if is_whole { Paint::Look(row.look) } else { Paint::Part(colour) };
            picture.rectangle((from, above), (to, below), paint);
            if !is_whole {
                picture.line(vec![(to, above), (to, below)], Paint::Paper, 1.0);
            }
            if to - from > text_width(&part.label, SMALL) + 6.0 {
                let at = (f64::midpoint(from, to), middle);
                picture.text(at, part.label.as_str(), SMALL, Paint::OnPart(colour), Anchor::Middle);
            }
        }
        let end = self.across(done);
        if row.mark.doubtful && is_whole && end - self.left > 5.0 {
            picture.rectangle((self.left + 2.5, above + 2.5), (end - 2.5, below - 2.5), Paint::Paper);
        }
        for (value, doubtful) in &row.dots {
            picture.dot(Dot {
                at: (self.across(*value), middle),
                radius: 3.8,
                paint: Paint::Ink,
                hollow: *doubtful,
                rimmed: true,
            });
        }
    }
}

/// What labels take of the width, and what verdicts take.
const LABELS: f64 = 0.33;
const VERDICTS: f64 = 110.0;
const RATIO_ROW: f64 = 26.0;
/// Ratios beyond are drawn at the edge.
const FARTHEST: f64 = 10.0;

pub(super) fn draw_ratios(chart: &Chart, ratios: &Ratios, medium: Medium<'_>) -> Picture {
    let rows = ratios.rows.len() as f64 * RATIO_ROW;
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
        field.row(&mut frame.picture, row, field.top + (f64::from(at) + 0.5) * RATIO_ROW);
    }
    frame.picture
}

fn across(ratios: &Ratios) -> Axis {
    let ends = ratios.rows.iter().flat_map(|row| {
        let ends = row.interval.map(|interval| [interval.value, interval.low, interval.high]);
        ends.into_iter().flatten().chain(row.above.iter().chain(&row.below).copied())
    });
    let all = ends.chain(ratios.rows.iter().flat_map(ends_of_margin)).chain([1.0]);
    Axis::logarithmic(ratios.of, all.map(|ratio| ratio.clamp(1.0 / FARTHEST, FARTHEST)))
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
        draw_ticks(picture, &self.axis, (self.top, self.bottom), |ratio| self.at(ratio));
        let unchanged = self.at(1.0);
        picture.line(vec![(unchanged, self.top), (unchanged, self.bottom + 5.0)], Paint::Ink, 2.0);
        draw_title(picture, &self.axis, (self.left, self.right), self.bottom);
    }

    fn row(&self, picture: &mut Picture, row: &RatioRow, y: f64) {
        let label = shorten(&row.label, SMALL, self.left - self.margin - 10.0);
        picture.text((self.left - 10.0, y), label, SMALL, Paint::Ink, Anchor::End);
        let paint = paint(row.verdict);
        for end in ends_of_margin(row) {
            let x = self.at(end);
            picture.line(vec![(x, y - RATIO_ROW / 2.0), (x, y + RATIO_ROW / 2.0)], Paint::Rule, 1.0);
        }
        for (values, up, ink) in [(&row.above, -6.0, Paint::FaintInk), (&row.below, 6.0, paint)] {
            for value in values {
                dot(picture, (self.at(*value), y + up), 2.0, ink);
            }
        }
        if let Some(interval) = row.interval {
            if interval.is_bounded() {
                let (from, to) = (self.at(interval.low), self.at(interval.high));
                picture.line(vec![(from, y), (to, y)], paint, 3.0);
                picture.line(vec![(from, y - 4.0), (from, y + 4.0)], paint, 2.0);
                picture.line(vec![(to, y - 4.0), (to, y + 4.0)], paint, 2.0);
            }
            dot(picture, (self.at(interval.value), y), 4.5, paint);
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

fn draw_ticks(picture: &mut Picture, axis: &Axis, (top, bottom): (f64, f64), column: impl Fn(f64) -> f64) {
    for tick in &axis.ticks {
        let across = column(tick.at);
        picture.line(vec![(across, top), (across, bottom + 5.0)], Paint::Grid, 1.0);
        picture.text((across, bottom + 16.0), tick.label.as_str(), MEDIUM, Paint::Ink, Anchor::Middle);
    }
}

fn draw_title(picture: &mut Picture, axis: &Axis, (left, right): (f64, f64), bottom: f64) {
    let at = (f64::midpoint(left, right), bottom + 38.0);
    picture.text(at, axis.title.as_str(), MEDIUM, Paint::Ink, Anchor::Middle);
}
