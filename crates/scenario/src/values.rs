//! How each kind of value is read: those of the table of fields, among them how arrivals come and how popular locks are,
//! and the parameters of strategies and faults by their descriptions.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use toml::de::DeValue;

use super::arrivals::{Arrivals, Popularity, Replay, Step, TraceArrival};
use super::diagnostic::{did_you_mean, listed, nearest};
use super::distribution::{Distribution, MeasuredTimes};
use super::fields::{
    DRAWN, Form, KeyKind, PARAM_DURATION, POLL_INTERVAL, POLL_INTERVAL_PARAM, PROCESSES, Process, SHAPES,
    Shape, SubKey, Word,
};
use super::read::{
    KeyValue, Sink, TomlTable, TomlValue, expect_bool, expect_count, expect_duration, expect_number,
    expect_text, expect_word, shortened, written, wrong_type,
};
use zklockbench_core::catalog::{Param, ParamKind, ParamValue};
use zklockbench_core::connect::Connect;
use zklockbench_core::evidence::Sensitivity;
use zklockbench_core::units::parse_duration;

pub(super) trait FromKey: Sized {
    /// Reads a value by the kind of its key; `None` is a mistake that was reported.
    fn from_key(value: &TomlValue<'_>, kind: &KeyKind, sink: &Sink<'_>) -> Option<Self>;
}

impl<T: Word> FromKey for T {
    fn from_key(value: &TomlValue<'_>, _: &KeyKind, sink: &Sink<'_>) -> Option<Self> {
        expect_word(value, T::WORDS, sink).and_then(T::of)
    }
}

impl FromKey for String {
    fn from_key(value: &TomlValue<'_>, kind: &KeyKind, sink: &Sink<'_>) -> Option<Self> {
        match kind {
            KeyKind::Name => name(value, sink),
            KeyKind::Connect => connect(value, sink),
            _ => expect_text(value, "text", "write it in quotes", sink).map(str::to_owned),
        }
    }
}

impl FromKey for u64 {
    fn from_key(value: &TomlValue<'_>, kind: &KeyKind, sink: &Sink<'_>) -> Option<Self> {
        match kind {
            KeyKind::Count(bounds) => expect_count(value, bounds, sink),
            KeyKind::OneOfCounts(choices) => one_of_counts(value, choices, sink),
            _ => None,
        }
    }
}

impl FromKey for u32 {
    fn from_key(value: &TomlValue<'_>, kind: &KeyKind, sink: &Sink<'_>) -> Option<Self> {
        u64::from_key(value, kind, sink).and_then(|count| Self::try_from(count).ok())
    }
}

impl FromKey for usize {
    fn from_key(value: &TomlValue<'_>, kind: &KeyKind, sink: &Sink<'_>) -> Option<Self> {
        u64::from_key(value, kind, sink).and_then(|count| Self::try_from(count).ok())
    }
}

impl FromKey for Duration {
    fn from_key(value: &TomlValue<'_>, kind: &KeyKind, sink: &Sink<'_>) -> Option<Self> {
        let KeyKind::Duration(bounds) = kind else { return None };
        expect_duration(value, bounds, sink)
    }
}

impl FromKey for f64 {
    fn from_key(value: &TomlValue<'_>, kind: &KeyKind, sink: &Sink<'_>) -> Option<Self> {
        match kind {
            KeyKind::Factor(bounds) => expect_number(value, bounds, sink),
            KeyKind::Percent(bounds) => percent(value, bounds, sink),
            _ => None,
        }
    }
}

impl FromKey for Sensitivity {
    fn from_key(value: &TomlValue<'_>, _: &KeyKind, sink: &Sink<'_>) -> Option<Self> {
        let text = expect_text(value, "a probability and a rate", "write it in quotes: \"0.99@1%\"", sink)?;
        match text.parse() {
            Ok(asked) => Some(asked),
            Err(why) => sink.refuse::<Self>(value.span(), why, "for example `\"0.99@1%\"`"),
        }
    }
}

/// Lower-case letters, digits and hyphens: the name becomes part of a directory's.
fn name(value: &TomlValue<'_>, sink: &Sink<'_>) -> Option<String> {
    let text = expect_text(value, "a name", "write it in quotes", sink)?;
    let fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if !text.is_empty() && text.len() <= 60 && text.chars().all(fine) && !text.starts_with('-') {
        return Some(text.to_owned());
    }
    let slug: String = text.to_lowercase().chars().map(|c| if fine(c) { c } else { '-' }).take(60).collect();
    let slug = Some(slug.trim_matches('-')).filter(|slug| !slug.is_empty()).unwrap_or("quick");
    let message = format!(
        "`{}` is not a name: up to 60 lower-case letters, digits and hyphens, not starting with a hyphen",
        shortened(text)
    );
    sink.refuse(value.span(), message, format!("for example `{slug}`"))
}

