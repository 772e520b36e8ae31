//! Renders the results of a sweep for a terminal and as a page, with charts of throughput and wait over its
//! variable.

use std::path::{Path, PathBuf};

use super::chart::{draw_each, one_by_one};
use super::document::{
    self, Axis, Block, Chart, ChartKind, Column, Columns, Curve, Document, Ends, Guide, GuideCourse, Lines,
    Link, Mark, Table, Tone, Value, Weight, words,
};
use super::page::{self, filled, noted, place, section};
use super::plan::measured;
use super::table::{Printed, Style, metric_value};
use zklockbench_analysis::plan::MeasuredRange;
use zklockbench_analysis::sweep::{
    Collapse, Decision, Edge, Ending, FailurePoint, Finding, Point, State, SweepFile, Variable,
};
use zklockbench_core::error::Error;
use zklockbench_core::units::{capitalised, counted, format_micros, grouped, joined, number, shown};
use zklockbench_core::verdict::Verdict;
use zklockbench_record::figures::{THROUGHPUT, WAIT_P50, WAIT_P99};
use zklockbench_record::{Figure, FigureEntry};
use zklockbench_stats::Interval;

/// Renders the outcome, each point, and the findings as text.
pub fn sweep(file: &SweepFile, notes: &[String], style: Style) -> String {
    let found = file.findings.iter().flat_map(|finding| {
        let title = title(file, finding);
        sentences(file, finding).into_iter().map(move |sentence| format!("{title}: {sentence}"))
    });
    let notes = notes.iter().cloned().chain(ending(file)).map(|note| format!("! {note}"));
    let printed = Printed {
        outcome: headline(file),
        above: file.samples.is_empty().then(|| "No run finished, so there is nothing to show.".to_owned()),
        tables: tables(file).into(),
        remarks: notes.chain(found).collect(),
        basis: vec![extent(file)],
        ..Printed::default()
    };
    printed.text(style)
}

/// Returns the tables, the most important first.
fn tables(file: &SweepFile) -> [Table; 2] {
    if is_about_sessions(file) { [failures(file), points(file)] } else { [points(file), failures(file)] }
}

/// Returns whether the sweep varies the session timeout, to show its effect on the cost of failures.
fn is_about_sessions(file: &SweepFile) -> bool {
    file.over.iter().any(|over| over.variable == Variable::SessionTimeout)
}

fn variable(file: &SweepFile) -> Variable {
    file.over.first().map_or(Variable::Contenders, |over| over.variable)
}

/// Returns the headline: for each strategy, the largest value that meets the objective (the smallest if higher
/// values meet it) or, without an objective, the value at which the lock collapses. The verdict comes first unless it
/// is held.
pub fn headline(file: &SweepFile) -> String {
    let judged = file.judged();
    let why = || judged.why().unwrap_or_default();
    let alarm = (judged != Verdict::Held).then(|| format!("{}: {}. ", judged.word().to_uppercase(), why()));
    let name = variable(file).name();
    let show = |value: f64| variable(file).show(variable(file).round(value));
    let edge = |finding: &Finding| {
        let of = title(file, finding);
        Some(match finding.objective.as_ref()? {
            Edge::Between { kept, missed, .. } if kept > missed => format!("{of} from {} on", show(*kept)),
            Edge::Between { kept, .. } => format!("{of} up to {}", show(*kept)),
            Edge::AllKept { up_to } => format!("{of} up to at least {}", show(*up_to)),
            Edge::NoneKept { .. } => format!("{of} none"),
            Edge::Unknown { kept: Some(kept), .. } => {
                format!("{of} up to {} (higher values are inconclusive)", show(*kept))
            }
            Edge::Unknown { kept: None, .. } => format!("{of} inconclusive"),
        })
    };
    let collapse = |finding: &Finding| {
        let of = title(file, finding);
        match &finding.collapse {
            Collapse::Between { broke, .. } => format!("{of} at {}", show(*broke)),
            Collapse::NotFound { up_to: Some(up_to), .. } => format!("{of} not found up to {}", show(*up_to)),
            Collapse::NotFound { up_to: None, .. } => format!("{of} not measured"),
        }
    };
    let ends = joined(file.findings.iter().filter_map(edge), ", ");
    let costs = joined(file.findings.iter().filter_map(|finding| first_failure(file, finding)), "; ");
    let said = match &file.objective {
        _ if file.findings.is_empty() => "No run finished".to_owned(),
        Some(objective) if !ends.is_empty() => {
            format!("Values of {name} that meet {}: {ends}", objective.text)
        }
        None if is_about_sessions(file) && !costs.is_empty() => costs,
        _ => format!("Collapse over {name}: {}", joined(file.findings.iter().map(collapse), ", ")),
    };
    format!("{}{said}.", alarm.unwrap_or_default())
}

