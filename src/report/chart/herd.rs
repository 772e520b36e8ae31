//! The herd's curve: how long after a release the first, second, … waiter that it wakes hears of it.

use super::marks::{caption_of, mark_of};
use crate::report::View;
use crate::report::document::{Axis, Chart, ChartKind, Curve, Lines, Mark, PlotPoint, float};
use crate::report::view::Cell;
use crate::words::measure::{Woken, rank_label};
use crate::words::units::{self, format_micros};

pub fn herd(view: &View<'_>) -> Result<Chart, String> {
    let contenders = view.herd_count().ok_or("no release woke two waiters")?;
    let shown = |cell: &Cell<'_>| cell.contenders == contenders && !cell.herd().is_empty();
    let cells = || view.cells.iter().filter(|cell| shown(cell));
    let all: Vec<Curve> = cells().map(|cell| series(view, cell)).collect();
    let last = Curve::furthest(&all, 1.0);
    let labels: Vec<String> = (0..last as usize).map(rank_label).collect();
    let x = Axis::columns("k: place among the waiters that one release wakes", &labels);
    let heights = all.iter().flat_map(Curve::heights);
    let y = Axis::durations_either_way("from the release to the notification", heights);
    let said: Vec<String> = cells().filter_map(|cell| said(view, cell)).collect();
    Ok(Chart {
        id: format!("herd-n{contenders}"),
        title: format!("When the k-th waiter hears of a release, {}", units::contenders(contenders)),
        said: format!("{}.", said.join("; ")),
        caption: caption_of(view, vec![HOW_TO_READ.to_owned()], shown),
        kind: ChartKind::Lines(Lines::either_way(x, y, all)),
    })
}

const HOW_TO_READ: &str = "One release may wake many waiters, one after the other: this is how long after the release \
    call the first, second, … of them is notified. The line is the median, the dots are the 99th percentile (medians over \
    the repetitions). A lock that wakes one waiter at a time has a single point, at 1.";

/// A column for each class of places, the first at 1: the medians as a line, the 99th percentiles as dots.
fn series(view: &View<'_>, cell: &Cell<'_>) -> Curve {
    let herd = cell.herd();
    let point = |woken: &Woken, us: u64| (float(woken.class() + 1), us.max(1) as f64);
    let line: Vec<PlotPoint> = herd.iter().map(|woken| point(woken, woken.p50_us)).collect();
    let plain = Mark { violated: false, ..mark_of(cell) };
    let dots = herd.iter().map(|woken| (point(woken, woken.p99_us), plain)).collect();
    Curve { dots, ..Curve::new(cell.strategy, view.label(cell)).through(line, mark_of(cell)) }
}

fn said(view: &View<'_>, cell: &Cell<'_>) -> Option<String> {
    let herd = cell.herd();
    let (first, last) = (herd.first()?, herd.last()?);
    let told = |woken: &Woken| {
        let [p50, p99] = [woken.p50_us, woken.p99_us].map(format_micros);
        format!("{p50} (99th percentile {p99}) for waiter {}", rank_label(woken.class()))
    };
    let more = if first == last { String::new() } else { format!(", {}", told(last)) };
    Some(format!("{}: {}{more}", view.label(cell), told(first)))
}
