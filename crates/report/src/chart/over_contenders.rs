//! Charts a metric by number of contenders: as lines, or as bars if all strategies ran with the same number.

use super::{caption_of, mark_of, one_by_one};
use crate::View;
use crate::document::{Axis, Bar, Bars, Chart, ChartKind, Curve, Guide, GuideCourse, Lines, Mark, Weight};
use crate::view::Cell;
use zklockbench_core::measure::Unit;
use zklockbench_core::units::{contenders, distinct_sorted, number};
use zklockbench_record::figures::FAN_OUT;
use zklockbench_record::{FigureChart, FigureEntry, Trial};

/// A metric and the cells to chart.
struct Plotted<'a> {
    view: &'a View<'a>,
    entry: &'static FigureEntry,
    cells: Vec<&'a Cell<'a>>,
}

impl Plotted<'_> {
    /// Returns the median in the unit of the axis.
    fn median(&self, cell: &Cell<'_>) -> f64 {
        self.drawn_as(cell.figure(self.entry).unwrap_or(0.0))
    }

    /// Converts a value to the unit of the axis: times are drawn in seconds.
    fn drawn_as(&self, value: f64) -> f64 {
        if self.entry.card.unit == Unit::Micros { value / 1e6 } else { value }
    }

    fn series(&self) -> Vec<Curve> {
        let of_strategy = |strategy: usize| {
            let mut series = Curve::new(strategy, &self.view.strategies[strategy]);
            for cell in self.cells.iter().filter(|cell| cell.strategy == strategy) {
                let point = (cell.contenders as f64, self.median(cell));
                series.line.push(point);
                series.markers.push((point, mark_of(cell)));
                series.dots.extend(self.dots(cell).map(|(value, mark)| ((point.0, value), mark)));
            }
            series
        };
        let all = (0..self.view.strategies.len()).map(of_strategy);
        all.filter(|series| !series.line.is_empty()).collect()
    }

    /// Returns the values of individual repetitions, if there are several.
    fn dots(&self, cell: &Cell<'_>) -> impl Iterator<Item = (f64, Mark)> {
        let mark = |one: &Trial| Mark { doubtful: !one.is_sound(), violated: one.is_violated() };
        let shown = cell.all().filter(|_| cell.trials.len() > 1);
        shown.filter_map(move |one| Some((self.drawn_as(self.entry.of(one)?), mark(one))))
    }

    fn bars(&self, axis: &str, guides: Vec<Guide>) -> Bars {
        let row = |cell: &&Cell<'_>| {
            let length = self.median(cell);
            let dots = self.dots(cell).map(|(value, mark)| (value, mark.doubtful)).collect();
            let bar = Bar::new(cell.strategy, self.view.label(cell), length, number(length));
            Bar { mark: mark_of(cell), dots, ..bar }
        };
        let rows: Vec<Bar> = self.cells.iter().map(row).collect();
        let dots = rows.iter().flat_map(|row| &row.dots).map(|(value, _)| *value);
        let upright =
            |guide: &Guide| if let GuideCourse::Upright(at) = guide.course { Some(at) } else { None };
        let compared = guides.iter().filter_map(upright);
        let highest = rows.iter().map(Bar::length).chain(dots).chain(compared).fold(0.0, f64::max);
        Bars { axis: Axis::from_zero(axis, highest), parts: Vec::new(), guides, rows }
    }

    /// Returns the text alternative: the values with the most contenders.
    fn said(&self, most: usize) -> String {
        let shown = self.cells.iter().filter(|cell| cell.contenders == most);
        let value = |cell: &&Cell<'_>| format!("{}: {}", self.view.label(cell), number(self.median(cell)));
        format!("With {}: {}", contenders(most), one_by_one(shown.map(value)))
    }
}

pub fn over_contenders(
    view: &View<'_>,
    entry: &'static FigureEntry,
    chart: FigureChart,
) -> Result<Chart, String> {
    let is_in = |cell: &Cell<'_>| cell.contenders >= chart.from && cell.figure(entry).is_some();
    let figure = Plotted { view, entry, cells: view.cells.iter().filter(|cell| is_in(cell)).collect() };
    let counts = distinct_sorted(figure.cells.iter().map(|cell| cell.contenders));
    let (Some(least), Some(most)) = (counts.first().copied(), counts.last().copied()) else {
        return Err(chart.missing.unwrap_or_default().to_owned());
    };
    let is_fan_out = entry.figure() == FAN_OUT.figure();
    let (at, kind) = if least == most {
        let guides = if is_fan_out { fan_out_of(most) } else { Vec::new() };
        (format!(", {}", contenders(most)), ChartKind::Bars(figure.bars(chart.axis, guides)))
    } else {
        let series = figure.series();
        let heights = series.iter().flat_map(Curve::heights);
        let (y, guides) = match is_fan_out {
            true => {
                let highest = heights.fold(most as f64 - 1.0, f64::max);
                (Axis::counts(chart.axis, highest), fan_out_between(least as f64, most as f64))
            }
            false => (Axis::amounts(chart.axis, heights), Vec::new()),
        };
        let counts: Vec<f64> = counts.iter().map(|count| *count as f64).collect();
        let x = Axis::measured("contenders, one session each", &counts);
        let lines = Lines { guides, ..Lines::either_way(x, y, series) };
        (" by number of contenders".to_owned(), ChartKind::Lines(lines))
    };
    let mut caption = Vec::new();
    let most_trials = view.cells.iter().map(|cell| cell.trials.len()).max().filter(|trials| *trials > 1);
    caption.extend(most_trials.map(|trials| {
        format!("Line or bar: the median of up to {trials} repetitions; small dots: the repetitions.")
    }));
    let has_zero = is_fan_out && figure.cells.iter().any(|cell| figure.median(cell) == 0.0);
    caption.extend(has_zero.then(|| "0: waiters are not notified, but poll again later.".to_owned()));
    let (said, caption) = (figure.said(most), caption_of(view, caption, &figure.cells));
    Ok(Chart { id: chart.id.to_owned(), title: chart.title.to_owned() + &at, said, caption, kind })
}

const LEAST: &str = "1: one waiter is notified";
const MOST: &str = "N−1: every waiter is notified";

/// Returns the bounds of the fan-out with this many contenders.
fn fan_out_of(count: usize) -> Vec<Guide> {
    let guide = |at: f64, label: &str| Guide::new(GuideCourse::Upright(at), label, Weight::Faint);
    let most = (count > 2).then(|| guide(count as f64 - 1.0, MOST));
    std::iter::once(guide(1.0, LEAST)).chain(most).collect()
}

/// Returns the bounds of the fan-out between these numbers of contenders.
fn fan_out_between(low: f64, high: f64) -> Vec<Guide> {
    let along = |step: u32| low * (high / low).powf(f64::from(step) / 60.0);
    let most = (0..=60).map(|step| (along(step), along(step) - 1.0)).collect();
    vec![
        Guide::new(GuideCourse::Level(1.0), LEAST, Weight::Faint),
        Guide::new(GuideCourse::Along(most), MOST, Weight::Faint),
    ]
}
