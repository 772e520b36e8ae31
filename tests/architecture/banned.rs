//! Calls and names that have one place, or none.

use proc_macro2::{TokenStream, TokenTree};

use crate::mention::{Mention, mentions};
use crate::source::Source;
use crate::violation::Violation;

/// Something that is allowed in some places only.
struct Ban {
    /// The full path of a function, one name for anything that contains it, or a macro with its `!`.
    what: &'static str,
    /// Files, and folders with their slash, in which it may be used.
    but_in: &'static [&'static str],
    /// Whether code for tests may use it.
    tests_may: bool,
    /// What to do instead.
    instead: &'static str,
}

const PRINTED: &str = "data and messages are printed by src/cli alone";
const UNFINISHED: &str = "nothing unfinished is left in the sources";
const SESSION: &str = "src/zk is the only door to ZooKeeper";

const BANS: &[Ban] = &[
    ban("std::process::exit", &[], "return an exit code, so that guards are dropped"),
    ban("println!", &["src/cli/"], PRINTED),
    ban("print!", &["src/cli/"], PRINTED),
    ban("eprintln!", &["src/cli/"], PRINTED),
    ban("eprint!", &["src/cli/"], PRINTED),
    // An ensemble has deadlines for processes, and the progress bar a stopwatch for people; neither is
    // recorded. Deadlines of waits use tokio's `Instant`.
    ban(
        "std::time::Instant::now",
        &["src/clock.rs", "src/ensemble/", "src/cli/run/progress.rs"],
        "every latency is a difference of two `clock::now()`",
    ),
    ban(
        "std::time::SystemTime::now",
        &["src/clock.rs", "src/load/trial.rs", "src/ensemble/", "src/cli/"],
        "wall time is for labels, and for what other programs have written down",
    ),
    // Whether a server accepts connections is asked without a session.
    ban("TcpStream", &["src/zk/", "src/ensemble/", "src/load/servers.rs", "src/proxy/"], SESSION),
    // The nodes around a trial are made and removed outside the measured phase.
    ban(
        "zookeeper_client",
        &[
            "src/zk/",
            "src/load/workspace.rs",
            "src/load/leftovers.rs",
            "src/load/orphans.rs",
            "src/load/progress.rs",
        ],
        SESSION,
    ),
    nowhere("todo!"),
    nowhere("unimplemented!"),
    nowhere("dbg!"),
];

