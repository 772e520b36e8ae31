//! Families: locks whose paths differ only in identifiers, e.g. `/orders/{id}/lock`.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};

use crate::recipe::{GUID, HEX, Recipe, is_bare_hex, is_guid};
use crate::reconstruct::split;

const ID: &str = "{id}";
/// A path component with more distinct values than this counts as an identifier, not as a name.
const VALUES_MOST: usize = 50;
/// If at least this many names share a stem, their trailing numbers count as identifiers.
const NUMBERED: usize = 5;
const LEAST_HEX: usize = 8;

/// Suffix that kazoo's semaphore appends to its own path for its inner queue.
pub const KAZOO_INNER: &[u8] = b"-__lock__";

/// Returns the path of the lock whose nodes are in this directory.
pub fn lock_below(directory: &[u8], recipe: Recipe) -> &[u8] {
    match (recipe, split(directory)) {
        (Recipe::CuratorSemaphore, (outer, b"leases")) => outer,
        _ => directory,
    }
}

/// Returns the path of the semaphore, if this directory may be a semaphore's inner queue.
pub fn semaphore_of(directory: &[u8]) -> Option<&[u8]> {
    match split(directory) {
        (outer, b"locks") => Some(outer),
        _ => directory.strip_suffix(KAZOO_INNER),
    }
}

/// Replaces the GUIDs, with or without dashes, and the hexadecimal and decimal numbers in a path with a placeholder.
pub fn folded(path: &[u8]) -> String {
    let path = String::from_utf8_lossy(path);
    path.split('/').map(folded_component).collect::<Vec<_>>().join("/")
}

fn folded_component(component: &str) -> String {
    let is_number = !component.is_empty() && component.bytes().all(|byte| byte.is_ascii_digit());
    // Words such as `facade` are not numbers.
    let is_hex = component.len() >= LEAST_HEX
        && component.bytes().all(|byte| byte.is_ascii_hexdigit())
        && component.bytes().any(|byte| byte.is_ascii_digit());
    if is_number || is_hex {
        return ID.to_owned();
    }
    let is_id = |part: &[u8]| is_guid(part) || is_bare_hex(part);
    let id_from = |at: usize| {
        let mut ranges = [GUID, HEX].into_iter().map(|length| at..at + length);
        ranges.find(|range| component.as_bytes().get(range.clone()).is_some_and(is_id))
    };
    match (0..component.len()).find_map(id_from) {
        Some(id) => format!("{}{ID}{}", &component[..id.start], &component[id.end..]),
        None => component.to_owned(),
    }
}

/// Replaces a number at the end of a component with a placeholder.
fn without_number(component: &str) -> Cow<'_, str> {
    let stem = component.trim_end_matches(|c: char| c.is_ascii_digit());
    if stem.len() == component.len() || component.ends_with(ID) {
        Cow::Borrowed(component)
    } else {
        Cow::Owned(format!("{stem}{ID}"))
    }
}

/// Values of one component below the same parent, with the number of values for each stem.
#[derive(Default)]
struct Values<'a> {
    stems: BTreeMap<Cow<'a, str>, usize>,
    distinct: HashSet<&'a str>,
}

impl<'a> Values<'a> {
    fn add(&mut self, value: &'a str) {
        if self.distinct.insert(value) {
            *self.stems.entry(without_number(value)).or_default() += 1;
        }
    }

    fn chosen(&self, value: &'a str) -> Cow<'a, str> {
        let stem = without_number(value);
        let share_stem = self.stems.get(&stem).copied().unwrap_or(0);
        match (share_stem >= NUMBERED, self.distinct.len() > VALUES_MOST) {
            // Keep a small number of stems, because they are more informative than `ID`.
            (true, _) if self.stems.len() <= VALUES_MOST => stem,
            (_, true) => Cow::Borrowed(ID),
            (true, false) => stem,
            (false, false) => Cow::Borrowed(value),
        }
    }
}

/// Returns the names of the families, and the index of each path's name. There may be half a million paths, so their
/// components are not copied.
pub fn families(paths: &[&[u8]]) -> (Vec<String>, Vec<usize>) {
    let folded: Vec<String> = paths.iter().map(|path| folded(path)).collect();
    let deepest = folded.iter().map(|path| path.split('/').count()).max().unwrap_or(0);
    let (mut names, mut chosen) = (vec![String::new()], vec![0; paths.len()]);
    for depth in 1..deepest {
        let mut below: HashMap<usize, Values<'_>> = HashMap::new();
        for (path, parent) in folded.iter().zip(&chosen) {
            if let Some(value) = path.split('/').nth(depth) {
                below.entry(*parent).or_default().add(value);
            }
        }
        let mut numbers: HashMap<(usize, Cow<'_, str>), usize> = HashMap::new();
        for (path, at) in folded.iter().zip(&mut chosen) {
            let Some(value) = path.split('/').nth(depth) else { continue };
            let Some(values) = below.get(&*at) else { continue };
            let (parent, part) = (*at, values.chosen(value));
            *at = *numbers.entry((parent, part)).or_insert_with_key(|(parent, part)| {
                let name = format!("{}/{part}", names[*parent]);
                names.push(name);
                names.len() - 1
            });
        }
    }
    (names, chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(paths: &[String]) -> Vec<String> {
        let (names, chosen) = families(&paths.iter().map(String::as_bytes).collect::<Vec<_>>());
        chosen.into_iter().map(|at| names[at].clone()).collect()
    }

    #[test]
    fn identifiers_are_folded_and_names_are_not() {
        for (path, family) in [
            ("/orders/550e8400-e29b-41d4-a716-446655440000/lock", "/orders/{id}/lock"),
            ("/orders/order-550e8400-e29b-41d4-a716-446655440000", "/orders/order-{id}"),
            ("/party/550e8400e29b41d4a716446655440000__party__", "/party/{id}__party__"),
            ("/orders/17", "/orders/{id}"),
            ("/orders/5f3759df", "/orders/{id}"),
            ("/facade/decade/v2", "/facade/decade/v2"),
        ] {
            assert_eq!(of(&[path.to_owned()]), [family], "{path}");
        }
    }

    #[test]
    fn path_components_with_many_values_are_identifiers() {
        let customers: Vec<String> = (b'a'..=b'z')
            .flat_map(|one| (b'a'..=b'c').map(move |two| format!("/c/{}{}/lock", one as char, two as char)))
            .collect();
        assert!(of(&customers).iter().all(|family| family == "/c/{id}/lock"));
        assert_eq!(of(&customers[..3]), customers[..3]);
    }

    #[test]
    fn five_numbered_names_are_one_family() {
        let shards = |count: usize| (0..count).map(|at| format!("/locks/shard-{at}")).collect::<Vec<_>>();
        assert_eq!(of(&shards(4)), shards(4));
        assert!(of(&shards(100)).iter().all(|family| family == "/locks/shard-{id}"));
    }
}