fn one_of_counts(value: &TomlValue<'_>, choices: &[u64], sink: &Sink<'_>) -> Option<u64> {
    let all: Vec<_> = choices.iter().map(ToString::to_string).collect();
    let all = all.join(", ");
    if value.get_ref().is_array() {
        return wrong_type(value, "one whole number", &format!("write one of {all}, without brackets"), sink);
    }
    let (least, most) = (choices.iter().min()?, choices.iter().max()?);
    let number = expect_count(value, &(*least..=*most), sink)?;
    if choices.contains(&number) {
        return Some(number);
    }
    let help = "write one of them: an even server adds nothing to the majority";
    sink.refuse(value.span(), format!("`{number}` is not one of {all}"), help)
}

/// One whole number or a list of different ones.
impl FromKey for Vec<usize> {
    fn from_key(value: &TomlValue<'_>, kind: &KeyKind, sink: &Sink<'_>) -> Option<Self> {
        let KeyKind::Counts(bounds) = kind else { return None };
        let count = |item: &TomlValue<'_>| {
            expect_count(item, bounds, sink).and_then(|count| usize::try_from(count).ok())
        };
        let DeValue::Array(items) = value.get_ref() else { return count(value).map(|count| vec![count]) };
        if items.is_empty() {
            sink.missing(value.span(), "the list is empty", "list at least one count, such as [1, 5, 20]");
            return None;
        }
        let mut counts = Vec::new();
        let mut whole = true;
        for item in items.iter() {
            let Some(count) = count(item) else {
                whole = false;
                continue;
            };
            if counts.contains(&count) {
                let message = format!("`{count}` is listed twice");
                sink.error(item.span(), message, "use `repetitions` to run it again");
                whole = false;
            }
            counts.push(count);
        }
        whole.then_some(counts)
    }
}

fn percent(value: &TomlValue<'_>, bounds: &RangeInclusive<f64>, sink: &Sink<'_>) -> Option<f64> {
    let text = expect_text(value, "a share", "write it in quotes, with its percent sign: \"2%\"", sink)?;
    let number = text.trim().strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    let (least, most) = (bounds.start(), bounds.end());
    match number {
        Some(percent) if bounds.contains(&percent) => return Some(percent / 100.0),
        Some(_) => sink.error(
            value.span(),
            format!("`{}` is not from {least}% to {most}%", shortened(text)),
            format!("write a share from {least}% to {most}%"),
        ),
        None => sink.error(
            value.span(),
            format!("`{}` is not a share", shortened(text)),
            "write a number and a percent sign: \"2%\"",
        ),
    }
    None
}

impl FromKey for PathBuf {
    fn from_key(value: &TomlValue<'_>, _: &KeyKind, sink: &Sink<'_>) -> Option<Self> {
        let text = expect_text(value, "a path", "write it in quotes", sink)?;
        if text.trim().is_empty() {
            return sink.refuse(value.span(), "the path is empty", "write a path, or leave the key out");
        }
        Some(Self::from(text))
    }
}

/// A duration, or a table that names a shape.
impl FromKey for Distribution {
    fn from_key(value: &TomlValue<'_>, _: &KeyKind, sink: &Sink<'_>) -> Option<Self> {
        let DeValue::Table(entries) = value.get_ref() else {
            return expect_duration(value, &DRAWN, sink).map(Self::Fixed);
        };
        let entries = TomlTable::new(entries).entries();
        let [entry] = entries.as_slice() else { return not_one_shape(value, &entries, sink) };
        let shape = SHAPES.iter().find(|shape| shape.name == entry.key).or_else(|| {
            unknown_shape(entry, sink);
            let near = nearest(entry.key, shape_names())?;
            SHAPES.iter().find(|shape| shape.name == near)
        })?;
        match shape.form {
            Form::Table(parts) => shaped(shape, parts, entry, sink),
            _ => measured(shape, entry, sink),
        }
    }
}

