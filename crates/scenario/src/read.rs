//! Reads the sections of a file, with a diagnostic for each unknown key and each wrong value.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;

use serde::de::{Deserialize, DeserializeOwned};
use toml::de::{DeString, DeTable, DeValue, Deserializer, Error, ValueDeserializer};
use toml::{Spanned, Value};

use super::diagnostic::{Diagnostic, Severity, did_you_mean, listed, nearest};
use super::fields::{
    CLIENT, ENSEMBLE, FAULT, Field, GATE, Section, distributions, field, fields, fields_of, processes,
};
use super::value::{Wrong, wrong, wrong_type};
use zklockbench_core::units::shown;

pub(super) type TomlValue<'a> = Spanned<DeValue<'a>>;

pub(super) struct Sink<'a> {
    text: &'a str,
    list: RefCell<Vec<Diagnostic>>,
}

impl<'a> Sink<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, list: RefCell::default() }
    }

    pub(super) fn error(&self, span: Range<usize>, message: impl Into<String>, help: impl Into<String>) {
        self.add(Diagnostic::error(span, message, help));
    }

    /// Returns the value, or reports what is wrong with it and returns `None`.
    pub(super) fn checked<T>(&self, span: Range<usize>, read: Result<T, Wrong>) -> Option<T> {
        read.map_err(|wrong| {
            let (message, help) = wrong.split_once('\n').unwrap_or((&wrong, ""));
            self.error(span, message, help);
        })
        .ok()
    }

    /// Reports keys that have no effect, with advice.
    pub(super) fn idle(
        &self,
        keys: &[&'static str],
        span: Range<usize>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.add(Diagnostic { idle: keys.to_vec(), ..Diagnostic::error(span, message, help) });
    }

    pub(super) fn warning(&self, span: Range<usize>, message: impl Into<String>, help: impl Into<String>) {
        self.add(Diagnostic { severity: Severity::Warning, ..Diagnostic::error(span, message, help) });
    }

    fn add(&self, diagnostic: Diagnostic) {
        self.list.borrow_mut().push(diagnostic);
    }

    pub(super) fn errors(&self) -> usize {
        self.list.borrow().iter().filter(|diagnostic| diagnostic.severity == Severity::Error).count()
    }

    pub(super) fn into_list(self) -> Vec<Diagnostic> {
        self.list.into_inner()
    }

    /// Returns where a part of a string value is in the file; `None` if the value is written with escapes.
    pub(super) fn within(
        &self,
        value: &Range<usize>,
        text: &str,
        part: &Range<usize>,
    ) -> Option<Range<usize>> {
        let raw = self.text.get(value.clone())?;
        let quotes = ["\"\"\"", "'''", "\"", "'"].into_iter().find(|quotes| raw.starts_with(quotes))?;
        let is_plain = raw.strip_prefix(quotes)?.strip_suffix(quotes)? == text;
        let from = value.start + quotes.len();
        is_plain.then(|| from + part.start..from + part.end)
    }
}

/// Spans of each given key and its value.
#[derive(Debug, Default)]
pub(super) struct Places(BTreeMap<String, (Range<usize>, Range<usize>)>);

