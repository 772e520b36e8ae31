//! The keys at the right of a plot: each strategy's line and name, level with the end of its line.

use super::font;
use super::look::{GRID, INK, Look, Mark, dashed};
use super::picture::{Anchor, Picture, wrap};
use super::plot::{MEDIUM, Plot};

const LEADER: f64 = 18.0;
const SAMPLE: f64 = 42.0;
const GAP: f64 = 8.0;
const TEXT: f64 = 190.0;
const ROW: f64 = 16.0;
const BETWEEN: f64 = 5.0;

/// One key.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Key {
    /// What the strategy looks like.
    pub look: Look,
    /// Its label.
    pub label: String,
    /// The last point of its line, as values on the axes.
    pub end: (f64, f64),
}

/// The room that the keys take.
pub(super) fn width(keys: &[Key]) -> f64 {
    let widest = keys.iter().flat_map(|key| lines(&key.label)).map(|line| font::width(&line, MEDIUM));
    LEADER + SAMPLE + GAP + widest.fold(0.0, f64::max)
}

/// The height that the keys take.
pub(super) fn room(keys: &[Key]) -> f64 {
    keys.iter().map(|key| height(&lines(&key.label))).sum()
}

/// Draws the keys, as near to the ends of their lines as they fit.
pub(super) fn draw(picture: &mut Picture, plot: &Plot, keys: &[Key]) {
    let mut wanted: Vec<(f64, &Key, Vec<String>)> =
        keys.iter().map(|key| (plot.at(key.end.0, key.end.1).1, key, lines(&key.label))).collect();
    wanted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let heights: Vec<f64> = wanted.iter().map(|(_, _, lines)| height(lines)).collect();
    let rows: Vec<f64> = wanted.iter().map(|(row, _, _)| *row).collect();
    let placed = spread(&rows, &heights, (plot.top, plot.bottom));
    for ((row, key, lines), at) in wanted.iter().zip(placed) {
        leader(picture, plot, (key, *row), at);
        one(picture, plot.right + LEADER, at, (key, lines));
    }
}

/// A thin line from the end of the strategy's line to its key, if the line ends at the plot's edge.
fn leader(picture: &mut Picture, plot: &Plot, (key, row): (&Key, f64), at: f64) {
    let end = plot.at(key.end.0, key.end.1).0;
    if end > plot.right - 60.0 {
        picture.line(vec![(end, row), (plot.right + 2.0, row), (plot.right + LEADER - 2.0, at)], GRID, 1.5);
    }
}

fn one(picture: &mut Picture, left: f64, at: f64, (key, lines): (&Key, &[String])) {
    for stroke in dashed(&[(left, at), (left + SAMPLE, at)], key.look.dash) {
        picture.line(stroke, key.look.colour, 2.5);
    }
    key.look.marker(picture, (left + SAMPLE / 2.0, at), Mark::default());
    let first = at - (height(lines) - BETWEEN - ROW) / 2.0;
    let mut row = first;
    for line in lines {
        picture.text((left + SAMPLE + GAP, row), line.as_str(), (MEDIUM, INK, Anchor::Start));
        row += ROW;
    }
}

fn height(lines: &[String]) -> f64 {
    lines.iter().map(|_| ROW).sum::<f64>() + BETWEEN
}

/// A label in lines that fit.
fn lines(label: &str) -> Vec<String> {
    wrap(label, MEDIUM, TEXT)
}

/// Moves rising positions apart so that none overlap, as little as possible and within the bounds.
fn spread(wanted: &[f64], heights: &[f64], (top, bottom): (f64, f64)) -> Vec<f64> {
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
        let placed = spread(&[100.0, 100.0, 100.0], &[20.0; 3], (0.0, 110.0));
        assert_eq!(placed, [60.0, 80.0, 100.0]);
    }

    #[test]
    fn keys_that_do_not_touch_stay_level_with_their_lines() {
        assert_eq!(spread(&[15.0, 80.0], &[20.0; 2], (0.0, 100.0)), [15.0, 80.0]);
    }
}
