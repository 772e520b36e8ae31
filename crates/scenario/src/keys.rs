//! The keys of one section, read by the table of fields: defaults, missing keys and unknown keys.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use toml::de::{DeTable, DeValue};

use super::arrivals::{Late, Popularity};
use super::diagnostic::{listed, nearest};
use super::distribution::Distribution;
use super::fields::{
    CLIENT, ENSEMBLE, FAULT, Field, GATE, KeyKind, LoadWord, Need, Section, field, fields_of, scenario_keys,
};
use super::model::{InDoubt, Order};
use super::read::{KeyValue, Sink, TomlTable, TomlValue, shortened};
use super::values::FromKey;
use zklockbench_core::evidence::Sensitivity;

#[derive(Debug)]
struct KeySpan {
    key: Range<usize>,
    value: Range<usize>,
}

/// Where the keys that were given stand.
#[derive(Debug, Default)]
pub(super) struct Places(BTreeMap<&'static str, KeySpan>);

impl Places {
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub(super) fn key(&self, name: &str) -> Option<Range<usize>> {
        self.0.get(name).map(|place| place.key.clone())
    }

    pub(super) fn value(&self, name: &str) -> Option<Range<usize>> {
        self.0.get(name).map(|place| place.value.clone())
    }

    /// The keys among these that were given, in the order of the file, and where.
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

macro_rules! said {
    ($($section:ident $Keys:ident { $(
        $(#[$doc:meta])+
        $name:ident $(: $Value:ty)? = $kind:ident $(($($bounds:tt)*))?, $need:ident $(($otherwise:literal))?,
            $example:literal, $also:tt;
    )* })*) => {$(
        /// What could be read of the keys of a section; `None` is a mistake that was reported, or an absent key.
        #[derive(Default)]
        pub(super) struct $Keys {
            $($(pub(super) $name: Option<$Value>,)?)*
        }

        impl $Keys {
            pub(super) fn read(keys: &mut Keys<'_, '_, '_>) -> Self {
                Self { $($($name: keys.read(stringify!($name), <$Value>::from_key),)?)* }
            }
        }
    )*};
}
scenario_keys!(said);

pub(super) struct Keys<'a, 's, 't> {
    table: TomlTable<'a>,
    section: Section,
    sink: &'s Sink<'t>,
    misspelt: Vec<(&'static str, KeyValue<'a>)>,
    params: Vec<&'static str>,
    places: Places,
}

impl<'a, 's, 't> Keys<'a, 's, 't> {
    /// Reports what is missing: all that is required, but the kind of a fault, on which depends what else it takes.
    pub(super) fn new(entries: &'a DeTable<'a>, section: Section, sink: &'s Sink<'t>) -> Self {
        let table = TomlTable::new(entries);
        let misspelt: Vec<_> = table
            .entries()
            .into_iter()
            .filter(|entry| !tables(section).contains(&entry.key) && field(section, entry.key).is_none())
            .filter_map(|entry| meant(entry.key, section).map(|name| (name, entry)))
            .filter(|(name, entry)| !entry.value.get_ref().is_table() || takes_table(section, name))
            .collect();
        let mut keys = Self { table, section, sink, misspelt, params: Vec::new(), places: Places::default() };
        let required = fields_of(section).filter(|field| field.need == Need::Required);
        for field in required.filter(|field| field.kind != KeyKind::Fault) {
            if keys.take(field.name).is_none() {
                keys.report_missing(field);
            }
        }
        keys
    }

    /// Makes parameters known, which stand beside the section's own keys.
    pub(super) fn know(&mut self, params: impl IntoIterator<Item = &'static str>) {
        self.params.extend(params);
        self.misspelt.retain(|(_, entry)| !self.params.contains(&entry.key));
    }

    /// Reads a key, or its default when it is not there.
    ///
    /// `None` means that the key is absent and has no default, or that its mistake has been reported; the
    /// places tell the two apart.
    pub(super) fn read<T>(
        &mut self,
        name: &str,
        read: impl Fn(&TomlValue<'_>, &KeyKind, &Sink<'_>) -> Option<T>,
    ) -> Option<T> {
        let field = field(self.section, name)?;
        if let Some(entry) = self.take(name) {
            self.places.0.insert(field.name, KeySpan { key: entry.key_span(), value: entry.value.span() });
            return read(entry.value, &field.kind, self.sink);
        }
        let Need::Default(text) = field.need else { return None };
        read(&DeValue::parse(text).ok()?, &field.kind, &Sink::new(text))
    }

    /// Takes a key out. Where only a misspelt form of it is there, that is read in its stead, so that what
    /// is wrong with its value is said at once; the misspelling itself is reported by `finish`.
    pub(super) fn take(&mut self, name: &str) -> Option<KeyValue<'a>> {
        let misspelt = || self.misspelt.iter().find(|(meant, _)| *meant == name).map(|(_, entry)| *entry);
        self.table.take(name).or_else(misspelt)
    }

    /// Reports every key that was not asked for.
    pub(super) fn finish(self) -> Places {
        self.finish_beside(|_| None)
    }

    /// The same, where the caller knows better what to do about a key.
    pub(super) fn finish_beside(self, known: impl Fn(&str) -> Option<String>) -> Places {
        for entry in self.table.finish() {
            let message = format!("unknown key `{}`{}", shortened(entry.key), place(self.section));
            let help = known(entry.key).unwrap_or_else(|| advice(entry.key, self.section, &self.params));
            self.sink.error(entry.key_span(), message, help);
        }
        self.places
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
    let tables =
        |kind: &KeyKind| matches!(kind, KeyKind::Distribution | KeyKind::Arrivals | KeyKind::Popularity(_));
    field(section, name).is_none_or(|field| tables(&field.kind))
}

fn tables(section: Section) -> &'static [&'static str] {
    if section == Section::Top { &[ENSEMBLE, CLIENT, FAULT, GATE] } else { &[] }
}

fn place(section: Section) -> String {
    section.header().map_or_else(String::new, |header| format!(" in `{header}`"))
}

fn advice(key: &str, section: Section, params: &[&'static str]) -> String {
    let other = neighbour(section);
    if let Some(field) = other.and_then(|other| field(other, key)) {
        return belongs(field);
    }
    if let Some(name) = meant(key, section).or_else(|| nearest(key, params.iter().copied())) {
        return format!("did you mean `{name}`?");
    }
    let meant_there = |other| meant(key, other).and_then(|name| field(other, name));
    if let Some(field) = other.and_then(meant_there) {
        return format!("did you mean `{}`? {}", field.name, belongs(field));
    }
    if let Some(field) = Section::ALL.into_iter().find_map(|section| field(section, key)) {
        return belongs(field);
    }
    let names = fields_of(section).map(|field| field.name);
    format!("the keys here are {}", listed(names.chain(params.iter().chain(tables(section)).copied())))
}

/// The section whose keys are easily written into this one.
fn neighbour(section: Section) -> Option<Section> {
    match section {
        Section::Top => Some(Section::Ensemble),
        Section::Ensemble => Some(Section::Top),
        Section::Client | Section::Fault | Section::Gate => None,
    }
}

fn belongs(field: &Field) -> String {
    match field.section.header() {
        None => format!("`{}` belongs at the top of the file, before `[ensemble]`", field.name),
        Some(header) => format!("`{}` belongs under `{header}`", field.name),
    }
}

fn meant(key: &str, section: Section) -> Option<&'static str> {
    if let Some(field) = fields_of(section).find(|field| field.also.contains(&key)) {
        return Some(field.name);
    }
    // What is a key elsewhere is more likely in the wrong place than misspelt.
    let elsewhere: &[Section] = match section {
        Section::Top => &Section::ALL[1..],
        Section::Ensemble => &[Section::Top],
        Section::Client | Section::Fault | Section::Gate => &[],
    };
    if elsewhere.iter().any(|other| field(*other, key).is_some()) {
        return None;
    }
    let names = fields_of(section).map(|field| field.name).chain(tables(section).iter().copied());
    nearest(key, names).or_else(|| {
        let words = nearest(key, fields_of(section).flat_map(|field| field.also.iter().copied()))?;
        fields_of(section).find(|field| field.also.contains(&words)).map(|field| field.name)
    })
}