impl Places {
    fn of_table(table: &DeTable<'_>) -> Self {
        Self(
            table
                .iter()
                .map(|(key, value)| (key.get_ref().to_string(), (key.span(), value.span())))
                .collect(),
        )
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub(super) fn key(&self, name: &str) -> Option<Range<usize>> {
        self.0.get(name).map(|(key, _)| key.clone())
    }

    pub(super) fn value(&self, name: &str) -> Option<Range<usize>> {
        self.0.get(name).map(|(_, value)| value.clone())
    }

    /// Returns the keys of `names` that are given, with their positions, in file order.
    pub(super) fn given(&self, names: &[&'static str]) -> Vec<(&'static str, Range<usize>)> {
        let mut given: Vec<_> = names.iter().filter_map(|name| Some((*name, self.key(name)?))).collect();
        given.sort_by_key(|(_, key)| key.start);
        given
    }

    pub(super) fn and(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }
}

/// The valid values of a section, and the positions of all its keys.
#[derive(Default)]
pub(super) struct Given<T> {
    pub(super) said: T,
    pub(super) places: Places,
}

/// Reads each key of a section separately. The keys must have been checked by [`known_keys`].
pub(super) fn section<T: Default + DeserializeOwned>(
    section: Section,
    table: &DeTable<'_>,
    sink: &Sink<'_>,
) -> Given<T> {
    report_missing(section, table, sink);
    let mut right = DeTable::new();
    for (key, value) in table {
        let long = spelt_out(key.get_ref(), value);
        let wrong = mistakes::<T>(key, &long);
        for error in &wrong {
            let (message, help) = explained(error.message(), help(section, key.get_ref(), value));
            sink.error(error.span().unwrap_or_else(|| value.span()), message, help);
        }
        if wrong.is_empty() {
            right.insert(key.clone(), long);
        }
    }
    for field in fields_of(section).filter(|field| !table.contains_key(field.name)) {
        if let Some(Ok(default)) = field.default().map(DeValue::parse) {
            right.insert(Spanned::new(0..0, field.name.into()), spelt_out(field.name, &default));
        }
    }
    Given { said: deserialized(right).unwrap_or_default(), places: Places::of_table(table) }
}

/// Returns serde's errors for the value of a key, or for each item of its list.
fn mistakes<'a, T: DeserializeOwned>(key: &Spanned<DeString<'a>>, value: &TomlValue<'a>) -> Vec<Error> {
    let alone = |value: TomlValue<'a>| deserialized::<T>([(key.clone(), value)].into_iter().collect()).err();
    match (&**key.get_ref(), value.get_ref()) {
        ("contenders", DeValue::Array(items)) => {
            let list = |item: &TomlValue<'a>| DeValue::Array([item.clone()].into_iter().collect());
            items.iter().filter_map(|item| alone(Spanned::new(item.span(), list(item)))).collect()
        }
        _ => alone(value.clone()).into_iter().collect(),
    }
}

fn deserialized<T: DeserializeOwned>(table: DeTable<'_>) -> Result<T, Error> {
    T::deserialize(Deserializer::from(Spanned::new(0..0, table)))
}

/// Expands a number into a list, a duration into a distribution, and a path into a replayed file.
fn spelt_out<'a>(key: &str, value: &TomlValue<'a>) -> TomlValue<'a> {
    let long = match (key, value.get_ref()) {
        ("arrivals", DeValue::Table(parts)) => {
            let spelt_out = parts.iter().map(|(name, part)| {
                let is_path = name.get_ref() == "replay" && part.get_ref().is_str();
                let file = || (Spanned::new(part.span(), "file".into()), part.clone());
                let long = || Spanned::new(part.span(), DeValue::Table([file()].into_iter().collect()));
                (name.clone(), if is_path { long() } else { part.clone() })
            });
            DeValue::Table(spelt_out.collect())
        }
        (_, DeValue::Table(_)) | ("contenders", DeValue::Array(_)) => return value.clone(),
        ("hold" | "think", _) => {
            let entry = (Spanned::new(value.span(), "fixed".into()), value.clone());
            DeValue::Table([entry].into_iter().collect())
        }
        ("contenders", _) => DeValue::Array([value.clone()].into_iter().collect()),
        _ => return value.clone(),
    };
    Spanned::new(value.span(), long)
}

/// Messages of serde and toml, and their replacements.
const OWN_WORDS: [(&str, &str); 7] = [
    ("invalid type: unit variant", "expected a table with parameters, found a name without parameters"),
    ("expected empty table", "expected a name without parameters"),
    ("wanted exactly 1", "expected a table with exactly one key"),
    ("wanted string or table", "expected a name in quotes, or a table with exactly one key"),
    ("was too large", TOO_LARGE),
    // The messages for integers beyond 64 bits and beyond 128 bits.
    ("as i128", TOO_LARGE),
    ("integer number overflowed", TOO_LARGE),
];

const TOO_LARGE: &str = "the number is too large";

