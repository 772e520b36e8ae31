//! Bars: a name, a bar of one or several parts, what it comes to, and the single repetitions as dots.

use super::frame::{ChartFrame, Medium};
use super::look::{Paint, Point};
use super::picture::{Anchor, Dot, Group, MEDIUM, Picture, SMALL, flow, label_lines, text_width};
use crate::report::document::{Bar, Bars, Chart, PartName, float};

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

pub(super) fn draw(chart: &Chart, bars: &Bars, medium: Medium<'_>) -> Picture {
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
        for tick in &self.bars.axis.ticks {
            let column = self.across(tick.at);
            picture.line(vec![(column, self.top), (column, self.bottom + 5.0)], Paint::Grid, 1.0);
            let at = (column, self.bottom + 16.0);
            picture.text(at, tick.label.as_str(), MEDIUM, Paint::Ink, Anchor::Middle);
        }
        picture.line(vec![(self.left, self.top), (self.left, self.bottom)], Paint::Rule, 1.5);
        let at = (f64::midpoint(self.left, self.right), self.bottom + 38.0);
        picture.text(at, self.bars.axis.title.as_str(), MEDIUM, Paint::Ink, Anchor::Middle);
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
