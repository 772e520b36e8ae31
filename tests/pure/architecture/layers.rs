//! Who may import whom.

use super::floors::{only_lists_rooms, room};
use super::source::{ROOTS, Source, declared, gives_out_floors};
use super::violation::Violation;

/// What everything above the words may import.
const WORDS: &[&str] = &[
    "clock", "units", "connect", "jute", "locked", "measure", "catalog", "verdict", "error", "evidence",
    "disk", "spool", "ring",
];

/// Each module and what it may import, lower layers first. What is not listed is forbidden. The modules that
/// measure and those that read never meet except in `results` and `cli`.
const TABLE: &[(&str, &[&[&str]])] = &[
    // Layer 0: words, each of which may import those before it.
    ("clock", &[]),
    ("units", &[&["clock"]]),
    ("connect", &[&["units"]]),
    ("jute", &[]),
    ("measure", &[&["clock", "units"]]),
    ("catalog", &[&["clock", "units", "measure"]]),
    ("verdict", &[&["clock", "units", "measure", "catalog"]]),
    ("error", &[&["clock", "units", "measure", "catalog", "verdict"]]),
    ("evidence", &[]),
    ("disk", &[&["error", "units"]]),
    ("locked", &[]),
    ("spool", &[&["locked"]]),
    ("ring", &[]),
    // Layer 1: the question.
    ("scenario", &[WORDS]),
    // Layer 2: the world.
    ("zk", &[WORDS]),
    ("driver", &[WORDS, &["zk"]]),
    ("proxy", &[WORDS]),
    ("conformance", &[WORDS, &["zk", "driver", "proxy"]]),
    ("ensemble", &[WORDS, &["zk::admin", "zk::reach", "proxy"]]),
    // Layer 3: the subjects.
    ("lock", &[WORDS, &["zk", "driver"]]),
    ("fault", &[WORDS, &["zk", "proxy", "ensemble"]]),
    // Layer 4: the record.
    ("record", &[WORDS, &["scenario"]]),
    // Layer 5: doing, judging.
    ("load", &[WORDS, &["scenario", "zk", "driver", "proxy", "ensemble", "lock", "fault", "record"]]),
    ("calibrate", &[WORDS, &["zk", "record", "ensemble::log_follower", "ensemble::transactions"]]),
    ("check", &[WORDS, &["record"]]),
    // Mathematics.
    ("stats", &[]),
    // Layer 6: the bridge on disk, and the loop that fills it. Only the door imports the loop.
    ("results", &[WORDS, &["scenario", "record"]]),
    ("run", &[WORDS, MEASURING, &["check", "results", "stats"]]),
    // Layer 7: reading.
    ("compare", &[WORDS, &["results", "stats"]]),
    ("objective", &[WORDS, &["scenario", "results"]]),
    ("gate", &[WORDS, &["scenario", "results", "stats", "compare"]]),
    ("queueing", &[]),
    ("model", &[WORDS, &["results", "stats", "queueing"]]),
    ("plan", &[WORDS, &["scenario", "results", "stats", "queueing", "model", "objective"]]),
    ("articles", &[WORDS, &["scenario", "results", "stats"]]),
    ("ab", &[WORDS, &["results", "stats", "compare"]]),
    ("sweep", &[WORDS, &["results", "stats", "objective"]]),
    ("report", &[WORDS, &["results", "stats", "compare", "gate", "model", "plan", "ab", "sweep"]]),
    // Layer 8: the door.
    ("cli", &[WORDS, MEASURING, &["conformance", "calibrate", "check", "results", "run"], READING]),
    ("main", &[&["cli"]]),
];

const MEASURING: &[&str] =
    &["scenario", "zk", "driver", "proxy", "ensemble", "lock", "fault", "record", "load"];
const READING: &[&str] = &[
    "stats",
    "compare",
    "objective",
    "gate",
    "queueing",
    "model",
    "plan",
    "articles",
    "ab",
    "sweep",
    "report",
];

/// The folders of the locks, and which others of them each may import besides the files that lie beside them.
const FAMILIES: &[(&str, &[&str])] = &[
    ("queue", &[]),
    ("curator", &["queue"]),
    ("kazoo", &["queue"]),
    ("clients", &["queue"]),
    ("articles", &["queue", "curator"]),
    ("ours", &["queue", "curator"]),
];

/// Names from other crates that open a connection of their own or wait for one, each with the modules that may, with
/// all below them: everything else goes by way of these.
const GUARDED: &[(&str, &[&str])] = &[
    ("zookeeper_client", &["zk", "load"]),
    ("TcpStream", &["zk", "ensemble", "load", "proxy", METRICS]),
    ("TcpListener", &["zk", "ensemble", "proxy", METRICS]),
    ("hyper", &[METRICS]),
    ("hyper_util", &[METRICS]),
];

/// The one server of the program's own that others may ask.
const METRICS: &str = "cli::run::metrics";

