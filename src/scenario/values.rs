//! How each kind of value is read: those of the table of fields, and the parameters of strategies and faults by their
//! descriptions.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use toml::de::DeValue;

use super::distribution::{Distribution, MeasuredTimes};
use super::fields::{
    KeyKind, MEASURED, PARAM_DURATION, POLL_INTERVAL, POLL_INTERVAL_PARAM, SHAPES, SIGMA, Shape,
};
use super::nearest::{did_you_mean, listed, nearest};
use super::read::{
    KeyValue, Sink, TomlTable, TomlValue, expect_bool, expect_count, expect_duration, expect_number,
    expect_text, expect_word, shortened, written, wrong_type,
};
use crate::words::catalog::{Param, ParamKind, ParamValue};
use crate::words::connect::Connect;
use crate::words::units::parse_duration;

pub(super) fn text(value: &TomlValue<'_>, _: &KeyKind, sink: &Sink<'_>) -> Option<String> {
    expect_text(value, "text", "write it in quotes", sink).map(str::to_owned)
}

/// Lower-case letters, digits and hyphens: the name becomes part of a directory's.
pub(super) fn name(value: &TomlValue<'_>, _: &KeyKind, sink: &Sink<'_>) -> Option<String> {
    let text = expect_text(value, "a name", "write it in quotes", sink)?;
    let fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if !text.is_empty() && text.len() <= 60 && text.chars().all(fine) && !text.starts_with('-') {
        return Some(text.to_owned());
    }
    let slug: String = text.to_lowercase().chars().map(|c| if fine(c) { c } else { '-' }).take(60).collect();
    let slug = slug.trim_matches('-');
    let help =
        if slug.is_empty() { "for example `quick`".to_owned() } else { format!("for example `{slug}`") };
    let message = format!(
        "`{}` is not a name: up to 60 lower-case letters, digits and hyphens, not starting with a hyphen",
        shortened(text)
    );
    sink.error(value.span(), message, help);
    None
}

pub(super) fn count(value: &TomlValue<'_>, kind: &KeyKind, sink: &Sink<'_>) -> Option<u64> {
    let KeyKind::Count(bounds) = kind else { return None };
    expect_count(value, bounds, sink)
}

pub(super) fn one_of_counts(value: &TomlValue<'_>, kind: &KeyKind, sink: &Sink<'_>) -> Option<u64> {
    let KeyKind::OneOfCounts(choices) = kind else { return None };
    let all: Vec<_> = choices.iter().map(ToString::to_string).collect();
    if value.get_ref().is_array() {
        wrong_type(
            value,
            "one whole number",
            &format!("write one of {}, without brackets", all.join(", ")),
            sink,
        );
        return None;
    }
    let (least, most) = (choices.iter().min()?, choices.iter().max()?);
    let number = expect_count(value, &(*least..=*most), sink)?;
    if choices.contains(&number) {
        return Some(number);
    }
    sink.error(
        value.span(),
        format!("`{number}` is not one of {}", all.join(", ")),
        "write one of them: an even server adds nothing to the majority",
    );
    None
}

/// One whole number or a list of different ones.
pub(super) fn counts(value: &TomlValue<'_>, kind: &KeyKind, sink: &Sink<'_>) -> Option<Vec<usize>> {
    let KeyKind::Counts(bounds) = kind else { return None };
    let DeValue::Array(items) = value.get_ref() else {
        return expect_count(value, bounds, sink)
            .and_then(|count| usize::try_from(count).ok())
            .map(|n| vec![n]);
    };
    if items.is_empty() {
        sink.missing(value.span(), "the list is empty", "list at least one count, such as [1, 5, 20]");
        return None;
    }
    let mut counts = Vec::new();
    let mut whole = true;
    for item in items.iter() {
        let Some(count) = expect_count(item, bounds, sink).and_then(|count| usize::try_from(count).ok())
        else {
            whole = false;
            continue;
        };
        if counts.contains(&count) {
            sink.error(
                item.span(),
                format!("`{count}` is listed twice"),
                "use `repetitions` to run it again",
            );
            whole = false;
        }
        counts.push(count);
    }
    whole.then_some(counts)
}

