//! A strategy of several, of which each contender uses one.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::Entry;
use crate::words::catalog::{LockCard, Params, members};

/// Those that have been asked for.
static MIXED: Mutex<BTreeMap<String, &'static Entry>> = Mutex::new(BTreeMap::new());

/// The strategy of several of that name, whose members are found one by one.
pub(super) fn find(name: &str, one: fn(&str) -> Option<&'static Entry>) -> Option<&'static Entry> {
    let mut all = MIXED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(entry) = all.get(name) {
        return Some(entry);
    }
    let entries: Vec<&Entry> = members(name).map(one).collect::<Option<_>>()?;
    let cards: Vec<&LockCard> = entries.iter().map(|entry| &entry.card).collect();
    let card = *LockCard::mixed(&cards).ok()?;
    // What a contender uses is built from its own member.
    let entry: &'static Entry = Box::leak(Box::new(Entry { card, build: entries.first()?.build }));
    all.insert(name.to_owned(), entry);
    Some(entry)
}

pub(super) fn params_of(member: &str, params: &Params) -> Params {
    let own = params.iter().filter_map(|(key, value)| {
        let key = key.strip_prefix(member)?.strip_prefix('.')?;
        Some((key.to_owned(), value.clone()))
    });
    own.collect()
}