/// Describes the outages that the first fault causes at the smallest and the largest value.
fn first_failure(file: &SweepFile, finding: &Finding) -> Option<String> {
    let known = |point: &Point| {
        let failure = point.failures.first()?;
        Some((failure.fault.clone(), variable(file).show(point.at.x), gap(failure.gap?).shown()))
    };
    let mut known = finding.series.points.iter().filter_map(known);
    let (first, last) = (known.next()?, known.next_back());
    let ends = [Some(&first), last.as_ref()].into_iter().flatten();
    let ends = ends.map(|(_, value, gap)| format!("{gap} with {} {value}", variable(file).name()));
    let (of, fault) = (title(file, finding), &first.0);
    Some(format!("{of}: `{fault}` stops the lock for {}", joined(ends, ", ")))
}

fn extent(file: &SweepFile) -> String {
    let over = joined(file.over.iter().map(ToString::to_string), " and ");
    let trials = counted(file.samples.len(), "trial", "trials");
    let (runs, spent) = (counted(file.runs.len(), "run", "runs"), format_micros(file.spent_us));
    format!("Sweep of {} over {over}: {trials} in {runs}, {spent}.", file.scenario)
}

/// Returns the name of a series: the strategy and, with a second variable, its value.
fn title(file: &SweepFile, finding: &Finding) -> String {
    let strategy = shown(&finding.series.strategy, 80);
    let second = file.over.get(1).map(|over| over.variable).zip(finding.series.beside);
    let second = second.map(|(variable, value)| format!(", {} {}", variable.name(), variable.show(value)));
    strategy + &second.unwrap_or_default()
}

fn sentences(file: &SweepFile, finding: &Finding) -> Vec<String> {
    let show = |value: f64| variable(file).show(value);
    let name = variable(file).name();
    let edge = finding.objective.as_ref().map(|edge| match edge {
        Edge::Between { kept, missed, undecided } => {
            let end = if kept < missed { "highest" } else { "lowest" };
            let (kept, missed) = (show(*kept), show(*missed));
            let open = joined(undecided.iter().map(|value| show(*value)), ", ");
            let open = if open.is_empty() { open } else { format!("; inconclusive at {open}") };
            format!(
                "the {end} value of {name} that meets the objective is between {kept} (met) and {missed} \
                 (missed){open}"
            )
        }
        Edge::AllKept { up_to } => format!("met up to {}, the largest value tried", show(*up_to)),
        Edge::NoneKept { from } => format!("missed from {} on", show(*from)),
        Edge::Unknown { kept, missed, why } => {
            let met = kept.map(|value| format!("met up to {}, ", show(value))).unwrap_or_default();
            let missed = missed.map(|value| format!("missed from {}, ", show(value))).unwrap_or_default();
            let rest = if met.is_empty() && missed.is_empty() { "" } else { "the rest " };
            format!("{met}{missed}{rest}inconclusive: {why}")
        }
    });
    let edge = file.objective.as_ref().zip(edge).map(|(of, edge)| format!("{}: {edge}.", of.text));
    let collapse = match &finding.collapse {
        Collapse::Between { held: Some(held), broke, why } => {
            format!("between {} and {}: {why}", show(*held), show(*broke))
        }
        Collapse::Between { held: None, broke, why } => format!("already at {}: {why}", show(*broke)),
        Collapse::NotFound { up_to, saturated_at } => {
            let up_to = up_to.map(|up_to| format!(" up to {}", show(up_to))).unwrap_or_default();
            let untested = saturated_at.map(show).map(|from| {
                format!("; from {from} on, the load generator could not keep up, so the lock was not tested")
            });
            format!("not found{up_to}{}", untested.unwrap_or_default())
        }
    };
    edge.into_iter().chain([format!("Collapse: {collapse}.")]).collect()
}

