//! A sweep: throughput and wait over what was swept, with intervals, the objective and the knees.

use std::path::{Path, PathBuf};

use super::axis::Axis;
use super::look::{ALARM, FAINT_INK, Look, Mark, dashed};
use super::picture::{Anchor, Picture, SMALL};
use super::plot::{Plot, Series, draw_series};
use super::sheet::Sheet;
use super::write;
use crate::answer::sweep::{Estimate, Finding, Knee, KneeFigure, Point, State, SweepFile, Variable};
use crate::report::table::sweep_title;
use crate::words::error::Error;
use crate::words::measure::{Figure, Measure, Statistic};
use crate::words::units::counted;

/// Draws both charts into the sweep's directory, as SVG and PNG; gives the files.
///
/// # Errors
/// When a file cannot be written.
pub fn draw_sweep(file: &SweepFile, directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let throughput = Drawn {
        name: "throughput",
        axis: "acquisitions per second",
        of: |point| point.throughput,
        bounded: |_| false,
        figure: Figure::THROUGHPUT,
        knee: KneeFigure::Throughput,
    };
    let wait = Drawn {
        name: "wait p99",
        axis: "wait, 99th percentile",
        of: |point| point.wait_p99,
        bounded: |point| point.wait_p99_at_least,
        figure: Figure::Latency(Measure::Wait, Statistic::percent(99)),
        knee: KneeFigure::WaitP99,
    };
    let mut files = Vec::new();
    for (drawn, name) in [(throughput, "sweep-throughput"), (wait, "sweep-wait")] {
        if let Some(picture) = draw(file, &drawn) {
            files.extend(write(&picture, directory, name)?);
        }
    }
    Ok(files)
}

struct Drawn {
    name: &'static str,
    axis: &'static str,
    of: fn(&Point) -> Option<Estimate>,
    bounded: fn(&Point) -> bool,
    figure: Figure,
    knee: KneeFigure,
}

impl Drawn {
    fn series(&self, file: &SweepFile, at: usize, finding: &Finding) -> Series {
        let mut series = Series {
            strategy: at,
            label: sweep_title(file, finding),
            line: Vec::new(),
            markers: Vec::new(),
            dots: Vec::new(),
        };
        for point in &finding.series.points {
            let Some(found) = (self.of)(point) else { continue };
            let place = (point.at.x, found.value);
            series.line.push(place);
            let mark = Mark {
                doubtful: point.state != State::Sound || (self.bounded)(point),
                violated: point.state == State::Violated,
            };
            series.markers.push((place, mark));
        }
        series
    }
}

