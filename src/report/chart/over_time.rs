//! Throughput over time, second by second; the times at which something was broken are shaded behind it.

use super::axis::{Axis, float};
use super::look::{FAINT_INK, Mark, between, caption_of};
use super::picture::{Anchor, Colour, Picture, SMALL, text_width};
use super::plot::{Plot, Series, draw_series};
use super::sheet::Sheet;
use crate::report::View;
use crate::report::view::{Broken, Cell, Fault};
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
    let said = caption_of(view, said, |cell| cell.contenders == contenders && lasted(cell));
    let title = format!("Throughput over time, {}", units::contenders(contenders));
    let keys: Vec<_> = all.iter().map(Series::key).collect();
    let mut sheet = Sheet::for_keys(view, &title, &said, &keys);
    let y = Axis::amounts("acquisitions per second", all.iter().flat_map(Series::heights));
    let plot = sheet.plot_on(x, y, &keys, |picture, plot| shade.draw(picture, plot));
    draw_series(&mut sheet.picture, &plot, &all);
    Ok(sheet.picture)
}

/// The points of each second, at its middle; markers on about a dozen of them.
fn series(view: &View, cell: &Cell) -> Series {
    let seconds = (0_u32..).map(|second| f64::from(second) + 0.5);
    let line: Vec<(f64, f64)> = seconds.zip(cell.per_second()).collect();
    let every = (line.len() / 12).max(1);
    // One cross a line is enough.
    let plain = Mark { violated: false, ..Mark::of(cell) };
    let mut markers: Vec<_> =
        line.iter().skip(cell.strategy % every).step_by(every).map(|point| (*point, plain)).collect();
    if let Some(last) = markers.last_mut() {
        last.1 = Mark::of(cell);
    }
    Series { strategy: cell.strategy, label: view.label(cell).to_owned(), markers, line, dots: Vec::new() }
}

/// While a fault lasts for one lock of many, and for all of them. Grid lines can still be seen on both.
const PALE: Colour = (254, 248, 234);
const DEEP: Colour = (251, 236, 200);
/// The least width that can be seen, in pixels.
const THIN: f64 = 2.5;

/// When a fault lasted, in seconds since the measured phase began.
#[derive(Debug, Clone, PartialEq)]
struct Span {
    from: f64,
    to: f64,
    label: String,
}

/// The faults of all locks of a chart, each as its first sound repetition met them.
struct Shade {
    /// One list of spans for each lock.
    locks: Vec<Vec<Span>>,
    labels: Vec<String>,
}

impl Shade {
    /// The shade of these cells, up to the end of the chart, in seconds.
    fn of<'a>(cells: impl Iterator<Item = &'a Cell>, end: f64) -> Self {
        let shown = |cell: &'a Cell| {
            let sound = cell.repetitions.iter().find(|one| one.is_sound());
            sound.or_else(|| cell.repetitions.first())?.broken.as_ref()
        };
        let locks: Vec<Vec<Span>> =
            cells.map(|cell| shown(cell).map(|broken| spans(broken, end)).unwrap_or_default()).collect();
        let mut labels: Vec<String> = Vec::new();
        for span in locks.iter().flatten() {
            if !labels.contains(&span.label) {
                labels.push(span.label.clone());
            }
        }
        Self { locks, labels }
    }

    /// What the shade means; `None` when there is none.
    fn said(&self) -> Option<String> {
        let names: Vec<String> = match self.labels.as_slice() {
            [] => return None,
            [one] => vec![one.clone()],
            many => many.iter().zip(1..).map(|(label, number)| format!("({number}) {label}")).collect(),
        };
        let several = self.locks.len() > 1;
        let deeper = if several { "; the deeper, the more of the locks at that time" } else { "" };
        Some(format!(
            "Shaded: from when a fault was asked for to its end, in the first sound repetition{deeper}: {}.",
            names.join(", ")
        ))
    }

    /// Draws it.
    fn draw(&self, picture: &mut Picture, plot: &Plot) {
        let mut edges: Vec<f64> = self.locks.iter().flatten().flat_map(|span| [span.from, span.to]).collect();
        edges.sort_by(f64::total_cmp);
        edges.dedup();
        let last = edges.last().copied();
        for (from, to) in edges.iter().zip(edges.iter().skip(1).chain(&last)) {
            let share = self.share(*from);
            let (left, right) = (plot.at(*from, 0.0).0, plot.at(*to, 0.0).0);
            if share > 0.0 {
                let right = right.max(left + THIN).min(plot.right);
                picture.rectangle((left, plot.top), (right, plot.bottom), between(PALE, DEEP, share));
            }
        }
        if self.labels.len() > 1 {
            self.numbers(picture, plot);
        }
    }

    /// The share of locks for which something was broken at that time.
    fn share(&self, at: f64) -> f64 {
        let broken = |spans: &&Vec<Span>| {
            spans.iter().any(|span| span.from <= at && (at < span.to || span.from == span.to))
        };
        float(self.locks.iter().filter(broken).count()) / float(self.locks.len().max(1))
    }

    /// Which fault it is, above the plot; a number that would touch the one before it is left out.
    fn numbers(&self, picture: &mut Picture, plot: &Plot) {
        let number = |span: &Span| self.labels.iter().position(|label| *label == span.label).map(|at| at + 1);
        let mut all: Vec<(f64, usize)> =
            self.locks.iter().flatten().filter_map(|span| Some((span.from, number(span)?))).collect();
        all.sort_by(|one, other| one.0.total_cmp(&other.0));
        let mut free = plot.left;
        for (from, number) in all {
            let text = format!("({number})");
            let wide = text_width(&text, SMALL);
            let start = (plot.at(from, 0.0).0 - 2.0).max(plot.left);
            if start >= free && start + wide <= plot.right {
                picture.text((start, plot.top - 7.0), text, SMALL, FAINT_INK, Anchor::Start);
                free = start + wide + 4.0;
            }
        }
    }
}

/// When each fault lasted that was in force within the chart. One that could not be undone lasted to the end.
fn spans(broken: &Broken, end: f64) -> Vec<Span> {
    let seconds = |us: i64| (us as f64 / 1e6).clamp(0.0, end);
    let span = |fault: &Fault| {
        let to = fault.ended_us.map(seconds).or_else(|| fault.left.as_ref().map(|_| end))?;
        let from = seconds(fault.asked_us);
        (from < end).then(|| Span { from, to: to.max(from), label: fault.label.clone() })
    };
    broken.faults.iter().filter_map(span).collect()
}
