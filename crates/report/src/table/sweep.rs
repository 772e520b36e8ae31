//! What a sweep found.

use super::layout::fitted_above;
use super::{NOT_MEASURED, Style, Table, numbers, words};
use crate::document::Value;
use zklockbench_analysis::sweep::{
    Collapse, Decision, Edge, Ending, Finding, Point, State, SweepFile, Variable,
};
use zklockbench_core::units::{at_least, counted, format_micros, number, shown};
use zklockbench_core::verdict::Verdict;
use zklockbench_stats::Interval;

/// What was found of each strategy, in words; each point; and what must be said beside the figures.
pub fn sweep(file: &SweepFile, notes: &[String], style: Style) -> String {
    let mut said = vec![headline(file), extent(file), String::new()];
    for finding in &file.findings {
        said.push(format!("{}:", title(file, finding)));
        said.extend(sentences(file, finding).into_iter().map(|sentence| format!("  {sentence}")));
    }
    said.push(String::new());
    if file.samples.is_empty() {
        said.push("No run came to its end, so there is nothing to show.".into());
    } else {
        said.extend(fitted_above(grid(file), style, |_| legend(file)));
    }
    said.extend(notes.iter().map(|note| format!("! {note}")));
    said.extend(ending(file).map(|note| format!("! {note}")));
    said.join("\n") + "\n"
}

fn variable(file: &SweepFile) -> Variable {
    file.over.first().map_or(Variable::Contenders, |over| over.variable)
}

/// The edge of the objective for each strategy or, without an objective, the collapse.
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
    let said = match (&file.objective, ends.as_slice()) {
        (_, []) if file.findings.is_empty() => "No run came to its end".to_owned(),
        (Some(objective), ends @ [_, ..]) => {
            format!("{} is kept over {name}: {}", objective.text, ends.join(", "))
        }
        _ => {
            let ends: Vec<String> = file.findings.iter().map(collapse).collect();
            format!("Collapse over {name}: {}", ends.join(", "))
        }
    };
    format!("{alarm}{said}.")
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

/// A series as it is called: the strategy and, where there is a second variable, its value.
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
                    "{objective}: the {end} value of {name} that keeps it lies between {} (kept) and {} (missed){open}.",
                    show(*kept),
                    show(*missed)
                )
            }
            Edge::AllKept { up_to } => format!("{objective}: kept up to {}; where it ends was not found.", show(*up_to)),
            Edge::NoneKept { from } => format!("{objective}: missed from {} on.", show(*from)),
            Edge::Unknown { kept, missed, why } => {
                let known = [(kept, "kept up to"), (missed, "missed from")];
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
                    "; from {} on the load generator could not keep up, which says nothing of the lock",
                    show(from)
                )
            });
            format!("Collapse: not found{up_to}{end}.")
        }
    });
    said
}

pub(crate) fn grid(file: &SweepFile) -> Table {
    let second = file.over.get(1);
    let mut columns = vec![words("strategy")];
    columns.extend(second.map(|over| numbers(over.variable.name(), 0)));
    columns.push(numbers(variable(file).name(), 0));
    columns.extend([
        numbers("reps", 3),
        numbers("throughput", 0),
        numbers("wait p50", 0),
        numbers("wait p99", 0),
    ]);
    if file.objective.is_some() {
        columns.push(words("objective"));
    }
    columns.push(words("note"));
    let labels = columns.len().min(if second.is_some() { 2 } else { 1 });
    let rows = file.findings.iter().flat_map(|finding| {
        finding.series.points.iter().map(move |point| {
            let mut row = vec![shown(&finding.series.strategy, 60)];
            row.extend(
                second
                    .map(|over| point.at.beside.map_or_else(String::new, |value| over.variable.show(value))),
            );
            row.push(variable(file).show(point.at.x));
            row.push(point.repetitions.to_string());
            row.push(interval(point.throughput, |value| format!("{}/s", number(value))));
            let time = |value: f64| format_micros(value.round() as u64);
            row.push(at_least(interval(point.wait_p50, time), point.wait_p50_at_least));
            row.push(at_least(interval(point.wait_p99, time), point.wait_p99_at_least));
            if file.objective.is_some() {
                row.push(point.decision.map_or(NOT_MEASURED, Decision::word).to_owned());
            }
            row.push(note(point));
            row
        })
    });
    let value = |text: String| if text == NOT_MEASURED { Value::NotMeasured } else { Value::from(text) };
    let rows = rows.map(|row: Vec<String>| row.into_iter().map(value).collect()).collect();
    Table { columns, labels, rows }
}

fn interval(found: Option<Interval>, show: impl Fn(f64) -> String) -> String {
    let Some(found) = found else { return NOT_MEASURED.into() };
    let half = found.half_width().map_or_else(String::new, |half| format!(" ±{:.0}%", 100.0 * half));
    format!("{}{half}", show(found.value))
}

fn note(point: &Point) -> String {
    let out = point.repetitions - point.sound.min(point.repetitions);
    match (point.state, out) {
        (State::Sound, 0) => String::new(),
        (State::Sound, out) => format!("{out} left out"),
        (state, _) => state.word().to_owned(),
    }
}

pub(crate) fn legend(file: &SweepFile) -> String {
    let mut said = "Values: medians of the repetitions that count; ±: half of their range. ≥: waits were \
                    cut off by the end of the trial."
        .to_owned();
    if file.objective.is_some() {
        said.push_str(
            " Objective: kept or missed where all of five repetitions are, which errs once in 20 times at most.",
        );
    }
    let saturated = file.samples.iter().any(|sample| sample.state == State::Saturated);
    if saturated {
        said.push_str(" Generator saturated: left out of all that is said of the lock.");
    }
    said
}

pub(crate) fn ending(file: &SweepFile) -> Option<String> {
    match file.ending {
        Ending::Complete => None,
        Ending::GoingOn => Some("the sweep was still going on when this was written".into()),
        Ending::OutOfTime => Some("the time was up before everything was as precise as it could be".into()),
        Ending::NotCovered => Some("the time was up before the whole range was covered".into()),
        Ending::Interrupted => Some("interrupted: judged by what was measured until then".into()),
        Ending::Aborted => {
            let why = file.why.as_deref().unwrap_or("a run failed");
            Some(format!("cut short: {}", shown(why, 400)))
        }
    }
}
