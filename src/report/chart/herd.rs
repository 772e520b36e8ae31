//! The herd's curve: how long after a release the first, second, … waiter that it wakes hears of it.

use super::axis::{Axis, float};
use super::look::{Mark, caption_of};
use super::picture::Picture;
use super::plot::{Series, draw_series};
use super::sheet::Sheet;
use crate::report::View;
use crate::report::view::Cell;
use crate::words::measure::{Woken, rank_label};
use crate::words::units;

pub(super) fn draw(view: &View, contenders: usize) -> Picture {
    let all: Vec<Series> = view.cells_at(contenders).filter_map(|cell| series(view, cell)).collect();
    let shown = |cell: &Cell| cell.contenders == contenders && !cell.herd().is_empty();
    let said = caption_of(view, vec![View::HERD_CAPTION.to_owned()], shown);
    let title = format!("When the k-th waiter hears of a release, {}", units::contenders(contenders));
    let keys: Vec<_> = all.iter().map(Series::key).collect();
    let mut sheet = Sheet::for_keys(&view.place_line(), &title, &said, &keys);
    let last = all.iter().filter_map(|series| series.line.last()).map(|end| end.0).fold(1.0, f64::max);
    let labels: Vec<String> = (0..last as usize).map(rank_label).collect();
    let x = Axis::columns("k: place among the waiters that one release wakes", &labels);
    let y = Axis::durations("from the release to the notification", all.iter().flat_map(Series::heights));
    let plot = sheet.plot(x, y, &keys);
    draw_series(&mut sheet.picture, &plot, &all);
    sheet.picture
}

/// A column for each class of places, the first at 1: the medians as a line, the 99th percentiles as dots.
fn series(view: &View, cell: &Cell) -> Option<Series> {
    let herd = cell.herd();
    let point = |woken: &Woken, us: u64| (float(woken.class() + 1), us.max(1) as f64);
    let line: Vec<(f64, f64)> = herd.iter().map(|woken| point(woken, woken.p50_us)).collect();
    // One cross a line is enough.
    let plain = Mark { violated: false, ..Mark::of(cell) };
    let mut markers: Vec<_> = line.iter().map(|at| (*at, plain)).collect();
    markers.last_mut()?.1 = Mark::of(cell);
    let dots = herd.iter().map(|woken| (point(woken, woken.p99_us), plain)).collect();
    Some(Series { strategy: cell.strategy, label: view.label(cell).to_owned(), line, markers, dots })
}
