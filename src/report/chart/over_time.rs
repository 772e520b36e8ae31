//! Throughput over time, second by second.

use super::axis::Axis;
use super::look::Mark;
use super::series::{self as lines, Series, mark_of};
use super::shade::Shade;
use super::sheet::Sheet;
use super::{Picture, caption};
use crate::report::View;
use crate::report::view::Cell;
use crate::units;

/// The contender count that the chart is drawn for; `None` when no trial lasted two seconds.
pub(super) fn count(view: &View) -> Option<usize> {
    view.best_common_count(lasted)
}

fn lasted(cell: &Cell) -> bool {
    cell.counting().any(|repetition| repetition.per_second.len() > 1)
}

/// Draws it; the error says why not.
pub(super) fn draw(view: &View) -> Result<Picture, String> {
    let contenders = count(view).ok_or_else(|| "no measured phase lasted two full seconds".to_owned())?;
    let cells = || view.cells_at(contenders).filter(|cell| lasted(cell));
    let all: Vec<Series> = cells().map(|cell| series(view, cell)).collect();
    let mut said = Vec::new();
    if cells().any(|cell| cell.repetitions.len() > 1) {
        said.push("Each second: the median over the repetitions.".to_owned());
    }
    let end = all.iter().filter_map(|series| series.line.last()).map(|end| end.0).fold(1.0, f64::max);
    let x = Axis::from_zero("seconds since the measured phase began", end);
    let shade = Shade::of(cells(), x.ticks.last().map_or(end, |tick| tick.0));
    said.extend(shade.said());
    let said = caption::of(view, said, |cell| cell.contenders == contenders && lasted(cell));
    let title = format!("Throughput over time, {}", units::contenders(contenders));
    let keys: Vec<_> = all.iter().map(Series::key).collect();
    let mut sheet = Sheet::for_keys(view, &title, &said, &keys);
    let y = Axis::amounts("acquisitions per second", all.iter().flat_map(Series::heights));
    let plot = sheet.plot_on((x, y), &keys, |picture, plot| shade.draw(picture, plot));
    lines::draw(&mut sheet.picture, &plot, &all);
    Ok(sheet.picture)
}

/// The points of each second, at its middle; markers on about a dozen of them.
fn series(view: &View, cell: &Cell) -> Series {
    let seconds = (0_u32..).map(|second| f64::from(second) + 0.5);
    let line: Vec<(f64, f64)> = seconds.zip(cell.per_second()).collect();
    let every = (line.len() / 12).max(1);
    // One cross a line is enough.
    let plain = Mark { violated: false, ..mark_of(cell) };
    let mut markers: Vec<_> =
        line.iter().skip(cell.strategy % every).step_by(every).map(|point| (*point, plain)).collect();
    if let Some(last) = markers.last_mut() {
        last.1 = mark_of(cell);
    }
    Series { strategy: cell.strategy, label: view.label(cell).to_owned(), markers, line, dots: Vec::new() }
}
