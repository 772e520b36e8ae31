//! Lines over two axes: grid and labels, bands and guides, each strategy's line, markers and dots, and in a file its key at
//! the right, level with the end of its line. Also several small plots of one kind in one frame, two in a row.

use super::picture::{
    Anchor, Dot, Group, MEDIUM, Paint, Picture, Point, SMALL, circle, dash, shorten, text_width, wrap,
};
use super::{ABOVE_PLOT, BELOW_PLOT, ChartFrame, Medium};
use crate::document::{
    Axis, Band, Chart, Curve, Ends, Guide, GuideCourse, Intervals, Lines, Mark, Panels, Weight, float,
    simplified,
};

/// Points that lie within that many pixels of a line are not drawn.
const TOLERANCE: f64 = 0.25;

#[derive(Debug, Clone)]
pub struct Plot<'a> {
    pub left: f64,
    pub top: f64,
    pub right: f64,
    pub bottom: f64,
    x: &'a Axis,
    y: &'a Axis,
}

impl<'a> Plot<'a> {
    pub fn at(&self, x: f64, y: f64) -> Point {
        (self.across(x), self.bottom - self.y.share(y) * (self.bottom - self.top))
    }

    pub fn across(&self, x: f64) -> f64 {
        self.left + self.x.share(x).clamp(0.0, 1.0) * (self.right - self.left)
    }

    fn row(&self, y: f64) -> f64 {
        self.at(0.0, y).1
    }

    fn over(&self, y: &'a Axis) -> Self {
        Self { y, ..self.clone() }
    }
}

pub(super) fn draw(chart: &Chart, lines: &Lines, medium: Medium<'_>) -> Picture {
    let keys = keys(lines, medium);
    let mut frame = ChartFrame::common(chart, medium, ABOVE_PLOT + keys_height(&keys) + BELOW_PLOT);
    let plot = plot(&frame, medium, lines, &keys);
    let scales = if medium.is_page() { 2 } else { 1 };
    draw_within(&mut frame.picture, lines, &plot, medium.margin(), scales, &keys);
    frame.picture
}

pub fn plot_on_page<'a>(chart: &Chart, lines: &'a Lines) -> Plot<'a> {
    plot(&ChartFrame::common(chart, Medium::Page, 0.0), Medium::Page, lines, &[])
}

fn plot<'a>(frame: &ChartFrame, medium: Medium<'_>, lines: &'a Lines, keys: &[Key]) -> Plot<'a> {
    let keys_wide = if medium.is_page() { 20.0 } else { keys_width(keys) };
    Plot {
        left: medium.margin() + labels_width(lines) + 10.0,
        top: frame.top + ABOVE_PLOT,
        right: medium.right() - keys_wide,
        bottom: frame.bottom - BELOW_PLOT,
        x: &lines.x,
        y: &lines.y,
    }
}

fn labels_width(lines: &Lines) -> f64 {
    let axes = std::iter::once(&lines.y).chain(&lines.other_y);
    let labels = axes.flat_map(|axis| &axis.ticks).map(|tick| text_width(&tick.label, MEDIUM));
    labels.fold(0.0, f64::max)
}

/// A small plot in that rectangle, whose labels begin at `left`.
fn draw_small(picture: &mut Picture, lines: &Lines, (left, top): Point, (right, bottom): Point) {
    let plot = Plot { left: left + labels_width(lines) + 10.0, top, right, bottom, x: &lines.x, y: &lines.y };
    draw_within(picture, lines, &plot, left, 1, &[]);
}

/// Draws axes and what is within them, over so many of the upright scales; the title of that axis begins at `left`. Keys come
/// before the lines, because what leads to them ends at markers.
fn draw_within(
    picture: &mut Picture,
    lines: &Lines,
    plot: &Plot<'_>,
    left: f64,
    scales: usize,
    keys: &[Key],
) {
    lines.bands.iter().for_each(|band| draw_band(picture, plot, band));
    for guide in &lines.guides {
        if let GuideCourse::Upright(at) = guide.course {
            let across = plot.across(at);
            stroke(picture, vec![(across, plot.top), (across, plot.bottom)], guide.weight);
        }
    }
    write_above(picture, plot, &lines.guides);
    columns(picture, plot);
    draw_keys(picture, plot, keys);
    let both = [(Group::FirstScale, Some(&lines.y)), (Group::OtherScale, lines.other_y.as_ref())];
    for (group, y) in both.into_iter().take(scales) {
        let Some(y) = y else { continue };
        let plot = plot.over(y);
        picture.group(group, |picture| {
            rows(picture, &plot, left);
            lines.guides.iter().for_each(|guide| draw_guide(picture, &plot, lines, guide));
            draw_series(picture, &plot, &lines.series);
        });
    }
}