const fn ban(what: &'static str, but_in: &'static [&'static str], instead: &'static str) -> Ban {
    Ban { what, but_in, tests_may: true, instead }
}

const fn nowhere(what: &'static str) -> Ban {
    Ban { what, but_in: &[], tests_may: false, instead: UNFINISHED }
}

/// Every use of something banned.
pub fn check(tree: &[Source]) -> Vec<Violation> {
    tree.iter().flat_map(file).collect()
}

fn file(source: &Source) -> Vec<Violation> {
    let mentions = mentions(source);
    let mut macros = Vec::new();
    macros_in(&source.tokens, &mut macros);
    let mut found: Vec<Violation> = Vec::new();
    for ban in BANS.iter().filter(|ban| !ban.but_in.iter().any(|place| source.path.starts_with(place))) {
        let uses = mentions.iter().filter(|mention| ban.covers(&resolved(mention, &mentions)));
        let calls = macros.iter().filter(|(name, _)| ban.what.strip_suffix('!') == Some(name));
        let lines = uses.map(|mention| mention.line).chain(calls.map(|(_, line)| *line));
        let lines = lines.filter(|line| !(ban.tests_may && source.is_test(*line)));
        let what = format!("`{}` does not belong here: {}", ban.what, ban.instead);
        found.extend(lines.map(|line| Violation::at(&source.path, line, what.clone())));
    }
    found
}

impl Ban {
    fn covers(&self, path: &[String]) -> bool {
        let banned: Vec<&str> = self.what.split("::").collect();
        match banned.as_slice() {
            [name] => path.iter().any(|part| part == name),
            // A path that is not written from its root may still be the banned one.
            _ => path.len() > 1 && banned.iter().rev().zip(path.iter().rev()).all(|(a, b)| a == b),
        }
    }
}

/// A path with its first name written out as the file imports it.
fn resolved(mention: &Mention, all: &[Mention]) -> Vec<String> {
    let import = all.iter().find(|other| {
        !mention.imported && other.imported && mention.path.first().is_some_and(|first| other.name() == first)
    });
    let Some(import) = import else { return mention.path.clone() };
    let own = import.path.iter().filter(|part| *part != "self");
    own.chain(&mention.path[1..]).cloned().collect()
}

/// Names and lines of the macros called.
fn macros_in(stream: &TokenStream, found: &mut Vec<(String, usize)>) {
    let mut name = None;
    for token in stream.clone() {
        match (&token, name.take()) {
            (TokenTree::Punct(punct), Some(called)) if punct.as_char() == '!' => found.push(called),
            (TokenTree::Ident(ident), _) => name = Some((ident.to_string(), ident.span().start().line)),
            (TokenTree::Group(group), _) => macros_in(&group.stream(), found),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        let found = check(&[Source::parse(path, text)]);
        assert!(found.iter().all(|violation| violation.path == path));
        found.iter().map(|violation| violation.line).collect()
    }

    #[test]
    fn an_exit_is_found_however_it_is_written() {
        assert_eq!(lines("src/cli/mod.rs", "//! Doc.\nfn f() {\n    std::process::exit(1)\n}\n"), [3]);
        assert_eq!(lines("src/main.rs", "use std::process;\nfn f() { process::exit(1) }\n"), [2]);
        assert_eq!(lines("src/main.rs", "use std::process::{ExitCode, exit as leave};\n"), [1]);
        assert_eq!(lines("src/main.rs", "fn f() -> std::process::ExitCode { self.exit() }\n"), []);
    }

    #[test]
    fn printing_is_the_commands_business() {
        let text = "fn f() {\n    println!(\"x\");\n    eprintln!(\"x\");\n}\n";
        assert_eq!(lines("src/load/trial.rs", text), [2, 3]);
        assert_eq!(lines("src/cli/run.rs", text), []);
        assert_eq!(lines("src/cli_like.rs", text), [2, 3]);
    }

    #[test]
    fn the_clock_is_read_in_one_place_and_tokios_deadlines_are_another_thing() {
        let std = "use std::time::{Duration, Instant};\nfn f() { Instant::now() }\n";
        assert_eq!(lines("src/load/pace.rs", std), [2]);
        assert_eq!(lines("src/clock.rs", std), []);
        assert_eq!(lines("src/load/pace.rs", "use std::time;\nfn f() { g(time::Instant::now) }\n"), [2]);
        assert_eq!(lines("src/load/pace.rs", "fn f() { tokio::time::Instant::now() }\n"), []);
        assert_eq!(lines("src/load/pace.rs", "use tokio::time::Instant;\nfn f() { Instant::now() }\n"), []);
        assert_eq!(
            lines("src/zk/stamp.rs", "use std::time::SystemTime;\nfn f() { SystemTime::now() }\n"),
            [2]
        );
    }

    #[test]
    fn the_client_library_and_sockets_stay_behind_the_session() {
        let text = "use zookeeper_client as zk;\nuse tokio::net::TcpStream as Socket;\n";
        assert_eq!(lines("src/lock/polling.rs", text), [2, 1]);
        assert_eq!(lines("src/zk/admin.rs", text), []);
        assert_eq!(lines("src/lock/polling.rs", "fn f(e: &zookeeper_client::Error) {}\n"), [1]);
    }

    #[test]
    fn tests_may_print_but_may_not_be_unfinished_either() {
        let text = "#[cfg(test)]\nmod tests {\n    fn f() { println!(\"x\"); todo!() }\n}\n";
        assert_eq!(lines("src/load/pace.rs", text), [3]);
        assert_eq!(
            lines("src/load/pace.rs", "fn f() {\n    vec![dbg!(1)]\n}\nfn g() { unimplemented!() }\n"),
            [4, 2]
        );
    }
}
