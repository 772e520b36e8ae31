//! Floors: the folders of `src`, each of which says in its `mod.rs` which others it uses.

use std::collections::BTreeMap;

use super::source::Source;
use super::violation::Violation;

/// At most so many folders, so that the list can be taken in at a glance.
const MOST: usize = 12;
/// How the line begins that says what a floor uses.
const USES: &str = "Uses: ";

/// What lies on which floor of several rooms; a path without its floor is a room's own.
const ROOMS: &[&str] = &["words", "world", "answer"];
/// Rooms of a floor that is otherwise one room.
const SIDE_ROOMS: &[(&str, &str)] = &[("load", "calibrate")];

/// The path from the room on: `answer::plan::file` is `plan::file`.
pub fn room(path: &[String]) -> &[String] {
    match path {
        [floor, rest @ ..] if !rest.is_empty() && ROOMS.contains(&floor.as_str()) => rest,
        [floor, room, ..] if SIDE_ROOMS.contains(&(floor.as_str(), room.as_str())) => &path[1..],
        _ => path,
    }
}

pub fn only_lists_rooms(path: &[String]) -> bool {
    matches!(path, [floor] if ROOMS.contains(&floor.as_str()))
}

/// Uses of a floor that the line does not name, floors without a line, and more floors than there should be.
pub fn check(tree: &[Source]) -> Vec<Violation> {
    let allowed: BTreeMap<String, Vec<String>> = tree.iter().filter_map(says).collect();
    let mut found: Vec<Violation> = tree.iter().flat_map(|source| of_file(source, &allowed)).collect();
    if allowed.len() > MOST {
        let floors = allowed.len();
        found.push(Violation::at("src/lib.rs", 1, format!("{floors} folders; at most {MOST}")));
    }
    found
}

/// What a floor says that it uses.
fn says(source: &Source) -> Option<(String, Vec<String>)> {
    let module = source.module();
    let [floor] = module.as_slice() else { return None };
    if source.path != format!("src/{floor}/mod.rs") {
        return None;
    }
    let line = docs(&source.file).find_map(|line| line.trim().strip_prefix(USES).map(str::to_owned))?;
    let names = line.trim_end_matches('.').split(", ").map(str::to_owned);
    Some((floor.clone(), names.collect()))
}

fn docs(file: &syn::File) -> impl Iterator<Item = String> {
    file.attrs.iter().filter_map(|attribute| match &attribute.meta {
        syn::Meta::NameValue(syn::MetaNameValue {
            path,
            value: syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(line), .. }),
            ..
        }) if path.is_ident("doc") => Some(line.value()),
        _ => None,
    })
}

fn of_file(source: &Source, allowed: &BTreeMap<String, Vec<String>>) -> Vec<Violation> {
    let module = source.module();
    let Some(floor) = module.first().filter(|_| source.path != "src/main.rs") else { return Vec::new() };
    let Some(uses) = allowed.get(floor) else {
        return vec![Violation::at(&source.path, 1, format!("src/{floor}/mod.rs has no line `{USES}…`"))];
    };
    let wrong = source.mentions.iter().filter_map(|mention| {
        let other = mention.within_crate.as_ref()?.first()?;
        let is_floor = allowed.contains_key(other);
        let may = other == floor || uses.iter().any(|one| one == other || one == "all");
        let what = format!("`{floor}` uses `{other}`, which src/{floor}/mod.rs does not name");
        (is_floor && !may).then(|| Violation::at(&source.path, mention.line, what))
    });
    wrong.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(text: &str) -> Vec<String> {
        let lock =
            Source::parse("src/lock/mod.rs", "//! Locks.\n//!\n//! Uses: words, world.\nmod polling;\n");
        let load = Source::parse("src/load/mod.rs", "//! Loads.\n//!\n//! Uses: all.\n");
        check(&[lock, load, Source::parse("src/lock/polling.rs", text)])
            .iter()
            .map(Violation::to_string)
            .collect()
    }

    #[test]
    fn a_floor_uses_what_its_line_names() {
        assert!(broken("use crate::world::zk::Session;\nuse super::queue;\n").is_empty());
        let found = broken("use crate::world::zk;\nfn f() { crate::load::run() }\n");
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("src/lock/polling.rs:2: `lock` uses `load`"), "{found:?}");
    }

    #[test]
    fn a_floor_without_a_line_is_found() {
        let found = check(&[Source::parse("src/loft/mod.rs", "//! Old things.\n")]);
        assert_eq!(found.len(), 1);
    }

    #[test]
    fn a_path_is_that_of_its_room() {
        let path = |text: &str| -> Vec<String> { text.split("::").map(str::to_owned).collect() };
        assert_eq!(room(&path("world::zk::session")), path("zk::session"));
        assert_eq!(room(&path("load::calibrate::crew")), path("calibrate::crew"));
        assert_eq!(room(&path("load::worker")), path("load::worker"));
        assert_eq!(room(&path("lock")), path("lock"));
    }
}