fn measured(shape: &Shape, entry: &KeyValue<'_>, sink: &Sink<'_>) -> Option<Distribution> {
    let DeValue::Array(items) = entry.value.get_ref() else {
        return wrong_type(entry.value, "a list of durations", &format!("write {}", shape.example), sink);
    };
    let most = MeasuredTimes::MOST;
    if !(1..=most).contains(&items.len()) {
        let message = format!("`measured` lists {} durations", items.len());
        let help = format!("list 1 to {most}, for instance some that are typical and some that are long");
        return sink.refuse(entry.value.span(), message, help);
    }
    let times: Vec<Option<Duration>> = items.iter().map(|item| expect_duration(item, &DRAWN, sink)).collect();
    let times: Option<Vec<Duration>> = times.into_iter().collect();
    Some(Distribution::Measured(MeasuredTimes::new(times?)))
}

fn shape_names() -> impl Iterator<Item = &'static str> {
    SHAPES.iter().map(|shape| shape.name)
}

/// The shape that has a part of that name.
fn owner(name: &str) -> Option<&'static Shape> {
    let has = |shape: &&Shape| match shape.form {
        Form::Table(parts) => parts.iter().any(|part| part.name == name),
        _ => false,
    };
    SHAPES.iter().find(has)
}

fn not_one_shape<T>(value: &TomlValue<'_>, entries: &[KeyValue<'_>], sink: &Sink<'_>) -> Option<T> {
    match entries.iter().find_map(|entry| owner(entry.key)) {
        Some(shape) => {
            sink.error(value.span(), "the distribution has no name", format!("name it: {}", shape.example));
        }
        None => sink.missing(
            value.span(),
            format!("expected one distribution, found {}", entries.len()),
            format!("name one of {}, or write a fixed time such as \"20ms\"", listed(shape_names())),
        ),
    }
    None
}

fn unknown_shape(entry: &KeyValue<'_>, sink: &Sink<'_>) {
    let help = match (entry.key, nearest(entry.key, shape_names()), owner(entry.key)) {
        ("fixed" | "constant", _, _) => "a fixed time is just the duration in quotes: \"20ms\"".to_owned(),
        (_, Some(near), _) => format!("did you mean `{near}`?"),
        (_, None, Some(shape)) => format!("`{}` belongs to a distribution: {}", entry.key, shape.example),
        (_, None, None) => format!("the distributions are {}", listed(shape_names())),
    };
    sink.error(entry.key_span(), format!("unknown distribution `{}`", shortened(entry.key)), help);
}

fn shaped(
    shape: &Shape,
    parts: &'static [SubKey],
    entry: &KeyValue<'_>,
    sink: &Sink<'_>,
) -> Option<Distribution> {
    let Parts { got, mut missing, strangers } =
        Parts::read(shape.name, parts, shape.example, entry.value, sink)?;
    let meant = |stranger: &&str| nearest(stranger, parts.iter().map(|part| part.name));
    missing.retain(|name| !strangers.iter().any(|stranger| meant(stranger) == Some(*name)));
    if !missing.is_empty() {
        let message = format!("`{}` needs {}", shape.name, listed(missing));
        sink.missing(entry.key_span(), message, format!("for example {}", shape.example));
    }
    match (shape.name, got.as_slice()) {
        ("uniform", &[Some(Got::Time(min)), Some(Got::Time(max))]) if min > max => {
            let message = format!("`min` {} is more than `max` {}", written(min), written(max));
            sink.refuse(entry.value.span(), message, "exchange the two")
        }
        ("uniform", &[Some(Got::Time(min)), Some(Got::Time(max))]) => {
            Some(Distribution::Uniform { min, max })
        }
        ("exponential", &[Some(Got::Time(mean))]) => Some(Distribution::Exponential { mean }),
        ("log-normal", &[Some(Got::Time(median)), Some(Got::Number(sigma))]) => {
            Some(Distribution::LogNormal { median, sigma })
        }
        _ => None,
    }
}

/// A part of a shape or of a process as it was read.
#[derive(Clone, Copy)]
enum Got {
    Time(Duration),
    Number(f64),
}

/// The parts of a shape or of a process in their order, as far as they could be read, and what was found beside them.
struct Parts<'a> {
    got: Vec<Option<Got>>,
    missing: Vec<&'static str>,
    strangers: Vec<&'a str>,
}

