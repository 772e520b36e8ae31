//! Rules of [`added_up!`](super::added_up) for fields that `+=` cannot combine.

use std::collections::BTreeMap;
use std::ops::AddAssign;

/// Applies a rule. Passing a closure as an argument lets the compiler infer its parameter types.
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

/// Keeps the first value, because both are equal or only the first makes sense.
pub fn keep<T>(_own: &mut T, _other: T) {}

/// Resets the value, because the combined value is unknown.
pub fn clear<T: Default>(own: &mut T, _other: T) {
    *own = T::default();
}

/// Applies the rule if both values exist; otherwise keeps the existing value, if any.
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[derive(Debug, Clone, PartialEq)]
    struct Seen {
        times: u64,
        longest: Option<u64>,
        idle: Option<f64>,
        cause: Option<&'static str>,
        slots: Vec<u64>,
        kinds: BTreeMap<&'static str, u64>,
        name: &'static str,
        last: Option<u64>,
    }

    added_up!(Seen {
        times,
        longest: most,
        idle: both(least),
        cause: first,
        slots: zipped(add),
        kinds: by_key(add),
        name: keep,
        last: clear,
    });

    #[test]
    fn each_field_is_combined_by_its_rule_in_either_order() {
        let one = Seen {
            times: 1,
            longest: None,
            idle: Some(0.5),
            cause: None,
            slots: vec![1, 2, 3],
            kinds: [("a", 1), ("b", 2)].into(),
            name: "one",
            last: Some(1),
        };
        let other = Seen {
            times: 2,
            longest: Some(7),
            idle: None,
            cause: Some("other"),
            slots: vec![10],
            kinds: [("b", 3), ("c", 4)].into(),
            name: "other",
            last: Some(2),
        };
        let both = Seen {
            times: 3,
            longest: Some(7),
            idle: Some(0.5),
            cause: Some("other"),
            slots: vec![11, 2, 3],
            kinds: [("a", 1), ("b", 5), ("c", 4)].into(),
            name: "one",
            last: None,
        };
        assert_eq!(one.clone() + other.clone(), both);
        assert_eq!(other + one, Seen { name: "other", ..both });
        let (mut high, mut missing) = (Some(0.75), None);
        super::both(least)(&mut high, Some(0.25));
        super::both(least)(&mut missing, Some(0.25));
        assert_eq!((high, missing), (Some(0.25), Some(0.25)));
    }
}
