//! A spanned walk of the TOML: every value is read with its place, and every mistake is collected.
//!
//! Serde stops at the first mistake and forgets where values stood as soon as an enum is involved; this
//! reader keeps both. A function that returns `None` has reported why.

use std::cell::RefCell;
use std::ops::{Range, RangeInclusive};
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::diagnostic::{Diagnostic, Severity, did_you_mean, listed};
use zklockbench_core::units::{parse_duration, shown};

pub(super) type TomlValue<'a> = Spanned<DeValue<'a>>;

pub(super) struct Sink<'a> {
    text: &'a str,
    list: RefCell<Vec<Diagnostic>>,
    broken: Vec<Range<usize>>,
}

impl<'a> Sink<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, list: RefCell::new(Vec::new()), broken: Vec::new() }
    }

    pub(super) fn error(&self, span: Range<usize>, message: impl Into<String>, help: impl Into<String>) {
        self.add(Diagnostic::error(span, message, help));
    }

    /// The same, where there is no value then.
    pub(super) fn refuse<T>(
        &self,
        span: Range<usize>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Option<T> {
        self.error(span, message, help);
        None
    }

    /// Reports keys of which one means nothing beside the others, and what to do about it.
    pub(super) fn idle(
        &self,
        keys: &[&'static str],
        span: Range<usize>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.add(Diagnostic { idle: keys.to_vec(), ..Diagnostic::error(span, message, help) });
    }

    /// Reports that something is not there; where the text is not TOML, it may only be unreadable.
    pub(super) fn missing(&self, span: Range<usize>, message: impl Into<String>, help: impl Into<String>) {
        if self.broken.is_empty() {
            self.error(span, message, help);
        }
    }

    pub(super) fn warning(&self, span: Range<usize>, message: impl Into<String>, help: impl Into<String>) {
        self.add(Diagnostic { severity: Severity::Warning, ..Diagnostic::error(span, message, help) });
    }

    pub(super) fn broken(&mut self, syntax: Diagnostic, lines: Range<usize>) {
        self.broken.push(lines);
        self.list.get_mut().push(syntax);
    }

    fn add(&self, mut diagnostic: Diagnostic) {
        let span = &diagnostic.span;
        // What was made of a line that is not TOML is a guess: the message about its syntax is enough.
        if self.broken.iter().any(|lines| lines.start <= span.end && span.start <= lines.end) {
            return;
        }
        diagnostic.help = diagnostic.help.filter(|help| !help.is_empty());
        self.list.borrow_mut().push(diagnostic);
    }

    pub(super) fn has_errors(&self) -> bool {
        self.list.borrow().iter().any(|diagnostic| diagnostic.severity == Severity::Error)
    }

    pub(super) fn into_list(self) -> Vec<Diagnostic> {
        self.list.into_inner()
    }

    /// Where a part of a text stands in the file, of which `value` is the place of the whole; `None` where the file has it in
    /// another form, because of escapes.
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

    /// The offending text as the file has it, shortened to one readable line.
    pub(super) fn quoted(&self, span: &Range<usize>) -> String {
        let text = self.text.get(span.clone()).unwrap_or_default();
        let line = text.lines().next().unwrap_or_default();
        let short: String = line.chars().take(40).collect();
        if short.len() < text.len() { format!("{short}…") } else { short }
    }
}

/// A table of which each key is taken once.
pub(super) struct TomlTable<'a> {
    entries: &'a DeTable<'a>,
    taken: Vec<&'a str>,
}

#[derive(Clone, Copy)]
pub(super) struct KeyValue<'a> {
    pub(super) key: &'a str,
    key_span: (usize, usize),
    pub(super) value: &'a TomlValue<'a>,
}

impl KeyValue<'_> {
    pub(super) fn key_span(&self) -> Range<usize> {
        self.key_span.0..self.key_span.1
    }
}

impl<'a> TomlTable<'a> {
    pub(super) fn new(entries: &'a DeTable<'a>) -> Self {
        Self { entries, taken: Vec::new() }
    }

    pub(super) fn take(&mut self, name: &str) -> Option<KeyValue<'a>> {
        let entry = self.entries().into_iter().find(|entry| entry.key == name)?;
        self.taken.push(entry.key);
        Some(entry)
    }

    /// Every key that was not taken, in the order of the file.
    pub(super) fn finish(self) -> Vec<KeyValue<'a>> {
        self.entries().into_iter().filter(|entry| !self.taken.contains(&entry.key)).collect()
    }

    /// Every entry in the order of the file.
    pub(super) fn entries(&self) -> Vec<KeyValue<'a>> {
        let mut entries: Vec<_> = self
            .entries
            .iter()
            .map(|(key, value)| KeyValue {
                key: key.get_ref().as_ref(),
                key_span: (key.span().start, key.span().end),
                value,
            })
            .collect();
        entries.sort_by_key(|entry| entry.key_span);
        entries
    }
}

/// Reports a value of another type than is expected: there is none then.
pub(super) fn wrong_type<T>(value: &TomlValue<'_>, expected: &str, help: &str, sink: &Sink<'_>) -> Option<T> {
    let found = value.get_ref().type_str();
    let article = if found.starts_with(['a', 'i']) { "an" } else { "a" };
    let message = format!("expected {expected}, found {article} {found}: `{}`", sink.quoted(&value.span()));
    sink.refuse(value.span(), message, help)
}

/// A list of tables that have a header of their own.
pub(super) struct ListOfTables {
    pub(super) key: &'static str,
    /// What it is: `a list of faults`.
    pub(super) what: &'static str,
    pub(super) help: &'static str,
}

