//! Results of a sweep.

use super::columns::{Columns, Grid, metric_value};
use super::layout::Style;
use super::plan::measured;
use super::printed::Printed;
use crate::document::Value;
use zklockbench_analysis::plan::MeasuredRange;
use zklockbench_analysis::sweep::{
    Collapse, Decision, Edge, Ending, FailurePoint, Finding, Point, State, SweepFile, Variable,
};
use zklockbench_core::units::{counted, format_micros, grouped, shown};
use zklockbench_core::verdict::Verdict;
use zklockbench_record::FigureEntry;
use zklockbench_record::figures::{THROUGHPUT, WAIT_P50, WAIT_P99};
use zklockbench_stats::Interval;

/// The outcome, each point, and the findings as text.
pub fn sweep(file: &SweepFile, notes: &[String], style: Style) -> String {
    let found = file.findings.iter().flat_map(|finding| {
        let title = title(file, finding);
        sentences(file, finding).into_iter().map(move |sentence| format!("{title}: {sentence}"))
    });
    let notes = notes.iter().cloned().chain(ending(file)).map(|note| format!("! {note}"));
    let is_empty = file.samples.is_empty();
    let printed = Printed {
        outcome: headline(file),
        above: is_empty.then(|| "No run ended, so there is nothing to show.".to_owned()),
        tables: if is_empty { Vec::new() } else { tables(file) },
        remarks: notes.chain(found).collect(),
        basis: vec![extent(file)],
        ..Printed::default()
    };
    printed.text(style)
}

/// The tables, the most important first.
pub(crate) fn tables(file: &SweepFile) -> Vec<Grid> {
    let failures = failures(file);
    match is_about_sessions(file) {
        true => failures.into_iter().chain([grid(file)]).collect(),
        false => [grid(file)].into_iter().chain(failures).collect(),
    }
}

/// Whether the sweep shows the cost of failures with each session timeout.
fn is_about_sessions(file: &SweepFile) -> bool {
    file.over.iter().any(|over| over.variable == Variable::SessionTimeout)
}

fn variable(file: &SweepFile) -> Variable {
    file.over.first().map_or(Variable::Contenders, |over| over.variable)
}

