//! The keys of an open load: read one by one, and put together once all are there.

use std::path::{Path, PathBuf};
use std::time::Duration;

use toml::de::DeValue;

use super::arrivals::{Arrivals, Late, Open, Popularity, Replay, Step, TraceArrival};
use super::fields::{Form, KeyKind, PROCESSES, Part, Process};
use super::keys::Keys;
use super::model::RateOf;
use super::nearest::{did_you_mean, listed};
use super::read::{
    KeyValue, Sink, TomlTable, TomlValue, expect_duration, expect_number, expect_text, shortened, wrong_type,
};
use super::values;

/// Reads a file of arrivals that a scenario names: the arrivals by their time, or file, line and what is wrong there.
/// `scenario` itself opens no files.
pub type ReadTrace<'r> = &'r dyn Fn(&Path) -> Result<Vec<TraceArrival>, String>;

/// What could be read of the keys that only an open load has.
#[derive(Default)]
pub(super) struct OpenKeys {
    pub(super) rate: Option<f64>,
    pub(super) rate_each: Option<f64>,
    pub(super) arrivals: Option<Comes>,
    pub(super) popularity: Option<Popularity>,
    late: Option<Late>,
    backlog_at_most: Option<Duration>,
}

/// How arrivals come, before it is known what the rate is.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Comes {
    Constant,
    Poisson,
    Bursts { peak: f64, length: Duration },
    Day { amplitude: f64, period: Duration },
    Ramp { from: f64, to: f64 },
    Steps(Vec<Step>),
    Replay(Replay),
}

impl OpenKeys {
    pub(super) fn read(keys: &mut Keys<'_, '_, '_>, traces: ReadTrace<'_>) -> Self {
        Self {
            rate: keys.read("rate", values::factor),
            rate_each: keys.read("rate_each", values::factor),
            arrivals: keys.read("arrivals", |value, _, sink| comes(value, traces, sink)),
            popularity: keys.read("popularity", popularity),
            late: keys.read("late", values::word).map(late),
            backlog_at_most: keys.read("backlog_at_most", values::duration),
        }
    }

    /// The load, if nothing is missing, and whose its rates are.
    pub(super) fn complete(&self) -> Option<(Open, RateOf)> {
        let of = if self.rate_each.is_some() { RateOf::Each } else { RateOf::All };
        let open = Open {
            arrivals: self.arrivals.clone()?.at(self.rate.or(self.rate_each))?,
            popularity: self.popularity?,
            late: self.late?,
            backlog_at_most: self.backlog_at_most?,
        };
        Some((open, of))
    }

    /// How long a replay takes; `None` for all else.
    pub(super) fn replayed(&self) -> Option<Duration> {
        match &self.arrivals {
            Some(Comes::Replay(replay)) => Some(replay.lasts()),
            _ => None,
        }
    }
}

impl Comes {
    pub(super) fn process(&self) -> Option<&'static Process> {
        let name = match self {
            Self::Constant => "constant",
            Self::Poisson => "poisson",
            Self::Bursts { .. } => "bursts",
            Self::Day { .. } => "day",
            Self::Ramp { .. } => "ramp",
            Self::Steps(_) => "steps",
            Self::Replay(_) => "replay",
        };
        PROCESSES.iter().find(|process| process.name == name)
    }

    /// The process at that rate, which those that have their own need not have.
    pub(super) fn at(self, rate: Option<f64>) -> Option<Arrivals> {
        Some(match self {
            Self::Constant => Arrivals::Constant { rate: rate? },
            Self::Poisson => Arrivals::Poisson { rate: rate? },
            Self::Bursts { peak, length } => Arrivals::Bursts { rate: rate?, peak, length },
            Self::Day { amplitude, period } => Arrivals::Day { rate: rate?, amplitude, period },
            Self::Ramp { from, to } => Arrivals::Ramp { from, to },
            Self::Steps(steps) => Arrivals::Steps(steps),
            Self::Replay(replay) => Arrivals::Replay(replay),
        })
    }
}

fn late(word: &str) -> Late {
    if word == "drop" { Late::Drop } else { Late::Keep }
}

fn popularity(value: &TomlValue<'_>, kind: &KeyKind, sink: &Sink<'_>) -> Option<Popularity> {
    let KeyKind::Popularity(bounds) = kind else { return None };
    let help = "write \"uniform\", or { zipf = 1.0 }";
    match value.get_ref() {
        DeValue::String(word) if word == "uniform" => Some(Popularity::Uniform),
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
            expect_number(zipf?.value, bounds, sink).map(Popularity::Zipf)
        }
        _ => {
            wrong_type(value, "a popularity", help, sink);
            None
        }
    }
}

fn names() -> impl Iterator<Item = &'static str> {
    PROCESSES.iter().map(|process| process.name)
}

