//! The keys of one section, read by the table of fields: defaults, missing keys and unknown keys.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::de::{DeTable, DeValue};

use super::fields::{ENSEMBLE, Field, Kind, Need, Section, field, fields_of};
use super::nearest::{listed, nearest};
use super::read::{Entry, Sink, Table, Value, shortened};

/// Where a key and its value stand.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) key: Range<usize>,
    pub(super) value: Range<usize>,
}

/// Where each key that was given stands.
pub(super) type Places = BTreeMap<&'static str, Place>;

/// The keys of one section.
pub(super) struct Keys<'a, 's, 't> {
    table: Table<'a>,
    section: Section,
    sink: &'s Sink<'t>,
    misspelt: Vec<(&'static str, Entry<'a>)>,
    places: &'s mut Places,
}

impl<'a, 's, 't> Keys<'a, 's, 't> {
    pub(super) fn new(
        entries: &'a DeTable<'a>,
        section: Section,
        sink: &'s Sink<'t>,
        places: &'s mut Places,
    ) -> Self {
        let table = Table::new(entries);
        let misspelt = table
            .entries()
            .into_iter()
            .filter(|entry| entry.key != ENSEMBLE && field(section, entry.key).is_none())
            .filter_map(|entry| meant(entry.key, section).map(|name| (name, entry)))
            .filter(|(name, entry)| !entry.value.get_ref().is_table() || takes_table(section, name))
            .collect();
        Self { table, section, sink, misspelt, places }
    }

    /// Reads a key, or its default when it is not there.
    ///
    /// `None` means that the key is absent and has no default, or that its mistake has been reported; the
    /// places tell the two apart.
    pub(super) fn read<T>(
        &mut self,
        name: &str,
        read: impl Fn(&Value<'_>, &Kind, &Sink<'_>) -> Option<T>,
    ) -> Option<T> {
        let field = field(self.section, name)?;
        if let Some(entry) = self.take(name) {
            self.places.insert(field.name, Place { key: entry.key_span(), value: entry.value.span() });
            return read(entry.value, &field.kind, self.sink);
        }
        match field.need {
            Need::Required => self.report_missing(field),
            Need::Default(text) => return read(&DeValue::parse(text).ok()?, &field.kind, &Sink::new(text)),
            Need::Absent(_) => {}
        }
        None
    }

    /// Takes a key out. Where only a misspelt form of it is there, that is read in its stead, so that what
    /// is wrong with its value is said at once; the misspelling itself is reported by `finish`.
    pub(super) fn take(&mut self, name: &str) -> Option<Entry<'a>> {
        let misspelt = || self.misspelt.iter().find(|(meant, _)| *meant == name).map(|(_, entry)| *entry);
        self.table.take(name).or_else(misspelt)
    }

    /// Reports every key that nobody asked for.
    pub(super) fn finish(self) {
        for entry in self.table.finish() {
            let place = if self.section == Section::Ensemble { " in `[ensemble]`" } else { "" };
            let message = format!("unknown key `{}`{place}", shortened(entry.key));
            self.sink.error(entry.key_span(), message, advice(entry.key, self.section));
        }
    }

    /// Points at the first key: a place for what is not there.
    fn report_missing(&self, field: &Field) {
        let at = self.table.entries().first().map_or(0, |entry| entry.key_span().start);
        let help = format!("add a line such as {}", field.example);
        self.sink.missing(at..at, format!("`{}` is missing", field.name), help);
    }
}

/// A table under a misspelt key is no mistake of that key's value where no table can stand.
fn takes_table(section: Section, name: &str) -> bool {
    field(section, name).is_none_or(|field| matches!(field.kind, Kind::Distribution(_)))
}

/// What to do about an unknown key.
fn advice(key: &str, section: Section) -> String {
    let other = if section == Section::Top { Section::Ensemble } else { Section::Top };
    if let Some(field) = field(other, key) {
        return belongs(field);
    }
    if let Some(name) = meant(key, section) {
        return format!("did you mean `{name}`?");
    }
    if let Some(field) = meant(key, other).and_then(|name| field(other, name)) {
        return format!("did you mean `{}`? {}", field.name, belongs(field));
    }
    let mut names: Vec<_> = fields_of(section).map(|field| field.name).collect();
    if section == Section::Top {
        names.push(ENSEMBLE);
    }
    format!("the keys here are {}", listed(names))
}

fn belongs(field: &Field) -> String {
    match field.section {
        Section::Top => format!("`{}` belongs at the top of the file, before `[ensemble]`", field.name),
        Section::Ensemble => format!("`{}` belongs under `[ensemble]`", field.name),
    }
}

fn meant(key: &str, section: Section) -> Option<&'static str> {
    let elsewhere = if section == Section::Top { Section::Ensemble } else { Section::Top };
    if field(elsewhere, key).is_some() {
        return None;
    }
    let other_word = fields_of(section).find(|field| field.also.contains(&key));
    let table = (section == Section::Top).then_some(ENSEMBLE);
    let names = || fields_of(section).map(|field| field.name).chain(table);
    other_word.map(|field| field.name).or_else(|| nearest(key, names())).or_else(|| {
        let words = nearest(key, fields_of(section).flat_map(|field| field.also.iter().copied()))?;
        fields_of(section).find(|field| field.also.contains(&words)).map(|field| field.name)
    })
}
