//! A figure over the numbers of contenders: a line for each strategy or, where all ran at a single number and there is
//! nothing to draw a line over, a bar.

use super::marks::{caption_of, mark_of, mark_of_one};
use crate::report::View;
use crate::report::document::{
    Axis, Bar, BarPart, Bars, Chart, Curve, Guide, GuideCourse, Kind, Lines, Mark, PartName, Weight, float,
};
use crate::report::view::{Cell, Repetition};
use crate::words::units::{contenders, number};

/// A figure, and the fewest contenders with which it says anything.
#[derive(Clone, Copy)]
struct Figure {
    id: &'static str,
    title: &'static str,
    /// What is on the axis.
    axis: &'static str,
    of: fn(&Repetition) -> Option<f64>,
    from: usize,
}

impl Figure {
    /// Whether a cell gives a point to a chart of this figure.
    fn is_in(&self, cell: &Cell) -> bool {
        cell.contenders >= self.from && cell.median(self.of).is_some()
    }

    fn cells<'a>(&'a self, view: &'a View) -> impl Iterator<Item = &'a Cell> {
        view.cells.iter().filter(|cell| self.is_in(cell))
    }

    fn median(&self, cell: &Cell) -> f64 {
        cell.median(self.of).unwrap_or(0.0)
    }

    /// The numbers of contenders with which the figure was measured, rising.
    fn counts(&self, view: &View) -> Vec<usize> {
        let measured = |count: &usize| view.cells_at(*count).any(|cell| self.is_in(cell));
        view.contender_counts().into_iter().filter(measured).collect()
    }

    /// One series for each strategy that measured the figure.
    fn series(&self, view: &View) -> Vec<Curve> {
        let all = (0..view.strategies.len()).map(|strategy| self.one(view, strategy));
        all.filter(|series| !series.line.is_empty()).collect()
    }

    fn one(&self, view: &View, strategy: usize) -> Curve {
        let mut series = Curve::new(strategy, &view.strategies[strategy]);
        for cell in view.cells_of(strategy).filter(|cell| self.is_in(cell)) {
            let point = (float(cell.contenders), self.median(cell));
            series.line.push(point);
            series.markers.push((point, mark_of(cell)));
            series.dots.extend(self.dots(cell).map(|(value, mark)| ((point.0, value), mark)));
        }
        series
    }

    /// The values of single repetitions, where there are several.
    fn dots<'a>(&self, cell: &'a Cell) -> impl Iterator<Item = (f64, Mark)> + 'a {
        let of = self.of;
        let shown = cell.repetitions.iter().filter(|_| cell.repetitions.len() > 1);
        shown.filter_map(move |one| Some((of(one)?, mark_of_one(one))))
    }

    /// With the most contenders, for readers who can't see the chart.
    fn said(&self, view: &View) -> String {
        let last = self.cells(view).map(|cell| cell.contenders).max().unwrap_or(0);
        let shown = self.cells(view).filter(|cell| cell.contenders == last);
        let all: Vec<String> =
            shown.map(|cell| format!("{}: {}", view.label(cell), number(self.median(cell)))).collect();
        format!("With {}: {}.", contenders(last), all.join("; "))
    }

    /// The chart, with what lines and bars are compared with.
    fn chart(
        &self,
        view: &View,
        said: Vec<String>,
        y: impl FnOnce(&[Curve]) -> [Axis; 2],
        guides: impl FnOnce(&[usize]) -> Vec<Guide>,
        references: impl FnOnce(usize) -> Vec<(f64, String)>,
    ) -> Option<Chart> {
        let counts = self.counts(view);
        let (title, kind) = match counts.as_slice() {
            [] => return None,
            [one] => {
                let title = format!("{}, {}", self.title, contenders(*one));
                (title, Kind::Bars(self.bars(view, references(*one))))
            }
            many => {
                let series = self.series(view);
                let y = y(&series);
                let lines = Lines::either_way(Axis::contenders(many), y, series);
                let title = format!("{} by number of contenders", self.title);
                (title, Kind::Lines(Lines { guides: guides(many), ..lines }))
            }
        };
        Some(Chart {
            id: self.id.to_owned(),
            title,
            said: self.said(view),
            caption: caption_of(view, said, |cell| self.is_in(cell)),
            kind,
        })
    }

    fn bars(&self, view: &View, references: Vec<(f64, String)>) -> Bars {
        let row = |cell: &Cell| {
            let length = self.median(cell);
            Bar {
                look: cell.strategy,
                label: view.label(cell).to_owned(),
                parts: vec![BarPart { of: 0, length, label: String::new() }],
                value: number(length),
                mark: mark_of(cell),
                dots: self.dots(cell).map(|(value, mark)| (value, mark.doubtful)).collect(),
            }
        };
        let rows: Vec<Bar> = self.cells(view).map(row).collect();
        let lengths = rows.iter().flat_map(|row| {
            row.parts.iter().map(|part| part.length).chain(row.dots.iter().map(|(value, _)| *value))
        });
        let highest = lengths.chain(references.iter().map(|(value, _)| *value)).fold(0.0, f64::max);
        let parts = vec![PartName { name: self.axis.to_owned(), colour: 0 }];
        Bars { axis: Axis::from_zero(self.axis, highest), parts, references, rows }
    }
}

