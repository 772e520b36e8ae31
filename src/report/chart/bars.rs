//! One figure at a single contender count: a bar for each strategy, because there is nothing to draw a line
//! over.

use super::axis::Axis;
use super::font;
use super::look::{FAINT_INK, GRID, INK, Look, Mark, PAPER, RULE, cross};
use super::picture::{Anchor, Picture, wrap};
use super::plot::{MEDIUM, SMALL};
use super::series::{mark_of, mark_of_one};
use super::sheet::{HEIGHT, Sheet, WIDTH};
use crate::report::View;
use crate::report::view::{Cell, Repetition, Spread};
use crate::units::number;

const LABEL: f64 = 230.0;
const LINE: f64 = 17.0;

/// What the bars show.
pub(super) struct Bars<'a> {
    /// The title.
    pub title: String,
    /// The figure with its unit.
    pub unit: &'a str,
    /// The contender count.
    pub contenders: usize,
    /// Values to compare with, and their names.
    pub references: Vec<(f64, String)>,
}

struct Row<'a> {
    cell: &'a Cell,
    label: Vec<String>,
    median: f64,
    /// The largest value of any repetition, also of one that does not count.
    furthest: f64,
}

/// Draws them. A strategy that did not measure the figure has no bar.
pub(super) fn draw(
    view: &View,
    figure: impl Fn(&Repetition) -> Option<f64> + Copy,
    bars: &Bars,
    said: &[String],
) -> Picture {
    let row = |cell| {
        let Spread { median, max, .. } = Cell::spread(cell, figure)?;
        let furthest = cell.repetitions.iter().filter_map(figure).fold(max, f64::max);
        Some(Row { cell, label: lines(view.label(cell)), median, furthest })
    };
    let rows: Vec<Row> = view.cells_at(bars.contenders).filter_map(row).collect();
    let mut sheet = Sheet::new(view, &bars.title, said, HEIGHT);
    let field = Field::new(&mut sheet, &rows, bars);
    for (at, row) in rows.iter().enumerate() {
        let middle = field.middle(at);
        bar(&mut sheet.picture, &field, row, middle);
        if row.cell.repetitions.len() > 1 {
            for repetition in &row.cell.repetitions {
                dot(&mut sheet.picture, &field, (repetition, figure(repetition)), middle);
            }
        }
    }
    sheet.picture
}

fn lines(label: &str) -> Vec<String> {
    wrap(label, MEDIUM, LABEL).into_iter().take(3).collect()
}

/// Where the bars lie.
struct Field {
    left: f64,
    right: f64,
    top: f64,
    step: f64,
    axis: Axis,
}

impl Field {
    fn new(sheet: &mut Sheet, rows: &[Row], bars: &Bars) -> Self {
        let widest = rows.iter().flat_map(|row| &row.label).map(|line| font::width(line, MEDIUM));
        let named = if bars.references.is_empty() { 0.0 } else { 22.0 };
        let top = sheet.top + named;
        let (bottom, highest) = (sheet.bottom - 48.0, highest(rows, bars));
        let step = ((bottom - top) / f64::from(u32::try_from(rows.len().max(1)).unwrap_or(1))).min(80.0);
        let left = 18.0 + widest.fold(0.0, f64::max) + 12.0;
        let field = Self { left, right: WIDTH - 90.0, top, step, axis: Axis::from_zero(bars.unit, highest) };
        field.axes(&mut sheet.picture, field.middle(rows.len()) - step / 2.0);
        field.references(&mut sheet.picture, bars, field.middle(rows.len()) - step / 2.0);
        field
    }

    fn middle(&self, row: usize) -> f64 {
        self.top + self.step * (f64::from(u32::try_from(row).unwrap_or(0)) + 0.5)
    }

    fn across(&self, value: f64) -> f64 {
        self.left + self.axis.share(value) * (self.right - self.left)
    }

    fn axes(&self, picture: &mut Picture, bottom: f64) {
        for (value, label) in &self.axis.ticks {
            let column = self.across(*value);
            picture.line(vec![(column, self.top), (column, bottom + 5.0)], GRID, 1.0);
            picture.text((column, bottom + 16.0), label.as_str(), (MEDIUM, INK, Anchor::Middle));
        }
        picture.line(vec![(self.left, self.top), (self.left, bottom)], RULE, 1.5);
        let middle = f64::midpoint(self.left, self.right);
        picture.text((middle, bottom + 38.0), self.axis.title.as_str(), (MEDIUM, INK, Anchor::Middle));
    }

    /// Thin lines with names above them; a name that would cover the one before it is left to the caption.
    fn references(&self, picture: &mut Picture, bars: &Bars, bottom: f64) {
        let mut free = self.left;
        for (value, name) in &bars.references {
            let column = self.across(*value);
            picture.line(vec![(column, self.top - 6.0), (column, bottom)], RULE, 1.0);
            let wide = font::width(name, SMALL);
            let start = (column - wide / 2.0).max(free).min(WIDTH - 18.0 - wide);
            if start >= free {
                picture.text((start, self.top - 14.0), name.as_str(), (SMALL, FAINT_INK, Anchor::Start));
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
    let (look, mark) = (Look::of(row.cell.strategy), mark_of(row.cell));
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
    picture.text((beside, middle), number(row.median), (MEDIUM, INK, Anchor::Start));
    label(picture, field, &row.label, middle);
}

fn label(picture: &mut Picture, field: &Field, lines: &[String], middle: f64) {
    let extra = f64::from(u32::try_from(lines.len().saturating_sub(1)).unwrap_or(0));
    let mut at = middle - extra * LINE / 2.0;
    for line in lines {
        picture.text((field.left - 10.0, at), line.as_str(), (MEDIUM, INK, Anchor::End));
        at += LINE;
    }
}

/// The dot of one repetition, with a white rim, because it lies on the bar.
fn dot(picture: &mut Picture, field: &Field, (repetition, value): (&Repetition, Option<f64>), middle: f64) {
    let Some(value) = value else { return };
    let at = (field.across(value).min(field.right + 40.0), middle);
    let circle = |radius: f64| {
        let corner = |step: u32| {
            let angle = std::f64::consts::TAU * f64::from(step) / 16.0;
            (at.0 + radius * angle.cos(), at.1 + radius * angle.sin())
        };
        (0..16).map(corner).collect::<Vec<_>>()
    };
    let Mark { doubtful, .. } = mark_of_one(repetition);
    picture.area(circle(5.0), PAPER);
    picture.area(circle(3.8), INK);
    if doubtful {
        picture.area(circle(2.2), PAPER);
    }
}