pub(super) fn duration(value: &TomlValue<'_>, kind: &KeyKind, sink: &Sink<'_>) -> Option<Duration> {
    let KeyKind::Duration(bounds) = kind else { return None };
    expect_duration(value, bounds, sink)
}

pub(super) fn word(value: &TomlValue<'_>, kind: &KeyKind, sink: &Sink<'_>) -> Option<&'static str> {
    let KeyKind::Word(words) = kind else { return None };
    expect_word(value, words, sink)
}

pub(super) fn factor(value: &TomlValue<'_>, kind: &KeyKind, sink: &Sink<'_>) -> Option<f64> {
    let KeyKind::Factor(bounds) = kind else { return None };
    expect_number(value, bounds, sink)
}

pub(super) fn percent(value: &TomlValue<'_>, kind: &KeyKind, sink: &Sink<'_>) -> Option<f64> {
    let KeyKind::Percent(bounds) = kind else { return None };
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

pub(super) fn path(value: &TomlValue<'_>, _: &KeyKind, sink: &Sink<'_>) -> Option<PathBuf> {
    let text = expect_text(value, "a path", "write it in quotes", sink)?;
    if text.trim().is_empty() {
        sink.error(value.span(), "the path is empty", "write a path, or leave the key out");
        return None;
    }
    Some(PathBuf::from(text))
}

/// A duration, or a table that names a shape.
pub(super) fn distribution(value: &TomlValue<'_>, kind: &KeyKind, sink: &Sink<'_>) -> Option<Distribution> {
    let KeyKind::Distribution(longest) = kind else { return None };
    let DeValue::Table(entries) = value.get_ref() else {
        return expect_duration(value, &(Duration::ZERO..=*longest), sink).map(Distribution::Fixed);
    };
    let entries = TomlTable::new(entries).entries();
    let [entry] = entries.as_slice() else {
        return not_one_shape(value, &entries, sink);
    };
    let shape = SHAPES.iter().find(|shape| shape.name == entry.key).or_else(|| {
        unknown_shape(entry, sink);
        let near = nearest(entry.key, shape_names())?;
        SHAPES.iter().find(|shape| shape.name == near)
    })?;
    if shape.name == MEASURED {
        return measured(shape, entry, *longest, sink);
    }
    let DeValue::Table(inner) = entry.value.get_ref() else {
        wrong_type(entry.value, "a table", &format!("write {}", shape.example), sink);
        return None;
    };
    shaped(shape, entry, TomlTable::new(inner), *longest, sink)
}

fn measured(shape: &Shape, entry: &KeyValue<'_>, longest: Duration, sink: &Sink<'_>) -> Option<Distribution> {
    let DeValue::Array(items) = entry.value.get_ref() else {
        wrong_type(entry.value, "a list of durations", &format!("write {}", shape.example), sink);
        return None;
    };
    if !(1..=MeasuredTimes::MOST).contains(&items.len()) {
        let message = format!("`measured` lists {} durations", items.len());
        let help = format!(
            "list 1 to {}, for instance some that are typical and some that are long",
            MeasuredTimes::MOST
        );
        sink.error(entry.value.span(), message, help);
        return None;
    }
    let each = items.iter().map(|item| expect_duration(item, &(Duration::ZERO..=longest), sink));
    let times: Vec<Option<Duration>> = each.collect();
    let times: Option<Vec<Duration>> = times.into_iter().collect();
    Some(Distribution::Measured(MeasuredTimes::new(times?)))
}

fn shape_names() -> impl Iterator<Item = &'static str> {
    SHAPES.iter().map(|shape| shape.name)
}

