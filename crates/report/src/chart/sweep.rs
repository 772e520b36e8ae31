//! Throughput and wait of a sweep over its variable, with intervals and the objective.

use super::one_by_one;
use crate::document::{Axis, Chart, ChartKind, Curve, Ends, Guide, GuideCourse, Lines, Mark, Weight};
use crate::table::sweep_title;
use zklockbench_analysis::sweep::{Finding, Point, State, SweepFile, Variable};
use zklockbench_core::measure::{Figure, Measure, Statistic};
use zklockbench_core::units::{capitalised, counted, number};
use zklockbench_record::figures::THROUGHPUT;
use zklockbench_stats::Interval;

/// Both charts of a sweep, without a chart of a metric that was never measured.
pub fn of_sweep(file: &SweepFile) -> Vec<Chart> {
    let throughput = Swept {
        id: "sweep-throughput",
        name: "throughput",
        axis: "acquisitions per second",
        of: |point| point.throughput,
        is_bound: |_| false,
        figure: THROUGHPUT.figure(),
    };
    let wait = Swept {
        id: "sweep-wait",
        name: "wait p99",
        axis: "wait, 99th percentile",
        of: |point| point.wait_p99,
        is_bound: |point| point.wait_p99_at_least,
        figure: Figure::Latency(Measure::Wait, Statistic::percent(99)),
    };
    [throughput, wait].iter().filter_map(|swept| swept.chart(file)).collect()
}

pub(super) fn place(file: &SweepFile) -> String {
    format!(
        "scenario {}, {} load, {}; ZooKeeper ensemble: {}; generator on {} with {}",
        file.scenario,
        file.load,
        counted(file.samples.len(), "trial", "trials"),
        file.ensembles.first().map_or("none", |ensemble| ensemble.kind.as_str()),
        file.host.hostname,
        counted(file.host.cores, "core", "cores")
    )
}

struct Swept {
    id: &'static str,
    name: &'static str,
    axis: &'static str,
    of: fn(&Point) -> Option<Interval>,
    is_bound: fn(&Point) -> bool,
    figure: Figure,
}

impl Swept {
    fn chart(&self, file: &SweepFile) -> Option<Chart> {
        let variable = file.over.first()?.variable;
        let mut all: Vec<Curve> =
            file.findings.iter().enumerate().map(|(at, finding)| self.series(file, at, finding)).collect();
        all.retain(|series| !series.line.is_empty());
        let measured: Vec<f64> = all.iter().flat_map(|series| &series.line).map(|point| point.0).collect();
        if measured.is_empty() {
            return None;
        }
        let limit = file.objective.as_ref().filter(|objective| objective.figure == self.figure);
        let caption = vec![
            "Line: median of the valid repetitions; bars: lowest and highest of them; hollow: a lower \
             bound, or \
             doubtful."
                .to_owned(),
        ];
        let heights = all.iter().flat_map(Curve::heights).chain(limit.map(|objective| objective.limit));
        let y = match self.figure == THROUGHPUT.figure() {
            true => Axis::amounts(self.axis, heights),
            false => Axis::durations(self.axis, heights),
        };
        let guide = |at: f64, label: &str| Guide::new(GuideCourse::Level(at), label, Weight::Limit);
        Some(Chart {
            id: self.id.to_owned(),
            title: format!("{} by {}", capitalised(self.name), variable.name()),
            said: said(&all),
            caption,
            kind: ChartKind::Lines(Lines {
                guides: limit.map(|objective| guide(objective.limit, &objective.text)).into_iter().collect(),
                ..Lines::either_way(across(variable, &measured), y, all)
            }),
        })
    }

    fn series(&self, file: &SweepFile, at: usize, finding: &Finding) -> Curve {
        let known = || finding.series.points.iter().filter_map(|point| Some((point, (self.of)(point)?)));
        let place = |(point, found): (&Point, Interval)| (point.at.x, found.value);
        let mark = |point: &Point| Mark {
            doubtful: point.state != State::Sound || (self.is_bound)(point),
            violated: point.state == State::Violated,
        };
        let ends = known().filter(|(_, found)| found.high.is_finite()).map(|(point, found)| Ends {
            at: point.at.x,
            low: found.low,
            middle: found.value,
            high: found.high,
        });
        Curve {
            line: known().map(place).collect(),
            markers: known().map(|known| (place(known), mark(known.0))).collect(),
            whiskers: ends.collect(),
            ..Curve::new(at, sweep_title(file, finding))
        }
    }
}

fn said(all: &[Curve]) -> String {
    let one = |series: &Curve| {
        let (first, last) = (series.line.first()?, series.line.last()?);
        let [from, to] = [first, last].map(|(at, value)| format!("{} at {}", number(*value), number(*at)));
        Some(format!("{}: from {from} to {to}", series.label))
    };
    one_by_one(all.iter().filter_map(one))
}

fn across(variable: Variable, values: &[f64]) -> Axis {
    let all = values.iter().copied();
    match variable {
        Variable::Hold => Axis::durations("hold", all),
        Variable::Delay => Axis::durations("added to each round trip", all),
        Variable::SessionTimeout => Axis::durations("session timeout", all),
        Variable::Rate => Axis::logarithmic("arrivals per second", all),
        Variable::Contenders => Axis::logarithmic("contenders, one session each", all),
        Variable::Locks => Axis::logarithmic("locks", all),
        Variable::Servers => Axis::measured("servers", values),
    }
}
