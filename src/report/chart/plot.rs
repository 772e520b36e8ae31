//! What lies within the axes: each strategy's line, markers and dots, and its key at the right, level with the end of
//! its line.

use super::axis::{Axis, float};
use super::look::{GRID, INK, Look, Mark, dashed};
use super::picture::{Anchor, MEDIUM, Picture, Point, text_width, wrap};

/// The rectangle within the axes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Plot {
    pub left: f64,
    pub top: f64,
    pub right: f64,
    pub bottom: f64,
    pub x: Axis,
    pub y: Axis,
}

impl Plot {
    /// Where a pair of values lies.
    pub fn at(&self, x: f64, y: f64) -> Point {
        let across = self.left + self.x.share(x) * (self.right - self.left);
        (across, self.bottom - self.y.share(y) * (self.bottom - self.top))
    }
}

/// A value pair with its mark.
pub(super) type Marked = ((f64, f64), Mark);

/// What one strategy gives to a plot, as values on the axes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Series {
    pub strategy: usize,
    pub label: String,
    pub line: Vec<(f64, f64)>,
    pub markers: Vec<Marked>,
    /// Where the dots of single repetitions go.
    pub dots: Vec<Marked>,
}

impl Series {
    pub fn key(&self) -> Key {
        let end = self.line.last().copied().unwrap_or((1.0, 1.0));
        Key { look: Look::of(self.strategy), label: self.label.clone(), end }
    }

    /// All values along the second axis.
    pub fn heights(&self) -> impl Iterator<Item = f64> + '_ {
        self.line.iter().map(|point| point.1).chain(self.dots.iter().map(|(point, _)| point.1))
    }
}

/// Draws all series: first all dots, then all lines, then all markers.
pub(super) fn draw_series(picture: &mut Picture, plot: &Plot, all: &[Series]) {
    for series in all {
        for ((x, y), mark) in &series.dots {
            Look::of(series.strategy).dot(picture, plot.at(*x, *y), *mark);
        }
    }
    for series in all {
        let look = Look::of(series.strategy);
        let points: Vec<Point> = series.line.iter().map(|(x, y)| plot.at(*x, *y)).collect();
        dashed(picture, &points, look.dash, look.colour, 2.5);
    }
    markers(picture, plot, all);
}

/// Draws all markers. Those that would cover one another stand side by side, around their common place.
fn markers(picture: &mut Picture, plot: &Plot, all: &[Series]) {
    let mut places: Vec<(Point, Vec<(usize, Mark)>)> = Vec::new();
    for series in all {
        for ((x, y), mark) in &series.markers {
            let at = plot.at(*x, *y);
            let near = |(place, _): &&mut (Point, _)| close(*place, at);
            match places.iter_mut().find(near) {
                Some((_, sharing)) => sharing.push((series.strategy, *mark)),
                None => places.push((at, vec![(series.strategy, *mark)])),
            }
        }
    }
    for ((x, y), sharing) in places {
        let last = float(sharing.len() - 1);
        let step = (30.0 / last.max(1.0)).min(10.0);
        for ((strategy, mark), position) in sharing.into_iter().zip(0_u32..) {
            let aside = step * (f64::from(position) - last / 2.0);
            Look::of(strategy).marker(picture, (x + aside, y), mark);
        }
    }
}

fn close(one: Point, other: Point) -> bool {
    (one.0 - other.0).abs() < 5.0 && (one.1 - other.1).abs() < 4.0
}

const LEADER: f64 = 18.0;
const SAMPLE: f64 = 42.0;
const GAP: f64 = 8.0;
const TEXT: f64 = 190.0;
const ROW: f64 = 16.0;
const BETWEEN: f64 = 5.0;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Key {
    pub look: Look,
    pub label: String,
    /// The last point of its line, as values on the axes.
    pub end: (f64, f64),
}

pub(super) fn keys_width(keys: &[Key]) -> f64 {
    let widest = keys.iter().flat_map(|key| lines(&key.label)).map(|line| text_width(&line, MEDIUM));
    LEADER + SAMPLE + GAP + widest.fold(0.0, f64::max)
}

pub(super) fn keys_height(keys: &[Key]) -> f64 {
    keys.iter().map(|key| height(&lines(&key.label))).sum()
}

/// Draws the keys, as near to the ends of their lines as they fit.
pub(super) fn draw_keys(picture: &mut Picture, plot: &Plot, keys: &[Key]) {
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

/// Draws keys in a row, from that point to the right: their lines, markers and labels.
pub(super) fn draw_keys_across(picture: &mut Picture, (mut left, at): Point, keys: &[Key]) {
    for key in keys {
        one(picture, left, at, key, std::slice::from_ref(&key.label));
        left += SAMPLE + GAP + text_width(&key.label, MEDIUM) + 2.0 * LEADER;
    }
}

/// A thin line from the end of the strategy's line to its key, if the line ends at the plot's edge.
fn leader(picture: &mut Picture, plot: &Plot, key: &Key, row: f64, at: f64) {
    let end = plot.at(key.end.0, key.end.1).0;
    if end > plot.right - 60.0 {
        picture.line(vec![(end, row), (plot.right + 2.0, row), (plot.right + LEADER - 2.0, at)], GRID, 1.5);
    }
}

fn one(picture: &mut Picture, left: f64, at: f64, key: &Key, lines: &[String]) {
    dashed(picture, &[(left, at), (left + SAMPLE, at)], key.look.dash, key.look.colour, 2.5);
    key.look.marker(picture, (left + SAMPLE / 2.0, at), Mark::default());
    let first = at - (height(lines) - BETWEEN - ROW) / 2.0;
    let mut row = first;
    for line in lines {
        picture.text((left + SAMPLE + GAP, row), line.as_str(), MEDIUM, INK, Anchor::Start);
        row += ROW;
    }
}

fn height(lines: &[String]) -> f64 {
    lines.iter().map(|_| ROW).sum::<f64>() + BETWEEN
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

#[cfg(test)]
mod tests {
    use super::spread;

    #[test]
    fn keys_that_want_the_same_place_are_moved_apart_within_the_plot() {
        let placed = spread(&[100.0, 100.0, 100.0], &[20.0; 3], 0.0, 110.0);
        assert_eq!(placed, [60.0, 80.0, 100.0]);
    }

    #[test]
    fn keys_that_do_not_touch_stay_level_with_their_lines() {
        assert_eq!(spread(&[15.0, 80.0], &[20.0; 2], 0.0, 100.0), [15.0, 80.0]);
    }
}
