//! One strategy's line, markers and dots.

use super::keys::Key;
use super::look::{Look, Mark, dashed};
use super::picture::{Picture, Point};
use super::plot::Plot;
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
        let last = f64::from(u32::try_from(sharing.len() - 1).unwrap_or(u32::MAX));
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