/// Describes the valid values of a key, or gives an example of the distribution or process that its value names.
fn help(section: Section, key: &str, value: &TomlValue<'_>) -> String {
    let Some(key) = field(section, key) else { return String::new() };
    let name = match value.get_ref() {
        DeValue::Table(parts) => parts.keys().next().map(|name| name.get_ref().to_string()),
        other => other.as_str().map(str::to_owned),
    };
    let forms = match key.name {
        "hold" | "think" => distributions(),
        "arrivals" => processes(),
        _ => Vec::new(),
    };
    let form = forms.into_iter().find(|form| Some(&form.name) == name.as_ref());
    match form {
        _ if key.words().starts_with('`') => format!("write {}", key.words()),
        Some(form) => format!("for example {} = {}", key.name, form.example),
        None => format!("for example {}", key.example()),
    }
}

/// Returns the message and advice for a serde error in the value of a key.
fn explained(error: &str, otherwise: String) -> (String, String) {
    if let Some((message, help)) = error.split_once('\n') {
        return (message.to_owned(), help.to_owned());
    }
    let quoted: Vec<&str> = error.split('`').skip(1).step_by(2).collect();
    // The toml crate's message for an unknown key in the table of a distribution or a process.
    let extra = error
        .strip_prefix("unexpected keys in table: ")
        .and_then(|rest| rest.split_once(", available keys: "));
    let known: Vec<&str> = extra
        .map_or_else(|| quoted[1.min(quoted.len())..].to_vec(), |(_, known)| known.split(", ").collect());
    let typed = extra.and_then(|(keys, _)| keys.split(", ").next()).or(quoted.first().copied());
    match typed {
        Some(typed) if extra.is_some() || error.starts_with("unknown ") => {
            let all = listed(known.iter().copied());
            let help = did_you_mean(typed, known, &otherwise);
            (format!("`{}` is not one of {all}", shown(typed, 60)), help)
        }
        Some(name) if error.starts_with("missing field") => (format!("`{name}` is missing"), otherwise),
        _ => {
            let own = OWN_WORDS.iter().find(|(words, _)| error.contains(words));
            (own.map_or_else(|| shown(error, 200), |(_, own)| (*own).to_owned()), otherwise)
        }
    }
}

/// Reports missing keys at the first key. A missing `kind` is reported with the list of faults instead.
fn report_missing(section: Section, table: &DeTable<'_>, sink: &Sink<'_>) {
    let missing = |field: &&Field| field.is_required() && table.get(field.name).is_none();
    for field in fields_of(section).filter(missing).filter(|field| field.name != "kind") {
        let at = table.keys().map(|key| key.span().start).min().unwrap_or(0);
        let help = format!("add a line such as {}", field.example());
        sink.error(at..at, format!("`{}` is missing", field.name), help);
    }
}

/// Reports every unknown key, with help from `owner` if it knows where the key belongs. The value of a misspelt
/// key is kept under the intended name, so that mistakes in the value are also reported.
pub(super) fn known_keys<'a>(
    section: Section,
    table: &DeTable<'a>,
    params: &[&'static str],
    owner: impl Fn(&str) -> Option<String>,
    sink: &Sink<'_>,
) -> DeTable<'a> {
    let is_known =
        |key: &str| field(section, key).is_some() || params.contains(&key) || tables(section).contains(&key);
    let (mut known, mut unknown) = (DeTable::new(), Vec::new());
    for (key, value) in table {
        if is_known(key.get_ref()) {
            known.insert(key.clone(), value.clone());
        } else {
            unknown.push((key, value));
        }
    }
    for (key, value) in unknown {
        let name = shown(key.get_ref(), 60);
        let under = section.header().map_or_else(String::new, |header| format!(" in `{header}`"));
        let help = owner(key.get_ref()).unwrap_or_else(|| advice(key.get_ref(), section, params));
        sink.error(key.span(), format!("unknown key `{name}`{under}"), help);
        if let Some(meant) = meant(key.get_ref(), section).filter(|meant| !known.contains_key(*meant)) {
            known.insert(Spanned::new(key.span(), meant.into()), value.clone());
        }
    }
    known
}

