//! One strategy's line, markers and dots.

use super::keys::Key;
use super::look::{Look, Mark, dashed};
use super::picture::{Picture, Point};
use super::sheet::Plot;
use crate::report::view::{Cell, Repetition};

/// A value pair with its mark.
pub(super) type Marked = ((f64, f64), Mark);

/// What one strategy gives to a plot, as values on the axes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Series {
    /// Position of the strategy.
    pub strategy: usize,
    /// Its label.
    pub label: String,
    /// The line.
    pub line: Vec<(f64, f64)>,
    /// Where the markers go.
    pub markers: Vec<Marked>,
    /// Where the dots of single repetitions go.
    pub dots: Vec<Marked>,
}

impl Series {
    /// The key of this series.
    pub fn key(&self) -> Key {
        let end = self.line.last().copied().unwrap_or((1.0, 1.0));
        Key { look: Look::of(self.strategy), label: self.label.clone(), end }
    }

    /// All values along the second axis.
    pub fn heights(&self) -> impl Iterator<Item = f64> + '_ {
        self.line.iter().map(|point| point.1).chain(self.dots.iter().map(|(point, _)| point.1))
    }
}

/// The mark of a figure over all repetitions of a cell.
pub(super) fn mark_of(cell: &Cell) -> Mark {
    Mark { doubtful: !cell.is_sound(), violated: cell.violations() > 0 }
}

/// The mark of one repetition's figure.
pub(super) fn mark_of_one(repetition: &Repetition) -> Mark {
    Mark { doubtful: !repetition.is_sound(), violated: repetition.violations > 0 }
}

/// Draws all series: first all dots, then all lines, then all markers.
pub(super) fn draw(picture: &mut Picture, plot: &Plot, all: &[Series]) {
    for series in all {
        for ((x, y), mark) in &series.dots {
            Look::of(series.strategy).dot(picture, plot.at(*x, *y), *mark);
        }
    }
    for series in all {
        let look = Look::of(series.strategy);
        let points: Vec<Point> = series.line.iter().map(|(x, y)| plot.at(*x, *y)).collect();
        for stroke in dashed(&points, look.dash) {
            picture.line(stroke, look.colour, 2.5);
        }
    }
    let mut taken: Vec<Point> = Vec::new();
    for series in all {
        for ((x, y), mark) in &series.markers {
            let at = beside(&mut taken, plot.at(*x, *y));
            Look::of(series.strategy).marker(picture, at, *mark);
        }
    }
}

/// The place for a marker: a little to the right where another already has its place.
fn beside(taken: &mut Vec<Point>, wanted: Point) -> Point {
    const STEP: f64 = 9.0;
    let mut at = wanted;
    while taken.iter().any(|(x, y)| (x - at.0).abs() < STEP - 0.5 && (y - at.1).abs() < 4.0) {
        at.0 += STEP;
    }
    taken.push(at);
    at
}
