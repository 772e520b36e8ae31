//! What the charts over contender counts share: one series a strategy, of one figure.

use super::series::{Series, mark_of, mark_of_one};
use crate::report::View;
use crate::report::view::{Cell, Repetition};

/// One series for each strategy that measured the figure.
pub(super) fn series(view: &View, figure: impl Fn(&Repetition) -> Option<f64>) -> Vec<Series> {
    let of = |strategy: usize| one(view, strategy, &figure);
    (0..view.strategies.len()).map(of).filter(|series| !series.line.is_empty()).collect()
}

fn one(view: &View, strategy: usize, figure: &impl Fn(&Repetition) -> Option<f64>) -> Series {
    let label = view.strategies[strategy].clone();
    let mut series = Series { strategy, label, line: Vec::new(), markers: Vec::new(), dots: Vec::new() };
    for cell in view.cells_of(strategy) {
        let at = across(cell);
        if let Some(median) = cell.median(figure) {
            series.line.push((at, median));
            series.markers.push(((at, median), mark_of(cell)));
        }
        if cell.repetitions.len() > 1 {
            let dots = cell.repetitions.iter().filter_map(|r| Some(((at, figure(r)?), mark_of_one(r))));
            series.dots.extend(dots);
        }
    }
    series
}

/// The contender counts at which the figure was measured, rising.
pub(super) fn counts(view: &View, figure: impl Fn(&Repetition) -> Option<f64>) -> Vec<usize> {
    let measured = |count: &usize| view.cells_at(*count).any(|cell| cell.median(&figure).is_some());
    view.contender_counts().into_iter().filter(measured).collect()
}

/// A cell's contender count as a value on an axis.
#[allow(clippy::cast_precision_loss)]
pub(super) fn across(cell: &Cell) -> f64 {
    cell.contenders as f64
}

/// What to say of how repetitions are drawn; empty when there is one only.
pub(super) fn on_repetitions(view: &View) -> Vec<String> {
    let most = view.cells.iter().map(|cell| cell.repetitions.len()).max().unwrap_or(0);
    let said = format!("Line or bar: the median of up to {most} repetitions; small dots: the repetitions.");
    if most > 1 { vec![said] } else { Vec::new() }
}
