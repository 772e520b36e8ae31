//! Throughput and fan-out against contenders: a line for each strategy or, where all ran at a single contender count
//! and there is nothing to draw a line over, a bar.

use super::axis::{Axis, float};
use super::look::{FAINT_INK, GRID, INK, Look, Mark, PAPER, RULE, caption_of, cross, dashed};
use super::picture::{Anchor, MEDIUM, Picture, SMALL, label_lines, text_width};
use super::plot::{Plot, Series, draw_series};
use super::sheet::{HEIGHT, MARGIN, Sheet, WIDTH};
use crate::report::View;
use crate::report::view::{Cell, Repetition, Spread};
use crate::words::units::{contenders, number};

/// A figure, and the fewest contenders with which it says anything.
#[derive(Clone, Copy)]
struct Figure {
    of: fn(&Repetition) -> Option<f64>,
    from: usize,
}

impl Figure {
    /// Whether a cell gives a point to a chart of this figure.
    fn is_in(&self, cell: &Cell) -> bool {
        cell.contenders >= self.from && cell.median(self.of).is_some()
    }

    /// The contender counts at which the figure was measured, rising.
    fn counts(&self, view: &View) -> Vec<usize> {
        let measured = |count: &usize| view.cells_at(*count).any(|cell| self.is_in(cell));
        view.contender_counts().into_iter().filter(measured).collect()
    }

    /// One series for each strategy that measured the figure.
    fn series(&self, view: &View) -> Vec<Series> {
        let all = (0..view.strategies.len()).map(|strategy| self.one(view, strategy));
        all.filter(|series| !series.line.is_empty()).collect()
    }

    fn one(&self, view: &View, strategy: usize) -> Series {
        let label = view.strategies[strategy].clone();
        let mut series = Series { strategy, label, line: Vec::new(), markers: Vec::new(), dots: Vec::new() };
        for cell in view.cells_of(strategy).filter(|cell| self.is_in(cell)) {
            let at = float(cell.contenders);
            if let Some(median) = cell.median(self.of) {
                series.line.push((at, median));
                series.markers.push(((at, median), Mark::of(cell)));
            }
            if cell.repetitions.len() > 1 {
                let dots = cell.repetitions.iter();
                series.dots.extend(dots.filter_map(|one| Some(((at, (self.of)(one)?), Mark::of_one(one)))));
            }
        }
        series
    }
}

/// What to say of how repetitions are drawn; empty when there is one only.
fn on_repetitions(view: &View) -> Vec<String> {
    let most = view.cells.iter().map(|cell| cell.repetitions.len()).max().unwrap_or(0);
    let said = format!("Line or bar: the median of up to {most} repetitions; small dots: the repetitions.");
    if most > 1 { vec![said] } else { Vec::new() }
}

const THROUGHPUT: &str = "acquisitions per second";

/// Draws the throughput; the error says why not.
pub(super) fn throughput(view: &View) -> Result<Picture, String> {
    let figure = Figure { of: |repetition| repetition.throughput, from: 1 };
    let counts = figure.counts(view);
    let said = caption_of(view, on_repetitions(view), |cell| figure.is_in(cell));
    match counts.as_slice() {
        [] => Err("no trial measured a throughput".to_owned()),
        [one] => {
            let title = format!("Throughput, {}", contenders(*one));
            let bars = Bars { title, unit: THROUGHPUT, contenders: *one, references: Vec::new() };
            Ok(draw_bars(view, figure.of, &bars, &said))
        }
        many => Ok(throughput_over(view, &figure.series(view), many, &said)),
    }
}

fn throughput_over(view: &View, all: &[Series], counts: &[usize], said: &[String]) -> Picture {
    let keys: Vec<_> = all.iter().map(Series::key).collect();
    let mut sheet = Sheet::for_keys(&view.place_line(), "Throughput by number of contenders", said, &keys);
    let y = Axis::amounts(THROUGHPUT, all.iter().flat_map(Series::heights));
    let plot = sheet.plot(Axis::contenders(counts), y, &keys);
    draw_series(&mut sheet.picture, &plot, all);
    sheet.picture
}

const FAN_OUT: &str = "fan-out: notifications caused by a release, per release";
const LEAST: &str = "1: one waiter is notified";
const MOST: &str = "N−1: every waiter is notified";

