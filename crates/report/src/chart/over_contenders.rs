//! A metric by number of contenders: a line for each strategy, or a bar if all strategies ran with the same number.

use super::{caption_of, mark_of, mark_of_one};
use crate::View;
use crate::document::{
    Axis, Bar, BarPart, Bars, Chart, ChartKind, Curve, Guide, GuideCourse, Lines, Mark, PartName, Weight,
};
use crate::view::Cell;
use zklockbench_core::measure::Unit;
use zklockbench_core::units::{contenders, number};
use zklockbench_record::figures::FAN_OUT;
use zklockbench_record::{FigureChart, FigureEntry};

#[derive(Clone, Copy)]
struct Plotted {
    entry: &'static FigureEntry,
    chart: FigureChart,
}

impl Plotted {
    fn is_in(&self, cell: &Cell<'_>) -> bool {
        cell.contenders >= self.chart.from && cell.figure(self.entry).is_some()
    }

    fn cells<'a>(&'a self, view: &'a View<'_>) -> impl Iterator<Item = &'a Cell<'a>> {
        view.cells.iter().filter(|cell| self.is_in(cell))
    }

    fn median(&self, cell: &Cell<'_>) -> f64 {
        self.drawn_as(cell.figure(self.entry).unwrap_or(0.0))
    }

    /// A value in the unit of the axis: times are drawn in seconds.
    fn drawn_as(&self, value: f64) -> f64 {
        if self.entry.card.unit == Unit::Micros { value / 1e6 } else { value }
    }

    fn counts(&self, view: &View<'_>) -> Vec<usize> {
        let measured = |count: &usize| view.cells_at(*count).any(|cell| self.is_in(cell));
        view.contender_counts().into_iter().filter(measured).collect()
    }

    fn series(&self, view: &View<'_>) -> Vec<Curve> {
        let all = (0..view.strategies.len()).map(|strategy| self.one(view, strategy));
        all.filter(|series| !series.line.is_empty()).collect()
    }

    fn one(&self, view: &View<'_>, strategy: usize) -> Curve {
        let mut series = Curve::new(strategy, &view.strategies[strategy]);
        for cell in view.cells_of(strategy).filter(|cell| self.is_in(cell)) {
            let point = (cell.contenders as f64, self.median(cell));
            series.line.push(point);
            series.markers.push((point, mark_of(cell)));
            series.dots.extend(self.dots(cell).map(|(value, mark)| ((point.0, value), mark)));
        }
        series
    }

    /// Values of individual repetitions, if there are several.
    fn dots<'a>(&self, cell: &'a Cell<'_>) -> impl Iterator<Item = (f64, Mark)> + 'a {
        let plotted = *self;
        let shown = cell.all().filter(|_| cell.trials.len() > 1);
        shown.filter_map(move |one| Some((plotted.drawn_as(plotted.entry.of(one)?), mark_of_one(one))))
    }

    /// Values with the most contenders, for readers who can't see the chart.
    fn said(&self, view: &View<'_>) -> String {
        let last = self.cells(view).map(|cell| cell.contenders).max().unwrap_or(0);
        let shown = self.cells(view).filter(|cell| cell.contenders == last);
        let all: Vec<String> =
            shown.map(|cell| format!("{}: {}", view.label(cell), number(self.median(cell)))).collect();
        format!("With {}: {}.", contenders(last), all.join("; "))
    }

    fn drawn(
        &self,
        view: &View<'_>,
        said: Vec<String>,
        y: impl FnOnce(&[Curve]) -> Axis,
        guides: impl FnOnce(&[usize]) -> Vec<Guide>,
        references: impl FnOnce(usize) -> Vec<Guide>,
    ) -> Option<Chart> {
        let counts = self.counts(view);
        let (title, kind) = match counts.as_slice() {
            [] => return None,
            [one] => {
                let title = format!("{}, {}", self.chart.title, contenders(*one));
                (title, ChartKind::Bars(self.bars(view, references(*one))))
            }
            many => {
                let series = self.series(view);
                let y = y(&series);
                let counts: Vec<f64> = many.iter().map(|count| *count as f64).collect();
                let x = Axis::measured("contenders, one session each", &counts);
                let lines = Lines::either_way(x, y, series);
                let title = format!("{} by number of contenders", self.chart.title);
                (title, ChartKind::Lines(Lines { guides: guides(many), ..lines }))
            }
        };
        Some(Chart {
            id: self.chart.id.to_owned(),
            title,
            said: self.said(view),
            caption: caption_of(view, said, |cell| self.is_in(cell)),
            kind,
        })
    }

    fn bars(&self, view: &View<'_>, guides: Vec<Guide>) -> Bars {
        let row = |cell: &Cell<'_>| {
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
        let compared = guides.iter().filter_map(|guide| match guide.course {
            GuideCourse::Upright(at) => Some(at),
            _ => None,
        });
        let highest = lengths.chain(compared).fold(0.0, f64::max);
        let parts = vec![PartName { name: self.chart.axis.to_owned(), colour: 0 }];
        Bars { axis: Axis::from_zero(self.chart.axis, highest), parts, guides, rows }
    }
}

