//! What a chart must say of the marks in it.

use crate::report::View;
use crate::report::view::Cell;

/// What the marks mean, and the trials that they stand for; empty when nothing is marked.
pub(super) fn of(view: &View, shown: impl Fn(&Cell) -> bool) -> Vec<String> {
    let cells = || view.cells.iter().filter(|cell| shown(cell));
    let mut said = view.remarks.clone();
    if cells().any(|cell| cell.violations() > 0) {
        said.push("Red cross: the lock let two contenders in at once.".to_owned());
    }
    if cells().flat_map(|cell| &cell.repetitions).any(|repetition| !repetition.is_sound()) {
        said.push(
            "Hollow: invalid or partial trials; no median counts them if a sound one exists.".to_owned(),
        );
    }
    said.extend(view.marks(&shown));
    said
}