/// A point, and one of the faults at it, if there are any.
type Row<'f> = (&'f Finding, &'f Point, Option<&'f FailurePoint>);

/// Returns the columns that identify the strategy, the fault (if requested) and the point. Also returns their
/// number, excluding the column of the first variable.
fn columns(file: &SweepFile, has_faults: bool) -> (Columns<'_, Row<'_>>, usize) {
    let labels = 1 + usize::from(has_faults) + usize::from(file.over.len() > 1);
    let strategy = |(finding, ..): &Row<'_>| shown(&finding.series.strategy, 60);
    let mut columns = Columns::<Row<'_>>::new().words("strategy", strategy);
    if has_faults {
        columns = columns.words("fault", |(.., failure)| failure.map(|one| one.fault.as_str()));
    }
    if let Some(second) = file.over.get(1).map(|over| over.variable) {
        let show = move |value| second.show(value);
        columns = columns
            .numbers(second.name(), 0, move |(_, point, _)| point.at.beside.map(show).unwrap_or_default());
    }
    (columns.numbers(variable(file).name(), 0, |(_, point, _)| variable(file).show(point.at.x)), labels)
}

fn points(file: &SweepFile) -> Table {
    const LEGEND: &str = "Values: medians of the valid repetitions. ±: half of their range. ≥: waits were cut off by the \
        end of the trial.";
    let is_saturated = file.samples.iter().any(|sample| sample.state == State::Saturated);
    let saturated =
        if is_saturated { " Generator saturated: these points do not test the lock." } else { "" };
    let (columns, labels) = columns(file, false);
    let mut columns = columns
        .numbers("reps", 3, |(_, point, _)| point.repetitions)
        .metric(&THROUGHPUT, |(_, point, _)| interval(&THROUGHPUT, point.throughput))
        .metric(&WAIT_P50, |(_, one, _)| interval(&WAIT_P50, one.wait_p50).at_least(one.wait_p50_at_least))
        .metric(&WAIT_P99, |(_, one, _)| interval(&WAIT_P99, one.wait_p99).at_least(one.wait_p99_at_least));
    if file.objective.is_some() {
        columns = columns
            .words("objective", |(_, point, _)| point.decision.map(Decision::word))
            .explained("met or missed if all five repetitions agree, which is wrong at most 1 time in 20");
    }
    let found = file.findings.iter();
    let points = found.flat_map(|one| one.series.points.iter().map(move |point| (one, point, None)));
    columns
        .column(Column { spare: 1, ..words("note") }, |(_, point, _)| note(point))
        .table("Each point of each strategy", labels, points)
        .noted(format!("{LEGEND}{saturated}"))
        .lean()
}

