//! Rules of [`added_up!`](super::added_up) for fields that are not added.

use std::collections::BTreeMap;
use std::ops::AddAssign;

/// Applies a rule, which may be a closure without types.
pub fn apply<T>(rule: impl FnOnce(&mut T, T), own: &mut T, other: T) {
    rule(own, other);
}

pub fn add<T: AddAssign>(own: &mut T, other: T) {
    *own += other;
}

pub fn most<T: PartialOrd>(own: &mut T, other: T) {
    if other > *own {
        *own = other;
    }
}

pub fn least<T: PartialOrd>(own: &mut T, other: T) {
    if other < *own {
        *own = other;
    }
}

/// Keeps the first value that exists.
pub fn first<T>(own: &mut Option<T>, other: Option<T>) {
    if own.is_none() {
        *own = other;
    }
}

pub fn join<T, C: Extend<T> + IntoIterator<Item = T>>(own: &mut C, other: C) {
    own.extend(other);
}

/// Keeps the own value, because both are the same or only one makes sense.
pub fn keep<T>(_own: &mut T, _other: T) {}

/// Drops both values, because the combined one cannot be known.
pub fn clear<T: Default>(own: &mut T, _other: T) {
    *own = T::default();
}

/// Applies the rule where both values exist.
pub fn both<T>(rule: impl FnOnce(&mut T, T)) -> impl FnOnce(&mut Option<T>, Option<T>) {
    |own, other| match (own, other) {
        (Some(own), Some(other)) => rule(own, other),
        (own, other) => first(own, other),
    }
}

/// Applies the rule to items at equal positions, and keeps the rest of the longer list.
pub fn zipped<T>(rule: impl Fn(&mut T, T)) -> impl FnOnce(&mut Vec<T>, Vec<T>) {
    move |own, mut other| {
        let more = other.split_off(own.len().min(other.len()));
        own.iter_mut().zip(other).for_each(|(own, other)| rule(own, other));
        own.extend(more);
    }
}

/// Applies the rule to values with equal keys.
pub fn by_key<K: Ord, V>(rule: impl Fn(&mut V, V)) -> impl FnOnce(&mut BTreeMap<K, V>, BTreeMap<K, V>) {
    move |own, others| {
        for (key, other) in others {
            match own.get_mut(&key) {
                Some(own) => rule(own, other),
                None => drop(own.insert(key, other)),
            }
        }
    }
}