fn tables(section: Section) -> &'static [&'static str] {
    if section == Section::Top { &[ENSEMBLE, CLIENT, FAULT, GATE] } else { &[] }
}

fn advice(key: &str, section: Section, params: &[&'static str]) -> String {
    let elsewhere = |name: &str| fields().iter().find(|field| field.name == name && field.section != section);
    let neighbour = match section {
        Section::Top => Some(Section::Ensemble),
        Section::Ensemble => Some(Section::Top),
        Section::Client | Section::Fault | Section::Gate => None,
    };
    if let Some(field) = neighbour.and_then(|other| field(other, key)) {
        return belongs(field);
    }
    if let Some(name) = meant(key, section).or_else(|| nearest(key, params.iter().copied())) {
        return format!("did you mean `{name}`?");
    }
    if let Some(field) = neighbour.and_then(|other| field(other, meant(key, other)?)) {
        return format!("did you mean `{}`? {}", field.name, belongs(field));
    }
    if let Some(field) = elsewhere(key) {
        return belongs(field);
    }
    let names = fields_of(section).map(|field| field.name);
    format!(
        "the valid keys are {}",
        listed(names.chain(params.iter().copied()).chain(tables(section).iter().copied()))
    )
}

fn belongs(field: &Field) -> String {
    match field.section.header() {
        None => format!("`{}` belongs at the top of the file, before `[ensemble]`", field.name),
        Some(header) => format!("`{}` belongs under `{header}`", field.name),
    }
}

/// Returns the intended key of the section, by its name or by an alias.
fn meant(key: &str, section: Section) -> Option<&'static str> {
    let by_word = |word: &str| fields_of(section).find(|field| field.also().any(|one| one == word));
    if let Some(field) = by_word(key) {
        return Some(field.name);
    }
    // A key of another section is more likely misplaced than misspelt.
    let is_elsewhere = fields().iter().any(|field| match section {
        Section::Top => field.section != section && field.name == key,
        Section::Ensemble => field.section == Section::Top && field.name == key,
        Section::Client | Section::Fault | Section::Gate => false,
    });
    if is_elsewhere {
        return None;
    }
    let names = fields_of(section).map(|field| field.name).chain(tables(section).iter().copied());
    nearest(key, names).or_else(|| {
        let word = nearest(key, fields_of(section).flat_map(Field::also))?;
        by_word(word).map(|field| field.name)
    })
}

/// Converts a value with positions to a plain value.
pub(super) fn plain(value: &TomlValue<'_>) -> Result<Value, Wrong> {
    Value::deserialize(ValueDeserializer::from(value.clone()))
        .map_err(|error| wrong(explained(error.message(), String::new()).0, "write a smaller number"))
}

/// Returns the tables of a list. Also accepts a single table, after reporting that its header lacks the
/// second pair of brackets.
pub(super) fn list<'t, 'a>(
    key: &str,
    value: &'t TomlValue<'a>,
    example: &str,
    sink: &Sink<'_>,
) -> Vec<&'t TomlValue<'a>> {
    match value.get_ref() {
        DeValue::Array(items) => items.iter().collect(),
        DeValue::Table(_) => {
            let message = format!("`{key}` is a single table, but a list of tables is expected");
            sink.error(value.span(), message, format!("write its header with double brackets: [[{key}]]"));
            vec![value]
        }
        _ => {
            let help = format!("write `[[{key}]]` and, under it, {example}");
            expect(None, value, "a list of tables", &help, sink).unwrap_or_default()
        }
    }
}

/// Returns `found`, and reports the value if `found` is `None`.
pub(super) fn expect<T>(
    found: Option<T>,
    value: &TomlValue<'_>,
    expected: &str,
    help: &str,
    sink: &Sink<'_>,
) -> Option<T> {
    if found.is_none() {
        let wrong = plain(value).and_then(|value| Err::<(), _>(wrong_type(expected, &value, help)));
        sink.checked(value.span(), wrong);
    }
    found
}