fn rows(picture: &mut Picture, plot: &Plot<'_>, left: f64) {
    picture.text((left, plot.top - 22.0), plot.y.title.as_str(), MEDIUM, Paint::Ink, Anchor::Start);
    for tick in &plot.y.ticks {
        let row = plot.row(tick.at);
        let width = if tick.label.is_empty() { 0.5 } else { 1.0 };
        picture.line(vec![(plot.left, row), (plot.right, row)], Paint::Grid, width);
        picture.text((plot.left - 8.0, row), tick.label.as_str(), MEDIUM, Paint::Ink, Anchor::End);
    }
    picture.line(vec![(plot.left, plot.bottom), (plot.right, plot.bottom)], Paint::Rule, 1.5);
}

fn columns(picture: &mut Picture, plot: &Plot<'_>) {
    for tick in &plot.x.ticks {
        let column = plot.across(tick.at);
        picture.line(vec![(column, plot.top), (column, plot.bottom + 5.0)], Paint::Grid, 1.0);
    }
    for (column, label) in readable(plot) {
        picture.text((column, plot.bottom + 16.0), label, MEDIUM, Paint::Ink, Anchor::Middle);
    }
    let middle = f64::midpoint(plot.left, plot.right);
    picture.text((middle, plot.bottom + 38.0), plot.x.title.as_str(), MEDIUM, Paint::Ink, Anchor::Middle);
}

/// The labels below the plot, without those that would touch one another; the last one always stays.
fn readable<'a>(plot: &Plot<'a>) -> Vec<(f64, &'a str)> {
    let mut kept: Vec<(f64, &str)> = Vec::new();
    for tick in plot.x.ticks.iter().rev().filter(|tick| !tick.label.is_empty()) {
        let column = plot.across(tick.at);
        let reach = text_width(&tick.label, MEDIUM) / 2.0 + 5.0;
        let free =
            kept.last().is_none_or(|(next, text)| column + reach < next - text_width(text, MEDIUM) / 2.0);
        if free {
            kept.push((column, &tick.label));
        }
    }
    kept
}

/// The least width of a band that can be seen, in pixels.
const THIN: f64 = 2.5;

fn draw_band(picture: &mut Picture, plot: &Plot<'_>, band: &Band) {
    let (left, right) = (plot.across(band.from), plot.across(band.to));
    let right = right.max(left + THIN).min(plot.right);
    picture.rectangle((left, plot.top), (right, plot.bottom), Paint::Band(band.share));
}

/// Writes the labels of what begins somewhere along the axis below above the plot; one that would touch the one before it is
/// left out.
fn write_above(picture: &mut Picture, plot: &Plot<'_>, guides: &[Guide]) {
    let place = |guide: &Guide| match guide.course {
        GuideCourse::Upright(at) | GuideCourse::Above(at) => Some((at, guide.label.clone())),
        GuideCourse::Level(_) | GuideCourse::Along(_) => None,
    };
    let mut labels: Vec<(f64, String)> =
        guides.iter().filter(|guide| !guide.label.is_empty()).filter_map(place).collect();
    labels.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut free = plot.left;
    for (at, text) in labels {
        let text = shorten(&text, SMALL, plot.right - plot.left);
        let wide = text_width(&text, SMALL);
        let start = (plot.across(at) - 2.0).min(plot.right - wide).max(plot.left);
        if start >= free {
            picture.text((start, plot.top - 7.0), text, SMALL, Paint::FaintInk, Anchor::Start);
            free = start + wide + 4.0;
        }
    }
}

