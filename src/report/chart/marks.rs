//! What is marked on a chart's figures, and what its caption says of these marks.

use std::collections::BTreeMap;

use crate::report::View;
use crate::report::document::Mark;
use crate::report::view::Cell;
use crate::results::record::Trial;
use crate::words::units::counted;

pub(super) fn mark_of(cell: &Cell<'_>) -> Mark {
    Mark { doubtful: !cell.is_sound(), violated: cell.is_violated() }
}

pub(super) fn mark_of_one(trial: &Trial) -> Mark {
    Mark { doubtful: !trial.is_sound(), violated: trial.is_violated() }
}

/// What the marks of a chart mean, in one paragraph with what else there is to say, then the trials they stand for.
pub(super) fn caption_of(
    view: &View<'_>,
    mut said: Vec<String>,
    shown: impl Fn(&Cell<'_>) -> bool,
) -> Vec<String> {
    let cells: Vec<&Cell<'_>> = view.cells.iter().filter(|cell| shown(cell)).collect();
    let violated = by_strategy(&cells, |cell| cell.is_violated());
    if !violated.is_empty() {
        said.push("Red cross: the lock broke a promise.".to_owned());
    }
    let mut caption = caption_of_doubts(view, said, shown);
    caption.extend(violated.iter().map(|(strategy, cells)| {
        let why = cells.iter().find_map(|cell| cell.why_violated()).unwrap_or_default();
        format!("Violated: {}: {why}", named(view, *strategy, cells))
    }));
    caption
}

/// The same for a chart that marks violations in its own way.
pub(super) fn caption_of_doubts(
    view: &View<'_>,
    mut said: Vec<String>,
    shown: impl Fn(&Cell<'_>) -> bool,
) -> Vec<String> {
    let cells: Vec<&Cell<'_>> = view.cells.iter().filter(|cell| shown(cell)).collect();
    let doubtful = by_strategy(&cells, |cell| cell.all().any(|one| !one.is_sound()));
    if !doubtful.is_empty() {
        said.push(
            "Hollow: invalid or partial trials; medians leave them out if there is a sound one.".to_owned(),
        );
    }
    said.extend(view.remarks.iter().map(|remark| format!("{remark}.")));
    let mut caption = vec![said.join(" ")];
    caption.extend(doubtful.iter().map(|(strategy, cells)| doubt(view, *strategy, cells)));
    caption
}

fn by_strategy<'a>(
    cells: &[&'a Cell<'a>],
    holds: impl Fn(&Cell<'_>) -> bool,
) -> BTreeMap<usize, Vec<&'a Cell<'a>>> {
    let mut found: BTreeMap<usize, Vec<&Cell<'_>>> = BTreeMap::new();
    for cell in cells.iter().filter(|cell| holds(cell)) {
        found.entry(cell.strategy).or_default().push(cell);
    }
    found
}

fn doubt(view: &View<'_>, strategy: usize, cells: &[&Cell<'_>]) -> String {
    let all = || cells.iter().flat_map(|cell| cell.all());
    let why = all().find_map(Trial::unsound);
    let unsound = all().filter(|one| !one.is_sound()).count();
    let of = format!("{unsound} of {}", counted(all().count(), "trial", "trials"));
    format!("Hollow: {}: {of}, the first {}", named(view, strategy, cells), why.unwrap_or_default())
}

fn named(view: &View<'_>, strategy: usize, cells: &[&Cell<'_>]) -> String {
    let label = view.strategies.get(strategy).map_or("?", String::as_str);
    let counts: Vec<String> = cells.iter().map(|cell| cell.contenders.to_string()).collect();
    let noun = if counts == ["1"] { "contender" } else { "contenders" };
    format!("{label} at {} {noun}", counts.join(", "))
}
