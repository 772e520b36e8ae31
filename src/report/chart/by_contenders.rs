//! What the charts over contender counts share: one series a strategy, of one figure.

use super::series::{Series, mark_of, mark_of_one};
use crate::report::View;
use crate::report::view::{Cell, Repetition};

/// A figure, and the fewest contenders with which it says anything.
#[derive(Clone, Copy)]
pub(super) struct Figure {
    /// The figure of one repetition.
    pub of: fn(&Repetition) -> Option<f64>,
    /// The fewest contenders.
    pub from: usize,
}

impl Figure {
    /// Whether a cell gives a point to a chart of this figure.
    pub fn is_in(&self, cell: &Cell) -> bool {
        cell.contenders >= self.from && cell.median(self.of).is_some()
    }

    /// The contender counts at which the figure was measured, rising.
    pub fn counts(&self, view: &View) -> Vec<usize> {
        let measured = |count: &usize| view.cells_at(*count).any(|cell| self.is_in(cell));
        view.contender_counts().into_iter().filter(measured).collect()
    }

    /// One series for each strategy that measured the figure.
    pub fn series(&self, view: &View) -> Vec<Series> {
        let all = (0..view.strategies.len()).map(|strategy| self.one(view, strategy));
        all.filter(|series| !series.line.is_empty()).collect()
    }

    fn one(&self, view: &View, strategy: usize) -> Series {
        let label = view.strategies[strategy].clone();
        let mut series = Series { strategy, label, line: Vec::new(), markers: Vec::new(), dots: Vec::new() };
        for cell in view.cells_of(strategy).filter(|cell| self.is_in(cell)) {
            let at = across(cell);
            if let Some(median) = cell.median(self.of) {
                series.line.push((at, median));
                series.markers.push(((at, median), mark_of(cell)));
            }
            if cell.repetitions.len() > 1 {
                let dots = cell.repetitions.iter();
                series.dots.extend(dots.filter_map(|one| Some(((at, (self.of)(one)?), mark_of_one(one)))));
            }
        }
        series
    }
}

/// A cell's contender count as a value on an axis.
#[allow(clippy::cast_precision_loss)]
fn across(cell: &Cell) -> f64 {
    cell.contenders as f64
}

/// What to say of how repetitions are drawn; empty when there is one only.
pub(super) fn on_repetitions(view: &View) -> Vec<String> {
    let most = view.cells.iter().map(|cell| cell.repetitions.len()).max().unwrap_or(0);
    let said = format!("Line or bar: the median of up to {most} repetitions; small dots: the repetitions.");
    if most > 1 { vec![said] } else { Vec::new() }
}