fn stroke(picture: &mut Picture, points: Vec<Point>, weight: Weight) {
    let (dash, width): (&'static [f64], f64) = match weight {
        Weight::Faint => (&[2.0, 3.0], 1.0),
        Weight::Strong => (&[6.0, 4.0], 1.5),
        Weight::Limit => (&[7.0, 4.0], 1.5),
    };
    picture.dashed(points, dash, paint_of(weight), width);
}

const fn paint_of(weight: Weight) -> Paint {
    match weight {
        Weight::Faint => Paint::Rule,
        Weight::Strong => Paint::Ink,
        Weight::Limit => Paint::Alarm,
    }
}

/// Draws a guide that lies on the upright axis, with its label.
fn draw_guide(picture: &mut Picture, plot: &Plot<'_>, lines: &Lines, guide: &Guide) {
    let ink = if guide.weight == Weight::Faint { Paint::FaintInk } else { paint_of(guide.weight) };
    let label = guide.label.as_str();
    match &guide.course {
        GuideCourse::Level(height) => {
            let row = plot.row(*height);
            stroke(picture, vec![(plot.left, row), (plot.right, row)], guide.weight);
            let above = if row - 18.0 < plot.top { row + 10.0 } else { row - 9.0 };
            let (at, anchor) = match has_room_left(plot, lines, row) {
                true => (plot.left + 6.0, Anchor::Start),
                false => (plot.right - 4.0, Anchor::End),
            };
            picture.text((at, above), label, SMALL, ink, anchor);
        }
        GuideCourse::Along(places) => {
            let points: Vec<Point> = places.iter().map(|(x, y)| plot.at(*x, *y)).collect();
            if let Some((x, y)) = points.get(points.len() * 4 / 5) {
                picture.text((x - 14.0, y - 6.0), label, SMALL, ink, Anchor::End);
            }
            stroke(picture, points, guide.weight);
        }
        GuideCourse::Upright(_) | GuideCourse::Above(_) => {}
    }
}

/// Whether a label at that row has more room at the left, because lines are nearer to it at the right.
fn has_room_left(plot: &Plot<'_>, lines: &Lines, row: f64) -> bool {
    let away = |value: f64| (plot.row(value) - row).abs();
    let ends = lines.series.iter().filter_map(|series| Some((series.line.first()?.1, series.line.last()?.1)));
    let (left, right) =
        ends.fold((0.0, 0.0), |(left, right), (first, last)| (left + away(first), right + away(last)));
    left >= right
}

/// Draws all series: intervals and dots below all lines, those below all markers.
fn draw_series(picture: &mut Picture, plot: &Plot<'_>, all: &[Curve]) {
    for series in all {
        picture.group(Group::Series(series.look), |picture| below(picture, plot, series));
    }
    for series in all {
        let points: Vec<Point> = series.line.iter().map(|(x, y)| plot.at(*x, *y)).collect();
        let points = simplified(&points, TOLERANCE);
        picture.group(Group::Series(series.look), |picture| {
            picture.dashed(points, dash(series.look), Paint::Look(series.look), 2.5);
        });
    }
    markers(picture, plot, all);
}

fn below(picture: &mut Picture, plot: &Plot<'_>, series: &Curve) {
    match &series.intervals {
        Intervals::None => {}
        Intervals::Shaded(ends) => {
            let above = ends.iter().map(|ends| plot.at(ends.at, ends.high));
            let below = ends.iter().rev().map(|ends| plot.at(ends.at, ends.low));
            picture.area(above.chain(below).collect(), Paint::Shaded(series.look));
        }
        Intervals::Whiskers(ends) => {
            ends.iter().for_each(|ends| whisker(picture, plot, ends, Paint::Look(series.look)));
        }
    }
    for ((x, y), mark) in &series.dots {
        picture.dot(Dot {
            at: plot.at(*x, *y),
            radius: if mark.doubtful { 4.0 } else { 2.5 },
            paint: Paint::Pale(series.look),
            hollow: mark.doubtful,
            rimmed: false,
        });
    }
    for (x, y) in &series.measured {
        let mut ring = circle(plot.at(*x, *y), 9.0);
        ring.push(ring[0]);
        picture.line(ring, Paint::Ink, 1.8);
    }
}