/// Returns the effects of each fault at each point, grouped by fault.
fn failures(file: &SweepFile) -> Table {
    let (columns, labels) = columns(file, true);
    let rows = file.findings.iter().flat_map(|finding| {
        let all = finding.series.points.iter().flat_map(|point| {
            point.failures.iter().map(move |one| (one.fault.as_str(), (finding, point, Some(one))))
        });
        grouped(all).into_iter().flat_map(|(_, rows)| rows)
    });
    columns
        .numbers("granted", 0, |(_, point, _)| Some(point.granted_us).filter(|us| *us > 0).map(Value::micros))
        .explained("session timeout that the servers granted")
        .numbers("outage", 0, |(.., failure)| Some(gap((*failure)?.gap?)))
        .explained("longest time that a wanted lock was not acquired")
        .words("sessions lost", |(.., failure)| {
            let failure = (*failure)?;
            let (least, most) = failure.sessions_lost_least.zip(failure.sessions_lost_most)?;
            Some(if least == most { least.to_string() } else { format!("{least} to {most}") })
        })
        .explained("sessions that ended, excluding a crashed contender's")
        .numbers("times", 1, |(.., failure)| failure.map(|failure| failure.times))
        .table("What failures cost at each point", labels, rows)
        .noted("Medians, with minimum and maximum.")
}

fn gap(range: MeasuredRange) -> Value {
    if range.most_us == 0 { "< 5 ms".into() } else { measured(range) }
}

/// Returns a value with the half-width of its interval.
fn interval(entry: &FigureEntry, found: Option<Interval>) -> Value {
    let shown = found.map(|found| {
        let half = found.half_width().map(|half| format!(" ±{:.0}%", 100.0 * half)).unwrap_or_default();
        metric_value(entry, found.value).shown() + &half
    });
    shown.into()
}

fn note(point: &Point) -> Value {
    let out = point.repetitions - point.sound.min(point.repetitions);
    match (point.state, out) {
        (State::Sound, 0) => Value::NotMeasured,
        (State::Sound, out) => format!("{out} left out").into(),
        (state, _) => state.word().into(),
    }
}

fn ending(file: &SweepFile) -> Option<String> {
    let aborted = format!("ended early: {}", shown(file.why.as_deref().unwrap_or("a run failed"), 400));
    let why = match file.ending {
        Ending::Complete => return None,
        Ending::GoingOn => "the sweep was still in progress when this report was written",
        Ending::OutOfTime => "time ran out before all points were precise enough",
        Ending::NotCovered => "time ran out before the whole range was covered",
        Ending::Interrupted => "interrupted: based on the measurements until then",
        Ending::Aborted => &aborted,
    };
    Some(why.to_owned())
}

const CURVES: Link = Link { section: "curves", text: "curves" };

pub fn of_sweep(sweep: &SweepFile) -> Document {
    let finding = |found: &Finding| {
        let said = sentences(sweep, found).join(" ");
        document::Finding::new(title(sweep, found), Tone::Plain, said, Some(CURVES))
    };
    let notes = ending(sweep).iter().map(|note| capitalised(note)).collect();
    let measured = sweep.ensembles.first().map(|ensemble| Block::Facts(place(ensemble, &sweep.host)));
    let over: String = sweep.over.iter().map(|over| format!(" --over {over}")).collect();
    let repeat = format!("zklockbench sweep SCENARIO{over} --seed {}", sweep.seed);
    let reproduce = vec![
        Block::code("The scenario, with all changes:", sweep.scenario_text.clone()),
        Block::code("Repeat the sweep:", repeat),
        page::measured(sweep.started_at, &sweep.tool_version, sweep.tool_commit.as_deref()),
    ];
    let sections = [
        section(CURVES.section, "Curves", charts(sweep)),
        section("figures", "Figures", tables(sweep)),
        section("notes", "Notes", noted(notes)),
        section("environment", "Measurement environment", measured),
        section("reproduce", "How to reproduce this", reproduce),
    ];
    let verdict = Value::from(&sweep.judged());
    Document {
        title: format!("Sweep of {}", sweep.scenario),
        about: extent(sweep),
        headline: document::Finding::new("Found", verdict.tone(), headline(sweep), Some(CURVES)),
        verdict,
        comes_to: "Findings",
        findings: sweep.findings.iter().map(finding).collect(),
        strategies: sweep.findings.iter().map(|found| title(sweep, found)).collect(),
        sections: filled(sections),
    }
}