/// Draws the fan-out, beside what is least and most: one waiter notified, or every one; the error says why not.
pub(super) fn fan_out(view: &View) -> Result<Picture, String> {
    let figure = Figure { of: |repetition| repetition.fan_out, from: 2 };
    let counts = figure.counts(view);
    let mut said = on_repetitions(view);
    let silent = view.cells.iter().any(|cell| figure.is_in(cell) && cell.median(figure.of) == Some(0.0));
    if silent {
        said.push("0: waiters are not notified, but look again after a time.".to_owned());
    }
    let said = caption_of(view, said, |cell| figure.is_in(cell));
    match counts.as_slice() {
        [] => Err("no trial released a lock that others waited for".to_owned()),
        [one] => Ok(draw_bars(view, figure.of, &fan_out_bars(*one), &said)),
        many => Ok(fan_out_over(view, &figure.series(view), many, &said)),
    }
}

fn fan_out_bars(count: usize) -> Bars<'static> {
    let mut references = vec![(1.0, LEAST.to_owned())];
    if count > 2 {
        references.push((float(count) - 1.0, MOST.to_owned()));
    }
    Bars { title: format!("Fan-out, {}", contenders(count)), unit: FAN_OUT, contenders: count, references }
}

fn fan_out_over(view: &View, all: &[Series], counts: &[usize], said: &[String]) -> Picture {
    let keys: Vec<_> = all.iter().map(Series::key).collect();
    let mut sheet = Sheet::for_keys(&view.place_line(), "Fan-out by number of contenders", said, &keys);
    let (fewest, most) = (float(counts[0]), float(counts[counts.len() - 1]));
    let highest = all.iter().flat_map(Series::heights).fold(most - 1.0, f64::max);
    let plot = sheet.plot(Axis::contenders(counts), Axis::zero_and_log(FAN_OUT, highest), &keys);
    least_and_most(&mut sheet.picture, &plot, fewest, most);
    draw_series(&mut sheet.picture, &plot, all);
    sheet.picture
}

fn least_and_most(picture: &mut Picture, plot: &Plot, low: f64, high: f64) {
    let along = |step: u32| low * (high / low).powf(f64::from(step) / 60.0);
    let least = [plot.at(low, 1.0), plot.at(high, 1.0)];
    let most: Vec<_> = (0..=60).map(|step| plot.at(along(step), along(step) - 1.0)).collect();
    for line in [least.as_slice(), most.as_slice()] {
        dashed(picture, line, &[2.0, 3.0], RULE, 1.0);
    }
    picture.text((plot.right - 4.0, least[1].1 - 18.0), LEAST, SMALL, FAINT_INK, Anchor::End);
    let (across, row) = most[48];
    picture.text((across - 14.0, row - 6.0), MOST, SMALL, FAINT_INK, Anchor::End);
}

const LABEL: f64 = 230.0;
const LINE: f64 = 17.0;

struct Bars<'a> {
    title: String,
    unit: &'a str,
    contenders: usize,
    /// Values to compare with, and their names.
    references: Vec<(f64, String)>,
}

struct Row<'a> {
    cell: &'a Cell,
    label: Vec<String>,
    median: f64,
    /// The largest value of any repetition, also of one that does not count.
    furthest: f64,
}

/// Draws bars. A strategy that did not measure the figure has no bar.
fn draw_bars(
    view: &View,
    figure: impl Fn(&Repetition) -> Option<f64> + Copy,
    bars: &Bars,
    said: &[String],
) -> Picture {
    let row = |cell| {
        let Spread { median, max, .. } = Cell::spread(cell, figure)?;
        let furthest = cell.repetitions.iter().filter_map(figure).fold(max, f64::max);
        Some(Row { cell, label: label_lines(view.label(cell), LABEL), median, furthest })
    };
    let rows: Vec<Row> = view.cells_at(bars.contenders).filter_map(row).collect();
    let mut sheet = Sheet::new(&view.place_line(), &bars.title, said, HEIGHT);
    let field = Field::new(&mut sheet, &rows, bars);
    for (at, row) in rows.iter().enumerate() {
        let middle = field.middle(at);
        bar(&mut sheet.picture, &field, row, middle);
        if row.cell.repetitions.len() > 1 {
            for repetition in &row.cell.repetitions {
                if let Some(value) = figure(repetition) {
                    dot(&mut sheet.picture, &field, repetition, value, middle);
                }
            }
        }
    }
    sheet.picture
}

struct Field {
    left: f64,
    right: f64,
    top: f64,
    step: f64,
    axis: Axis,
}

