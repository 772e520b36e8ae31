//! The keys of one section, read by the table of fields: defaults, missing keys and unknown keys.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::de::{DeTable, DeValue};

use super::fields::{ENSEMBLE, Field, Kind, Need, Section, field, fields_of};
use super::nearest::{listed, nearest};
use super::read::{Sink, Table, Value, shortened};

/// Where a key and its value stand.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) key: Range<usize>,
    pub(super) value: Range<usize>,
}

/// Where each key that was given stands.
pub(super) type Places = BTreeMap<&'static str, Place>;

/// What is left to say when every key of a section has been asked for.
#[derive(Default)]
pub(super) struct Leftover {
    /// Required keys that are not there, unless a misspelt key explains why.
    pub(super) missing: Vec<&'static Field>,
    /// Valid names that were suggested for unknown keys.
    pub(super) suggested: Vec<&'static str>,
}

/// The keys of one section.
pub(super) struct Keys<'a, 's, 't> {
    table: Table<'a>,
    section: Section,
    sink: &'s Sink<'t>,
    missing: Vec<&'static Field>,
    places: &'s mut Places,
}

impl<'a, 's, 't> Keys<'a, 's, 't> {
    pub(super) fn new(
        entries: &'a DeTable<'a>,
        section: Section,
        sink: &'s Sink<'t>,
        places: &'s mut Places,
    ) -> Self {
        Self { table: Table::new(entries), section, sink, missing: Vec::new(), places }
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
        if let Some(entry) = self.table.take(name) {
            self.places.insert(field.name, Place { key: entry.key_span(), value: entry.value.span() });
            return read(entry.value, &field.kind, self.sink);
        }
        match field.need {
            Need::Required => self.missing.push(field),
            Need::Default(text) => return read(&DeValue::parse(text).ok()?, &field.kind, &Sink::new(text)),
            Need::Absent(_) => {}
        }
        None
    }

    /// Takes a key that is read in another way.
    pub(super) fn take(&mut self, name: &str) -> Option<&'a Value<'a>> {
        self.table.take(name).map(|entry| entry.value)
    }

    /// Reports every key that nobody asked for.
    pub(super) fn finish(self) -> Leftover {
        let mut leftover = Leftover::default();
        for entry in self.table.finish() {
            let (suggested, help) = advise(entry.key, self.section);
            leftover.suggested.extend(suggested);
            let place = if self.section == Section::Ensemble { " in `[ensemble]`" } else { "" };
            let message = format!("unknown key `{}`{place}", shortened(entry.key));
            self.sink.error(entry.key_span(), message, help);
        }
        let explained = |field: &&Field| leftover.suggested.contains(&field.name);
        leftover.missing = self.missing.into_iter().filter(|field| !explained(field)).collect();
        leftover
    }
}

/// The name that was probably meant by an unknown key, and what to do about it.
fn advise(key: &str, section: Section) -> (Option<&'static str>, String) {
    let other = if section == Section::Top { Section::Ensemble } else { Section::Top };
    if let Some(field) = field(other, key) {
        return (None, belongs(field));
    }
    if let Some(name) = meant(key, section) {
        return (Some(name), format!("did you mean `{name}`?"));
    }
    if let Some(field) = meant(key, other).and_then(|name| field(other, name)) {
        return (None, format!("did you mean `{}`? {}", field.name, belongs(field)));
    }
    let mut names: Vec<_> = fields_of(section).map(|field| field.name).collect();
    if section == Section::Top {
        names.push(ENSEMBLE);
    }
    (None, format!("the keys here are {}", listed(names)))
}

fn belongs(field: &Field) -> String {
    match field.section {
        Section::Top => format!("`{}` belongs at the top of the file, before `[ensemble]`", field.name),
        Section::Ensemble => format!("`{}` belongs under `[ensemble]`", field.name),
    }
}

fn meant(key: &str, section: Section) -> Option<&'static str> {
    let other_word = fields_of(section).find(|field| field.also.contains(&key));
    let table = (section == Section::Top).then_some(ENSEMBLE);
    let names = || fields_of(section).map(|field| field.name).chain(table);
    other_word.map(|field| field.name).or_else(|| nearest(key, names())).or_else(|| {
        let words = nearest(key, fields_of(section).flat_map(|field| field.also.iter().copied()))?;
        fields_of(section).find(|field| field.also.contains(&words)).map(|field| field.name)
    })
}