/// The limit of the objective for each strategy or, without an objective, the collapse.
pub fn headline(file: &SweepFile) -> String {
    let judged = file.judged();
    let alarm = match &judged {
        Verdict::Held => String::new(),
        Verdict::Violated(_) | Verdict::Unknown(_) => {
            format!("{}: {}. ", judged.word().to_uppercase(), judged.why().unwrap_or_default())
        }
    };
    let name = variable(file).name();
    let show = |value: f64| variable(file).show(variable(file).round(value));
    let edge = |finding: &Finding| {
        let of = title(file, finding);
        Some(match finding.objective.as_ref()? {
            Edge::Between { kept, .. } => format!("{of} up to {}", show(*kept)),
            Edge::AllKept { up_to } => format!("{of} up to {} at least", show(*up_to)),
            Edge::NoneKept { .. } => format!("{of} nowhere"),
            Edge::Unknown { kept: Some(kept), .. } => {
                format!("{of} up to {} (more is undecided)", show(*kept))
            }
            Edge::Unknown { kept: None, .. } => format!("{of} undecided"),
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
    let ends: Vec<String> = file.findings.iter().filter_map(edge).collect();
    let costs: Vec<String> =
        file.findings.iter().filter_map(|finding| first_failure(file, finding)).collect();
    let said = match (&file.objective, ends.as_slice()) {
        (_, []) if file.findings.is_empty() => "No run ended".to_owned(),
        (Some(objective), ends @ [_, ..]) => {
            format!("{} is met over {name}: {}", objective.text, ends.join(", "))
        }
        (None, _) if is_about_sessions(file) && !costs.is_empty() => costs.join("; "),
        _ => {
            let ends: Vec<String> = file.findings.iter().map(collapse).collect();
            format!("Collapse over {name}: {}", ends.join(", "))
        }
    };
    format!("{alarm}{said}.")
}

/// Outage by the first fault, with the smallest and the largest value.
fn first_failure(file: &SweepFile, finding: &Finding) -> Option<String> {
    let known = |point: &Point| {
        let failure = point.failures.first()?;
        Some((failure.fault.clone(), variable(file).show(point.at.x), gap(failure.gap?).shown()))
    };
    let known: Vec<_> = finding.series.points.iter().filter_map(known).collect();
    let (fault, ..) = known.first()?;
    let (name, of) = (variable(file).name(), title(file, finding));
    let mut ends = vec![known.first()?];
    ends.extend(known.last().filter(|_| known.len() > 1));
    let ends: Vec<String> =
        ends.into_iter().map(|(_, value, gap)| format!("{gap} with {name} {value}")).collect();
    Some(format!("{of}: `{fault}` stops the lock for {}", ends.join(", ")))
}

pub(crate) fn extent(file: &SweepFile) -> String {
    let over: Vec<String> = file.over.iter().map(ToString::to_string).collect();
    let reps = counted(file.samples.len(), "trial", "trials");
    format!(
        "Sweep of {} over {}: {} in {}, {}.",
        file.scenario,
        over.join(" and "),
        reps,
        counted(file.runs.len(), "run", "runs"),
        format_micros(file.spent_us)
    )
}

/// Name of a series: the strategy and, with a second variable, its value.
pub(crate) fn title(file: &SweepFile, finding: &Finding) -> String {
    let strategy = shown(&finding.series.strategy, 80);
    match (file.over.get(1), finding.series.beside) {
        (Some(over), Some(value)) => {
            format!("{strategy}, {} {}", over.variable.name(), over.variable.show(value))
        }
        _ => strategy,
    }
}

pub(crate) fn sentences(file: &SweepFile, finding: &Finding) -> Vec<String> {
    let show = |value: f64| variable(file).show(value);
    let name = variable(file).name();
    let mut said = Vec::new();
    if let (Some(edge), Some(objective)) = (&finding.objective, file.objective.as_ref().map(|one| &one.text))
    {
        said.push(match edge {
            Edge::Between { kept, missed, undecided } => {
                let end = if kept < missed { "highest" } else { "lowest" };
                let open = match undecided.as_slice() {
                    [] => String::new(),
                    some => {
                        let some: Vec<String> = some.iter().map(|value| show(*value)).collect();
                        format!("; undecided at {}", some.join(", "))
                    }
                };
                format!(
                    "{objective}: the {end} value of {name} that meets it lies between {} (met) and {} (missed){open}.",
                    show(*kept),
                    show(*missed)
                )
            }
            Edge::AllKept { up_to } => format!("{objective}: met up to {}; its limit was not found.", show(*up_to)),
            Edge::NoneKept { from } => format!("{objective}: missed from {} on.", show(*from)),
            Edge::Unknown { kept, missed, why } => {
                let known = [(kept, "met up to"), (missed, "missed from")];
                let known: Vec<String> = known
                    .into_iter()
                    .filter_map(|(value, word)| Some(format!("{word} {}, ", show((*value)?))))
                    .collect();
                let rest = if known.is_empty() { "undecided" } else { "the rest undecided" };
                format!("{objective}: {}{rest}: {why}.", known.concat())
            }
        });
    }
    said.push(match &finding.collapse {
        Collapse::Between { held: Some(held), broke, why } => {
            format!("Collapse: between {} and {}: {why}.", show(*held), show(*broke))
        }
        Collapse::Between { held: None, broke, why } => {
            format!("Collapse: at {} already: {why}.", show(*broke))
        }
        Collapse::NotFound { up_to, saturated_at } => {
            let up_to = up_to.map_or_else(String::new, |up_to| format!(" up to {}", show(up_to)));
            let end = saturated_at.map_or_else(String::new, |from| {
                format!(
                    "; from {} on the load generator could not keep up, which says nothing about the lock",
                    show(from)
                )
            });
            format!("Collapse: not found{up_to}{end}.")
        }
    });
    said
}

type Row<'f> = (&'f Finding, &'f Point);

pub(crate) fn grid(file: &SweepFile) -> Grid {
    let second = file.over.get(1).map(|over| over.variable);
    let mut columns =
        Columns::<Row<'_>>::new().words("strategy", |(finding, _)| shown(&finding.series.strategy, 60));
    if let Some(second) = second {
        columns = columns.numbers(second.name(), move |(_, point)| {
            point.at.beside.map_or_else(String::new, |value| second.show(value))
        });
    }
    columns = columns
        .numbers(variable(file).name(), |(_, point)| variable(file).show(point.at.x))
        .numbers("reps", |(_, point)| Value::Count(point.repetitions as u64))
        .spare(3)
        .metric(&THROUGHPUT, |(_, point)| interval(&THROUGHPUT, point.throughput))
        .metric(&WAIT_P50, |(_, point)| interval(&WAIT_P50, point.wait_p50).at_least(point.wait_p50_at_least))
        .metric(&WAIT_P99, |(_, point)| {
            interval(&WAIT_P99, point.wait_p99).at_least(point.wait_p99_at_least)
        });
    if file.objective.is_some() {
        columns = columns
            .words("objective", |(_, point)| {
                Value::or_missing(point.decision, |decision: Decision| decision.word().into())
            })
            .explained(
                "met or missed if all five repetitions agree, which is wrong once in 20 times at most",
            );
    }
    columns = columns.words("note", |(_, point)| note(point)).spare(1);
    let points = file
        .findings
        .iter()
        .flat_map(|finding| finding.series.points.iter().map(move |point| (finding, point)));
    let labels = if second.is_some() { 2 } else { 1 };
    columns.grid("Each point of each strategy", labels, points).noted(legend(file)).lean()
}

/// Effects of each fault at each point, fault by fault.
fn failures(file: &SweepFile) -> Option<Grid> {
    let second = file.over.get(1).map(|over| over.variable);
    let rows = file.findings.iter().flat_map(failure_rows);
    let mut columns = Columns::<(&Finding, &Point, &FailurePoint)>::new()
        .words("strategy", |(finding, ..)| shown(&finding.series.strategy, 60))
        .words("fault", |(.., failure)| failure.fault.as_str());
    if let Some(second) = second {
        columns = columns.numbers(second.name(), move |(_, point, _)| {
            point.at.beside.map_or_else(String::new, |value| second.show(value))
        });
    }
    let grid = columns
        .numbers(variable(file).name(), |(_, point, _)| variable(file).show(point.at.x))
        .numbers("granted", |(_, point, _)| match point.granted_us {
            0 => Value::NotMeasured,
            us => Value::Duration(us as f64),
        })
        .explained("session timeout that the servers granted")
        .numbers("no lock for", |(.., failure)| Value::or_missing(failure.gap, gap))
        .explained("longest time that a wanted lock was not acquired")
        .words("sessions lost", |(.., failure)| {
            let range = failure.sessions_lost_least.zip(failure.sessions_lost_most);
            Value::or_missing(range, |(least, most)| match least == most {
                true => least.to_string().into(),
                false => format!("{least} to {most}").into(),
            })
        })
        .explained("sessions that ended, excluding that of a crashed contender")
        .numbers("times", |(.., failure)| Value::Count(failure.times as u64))
        .spare(1)
        .grid("What failures cost at each point", if second.is_some() { 3 } else { 2 }, rows)
        .noted("Medians, with minimum and maximum.");
    (!grid.is_empty()).then_some(grid)
}

fn failure_rows(finding: &Finding) -> Vec<(&Finding, &Point, &FailurePoint)> {
    let points = finding.series.points.iter();
    let all = points.flat_map(|point| point.failures.iter().map(move |failure| (finding, point, failure)));
    let by_fault = grouped(all.map(|row| (row.2.fault.as_str(), row)));
    by_fault.into_iter().flat_map(|(_, rows)| rows).collect()
}

fn gap(range: MeasuredRange) -> Value {
    match range.most_us {
        0 => "< 5 ms".into(),
        _ => measured(range),
    }
}

/// A value with the half-width of its interval.
fn interval(entry: &FigureEntry, found: Option<Interval>) -> Value {
    Value::or_missing(found, |found| {
        let half = found.half_width().map_or_else(String::new, |half| format!(" ±{:.0}%", 100.0 * half));
        format!("{}{half}", metric_value(entry, found.value).shown()).into()
    })
}

fn note(point: &Point) -> Value {
    let out = point.repetitions - point.sound.min(point.repetitions);
    match (point.state, out) {
        (State::Sound, 0) => Value::NotMeasured,
        (State::Sound, out) => format!("{out} left out").into(),
        (state, _) => state.word().into(),
    }
}

fn legend(file: &SweepFile) -> String {
    let mut said =
        "Values: medians of the valid repetitions. ±: half of their range. ≥: waits were cut off by the end of the trial."
            .to_owned();
    if file.samples.iter().any(|sample| sample.state == State::Saturated) {
        said.push_str(" Generator saturated: such points say nothing about the lock.");
    }
    said
}

pub(crate) fn ending(file: &SweepFile) -> Option<String> {
    match file.ending {
        Ending::Complete => None,
        Ending::GoingOn => Some("the sweep was still in progress when this was written".into()),
        Ending::OutOfTime => Some("time ran out before everything was as precise as it could be".into()),
        Ending::NotCovered => Some("time ran out before the whole range was covered".into()),
        Ending::Interrupted => Some("interrupted: judged by what was measured until then".into()),
        Ending::Aborted => {
            let why = file.why.as_deref().unwrap_or("a run failed");
            Some(format!("cut short: {}", shown(why, 400)))
        }
    }
}