fn whisker(picture: &mut Picture, plot: &Plot<'_>, ends: &Ends, paint: Paint) {
    let [bottom, top] = [ends.low, ends.high].map(|value| plot.at(ends.at, value));
    picture.line(vec![bottom, top], paint, 1.2);
    for (x, y) in [bottom, top] {
        picture.line(vec![(x - 4.0, y), (x + 4.0, y)], paint, 1.2);
    }
}

/// Draws all markers. Those that would cover one another stand side by side, around their common place.
fn markers(picture: &mut Picture, plot: &Plot<'_>, all: &[Curve]) {
    let mut places: Vec<(Point, Vec<(usize, Mark)>)> = Vec::new();
    for series in all {
        for ((x, y), mark) in &series.markers {
            let at = plot.at(*x, *y);
            match places.iter_mut().find(|(place, _)| close(*place, at)) {
                Some((_, sharing)) => sharing.push((series.look, *mark)),
                None => places.push((at, vec![(series.look, *mark)])),
            }
        }
    }
    for ((x, y), sharing) in places {
        let last = float(sharing.len() - 1);
        let step = (30.0 / last.max(1.0)).min(10.0);
        for ((look, mark), position) in sharing.into_iter().zip(0_u32..) {
            let aside = step * (f64::from(position) - last / 2.0);
            picture.group(Group::Series(look), |picture| picture.marker((x + aside, y), look, mark));
        }
    }
}

fn close(one: Point, other: Point) -> bool {
    (one.0 - other.0).abs() < 5.0 && (one.1 - other.1).abs() < 4.0
}

/// The keys of a file; a page has them below.
fn keys(lines: &Lines, medium: Medium<'_>) -> Vec<Key> {
    let key = |series: &Curve| {
        let end = *series.line.last()?;
        Some(Key { look: series.look, label: series.label.clone(), end })
    };
    match medium {
        Medium::File { .. } => lines.series.iter().filter_map(key).collect(),
        Medium::Page | Medium::WholePage => Vec::new(),
    }
}

const LEADER: f64 = 18.0;
const SAMPLE: f64 = 42.0;
const GAP: f64 = 8.0;
const TEXT: f64 = 190.0;
const ROW: f64 = 16.0;
const BETWEEN: f64 = 5.0;

#[derive(Debug, Clone, PartialEq)]
struct Key {
    look: usize,
    label: String,
    /// The last point of its line, as values on the axes.
    end: (f64, f64),
}

fn keys_width(keys: &[Key]) -> f64 {
    let widest = keys.iter().flat_map(|key| lines(&key.label)).map(|line| text_width(&line, MEDIUM));
    LEADER + SAMPLE + GAP + widest.fold(0.0, f64::max)
}

fn keys_height(keys: &[Key]) -> f64 {
    keys.iter().map(|key| height(&lines(&key.label))).sum()
}

/// Draws the keys, as near to the ends of their lines as they fit.
fn draw_keys(picture: &mut Picture, plot: &Plot<'_>, keys: &[Key]) {
    let mut wanted: Vec<(f64, &Key, Vec<String>)> =
        keys.iter().map(|key| (plot.at(key.end.0, key.end.1).1, key, lines(&key.label))).collect();
    wanted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let heights: Vec<f64> = wanted.iter().map(|(_, _, lines)| height(lines)).collect();
    let rows: Vec<f64> = wanted.iter().map(|(row, _, _)| *row).collect();
    let placed = spread(&rows, &heights, plot.top, plot.bottom);
    for ((row, key, lines), at) in wanted.iter().zip(placed) {
        leader(picture, plot, key, *row, at);
        one(picture, plot.right + LEADER, at, key, lines);
    }
}

fn draw_keys_across(picture: &mut Picture, (mut left, at): Point, keys: &[Key]) {
    for key in keys {
        one(picture, left, at, key, std::slice::from_ref(&key.label));
        left += SAMPLE + GAP + text_width(&key.label, MEDIUM) + 2.0 * LEADER;
    }
}