/// Every import, in a `use` or in passing, that the table does not allow.
pub fn check(tree: &[Source]) -> Vec<Violation> {
    tree.iter()
        .flat_map(|source| {
            let is_list = ROOTS.contains(&source.path.as_str()) || only_lists_rooms(&source.module());
            if is_list { root(source) } else { file(source) }
        })
        .collect()
}

/// A crate's root only lists the modules: a name given out there could be imported past the table.
fn root(source: &Source) -> Vec<Violation> {
    let others = source.file.items.iter().filter(|item| declared(item).is_none() && !gives_out_floors(item));
    others
        .map(|item| {
            let line = syn::spanned::Spanned::span(item).start().line;
            Violation::at(&source.path, line, "this file holds nothing but `mod` lines and crates of its own")
        })
        .collect()
}

fn file(source: &Source) -> Vec<Violation> {
    let module = source.module();
    let path = room(&module);
    let own = path[0].clone();
    let Some(allowed) = allowed_for(&own) else {
        return vec![Violation::at(&source.path, 1, not_in_table(&own))];
    };
    let judged = source.mentions.iter().filter_map(|mention| {
        let what = match &mention.within_crate {
            Some(path) => judge(&own, &allowed, room(path)).or_else(|| judge_family(&module, path))?,
            None => unguarded(&path.join("::"), &mention.path)?,
        };
        Some(Violation::at(&source.path, mention.line, what))
    });
    judged.collect()
}

/// What is wrong with a module's use of what lies outside the crate.
fn unguarded(own: &str, path: &[String]) -> Option<String> {
    let named = |(name, _): &&(&str, &[&str])| path.iter().any(|part| part == name);
    let (name, modules) = GUARDED.iter().find(named)?;
    let is_within = |module: &&str| {
        own.strip_prefix(*module).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    };
    let what = format!("`{own}` uses `{name}`, which only these may: {}", modules.join(", "));
    (!modules.iter().any(is_within)).then_some(what)
}

fn allowed_for(module: &str) -> Option<Vec<&'static str>> {
    let (_, groups) = TABLE.iter().find(|(name, _)| *name == module)?;
    Some(groups.concat())
}

fn not_in_table(module: &str) -> String {
    format!("module `{module}` has no layer yet: add it to the table in tests/pure/architecture/layers.rs")
}

/// What is wrong with a module's import of that path from the crate's root; `None` when nothing is.
fn judge(own: &str, allowed: &[&str], path: &[String]) -> Option<String> {
    let Some(imported) = path.first().filter(|first| *first != "*") else {
        return Some("the crate's root is imported as a whole: name the module".into());
    };
    if imported == own {
        return None;
    }
    if allowed_for(imported).is_none() {
        return Some(not_in_table(imported));
    }
    let covers = |rule: &&str| {
        let parts: Vec<&str> = rule.split("::").collect();
        path.len() >= parts.len() && parts.iter().zip(path).all(|(part, given)| part == given)
    };
    if allowed.iter().any(covers) {
        return None;
    }
    let rules = if allowed.is_empty() { "nothing".to_owned() } else { allowed.join(", ") };
    Some(format!("`{own}` imports `{}`, but may import only: {rules}", path.join("::")))
}

/// What is wrong with a lock's import of that path, by the table of families; `None` when nothing is.
fn judge_family(module: &[String], path: &[String]) -> Option<String> {
    let own = family(module)?;
    let Some((_, allowed)) = FAMILIES.iter().find(|(name, _)| *name == own) else {
        return Some(format!("folder `{own}` is in no table: add it in tests/pure/architecture/layers.rs"));
    };
    let other = family(path).filter(|other| is_family(other))?;
    let what =
        format!("`lock::{own}` imports `{}`, but may import only: {}", path.join("::"), allowed.join(", "));
    (other != own && !allowed.contains(&other)).then_some(what)
}

/// The folder of locks that a path leads into.
fn family(path: &[String]) -> Option<&str> {
    match path {
        [lock, name, rest @ ..] if lock == "lock" && (is_family(name) || !rest.is_empty()) => Some(name),
        _ => None,
    }
}

fn is_family(name: &str) -> bool {
    FAMILIES.iter().any(|(family, _)| *family == name)
}