fn not_one_shape<T>(value: &TomlValue<'_>, entries: &[KeyValue<'_>], sink: &Sink<'_>) -> Option<T> {
    let parameter = |entry: &&KeyValue<'_>| {
        SHAPES.iter().find(|shape| shape.durations.contains(&entry.key) || shape.numbers.contains(&entry.key))
    };
    match entries.iter().find_map(|entry| parameter(&entry)) {
        Some(shape) => {
            sink.error(value.span(), "the distribution has no name", format!("name it: {}", shape.example))
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
    let owner = SHAPES.iter().find(|s| s.durations.contains(&entry.key) || s.numbers.contains(&entry.key));
    let help = match (entry.key, nearest(entry.key, shape_names()), owner) {
        ("fixed" | "constant", _, _) => "a fixed time is just the duration in quotes: \"20ms\"".to_owned(),
        (_, Some(near), _) => format!("did you mean `{near}`?"),
        (_, None, Some(shape)) => format!("`{}` belongs to a distribution: {}", entry.key, shape.example),
        (_, None, None) => format!("the distributions are {}", listed(shape_names())),
    };
    sink.error(entry.key_span(), format!("unknown distribution `{}`", shortened(entry.key)), help);
}

fn shaped(
    shape: &Shape,
    entry: &KeyValue<'_>,
    mut table: TomlTable<'_>,
    longest: Duration,
    sink: &Sink<'_>,
) -> Option<Distribution> {
    let mut durations = Vec::new();
    let mut numbers = Vec::new();
    let mut missing = Vec::new();
    for name in shape.durations {
        match table.take(name) {
            Some(entry) => durations.push(expect_duration(entry.value, &(Duration::ZERO..=longest), sink)),
            None => missing.push(*name),
        }
    }
    for name in shape.numbers {
        match table.take(name) {
            Some(entry) => numbers.push(expect_number(entry.value, &SIGMA, sink)),
            None => missing.push(*name),
        }
    }
    let names = || shape.durations.iter().chain(shape.numbers).copied();
    for unknown in table.finish() {
        let message = format!("`{}` has no `{}`", shape.name, shortened(unknown.key));
        let otherwise = format!("it takes {}", listed(names()));
        sink.error(unknown.key_span(), message, did_you_mean(unknown.key, names(), &otherwise));
        missing.retain(|name| nearest(unknown.key, names()) != Some(*name));
    }
    if !missing.is_empty() {
        let message = format!("`{}` needs {}", shape.name, listed(missing));
        sink.missing(entry.key_span(), message, format!("for example {}", shape.example));
    }
    built(shape.name, &durations, &numbers, entry, sink)
}

fn built(
    name: &str,
    durations: &[Option<Duration>],
    numbers: &[Option<f64>],
    entry: &KeyValue<'_>,
    sink: &Sink<'_>,
) -> Option<Distribution> {
    match (name, durations, numbers) {
        ("uniform", [Some(min), Some(max)], _) if min > max => {
            let message = format!("`min` {} is more than `max` {}", written(*min), written(*max));
            sink.error(entry.value.span(), message, "exchange the two");
            None
        }
        ("uniform", [Some(min), Some(max)], _) => Some(Distribution::Uniform { min: *min, max: *max }),
        ("exponential", [Some(mean)], _) => Some(Distribution::Exponential { mean: *mean }),
        ("log-normal", [Some(median)], [Some(sigma)]) => {
            Some(Distribution::LogNormal { median: *median, sigma: *sigma })
        }
        _ => None,
    }
}

pub(super) fn connect(value: &TomlValue<'_>, _: &KeyKind, sink: &Sink<'_>) -> Option<String> {
    let help = "write host:port pairs with commas between, and a chroot only after the last: \
                \"zk1:2181,zk2:2181/chroot\"";
    let text = expect_text(value, "a connect string", help, sink)?;
    match Connect::parse(text) {
        Ok(_) => Some(text.to_owned()),
        Err(problem) => {
            sink.error(value.span(), problem, help);
            None
        }
    }
}

/// The parameters that a scenario has set, by name.
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