fn draw(file: &SweepFile, drawn: &Drawn) -> Option<Picture> {
    let variable = file.over.first()?.variable;
    let all: Vec<Series> =
        file.findings.iter().enumerate().map(|(at, finding)| drawn.series(file, at, finding)).collect();
    let measured: Vec<f64> = all.iter().flat_map(|series| &series.line).map(|point| point.0).collect();
    if measured.is_empty() {
        return None;
    }
    let limit = file.objective.as_ref().filter(|objective| objective.figure == drawn.figure);
    let has_knees = knee_of(file) == drawn.knee;
    let mut caption = vec![
        "Line: geometric mean of the repetitions that count; bars: intervals of 95 %; hollow: a lower bound, or doubtful."
            .to_owned(),
    ];
    if has_knees && file.findings.iter().any(|finding| matches!(finding.knee, Knee::Found(_))) {
        caption.push("Lines from the bottom: knees, each with the interval in which it lies.".to_owned());
    }
    let keys: Vec<_> = all.iter().filter(|series| !series.line.is_empty()).map(Series::key).collect();
    let place = format!(
        "scenario {}, {} load, {}; ZooKeeper ensemble: {}; generator on {} with {}",
        file.scenario,
        file.load,
        counted(file.samples.len(), "trial", "trials"),
        file.ensembles.first().map_or("none", |ensemble| ensemble.kind.as_str()),
        file.host.hostname,
        counted(file.host.cores, "core", "cores")
    );
    let title = format!("{} by {}", crate::words::units::capitalised(drawn.name), variable.name());
    let mut sheet = Sheet::for_keys(&place, &title, &caption, &keys);
    let ends =
        file.findings.iter().flat_map(|finding| &finding.series.points).filter_map(|point| (drawn.of)(point));
    let heights: Vec<f64> = ends
        .flat_map(|found| [Some(found.value), found.low, found.high])
        .flatten()
        .chain(limit.map(|objective| objective.limit))
        .collect();
    let y = match drawn.knee {
        KneeFigure::Throughput => Axis::amounts(drawn.axis, heights),
        KneeFigure::WaitP50 | KneeFigure::WaitP99 => Axis::durations(drawn.axis, heights),
    };
    let plot = sheet.plot(across(variable, &measured), y, &keys);
    whiskers(&mut sheet.picture, &plot, file, drawn);
    if has_knees {
        knees(&mut sheet.picture, &plot, file);
    }
    if let Some(objective) = limit {
        let row = plot.at(plot_low(&measured), objective.limit).1;
        let line = [(plot.left, row), (plot.right, row)];
        dashed(&mut sheet.picture, &line, &[7.0, 4.0], ALARM, 1.5);
        sheet.picture.text((plot.left + 6.0, row - 9.0), &objective.text, SMALL, ALARM, Anchor::Start);
    }
    draw_series(&mut sheet.picture, &plot, &all);
    Some(sheet.picture)
}

fn plot_low(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

fn plot_high(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

fn knee_of(file: &SweepFile) -> KneeFigure {
    if file.load == "closed" { KneeFigure::Throughput } else { KneeFigure::WaitP99 }
}

fn across(variable: Variable, values: &[f64]) -> Axis {
    let (low, high) = (plot_low(values), plot_high(values));
    match variable {
        Variable::Hold => Axis::durations("hold", values.iter().copied()),
        Variable::Delay => Axis::durations("added to each round trip", values.iter().copied()),
        Variable::Rate => Axis::logarithmic("arrivals per second", low, high),
        Variable::Contenders => Axis::logarithmic("contenders, one session each", low, high),
        Variable::Locks => Axis::logarithmic("locks", low, high),
        Variable::Servers => Axis::measured("servers (log scale)", values),
    }
}

fn whiskers(picture: &mut Picture, plot: &Plot, file: &SweepFile, drawn: &Drawn) {
    for (at, finding) in file.findings.iter().enumerate() {
        let colour = Look::of(at).colour;
        for point in &finding.series.points {
            let Some(Estimate { low: Some(low), high: Some(high), .. }) = (drawn.of)(point) else { continue };
            let [bottom, top] = [low, high].map(|value| plot.at(point.at.x, value));
            picture.line(vec![bottom, top], colour, 1.2);
            for (x, y) in [bottom, top] {
                picture.line(vec![(x - 4.0, y), (x + 4.0, y)], colour, 1.2);
            }
        }
    }
}

fn knees(picture: &mut Picture, plot: &Plot, file: &SweepFile) {
    let mut above = 8.0;
    for (at, finding) in file.findings.iter().enumerate() {
        let Knee::Found(bend) = &finding.knee else { continue };
        let look = Look::of(at);
        let column = |value: f64| plot.left + plot.x.share(value).clamp(0.0, 1.0) * (plot.right - plot.left);
        let (middle, row) = (column(bend.at), plot.bottom - above);
        picture.line(vec![(column(bend.low), row), (column(bend.high), row)], look.colour, 2.5);
        let down = [(middle, plot.bottom), (middle, plot.bottom - 70.0)];
        dashed(picture, &down, &[2.0, 3.0], look.colour, 1.5);
        picture.text((middle + 5.0, row - 8.0), "knee", SMALL, FAINT_INK, Anchor::Start);
        above += 18.0;
    }
}