#[test]
fn the_table_itself_allows_no_circle() {
    for (position, (module, groups)) in TABLE.iter().enumerate() {
        for allowed in groups.concat() {
            let name = allowed.split("::").next();
            let at = TABLE.iter().position(|(row, _)| Some(*row) == name);
            assert!(
                at.is_some_and(|at| at < position),
                "`{module}` may import `{allowed}`, which is not below it"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(path: &str, text: &str) -> Vec<Violation> {
        check(&[Source::parse(path, text)])
    }

    #[test]
    fn a_strategy_that_imports_the_load_is_found_at_its_line() {
        let found =
            broken("src/lock/polling.rs", "//! Polls.\nuse crate::zk::Session;\nuse crate::load::Sink;\n");
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].place(), ("src/lock/polling.rs", 3));
        assert!(
            found[0].to_string().starts_with("src/lock/polling.rs:3: `lock` imports `load::Sink`, but may")
        );
    }

    #[test]
    fn a_family_of_locks_imports_the_queue_and_no_family_that_is_not_named() {
        let lines =
            |text| broken("src/lock/kazoo/lock.rs", text).iter().map(|one| one.line).collect::<Vec<_>>();
        assert!(lines("use crate::lock::queue::node::if_there;\nuse crate::lock::Held;\n").is_empty());
        assert_eq!(
            lines("use super::read_write::Side;\nuse crate::lock::curator::mutex::CuratorMutex;\n"),
            [2]
        );
        assert_eq!(lines("use crate::lock::curator;\n"), [1]);
        assert_eq!(broken("src/lock/queue/node.rs", "use super::super::ours::baton::Baton;\n").len(), 1);
        let unknown = broken("src/lock/others/lock.rs", "use crate::lock::Held;\n");
        assert!(unknown[0].what.contains("add it"), "{unknown:?}");
    }

    #[test]
    fn a_path_in_passing_and_one_by_way_of_super_are_found_too() {
        assert_eq!(broken("src/record/trial.rs", "fn f() { crate::zk::nodelay::apply(&[]) }").len(), 1);
        assert_eq!(broken("src/report/html.rs", "use super::super::record::Trial;").len(), 1);
        assert_eq!(broken("src/report/view/cell.rs", "use super::super::record::Trial;").len(), 0);
        assert_eq!(
            broken("src/scenario/plan.rs", "fn f() { format!(\"{}\", crate::lock::cards().len()) }").len(),
            1
        );
    }

    #[test]
    fn the_ensemble_may_use_the_four_letter_words_and_nothing_else_of_zk() {
        let found = broken(
            "src/ensemble/ready.rs",
            "use crate::zk::admin::{self, Mntr};\nuse crate::zk::{\n    admin,\n    Session,\n};\n",
        );
        assert_eq!(found.iter().map(Violation::place).collect::<Vec<_>>(), [("src/ensemble/ready.rs", 4)]);
        assert_eq!(broken("src/ensemble/ready.rs", "use crate::zk;").len(), 1);
    }

    #[test]
    fn only_some_modules_may_connect_by_themselves() {
        let text = "//! Doc.\nuse ::zookeeper_client as zk;\nfn f() { tokio::net::TcpStream::connect(a) }\n";
        let lines = |path| broken(path, text).iter().map(|found| found.line).collect::<Vec<_>>();
        assert_eq!(lines("src/lock/polling.rs"), [2, 3]);
        assert_eq!(lines("src/proxy/relay.rs"), [2]);
        assert_eq!((lines("src/zk/connect.rs"), lines("src/load/servers.rs")), (vec![], vec![]));
        assert_eq!(broken("src/fault/kill.rs", "use tokio::{io, net::{TcpStream as Tcp}};").len(), 1);
        // Of the door, the one file that serves metrics
        let server = "//! Doc.\nuse std::net::TcpListener;\n";
        assert_eq!(broken("src/cli/run/metrics.rs", server).len(), 0);
        assert_eq!(broken("src/cli/run/open_ensemble.rs", server).len(), 1);
    }

    #[test]
    fn tests_obey_the_import_rules_as_well() {
        assert_eq!(
            broken("src/check/exclusion.rs", "#[cfg(test)]\nmod tests {\n    use crate::load;\n}\n").len(),
            1
        );
    }

    #[test]
    fn a_module_that_is_not_in_the_table_is_found_as_a_file_and_as_an_import() {
        let as_file = broken("src/helpers.rs", "//! Helps.\n");
        assert!(as_file[0].what.contains("add it to the table"), "{as_file:?}");
        assert_eq!(broken("src/cli/run.rs", "use crate::helpers::help;").len(), 1);
    }

    #[test]
    fn the_root_can_neither_be_imported_whole_nor_give_out_names() {
        assert_eq!(broken("src/cli/run.rs", "use crate::*;").len(), 1);
        assert_eq!(broken("src/cli/run.rs", "use crate as root;").len(), 1);
        let root =
            broken("src/lib.rs", "//! Doc.\npub mod zk;\npub use zk::Session;\npub use zk as world;\n");
        let places: Vec<_> = root.iter().map(Violation::place).collect();
        assert_eq!(places, [("src/lib.rs", 3), ("src/lib.rs", 4)]);
    }

    #[test]
    fn a_crate_of_its_own_is_listed_by_the_root_and_has_a_layer_by_whichever_name_it_is_imported() {
        assert!(broken("src/lib.rs", "pub use zklockbench_stats as stats;").is_empty());
        assert!(broken("src/reading.rs", "pub use zklockbench_records::{words, record};").is_empty());
        for (file, violations) in [("src/compare/mod.rs", 0), ("src/load/worker.rs", 1)] {
            for import in ["use crate::stats::median;", "use zklockbench_stats::median;"] {
                assert_eq!(broken(file, import).len(), violations, "{file}: {import}");
            }
        }
    }
}