/// Sentences on how repetitions are drawn; empty if there is only one.
fn on_repetitions(view: &View<'_>) -> Vec<String> {
    let most = view.cells.iter().map(|cell| cell.trials.len()).max().unwrap_or(0);
    let said = format!("Line or bar: the median of up to {most} repetitions; small dots: the repetitions.");
    if most > 1 { vec![said] } else { Vec::new() }
}

const LEAST: &str = "1: one waiter is notified";
const MOST: &str = "N−1: every waiter is notified";

pub fn over_contenders(
    view: &View<'_>,
    entry: &'static FigureEntry,
    chart: FigureChart,
) -> Result<Chart, String> {
    let figure = Plotted { entry, chart };
    let drawn = match entry.figure() == FAN_OUT.figure() {
        true => fan_out(view, &figure),
        false => amounts(view, &figure),
    };
    drawn.ok_or_else(|| chart.missing.unwrap_or_default().to_owned())
}

fn amounts(view: &View<'_>, figure: &Plotted) -> Option<Chart> {
    let y = |series: &[Curve]| Axis::amounts(figure.chart.axis, series.iter().flat_map(Curve::heights));
    figure.drawn(view, on_repetitions(view), y, |_| Vec::new(), |_| Vec::new())
}

/// Fan-out with its bounds: one waiter notified, or all of them.
fn fan_out(view: &View<'_>, figure: &Plotted) -> Option<Chart> {
    let mut said = on_repetitions(view);
    if figure.cells(view).any(|cell| figure.median(cell) == 0.0) {
        said.push("0: waiters are not notified, but poll again later.".to_owned());
    }
    let y = |series: &[Curve]| {
        let last = figure.counts(view).last().map_or(1.0, |most| *most as f64 - 1.0);
        let highest = series.iter().flat_map(Curve::heights).fold(last, f64::max);
        Axis::counts(figure.chart.axis, highest)
    };
    let guides = |counts: &[usize]| {
        let (low, high) = (counts[0] as f64, counts[counts.len() - 1] as f64);
        let along = |step: u32| low * (high / low).powf(f64::from(step) / 60.0);
        let most = (0..=60).map(|step| (along(step), along(step) - 1.0)).collect();
        vec![
            Guide::new(GuideCourse::Level(1.0), LEAST, Weight::Faint),
            Guide::new(GuideCourse::Along(most), MOST, Weight::Faint),
        ]
    };
    let references = |count: usize| {
        let guide = |at: f64, label: &str| Guide::new(GuideCourse::Upright(at), label, Weight::Faint);
        let most = (count > 2).then(|| guide(count as f64 - 1.0, MOST));
        std::iter::once(guide(1.0, LEAST)).chain(most).collect()
    };
    figure.drawn(view, said, y, guides, references)
}
