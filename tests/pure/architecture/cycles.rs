//! Files of one module do not import each other in a circle.
//!
//! Between top-level modules the table of layers rules circles out. Within one, a folder's `mod.rs` is its
//! face: what it passes on counts as imported from the file that defines it, and what a file and the folder
//! around it take from each other is no circle.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::mention::Mention;
use super::source::Source;
use super::violation::Violation;

type Module = Vec<String>;

/// One violation for each set of files that form a circle, at the first import of its first file.
pub fn check(tree: &[Source]) -> Vec<Violation> {
    let map = Map::of(tree);
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for (module, source) in &map.files {
        let Some(circle) = map.circle_from(module) else { continue };
        if seen.insert(circle.iter().cloned().collect::<BTreeSet<_>>()) {
            let line = map.imports[module][&circle[1 % circle.len()]];
            let names: Vec<String> = circle.iter().map(|module| module.join("::")).collect();
            let what = format!("files import each other in a circle: {} → {}", names.join(" → "), names[0]);
            found.push(Violation::at(&source.path, line, what));
        }
    }
    found
}

/// Who imports whom, and on which line first.
struct Map<'a> {
    files: BTreeMap<Module, &'a Source>,
    passed_on: BTreeMap<(Module, String), Module>,
    imports: BTreeMap<Module, BTreeMap<Module, usize>>,
}

impl<'a> Map<'a> {
    fn of(tree: &'a [Source]) -> Self {
        let files: BTreeMap<Module, &Source> = tree
            .iter()
            .map(|source| (source.module(), source))
            .filter(|(module, _)| !module.is_empty())
            .collect();
        let mut map = Self { files, passed_on: BTreeMap::new(), imports: BTreeMap::new() };
        for (module, source) in &map.files {
            for mention in source.mentions.iter().filter(|mention| mention.imported) {
                if let Some(path) = map.path_of(mention, module) {
                    map.passed_on.insert((module.clone(), mention.name().to_owned()), path);
                }
            }
        }
        for (module, source) in &map.files {
            let own = map.imports_of(module, source);
            map.imports.insert(module.clone(), own);
        }
        map
    }

    /// A mention's path from the crate's root, also when it begins with a child's name.
    fn path_of(&self, mention: &Mention, module: &Module) -> Option<Module> {
        mention.within_crate.clone().or_else(|| {
            let child = [module.as_slice(), &mention.path[..1]].concat();
            self.files.contains_key(&child).then(|| [module.as_slice(), &mention.path].concat())
        })
    }

    fn imports_of(&self, module: &Module, source: &Source) -> BTreeMap<Module, usize> {
        let mut found = BTreeMap::new();
        for mention in source.mentions.iter().filter(|mention| !source.is_test(mention.line)) {
            let from = mention.within_crate.as_ref().and_then(|path| self.file_of(path, 0));
            if let Some(from) = from.filter(|from| from[0] == module[0] && !are_nested(from, module)) {
                found.entry(from).or_insert(mention.line);
            }
        }
        found
    }

    fn file_of(&self, path: &[String], depth: usize) -> Option<Module> {
        let length = (1..=path.len()).rev().find(|length| self.files.contains_key(&path[..*length]))?;
        let (module, rest) = path.split_at(length);
        let name = rest.first().filter(|_| depth < 8);
        let passed_on = name.and_then(|name| self.passed_on.get(&(module.to_vec(), name.clone())));
        if let Some(passed_on) = passed_on.filter(|passed_on| passed_on[..] != path[..=length]) {
            return self.file_of(passed_on, depth + 1);
        }
        Some(module.to_vec())
    }

    /// The shortest circle through a file, beginning with it.
    fn circle_from(&self, start: &Module) -> Option<Vec<Module>> {
        let mut ways = VecDeque::from([vec![start.clone()]]);
        let mut visited = BTreeSet::new();
        while let Some(way) = ways.pop_front() {
            for next in self.imports[way.last()?].keys() {
                if next == start {
                    return Some(way);
                }
                if visited.insert(next.clone()) {
                    ways.push_back([way.as_slice(), std::slice::from_ref(next)].concat());
                }
            }
        }
        None
    }
}

fn are_nested(one: &[String], other: &[String]) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

#[cfg(test)]
mod tests {
    use super::super::source::planted;
    use super::*;

    #[test]
    fn two_files_that_import_each_other_are_found_once() {
        let found = check(&planted(&[
            ("src/zk/session.rs", "//! Doc.\nuse super::watch::Watch;\n"),
            ("src/zk/watch.rs", "use crate::zk::session::Inner;\n"),
            ("src/zk/stamp.rs", "use super::session::Session;\n"),
        ]));
        assert_eq!(found.iter().map(Violation::place).collect::<Vec<_>>(), [("src/zk/session.rs", 2)]);
        assert!(found[0].what.ends_with("zk::session → zk::watch → zk::session"), "{}", found[0].what);
    }

    #[test]
    fn a_circle_through_the_folders_face_and_a_third_file_is_found() {
        let found = check(&planted(&[
            ("src/lock/mod.rs", "mod registry;\nmod polling;\nmod queue;\npub use registry::Entry;\n"),
            ("src/lock/registry.rs", "use super::polling;\n"),
            ("src/lock/polling.rs", "use super::queue::Node;\n"),
            ("src/lock/queue.rs", "fn f(entry: super::Entry) {}\n"),
        ]));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].what.contains("lock::polling → lock::queue → lock::registry → lock::polling"));
    }

    #[test]
    fn a_folder_and_its_files_may_use_each_other() {
        let found = check(&planted(&[
            ("src/lock/mod.rs", "mod queue;\npub use queue::Node;\npub struct Held(Node);\n"),
            ("src/lock/queue.rs", "use super::Held;\nuse super::retry::Retry;\n"),
            ("src/lock/retry.rs", "#[cfg(test)]\nmod tests {\n    use super::super::Node;\n}\n"),
        ]));
        assert_eq!(found, []);
    }
}