impl Field {
    fn new(sheet: &mut Sheet, rows: &[Row], bars: &Bars) -> Self {
        let widest = rows.iter().flat_map(|row| &row.label).map(|line| text_width(line, MEDIUM));
        let named = if bars.references.is_empty() { 0.0 } else { 22.0 };
        let top = sheet.top + named;
        let (bottom, highest) = (sheet.bottom - 48.0, highest(rows, bars));
        let step = ((bottom - top) / float(rows.len().max(1))).min(80.0);
        let left = MARGIN + widest.fold(0.0, f64::max) + 12.0;
        let field = Self { left, right: WIDTH - 90.0, top, step, axis: Axis::from_zero(bars.unit, highest) };
        field.axes(&mut sheet.picture, field.middle(rows.len()) - step / 2.0);
        field.references(&mut sheet.picture, bars, field.middle(rows.len()) - step / 2.0);
        field
    }

    fn middle(&self, row: usize) -> f64 {
        self.top + self.step * (float(row) + 0.5)
    }

    fn across(&self, value: f64) -> f64 {
        self.left + self.axis.share(value) * (self.right - self.left)
    }

    fn axes(&self, picture: &mut Picture, bottom: f64) {
        for (value, label) in &self.axis.ticks {
            let column = self.across(*value);
            picture.line(vec![(column, self.top), (column, bottom + 5.0)], GRID, 1.0);
            picture.text((column, bottom + 16.0), label.as_str(), MEDIUM, INK, Anchor::Middle);
        }
        picture.line(vec![(self.left, self.top), (self.left, bottom)], RULE, 1.5);
        let middle = f64::midpoint(self.left, self.right);
        picture.text((middle, bottom + 38.0), self.axis.title.as_str(), MEDIUM, INK, Anchor::Middle);
    }

    /// Thin lines with names above them; a name that would cover the one before it is left to the caption.
    fn references(&self, picture: &mut Picture, bars: &Bars, bottom: f64) {
        let mut free = self.left;
        for (value, name) in &bars.references {
            let column = self.across(*value);
            picture.line(vec![(column, self.top - 6.0), (column, bottom)], RULE, 1.0);
            let wide = text_width(name, SMALL);
            let start = (column - wide / 2.0).max(free).min(WIDTH - MARGIN - wide);
            if start >= free {
                picture.text((start, self.top - 14.0), name.as_str(), SMALL, FAINT_INK, Anchor::Start);
                free = start + wide + 16.0;
            }
        }
    }
}

fn highest(rows: &[Row], bars: &Bars) -> f64 {
    let measured = rows.iter().map(|row| row.furthest);
    measured.chain(bars.references.iter().map(|reference| reference.0)).fold(0.0, f64::max)
}

fn bar(picture: &mut Picture, field: &Field, row: &Row, middle: f64) {
    let (look, mark) = (Look::of(row.cell.strategy), Mark::of(row.cell));
    let half = (field.step * 0.3).min(18.0);
    let end = field.across(row.median);
    picture.rectangle((field.left, middle - half), (end, middle + half), look.colour);
    if mark.doubtful && end - field.left > 5.0 {
        picture.rectangle((field.left + 2.5, middle - half + 2.5), (end - 2.5, middle + half - 2.5), PAPER);
    }
    let mut beside = field.across(row.furthest) + 14.0;
    if mark.violated {
        cross(picture, (beside + 6.0, middle));
        beside += 22.0;
    }
    picture.text((beside, middle), number(row.median), MEDIUM, INK, Anchor::Start);
    label(picture, field, &row.label, middle);
}

fn label(picture: &mut Picture, field: &Field, lines: &[String], middle: f64) {
    let extra = float(lines.len().saturating_sub(1));
    let mut at = middle - extra * LINE / 2.0;
    for line in lines {
        picture.text((field.left - 10.0, at), line.as_str(), MEDIUM, INK, Anchor::End);
        at += LINE;
    }
}

/// The dot of one repetition, with a white rim, because it lies on the bar.
fn dot(picture: &mut Picture, field: &Field, repetition: &Repetition, value: f64, middle: f64) {
    let at = (field.across(value).min(field.right + 40.0), middle);
    let circle = |radius: f64| {
        let corner = |step: u32| {
            let angle = std::f64::consts::TAU * f64::from(step) / 16.0;
            (at.0 + radius * angle.cos(), at.1 + radius * angle.sin())
        };
        (0..16).map(corner).collect::<Vec<_>>()
    };
    let Mark { doubtful, .. } = Mark::of_one(repetition);
    picture.area(circle(5.0), PAPER);
    picture.area(circle(3.8), INK);
    if doubtful {
        picture.area(circle(2.2), PAPER);
    }
}
