//! What a chart must say of the marks in it.

use std::collections::BTreeMap;

use crate::report::View;
use crate::report::view::Cell;

/// What the marks mean, in one paragraph with what else there is to say, then the trials that they stand for.
pub(super) fn of(view: &View, mut said: Vec<String>, shown: impl Fn(&Cell) -> bool) -> Vec<String> {
    let cells: Vec<&Cell> = view.cells.iter().filter(|cell| shown(cell)).collect();
    let violated = by_strategy(&cells, |cell| cell.violations() > 0);
    if !violated.is_empty() {
        said.push("Red cross: the lock let two contenders in at once.".to_owned());
    }
    let mut caption = of_doubts(view, said, shown);
    caption.extend(violated.iter().map(|(strategy, cells)| {
        let count: u64 = cells.iter().map(|cell| cell.violations()).sum();
        format!("Violated: {}: {count} violations", named(view, *strategy, cells))
    }));
    caption
}

/// The same for a chart that marks violations in its own way.
pub(super) fn of_doubts(view: &View, mut said: Vec<String>, shown: impl Fn(&Cell) -> bool) -> Vec<String> {
    let cells: Vec<&Cell> = view.cells.iter().filter(|cell| shown(cell)).collect();
    let doubtful = by_strategy(&cells, |cell| cell.repetitions.iter().any(|one| !one.is_sound()));
    if !doubtful.is_empty() {
        said.push(
            "Hollow: invalid or partial trials; no median counts them if a sound one exists.".to_owned(),
        );
    }
    said.extend(view.remarks.iter().map(|remark| format!("{remark}.")));
    let mut caption = vec![said.join(" ")];
    caption.extend(doubtful.iter().map(|(strategy, cells)| doubt(view, *strategy, cells)));
    caption
}

fn by_strategy<'a>(cells: &[&'a Cell], holds: impl Fn(&Cell) -> bool) -> BTreeMap<usize, Vec<&'a Cell>> {
    let mut found: BTreeMap<usize, Vec<&Cell>> = BTreeMap::new();
    for cell in cells.iter().filter(|cell| holds(cell)) {
        found.entry(cell.strategy).or_default().push(cell);
    }
    found
}

fn doubt(view: &View, strategy: usize, cells: &[&Cell]) -> String {
    let all = || cells.iter().flat_map(|cell| &cell.repetitions);
    let why = all().find_map(|one| {
        let invalid = one.invalid.as_ref().map(|why| format!("invalid: {why}"));
        invalid.or_else(|| one.partial.as_ref().map(|why| format!("partial: {why}")))
    });
    let unsound = all().filter(|one| !one.is_sound()).count();
    let of = format!("{unsound} of {} trials", all().count());
    format!("Hollow: {}: {of}, the first {}", named(view, strategy, cells), why.unwrap_or_default())
}

fn named(view: &View, strategy: usize, cells: &[&Cell]) -> String {
    let label = view.strategies.get(strategy).map_or("?", String::as_str);
    let counts: Vec<String> = cells.iter().map(|cell| cell.contenders.to_string()).collect();
    format!("{label} at {} contenders", counts.join(", "))
}