/// A process by its name, or as a table of one entry.
fn comes(value: &TomlValue<'_>, traces: ReadTrace<'_>, sink: &Sink<'_>) -> Option<Comes> {
    let all = || format!("the processes are {}", listed(names()));
    match value.get_ref() {
        DeValue::String(word) => match PROCESSES.iter().find(|process| process.name == word.as_ref()) {
            Some(process) if process.form == Form::Word => word_alone(process.name),
            Some(process) => {
                let message = format!("`{}` needs more than its name", process.name);
                sink.error(value.span(), message, format!("write {}", process.example));
                None
            }
            None => {
                let message = format!("unknown process `{}`", shortened(word));
                sink.error(value.span(), message, did_you_mean(word, names(), &all()));
                None
            }
        },
        DeValue::Table(entries) => {
            let entries = TomlTable::new(entries).entries();
            let [entry] = entries.as_slice() else {
                let message = format!("expected one process, found {}", entries.len());
                sink.missing(value.span(), message, all());
                return None;
            };
            match PROCESSES.iter().find(|process| process.name == entry.key) {
                Some(process) => with_parts(process, entry, traces, sink),
                None => {
                    let message = format!("unknown process `{}`", shortened(entry.key));
                    sink.error(entry.key_span(), message, did_you_mean(entry.key, names(), &all()));
                    None
                }
            }
        }
        _ => {
            wrong_type(value, "a process of arrivals", &all(), sink);
            None
        }
    }
}

fn word_alone(name: &str) -> Option<Comes> {
    match name {
        "constant" => Some(Comes::Constant),
        "poisson" => Some(Comes::Poisson),
        _ => None,
    }
}

fn with_parts(
    process: &Process,
    entry: &KeyValue<'_>,
    traces: ReadTrace<'_>,
    sink: &Sink<'_>,
) -> Option<Comes> {
    match process.form {
        Form::Word => {
            let message = format!("`{}` has no parts", process.name);
            sink.error(entry.key_span(), message, format!("write {}", process.example));
            None
        }
        Form::Table(parts) => {
            let values = table(process, parts, entry.value, sink)?;
            match (process.name, values.as_slice()) {
                ("bursts", [Got::Number(peak), Got::Time(length)]) => {
                    Some(Comes::Bursts { peak: *peak, length: *length })
                }
                ("day", [Got::Number(amplitude), Got::Time(period)]) => {
                    Some(Comes::Day { amplitude: *amplitude, period: *period })
                }
                ("ramp", [Got::Number(from), Got::Number(to)]) => Some(Comes::Ramp { from: *from, to: *to }),
                _ => None,
            }
        }
        Form::List(parts) => steps(process, parts, entry.value, sink),
        Form::File => replay(entry.value, traces, sink),
    }
}

enum Got {
    Time(Duration),
    Number(f64),
}

/// All parts in their order; `None` when one is wrong or missing.
fn table(process: &Process, parts: &[Part], value: &TomlValue<'_>, sink: &Sink<'_>) -> Option<Vec<Got>> {
    let example = format!("write {}", process.example);
    let DeValue::Table(entries) = value.get_ref() else {
        wrong_type(value, "a table", &example, sink);
        return None;
    };
    let names = || parts.iter().map(|part| part.name);
    let mut table = TomlTable::new(entries);
    let taken: Vec<_> = parts.iter().map(|part| (part, table.take(part.name))).collect();
    let strangers = table.finish();
    for stranger in &strangers {
        let message = format!("`{}` has no `{}`", process.name, shortened(stranger.key));
        let otherwise = format!("it takes {}", listed(names()));
        sink.error(stranger.key_span(), message, did_you_mean(stranger.key, names(), &otherwise));
    }
    let absent: Vec<_> = taken.iter().filter(|(_, got)| got.is_none()).map(|(part, _)| part.name).collect();
    if !absent.is_empty() && strangers.is_empty() {
        let message = format!("`{}` needs {}", process.name, listed(absent));
        sink.missing(value.span(), message, example);
    }
    let read = |(part, got): (&Part, Option<KeyValue<'_>>)| match &part.kind {
        KeyKind::Duration(bounds) => expect_duration(got?.value, bounds, sink).map(Got::Time),
        KeyKind::Factor(bounds) => expect_number(got?.value, bounds, sink).map(Got::Number),
        _ => None,
    };
    // Every part is read, so that every mistake is said.
    let read: Vec<_> = taken.into_iter().map(read).collect();
    if strangers.is_empty() { read.into_iter().collect() } else { None }
}

fn steps(process: &Process, parts: &[Part], value: &TomlValue<'_>, sink: &Sink<'_>) -> Option<Comes> {
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
    steps.into_iter().collect::<Option<_>>().map(Comes::Steps)
}

fn replay(value: &TomlValue<'_>, traces: ReadTrace<'_>, sink: &Sink<'_>) -> Option<Comes> {
    let help = "write the path of a CSV file or of a history in quotes, relative to the scenario file";
    let text = expect_text(value, "a file", help, sink)?;
    let file = PathBuf::from(text);
    match traces(&file) {
        Ok(trace) if trace.is_empty() => {
            let message = format!("{} has no arrivals", shortened(text));
            sink.error(value.span(), message, "name a file with at least one");
            None
        }
        Ok(trace) => Some(Comes::Replay(Replay { file, count: trace.len(), trace: trace.into() })),
        Err(problem) => {
            let (message, help) = problem.split_once("; ").unwrap_or((&problem, help));
            sink.error(value.span(), message, help);
            None
        }
    }
}