impl ListOfTables {
    /// Reads each of its items; also a single table, whose header lacks its second brackets.
    pub(super) fn read<T>(
        &self,
        value: &TomlValue<'_>,
        sink: &Sink<'_>,
        item: impl Fn(&TomlValue<'_>) -> Option<T>,
    ) -> Vec<T> {
        let Self { key, what, help } = self;
        match value.get_ref() {
            DeValue::Array(items) => items.iter().filter_map(item).collect(),
            DeValue::Table(_) => {
                let message = format!("`{key}` is one table, but a list of them is expected");
                sink.error(value.span(), message, format!("write its header with two brackets: [[{key}]]"));
                item(value).into_iter().collect()
            }
            _ => wrong_type(value, what, help, sink).unwrap_or_default(),
        }
    }
}

pub(super) fn expect_text<'a>(
    value: &'a TomlValue<'a>,
    expected: &str,
    help: &str,
    sink: &Sink<'_>,
) -> Option<&'a str> {
    value.get_ref().as_str().or_else(|| wrong_type(value, expected, help, sink))
}

fn out_of_bounds<T>(value: &TomlValue<'_>, help: String, sink: &Sink<'_>) -> Option<T> {
    sink.refuse(value.span(), format!("`{}` is out of bounds", sink.quoted(&value.span())), help)
}

pub(super) fn expect_count(
    value: &TomlValue<'_>,
    bounds: &RangeInclusive<u64>,
    sink: &Sink<'_>,
) -> Option<u64> {
    let within = format!("write a whole number from {} to {}", bounds.start(), bounds.end());
    let DeValue::Integer(integer) = value.get_ref() else {
        let text = value.get_ref().as_str().map(str::trim);
        let quoted = text.filter(|text| text.parse::<u64>().is_ok());
        let help = quoted.map_or(within, |text| format!("write {text} without quotes"));
        return wrong_type(value, "a whole number", &help, sink);
    };
    let number = i128::from_str_radix(integer.as_str(), integer.radix()).ok();
    let number =
        number.and_then(|number| u64::try_from(number).ok()).filter(|number| bounds.contains(number));
    number.or_else(|| out_of_bounds(value, within, sink))
}

pub(super) fn expect_number(
    value: &TomlValue<'_>,
    bounds: &RangeInclusive<f64>,
    sink: &Sink<'_>,
) -> Option<f64> {
    let mut help = format!("write a number from {} to {}", bounds.start(), bounds.end());
    let number = match value.get_ref() {
        DeValue::Float(float) => float.as_str().parse::<f64>().ok(),
        DeValue::Integer(integer) => integer.as_str().parse::<f64>().ok().filter(|_| integer.radix() == 10),
        other => {
            // Such as "40/s": the key says in which unit it is.
            let digits = other.as_str().map(|text| text.trim().trim_end_matches("/s").trim_end());
            if let Some(digits) = digits.filter(|digits| digits.parse::<f64>().is_ok()) {
                help = format!("write {digits}, without quotes or a unit");
            }
            return wrong_type(value, "a number", &help, sink);
        }
    };
    number.filter(|number| bounds.contains(number)).or_else(|| out_of_bounds(value, help, sink))
}

pub(super) fn expect_bool(value: &TomlValue<'_>, sink: &Sink<'_>) -> Option<bool> {
    let help = "write true or false, without quotes";
    value.get_ref().as_bool().or_else(|| wrong_type(value, "`true` or `false`", help, sink))
}

pub(super) fn expect_duration(
    value: &TomlValue<'_>,
    bounds: &RangeInclusive<Duration>,
    sink: &Sink<'_>,
) -> Option<Duration> {
    let text = match value.get_ref() {
        DeValue::String(text) => text,
        DeValue::Integer(_) | DeValue::Float(_) => {
            let number = sink.quoted(&value.span());
            let help = format!("write \"{number}ms\" or \"{number}s\", in quotes and with a unit");
            return wrong_type(value, "a duration", &help, sink);
        }
        _ => {
            let help = "write it as text with a unit, such as \"20ms\" or \"1s\"";
            return wrong_type(value, "a duration", help, sink);
        }
    };
    match parse_duration(text) {
        Err(reason) => {
            let (message, help) = reason.split_once("; ").unwrap_or((&reason, ""));
            sink.refuse(value.span(), message, help)
        }
        Ok(duration) if !bounds.contains(&duration) => {
            let limits = (written(*bounds.start()), written(*bounds.end()));
            let message = format!("`{}` is out of bounds", text.trim());
            sink.refuse(value.span(), message, format!("write a duration from {} to {}", limits.0, limits.1))
        }
        Ok(duration) => Some(duration),
    }
}

/// One of these words; reports the nearest.
pub(super) fn expect_word<'w>(value: &TomlValue<'_>, words: &[&'w str], sink: &Sink<'_>) -> Option<&'w str> {
    let all = listed(words.iter().copied());
    let text = expect_text(value, &format!("one of {all}"), "write one of these words in quotes", sink)?;
    let found = words.iter().copied().find(|word| *word == text);
    if found.is_none() {
        let message = format!("`{}` is not one of {all}", shortened(text));
        sink.error(value.span(), message, did_you_mean(text, words.iter().copied(), "write one of them"));
    }
    found
}

pub(super) fn written(duration: Duration) -> String {
    humantime::format_duration(duration).to_string()
}

/// A name short enough for a message.
pub(super) fn shortened(name: &str) -> String {
    shown(name, 60)
}