impl<'a> Parts<'a> {
    /// Reads every part, so that every mistake is said, also what does not belong there; `None` when it is no table.
    fn read(
        owner: &str,
        parts: &'static [SubKey],
        example: &str,
        value: &'a TomlValue<'a>,
        sink: &Sink<'_>,
    ) -> Option<Self> {
        let DeValue::Table(entries) = value.get_ref() else {
            return wrong_type(value, "a table", &format!("write {example}"), sink);
        };
        let mut table = TomlTable::new(entries);
        let (mut got, mut missing) = (Vec::new(), Vec::new());
        for part in parts {
            let entry = table.take(part.name);
            missing.extend(entry.is_none().then_some(part.name));
            got.push(entry.and_then(|entry| match &part.kind {
                KeyKind::Duration(bounds) => expect_duration(entry.value, bounds, sink).map(Got::Time),
                KeyKind::Factor(bounds) => expect_number(entry.value, bounds, sink).map(Got::Number),
                _ => None,
            }));
        }
        let names = || parts.iter().map(|part| part.name);
        let unknown = |stranger: KeyValue<'a>| {
            let message = format!("`{owner}` has no `{}`", shortened(stranger.key));
            let otherwise = format!("it takes {}", listed(names()));
            sink.error(stranger.key_span(), message, did_you_mean(stranger.key, names(), &otherwise));
            stranger.key
        };
        Some(Self { got, missing, strangers: table.finish().into_iter().map(unknown).collect() })
    }
}

fn connect(value: &TomlValue<'_>, sink: &Sink<'_>) -> Option<String> {
    let help = "write host:port pairs with commas between, and a chroot only after the last: \
                \"zk1:2181,zk2:2181/chroot\"";
    let text = expect_text(value, "a connect string", help, sink)?;
    match Connect::parse(text) {
        Ok(_) => Some(text.to_owned()),
        Err(problem) => sink.refuse(value.span(), problem, help),
    }
}

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
                sink.refuse(value.span(), message, help)
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
            _ => wrong_type(value, "a popularity", help, sink),
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
            sink.refuse(value.span(), message, format!("write {}", process.example))
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
        _ => wrong_type(value, "a process of arrivals", &all(), sink),
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
            sink.refuse(entry.key_span(), message, format!("write {}", process.example))
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
        return wrong_type(value, "a list of steps", &format!("write {}", process.example), sink);
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
            sink.refuse(value.span(), message, "name a file with at least one")
        }
        Ok(trace) => Some(Arrivals::Replay(Replay { file, count: trace.len(), trace: trace.into() })),
        Err(problem) => {
            let (message, help) = problem.split_once("; ").unwrap_or((&problem, help));
            sink.refuse(value.span(), message, help)
        }
    }
}

pub(super) type Given = BTreeMap<&'static str, ParamValue>;

/// The default of a parameter, as a value. `None` if the card's text does not fit its kind.
pub fn default_value(param: &Param) -> Option<ParamValue> {
    match param.kind {
        ParamKind::Duration => parse_duration(param.default).ok().map(ParamValue::Duration),
        ParamKind::Bool => param.default.parse().ok().map(ParamValue::Bool),
        ParamKind::OneOf(_) | ParamKind::Choice(_) => {
            param.kind.words().contains(&param.default).then(|| ParamValue::Word(param.default.to_owned()))
        }
        ParamKind::Count(least, most) | ParamKind::CountWithin(least, most, _) => {
            param.default.parse().ok().filter(|count| (least..=most).contains(count)).map(ParamValue::Count)
        }
    }
}

/// What holds: what was set or, where nothing was, the default.
pub(super) fn in_force(param: &Param, set: &Given) -> Option<ParamValue> {
    set.get(param.name).cloned().or_else(|| default_value(param))
}

pub(super) fn given_value(param: &Param, value: &TomlValue<'_>, sink: &Sink<'_>) -> Option<ParamValue> {
    Some(match param.kind {
        ParamKind::Duration => {
            let bounds = if param.name == POLL_INTERVAL_PARAM { POLL_INTERVAL } else { PARAM_DURATION };
            ParamValue::Duration(expect_duration(value, &bounds, sink)?)
        }
        ParamKind::Bool => ParamValue::Bool(expect_bool(value, sink)?),
        ParamKind::OneOf(_) | ParamKind::Choice(_) => {
            ParamValue::Word(expect_word(value, &param.kind.words(), sink)?.to_owned())
        }
        ParamKind::Count(least, most) | ParamKind::CountWithin(least, most, _) => {
            ParamValue::Count(expect_count(value, &(least..=most), sink)?)
        }
    })
}