/// What to say of how repetitions are drawn; empty when there is one only.
fn on_repetitions(view: &View) -> Vec<String> {
    let most = view.cells.iter().map(|cell| cell.repetitions.len()).max().unwrap_or(0);
    let said = format!("Line or bar: the median of up to {most} repetitions; small dots: the repetitions.");
    if most > 1 { vec![said] } else { Vec::new() }
}

/// A chart of amounts that are compared with nothing.
fn amounts(view: &View, figure: &Figure) -> Option<Chart> {
    let y = |series: &[Curve]| Axis::amounts_either_way(figure.axis, series.iter().flat_map(Curve::heights));
    figure.chart(view, on_repetitions(view), y, |_| Vec::new(), |_| Vec::new())
}

/// The throughput; the error says why there is no chart.
pub fn throughput(view: &View) -> Result<Chart, String> {
    let (id, title, axis) = ("throughput", "Throughput", "acquisitions per second");
    let figure = Figure { id, title, axis, of: |one| one.throughput, from: 1 };
    amounts(view, &figure).ok_or_else(|| "no trial measured a throughput".to_owned())
}

/// The requests per acquisition; the error says why there is no chart.
pub fn requests(view: &View) -> Result<Chart, String> {
    let (id, title, axis) = ("requests", "Requests per acquisition", "requests per acquisition");
    let figure = Figure { id, title, axis, of: Repetition::requests_total, from: 1 };
    amounts(view, &figure).ok_or_else(|| super::kinds::why_none(view))
}

const LEAST: &str = "1: one waiter is notified";
const MOST: &str = "N−1: every waiter is notified";

/// The fan-out, beside what is least and most: one waiter notified, or every one; the error says why there is no chart.
pub fn fan_out(view: &View) -> Result<Chart, String> {
    let figure = Figure {
        id: "fan-out",
        title: "Fan-out",
        axis: "fan-out: notifications caused by a release, per release",
        of: |one| one.fan_out,
        from: 2,
    };
    let mut said = on_repetitions(view);
    if figure.cells(view).any(|cell| cell.median(figure.of) == Some(0.0)) {
        said.push("0: waiters are not notified, but look again after a time.".to_owned());
    }
    let y = |series: &[Curve]| {
        let last = figure.counts(view).last().map_or(1.0, |most| float(*most) - 1.0);
        Axis::counts_either_way(figure.axis, series.iter().flat_map(Curve::heights).fold(last, f64::max))
    };
    let guides = |counts: &[usize]| {
        let (low, high) = (float(counts[0]), float(counts[counts.len() - 1]));
        let along = |step: u32| low * (high / low).powf(f64::from(step) / 60.0);
        let most = (0..=60).map(|step| (along(step), along(step) - 1.0)).collect();
        vec![
            Guide::new(GuideCourse::Level(1.0), LEAST, Weight::Faint),
            Guide::new(GuideCourse::Along(most), MOST, Weight::Faint),
        ]
    };
    let references = |count: usize| {
        let most = (count > 2).then(|| (float(count) - 1.0, MOST.to_owned()));
        std::iter::once((1.0, LEAST.to_owned())).chain(most).collect()
    };
    let chart = figure.chart(view, said, y, guides, references);
    chart.ok_or_else(|| "no trial released a lock that others waited for".to_owned())
}
