//! Throughput over time, step by step; the times at which something was broken are shaded behind it, and elections that
//! nobody here caused are lines across it.

use super::axis::{Axis, float};
use super::look::{FAINT_INK, Mark, between, caption_of, dashed};
use super::picture::{Anchor, Colour, Picture, SMALL, text_width};
use super::plot::{Plot, Series, draw_series};
use super::sheet::Sheet;
use crate::report::View;
use crate::report::view::{Broken, Cell, Fault};
use crate::words::units;

/// The contender count that the chart is drawn for; `None` when no trial has a course.
pub(super) fn count(view: &View) -> Option<usize> {
    view.best_common_count(lasted)
}

fn lasted(cell: &Cell) -> bool {
    cell.over_time().is_some()
}

/// Draws it; the error says why not.
pub(super) fn draw(view: &View) -> Result<Picture, String> {
    let contenders =
        count(view).ok_or_else(|| "no measured phase was long enough to plot over time".to_owned())?;
    let cells = || view.cells_at(contenders).filter(|cell| lasted(cell));
    let all: Vec<Series> = cells().map(|cell| series(view, cell)).collect();
    let mut said = Vec::new();
    if cells().any(|cell| cell.repetitions.len() > 1) {
        said.push("Each step: the median over the repetitions.".to_owned());
    }
    let end = all.iter().filter_map(|series| series.line.last()).map(|end| end.0).fold(1.0, f64::max);
    let x = Axis::from_zero("seconds since the measured phase began", end);
    let last = x.ticks.last().map_or(end, |tick| tick.0);
    let shade = Shade::of(cells(), last);
    said.extend(shade.said());
    let elections = Elections::of(view, cells(), last);
    said.extend(elections.said());
    let said = caption_of(view, said, |cell| cell.contenders == contenders && lasted(cell));
    let title = format!("Throughput over time, {}", units::contenders(contenders));
    let keys: Vec<_> = all.iter().map(Series::key).collect();
    let mut sheet = Sheet::for_keys(&view.place_line(), &title, &said, &keys);
    let y = Axis::amounts("acquisitions per second", all.iter().flat_map(Series::heights));
    let plot = sheet.plot_on(x, y, &keys, |picture, plot| {
        shade.draw(picture, plot);
        elections.draw(picture, plot);
        write_above(picture, plot, [shade.numbers(), elections.labels()].concat());
    });
    draw_series(&mut sheet.picture, &plot, &all);
    Ok(sheet.picture)
}

/// The points of each step, at its middle; markers on about a dozen of them.
fn series(view: &View, cell: &Cell) -> Series {
    let course = cell.over_time();
    let line: Vec<(f64, f64)> = course.map_or_else(Vec::new, |course| {
        let long = course.bin_us as f64 / 1e6;
        let middles = (0_u32..).map(|step| (f64::from(step) + 0.5) * long);
        middles.zip(course.per_second).collect()
    });
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
        let deeper = if several { "; darker: more strategies under the fault" } else { "" };
        Some(format!(
            "Shaded: from when a fault was asked for to its end, in the first sound repetition{deeper}: {}.",
            names.join(", ")
        ))
    }

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
    }

    /// The share of locks for which something was broken at that time.
    fn share(&self, at: f64) -> f64 {
        let broken = |spans: &&Vec<Span>| {
            spans.iter().any(|span| span.from <= at && (at < span.to || span.from == span.to))
        };
        float(self.locks.iter().filter(broken).count()) / float(self.locks.len().max(1))
    }

    /// Which fault it is, where there are several.
    fn numbers(&self) -> Vec<(f64, String)> {
        if self.labels.len() < 2 {
            return Vec::new();
        }
        let number = |span: &Span| self.labels.iter().position(|label| *label == span.label).map(|at| at + 1);
        let all = self.locks.iter().flatten();
        all.filter_map(|span| Some((span.from, format!("({})", number(span)?)))).collect()
    }
}

/// Writes each of these above the plot, at its time; one that would touch the one before it is left out.
fn write_above(picture: &mut Picture, plot: &Plot, mut labels: Vec<(f64, String)>) {
    labels.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut free = plot.left;
    for (at, text) in labels {
        let wide = text_width(&text, SMALL);
        let start = (plot.at(at, 0.0).0 - 2.0).min(plot.right - wide).max(plot.left);
        if start >= free {
            picture.text((start, plot.top - 7.0), text, SMALL, FAINT_INK, Anchor::Start);
            free = start + wide + 4.0;
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

/// Dashes of the line at which an election was seen.
const ELECTION_DASHES: [f64; 2] = [5.0, 4.0];
const ELECTION: &str = "election";
/// How many elections a caption tells of one by one.
const ELECTIONS_TOLD: usize = 4;

/// The elections in the time of a chart that no fault of the scenario explains. Unlike faults they come when they please, so
/// those of all repetitions are shown.
struct Elections {
    /// When each was first seen, in seconds since the measured phase began, and in which trial.
    seen: Vec<(f64, String)>,
}

impl Elections {
    fn of<'a>(view: &'a View, cells: impl Iterator<Item = &'a Cell>, end: f64) -> Self {
        let of_cell = |cell: &'a Cell| {
            cell.repetitions.iter().flat_map(move |one| {
                let trial = format!("{}, repetition {}", view.label(cell), one.number);
                one.elections.iter().map(move |election| (election.seen_us as f64 / 1e6, trial.clone()))
            })
        };
        let mut seen: Vec<(f64, String)> =
            cells.flat_map(of_cell).filter(|(at, _)| (0.0..=end).contains(at)).collect();
        seen.sort_by(|one, other| one.0.total_cmp(&other.0));
        Self { seen }
    }

    /// What the lines mean; `None` when there are none.
    fn said(&self) -> Option<String> {
        let told: Vec<String> = self
            .seen
            .iter()
            .take(ELECTIONS_TOLD)
            .map(|(at, trial)| format!("{trial}, at {at:.1} s"))
            .collect();
        let more = match self.seen.len().saturating_sub(ELECTIONS_TOLD) {
            0 => String::new(),
            more => format!("; and {more} more"),
        };
        let told = told.join("; ");
        (!self.seen.is_empty()).then(|| {
            format!(
                "Dashed: the servers elected a leader, which nothing in the scenario caused: {told}{more}."
            )
        })
    }

    fn draw(&self, picture: &mut Picture, plot: &Plot) {
        for (at, _) in &self.seen {
            let across = plot.at(*at, 0.0).0;
            let down = [(across, plot.top), (across, plot.bottom)];
            dashed(picture, &down, &ELECTION_DASHES, FAINT_INK, 1.5);
        }
    }

    fn labels(&self) -> Vec<(f64, String)> {
        self.seen.iter().map(|(at, _)| (*at, ELECTION.to_owned())).collect()
    }
}