/// Draws both charts of a sweep into a directory.
pub fn draw_sweep(file: &SweepFile, dir: &Path) -> Result<Vec<PathBuf>, Error> {
    let trials = counted(file.samples.len(), "trial", "trials");
    let kind = file.ensembles.first().map_or("none", |ensemble| ensemble.kind.as_str());
    let generator = format!("{} with {}", file.host.hostname, counted(file.host.cores, "core", "cores"));
    let what = format!("scenario {}, {} load, {trials}", file.scenario, file.load);
    let place = format!("{what}; ZooKeeper ensemble: {kind}; generator on {generator}");
    let charts = charts(file).into_iter().map(|chart| ("sweep", Ok(chart)));
    Ok(draw_each(charts, &place, dir)?.files)
}

/// Returns the charts of a sweep. Omits a chart whose metric was never measured.
fn charts(file: &SweepFile) -> Vec<Chart> {
    let throughput = |point: &Point| (point.throughput, false);
    let wait = |point: &Point| (point.wait_p99, point.wait_p99_at_least);
    let texts = ["throughput", "throughput", "acquisitions per second"];
    let throughput = chart(file, texts, THROUGHPUT.figure(), throughput);
    let wait = chart(file, ["wait", "wait p99", "wait, 99th percentile"], WAIT_P99.figure(), wait);
    throughput.into_iter().chain(wait).collect()
}

/// A metric at a point, and whether it is a lower bound.
type Read = fn(&Point) -> (Option<Interval>, bool);

fn chart(file: &SweepFile, [id, name, axis]: [&str; 3], figure: Figure, read: Read) -> Option<Chart> {
    const CAPTION: &str = "Line: median of the valid repetitions; bars: their lowest and highest values; hollow: a \
        lower bound, or doubtful.";
    let variable = file.over.first()?.variable;
    let all = file.findings.iter().enumerate();
    let all = all.map(|(at, finding)| series(Curve::new(at, title(file, finding)), finding, read));
    let all: Vec<Curve> = all.filter(|series| !series.line.is_empty()).collect();
    let measured: Vec<f64> = all.iter().flat_map(|series| &series.line).map(|point| point.0).collect();
    if measured.is_empty() {
        return None;
    }
    let limit = file.objective.as_ref().filter(|objective| objective.figure == figure);
    let heights = all.iter().flat_map(Curve::heights).chain(limit.map(|objective| objective.limit));
    let y = match figure == THROUGHPUT.figure() {
        true => Axis::amounts(axis, heights),
        false => Axis::durations(axis, heights),
    };
    let limit = limit.map(|one| Guide::new(GuideCourse::Level(one.limit), &*one.text, Weight::Limit));
    let (said, lines) = (said(&all), Lines::either_way(across(variable, &measured), y, all));
    Some(Chart {
        id: format!("sweep-{id}"),
        title: format!("{} by {}", capitalised(name), variable.name()),
        said,
        caption: vec![CAPTION.to_owned()],
        kind: ChartKind::Lines(Lines { guides: limit.into_iter().collect(), ..lines }),
    })
}

/// Adds the points at which the metric was measured.
fn series(mut curve: Curve, finding: &Finding, read: Read) -> Curve {
    for point in &finding.series.points {
        let (Some(found), is_bound) = read(point) else { continue };
        let (at, doubtful) = ((point.at.x, found.value), point.state != State::Sound || is_bound);
        curve.line.push(at);
        curve.markers.push((at, Mark { doubtful, violated: point.state == State::Violated }));
        let Interval { value: middle, low, high, .. } = found;
        curve.whiskers.extend(high.is_finite().then_some(Ends { at: at.0, low, middle, high }));
    }
    curve
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