/// A thin line from the end of the strategy's line to its key, if the line ends at the plot's edge.
fn leader(picture: &mut Picture, plot: &Plot<'_>, key: &Key, row: f64, at: f64) {
    let end = plot.at(key.end.0, key.end.1).0;
    if end > plot.right - 60.0 {
        picture.line(
            vec![(end, row), (plot.right + 2.0, row), (plot.right + LEADER - 2.0, at)],
            Paint::Grid,
            1.5,
        );
    }
}

fn one(picture: &mut Picture, left: f64, at: f64, key: &Key, lines: &[String]) {
    let sample = vec![(left, at), (left + SAMPLE, at)];
    picture.dashed(sample, dash(key.look), Paint::Look(key.look), 2.5);
    picture.marker((left + SAMPLE / 2.0, at), key.look, Mark::default());
    let mut row = at - (height(lines) - BETWEEN - ROW) / 2.0;
    for line in lines {
        picture.text((left + SAMPLE + GAP, row), line.as_str(), MEDIUM, Paint::Ink, Anchor::Start);
        row += ROW;
    }
}

fn height(lines: &[String]) -> f64 {
    float(lines.len()) * ROW + BETWEEN
}

fn lines(label: &str) -> Vec<String> {
    wrap(label, MEDIUM, TEXT)
}

/// Moves rising positions apart so that none overlap, as little as possible and within the bounds.
fn spread(wanted: &[f64], heights: &[f64], top: f64, bottom: f64) -> Vec<f64> {
    let mut placed = wanted.to_vec();
    let mut free = top;
    for (at, height) in placed.iter_mut().zip(heights) {
        *at = at.max(free + height / 2.0);
        free = *at + height / 2.0;
    }
    let mut free = bottom.max(top + heights.iter().sum::<f64>());
    for (at, height) in placed.iter_mut().zip(heights).rev() {
        *at = at.min(free - height / 2.0);
        free = *at - height / 2.0;
    }
    placed
}

const KEYS_ROW: f64 = 42.0;
/// Two keys beside each other have room for labels that wide.
const KEY_AT_MOST: f64 = 380.0;
const HEADING: f64 = 36.0;
const INNER: f64 = 190.0;
const APART: f64 = 26.0;

pub(super) fn draw_panels(chart: &Chart, Panels { keys, panels }: &Panels, medium: Medium<'_>) -> Picture {
    let across = if panels.len() > 1 { 2 } else { 1 };
    let height = HEADING + ABOVE_PLOT + INNER + BELOW_PLOT + APART;
    let rows = panels.len().div_ceil(across) as f64;
    // A page has the keys below.
    let above = if medium.is_page() { 0.0 } else { KEYS_ROW };
    let mut frame = ChartFrame::holding(chart, medium, above + rows * height);
    let (mut top, margin) = (frame.top, medium.margin());
    if !medium.is_page() {
        let key = |(look, label): (usize, &String)| Key {
            look,
            label: shorten(label, MEDIUM, KEY_AT_MOST),
            end: (1.0, 1.0),
        };
        let keys: Vec<Key> = keys.iter().enumerate().map(key).collect();
        draw_keys_across(&mut frame.picture, (margin, top + KEYS_ROW / 2.0), &keys);
    }
    top += above;
    let width = (medium.right() - margin - (across - 1) as f64 * APART) / across as f64;
    for row in panels.chunks(across) {
        let mut left = margin;
        for (heading, lines) in row {
            let heading = shorten(heading, MEDIUM + 1.0, width);
            frame.picture.text((left, top + 8.0), heading, MEDIUM + 1.0, Paint::Ink, Anchor::Start);
            let above = top + HEADING + ABOVE_PLOT;
            draw_small(&mut frame.picture, lines, (left, above), (left + width - 10.0, above + INNER));
            left += width + APART;
        }
        top += height;
    }
    frame.picture
}

#[cfg(test)]
mod tests {
    use super::spread;

    #[test]
    fn keys_stay_level_with_their_lines_unless_they_touch() {
        assert_eq!(spread(&[15.0, 80.0], &[20.0; 2], 0.0, 100.0), [15.0, 80.0]);
        assert_eq!(spread(&[100.0; 3], &[20.0; 3], 0.0, 110.0), [60.0, 80.0, 100.0]);
    }
}
