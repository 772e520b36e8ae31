//! The times at which something was broken, shaded behind what is drawn over time.

use super::font;
use super::look::{FAINT_INK, between};
use super::picture::{Anchor, Colour, Picture};
use super::plot::{Plot, SMALL};
use crate::report::view::{Broken, Cell};

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
pub(super) struct Shade {
    /// One list of spans for each lock.
    locks: Vec<Vec<Span>>,
    labels: Vec<String>,
}

impl Shade {
    /// The shade of these cells, up to the end of the chart, in seconds.
    pub fn of<'a>(cells: impl Iterator<Item = &'a Cell>, end: f64) -> Self {
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
    pub fn said(&self) -> Option<String> {
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
    pub fn draw(&self, picture: &mut Picture, plot: &Plot) {
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
    #[allow(clippy::cast_precision_loss)]
    fn share(&self, at: f64) -> f64 {
        let broken = |spans: &&Vec<Span>| {
            spans.iter().any(|span| span.from <= at && (at < span.to || span.from == span.to))
        };
        self.locks.iter().filter(broken).count() as f64 / self.locks.len().max(1) as f64
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
            let wide = font::width(&text, SMALL);
            let start = (plot.at(from, 0.0).0 - 2.0).max(plot.left);
            if start >= free && start + wide <= plot.right {
                picture.text((start, plot.top - 7.0), text, (SMALL, FAINT_INK, Anchor::Start));
                free = start + wide + 4.0;
            }
        }
    }
}

/// When each fault lasted that was in force within the chart. One that could not be undone lasted to the end.
#[allow(clippy::cast_precision_loss)]
fn spans(broken: &Broken, end: f64) -> Vec<Span> {
    let seconds = |us: i64| (us as f64 / 1e6).clamp(0.0, end);
    let span = |fault: &crate::report::view::Fault| {
        let to = fault.ended_us.map(seconds).or_else(|| fault.left.as_ref().map(|_| end))?;
        let from = seconds(fault.asked_us);
        (from < end).then(|| Span { from, to: to.max(from), label: fault.label.clone() })
    };
    broken.faults.iter().filter_map(span).collect()
}
