//! Source code rules that the compiler cannot check.

use std::path::Path;

use syn::visit::{self, Visit};

/// Methods that read nodes from one server. The server's data may be outdated.
const READS: [&str; 5] = ["check_stat", "list_children", "list_names", "get_children", "exists"];
/// Paths that may call [`READS`]: the metered session, the locks, request measurements, the rendezvous (waits for
/// watches), and `learn` (sets its watch on the same server).
const MAY_READ_THE_PAST: [&str; 5] = [
    "crates/zk/",
    "crates/locks/",
    "crates/load/src/calibrate/",
    "crates/load/src/rendezvous.rs",
    "crates/learn/src/live.rs",
];

struct ReadsOfThePast {
    lines: Vec<usize>,
}

impl<'ast> Visit<'ast> for ReadsOfThePast {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        let is_test = |attribute: &syn::Attribute| matches!(&attribute.meta, syn::Meta::List(list) if list.path.is_ident("cfg") && list.tokens.to_string() == "test");
        if !module.attrs.iter().any(is_test) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        // `Path::exists` has no arguments.
        if READS.iter().any(|name| call.method == name) && !call.args.is_empty() {
            self.lines.push(call.method.span().start().line);
        }
        visit::visit_expr_method_call(self, call);
    }
}

fn reads_of_the_past(path: &str, text: &str) -> Vec<String> {
    if MAY_READ_THE_PAST.iter().any(|place| path.starts_with(place)) {
        return Vec::new();
    }
    let file = syn::parse_file(text).unwrap_or_else(|error| panic!("{path}: {error}"));
    let mut reads = ReadsOfThePast { lines: Vec::new() };
    reads.visit_file(&file);
    reads.lines.iter().map(|line| format!("{path}:{line}")).collect()
}

#[test]
fn checks_read_nodes_only_from_a_server_that_has_caught_up() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut sources = 0;
    let mut found = Vec::new();
    for folder in ["src", "crates"] {
        for entry in walkdir::WalkDir::new(root.join(folder)).into_iter().map(Result::unwrap) {
            if entry.path().extension().is_some_and(|ending| ending == "rs") {
                let path = entry.path().strip_prefix(root).unwrap().to_str().unwrap();
                found.extend(reads_of_the_past(path, &std::fs::read_to_string(entry.path()).unwrap()));
                sources += 1;
            }
        }
    }
    assert!(sources > 100, "cannot find the sources");
    assert!(found.is_empty(), "these calls may read outdated data; use `CaughtUp`: {found:#?}");
}

#[test]
fn source_check_finds_unsynced_reads_outside_sessions_locks_and_tests() {
    let read = "async fn f(c: C) {\n    c.check_stat(\"/x\").await;\n}\n";
    assert_eq!(reads_of_the_past("crates/load/src/workspace.rs", read), ["crates/load/src/workspace.rs:2"]);
    assert!(reads_of_the_past("crates/zk/src/session.rs", read).is_empty());
    assert!(reads_of_the_past("src/cli/x.rs", "fn f(path: P) -> bool { path.exists() }").is_empty());
    let test = format!("#[cfg(test)]\nmod tests {{\n{read}}}\n");
    assert!(reads_of_the_past("src/cli/x.rs", &test).is_empty());
}
