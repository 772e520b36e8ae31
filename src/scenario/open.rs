//! The keys of an open load whose values have a form of their own: how arrivals come, and how popular locks are.

use std::path::{Path, PathBuf};

use toml::de::DeValue;

use super::arrivals::{Arrivals, Popularity, Replay, Step, TraceArrival};
use super::fields::{Form, KeyKind, PROCESSES, Process, SubKey};
use super::nearest::{did_you_mean, listed};
use super::read::{KeyValue, Sink, TomlTable, TomlValue, expect_number, expect_text, shortened, wrong_type};
use super::values::{FromKey, Got, Parts};

/// Reads a file of arrivals that a scenario names: the arrivals by their time, or file, line and what is wrong there.
/// `scenario` itself opens no files.
pub type ReadTrace<'r> = &'r dyn Fn(&Path) -> Result<Vec<TraceArrival>, String>;

/// How arrivals come, before it is known what the rate is.
pub(super) struct Comes {
    pub(super) process: &'static Process,
    /// At one a second, where the process takes a rate.
    pub(super) arrivals: Arrivals,
}

impl Comes {
    /// The arrivals at that rate, which those that have their own need not have.
    pub(super) fn at(&self, rate: Option<f64>) -> Option<Arrivals> {
        let arrivals = self.arrivals.clone();
        if self.process.takes_rate { Some(arrivals.times(rate?)) } else { Some(arrivals) }
    }
}

impl FromKey for Popularity {
    fn from_key(value: &TomlValue<'_>, kind: &KeyKind, sink: &Sink<'_>) -> Option<Self> {
        let KeyKind::Popularity(bounds) = kind else { return None };
        let help = "write \"uniform\", or { zipf = 1.0 }";
        match value.get_ref() {
            DeValue::String(word) if word == "uniform" => Some(Self::Uniform),
            DeValue::String(word) => {
                let message = format!("`{}` is no popularity", shortened(word));
                sink.error(value.span(), message, help);
                None
            }
            DeValue::Table(entries) => {
                let mut table = TomlTable::new(entries);
                let zipf = table.take("zipf");
                let strangers = table.finish();
                for stranger in &strangers {
                    let message = format!("unknown popularity `{}`", shortened(stranger.key));
                    sink.error(stranger.key_span(), message, help);
                }
                if zipf.is_none() && strangers.is_empty() {
                    sink.missing(value.span(), "expected one popularity, found 0", help);
                }
                expect_number(zipf?.value, bounds, sink).map(Self::Zipf)
            }
            _ => {
                wrong_type(value, "a popularity", help, sink);
                None
            }
        }
    }
}

/// A process by its name, or as a table of one entry.
pub(super) fn comes(value: &TomlValue<'_>, traces: ReadTrace<'_>, sink: &Sink<'_>) -> Option<Comes> {
    let names = || PROCESSES.iter().map(|process| process.name);
    let all = || format!("the processes are {}", listed(names()));
    let of_name = |name: &str, span| {
        let found = PROCESSES.iter().find(|process| process.name == name);
        if found.is_none() {
            let message = format!("unknown process `{}`", shortened(name));
            sink.error(span, message, did_you_mean(name, names(), &all()));
        }
        found
    };
    match value.get_ref() {
        DeValue::String(word) => {
            let process = of_name(word, value.span())?;
            if process.form == Form::Word {
                return Some(Comes { process, arrivals: built(process, &[])? });
            }
            let message = format!("`{}` needs more than its name", process.name);
            sink.error(value.span(), message, format!("write {}", process.example));
            None
        }
        DeValue::Table(entries) => {
            let entries = TomlTable::new(entries).entries();
            let [entry] = entries.as_slice() else {
                let message = format!("expected one process, found {}", entries.len());
                sink.missing(value.span(), message, all());
                return None;
            };
            let process = of_name(entry.key, entry.key_span())?;
            Some(Comes { process, arrivals: with_parts(process, entry, traces, sink)? })
        }
        _ => {
            wrong_type(value, "a process of arrivals", &all(), sink);
            None
        }
    }
}

fn with_parts(
    process: &Process,
    entry: &KeyValue<'_>,
    traces: ReadTrace<'_>,
    sink: &Sink<'_>,
) -> Option<Arrivals> {
    match process.form {
        Form::Word => {
            let message = format!("`{}` has no parts", process.name);
            sink.error(entry.key_span(), message, format!("write {}", process.example));
            None
        }
        Form::Table(parts) => built(process, &table(process, parts, entry.value, sink)?),
        Form::List(parts) => steps(process, parts, entry.value, sink),
        Form::File => replay(entry.value, traces, sink),
        Form::Durations => None,
    }
}

/// A process with all its parts; one that takes a rate has one arrival a second.
fn built(process: &Process, parts: &[Got]) -> Option<Arrivals> {
    let rate = 1.0;
    Some(match (process.name, parts) {
        ("constant", &[]) => Arrivals::Constant { rate },
        ("poisson", &[]) => Arrivals::Poisson { rate },
        ("bursts", &[Got::Number(peak), Got::Time(length)]) => Arrivals::Bursts { rate, peak, length },
        ("day", &[Got::Number(amplitude), Got::Time(period)]) => Arrivals::Day { rate, amplitude, period },
        ("ramp", &[Got::Number(from), Got::Number(to)]) => Arrivals::Ramp { from, to },
        _ => return None,
    })
}

/// All parts in their order; `None` when one is wrong or missing.
fn table(
    process: &Process,
    parts: &'static [SubKey],
    value: &TomlValue<'_>,
    sink: &Sink<'_>,
) -> Option<Vec<Got>> {
    let Parts { got, missing, strangers } = Parts::read(process.name, parts, process.example, value, sink)?;
    if !strangers.is_empty() {
        return None;
    }
    if !missing.is_empty() {
        let message = format!("`{}` needs {}", process.name, listed(missing));
        sink.missing(value.span(), message, format!("write {}", process.example));
    }
    got.into_iter().collect()
}

fn steps(
    process: &Process,
    parts: &'static [SubKey],
    value: &TomlValue<'_>,
    sink: &Sink<'_>,
) -> Option<Arrivals> {
    let DeValue::Array(items) = value.get_ref() else {
        wrong_type(value, "a list of steps", &format!("write {}", process.example), sink);
        return None;
    };
    if items.is_empty() {
        sink.missing(value.span(), "the list is empty", format!("write {}", process.example));
        return None;
    }
    let step = |item: &TomlValue<'_>| match table(process, parts, item, sink)?.as_slice() {
        [Got::Number(rate), Got::Time(lasts)] => Some(Step { rate: *rate, lasts: *lasts }),
        _ => None,
    };
    let steps: Vec<_> = items.iter().map(step).collect();
    steps.into_iter().collect::<Option<_>>().map(Arrivals::Steps)
}

fn replay(value: &TomlValue<'_>, traces: ReadTrace<'_>, sink: &Sink<'_>) -> Option<Arrivals> {
    let help = "write the path of a CSV file or of a history in quotes, relative to the scenario file";
    let text = expect_text(value, "a file", help, sink)?;
    let file = PathBuf::from(text);
    match traces(&file) {
        Ok(trace) if trace.is_empty() => {
            let message = format!("{} has no arrivals", shortened(text));
            sink.error(value.span(), message, "name a file with at least one");
            None
        }
        Ok(trace) => Some(Arrivals::Replay(Replay { file, count: trace.len(), trace: trace.into() })),
        Err(problem) => {
            let (message, help) = problem.split_once("; ").unwrap_or((&problem, help));
            sink.error(value.span(), message, help);
            None
        }
    }
}
