//! Figures over runs. Of a sweep: throughput and wait over what was swept, with intervals, the objective and the knees. Of a
//! store of baselines: a line for each cell, a column for each run.

use super::one_by_one;
use crate::document::{
    Axis, Chart, ChartKind, Curve, Ends, Guide, GuideCourse, Intervals, KneeMark, Lines, Mark, Weight, float,
};
use crate::table::sweep_title;
use crate::{Trend, TrendLine};
use zklockbench_analysis::sweep::{Estimate, Finding, Knee, KneeFigure, Point, State, SweepFile, Variable};
use zklockbench_core::measure::{Figure, Measure, Statistic, Unit};
use zklockbench_core::units::{capitalised, counted, number, shown};
use zklockbench_record::figures::THROUGHPUT;

/// Both charts of a sweep; the one of a figure that was never measured is missing.
pub fn of_sweep(file: &SweepFile) -> Vec<Chart> {
    let throughput = Swept {
        id: "sweep-throughput",
        name: "throughput",
        axis: "acquisitions per second",
        of: |point| point.throughput,
        is_bound: |_| false,
        figure: THROUGHPUT.figure(),
        knee: KneeFigure::Throughput,
    };
    let wait = Swept {
        id: "sweep-wait",
        name: "wait p99",
        axis: "wait, 99th percentile",
        of: |point| point.wait_p99,
        is_bound: |point| point.wait_p99_at_least,
        figure: Figure::Latency(Measure::Wait, Statistic::percent(99)),
        knee: KneeFigure::WaitP99,
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
    of: fn(&Point) -> Option<Estimate>,
    is_bound: fn(&Point) -> bool,
    figure: Figure,
    knee: KneeFigure,
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
        let knees = if KneeFigure::under(&file.load) == self.knee { knees(file) } else { Vec::new() };
        let mut caption = vec![
            "Line: geometric mean of the repetitions that count; bars: intervals of 95 %; hollow: a lower bound, or \
             doubtful."
                .to_owned(),
        ];
        if !knees.is_empty() {
            let of = match variable {
                Variable::Rate => " of the median wait",
                _ => "",
            };
            caption
                .push(format!("Lines from the bottom: knees{of}, each with the interval in which it lies."));
        }
        let heights = all.iter().flat_map(Curve::heights).chain(limit.map(|objective| objective.limit));
        let y = match self.knee {
            KneeFigure::Throughput => Axis::amounts_either_way(self.axis, heights),
            KneeFigure::WaitP50 | KneeFigure::WaitP99 => Axis::durations_either_way(self.axis, heights),
        };
        let guide = |at: f64, label: &str| Guide::new(GuideCourse::Level(at), label, Weight::Limit);
        Some(Chart {
            id: self.id.to_owned(),
            title: format!("{} by {}", capitalised(self.name), variable.name()),
            said: said(&all),
            caption,
            kind: ChartKind::Lines(Lines {
                guides: limit.map(|objective| guide(objective.limit, &objective.text)).into_iter().collect(),
                knees,
                ..Lines::either_way(across(variable, &measured), y, all)
            }),
        })
    }

    fn series(&self, file: &SweepFile, at: usize, finding: &Finding) -> Curve {
        let known = || finding.series.points.iter().filter_map(|point| Some((point, (self.of)(point)?)));
        let place = |(point, found): (&Point, Estimate)| (point.at.x, found.value);
        let mark = |point: &Point| Mark {
            doubtful: point.state != State::Sound || (self.is_bound)(point),
            violated: point.state == State::Violated,
        };
        let ends = known()
            .filter_map(|(point, found)| Some(Ends { at: point.at.x, low: found.low?, high: found.high? }));
        Curve {
            line: known().map(place).collect(),
            markers: known().map(|known| (place(known), mark(known.0))).collect(),
            intervals: Intervals::Whiskers(ends.collect()),
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

fn knees(file: &SweepFile) -> Vec<KneeMark> {
    let mark = |(look, finding): (usize, &Finding)| match &finding.knee {
        Knee::Found(bend) => Some(KneeMark { look, at: bend.at, low: bend.low, high: bend.high }),
        Knee::Saturated(one) => Some(KneeMark {
            look,
            at: one.at,
            low: one.low.unwrap_or(one.at),
            high: one.high.unwrap_or(one.at),
        }),
        Knee::NotFound { .. } => None,
    };
    file.findings.iter().enumerate().filter_map(mark).collect()
}

fn across(variable: Variable, values: &[f64]) -> Axis {
    let all = values.iter().copied();
    match variable {
        Variable::Hold => Axis::durations("hold", all),
        Variable::Delay => Axis::durations("added to each round trip", all),
        Variable::Rate => Axis::logarithmic("arrivals per second", all),
        Variable::Contenders => Axis::logarithmic("contenders, one session each", all),
        Variable::Locks => Axis::logarithmic("locks", all),
        Variable::Servers => Axis::measured("servers (log scale)", values),
    }
}

/// How many cells one chart shows at most: more cannot be told apart.
const LINES: usize = 10;

pub(super) const PLACE: &str = "One column for each run, the oldest first.";

pub fn by_commit(trend: &Trend) -> Result<Chart, String> {
    let lines = trend.lines.iter().take(LINES).enumerate();
    let mut all: Vec<Curve> = lines.map(|(at, line)| series(at, trend, line)).collect();
    all.retain(|series| !series.line.is_empty());
    if all.is_empty() {
        return Err(format!("none of the runs measured {}", trend.figure));
    }
    let mut caption = vec![
        "Line: the median of a run's sound repetitions; small dots: the smallest and largest.".to_owned(),
    ];
    if trend.lines.len() > LINES {
        caption.push(format!(
            "Only {LINES} of {} cells are shown: choose some with --strategy and --contenders.",
            trend.lines.len()
        ));
    }
    caption.extend(trend.notes.iter().map(|note| format!("{}.", capitalised(note))));
    let labels: Vec<String> = trend.runs.iter().map(|run| run.commit.chars().take(8).collect()).collect();
    let heights = all.iter().flat_map(Curve::heights);
    let y = match trend.unit {
        Unit::Micros => Axis::durations(&trend.figure, heights),
        Unit::PerSecond => Axis::amounts(&format!("{} (per second)", trend.figure), heights),
        Unit::Amount | Unit::Share => Axis::amounts(&trend.figure, heights),
        Unit::Bytes => Axis::amounts(&format!("{} (bytes)", trend.figure), heights),
    };
    let title = format!("{} by commit", trend.figure);
    let lines = Lines { guides: hosts(trend), ..Lines::new(Axis::columns("commit", &labels), y, all) };
    Ok(Chart {
        id: "trend".to_owned(),
        said: format!("{title}."),
        title,
        caption,
        kind: ChartKind::Lines(lines),
    })
}

fn hosts(trend: &Trend) -> Vec<Guide> {
    let pairs = trend.runs.windows(2).enumerate().filter(|(_, pair)| pair[0].host != pair[1].host);
    let guide = |at: usize, host: &str| {
        let label = format!("host {}", shown(host, 18));
        Guide::new(GuideCourse::Upright(float(at) + 1.5), label, Weight::Faint)
    };
    pairs.map(|(at, pair)| guide(at, &pair[1].host)).collect()
}

fn series(at: usize, trend: &Trend, line: &TrendLine) -> Curve {
    let points = line.points.iter().take(trend.runs.len()).enumerate();
    let known = || points.clone().filter_map(|(run, point)| Some((float(run) + 1.0, point.as_ref()?)));
    let medians = known().map(|(column, point)| (column, point.median)).collect();
    let ends = known().filter(|(_, point)| point.count > 1);
    let dots = ends
        .flat_map(|(column, point)| [point.min, point.max].map(|value| ((column, value), Mark::default())));
    Curve { dots: dots.collect(), ..Curve::new(at, line.label()).through(medians, Mark::default()) }
}
