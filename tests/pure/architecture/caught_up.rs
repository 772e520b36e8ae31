//! Checks of what is there, and what is not, read after the server has caught up.

use syn::visit::{self, Visit};

use super::source::Source;
use super::violation::Violation;

/// What reads nodes as the server has them, which may be its past.
const READS: [&str; 5] = ["check_stat", "list_children", "list_names", "get_children", "exists"];
/// Where that is the point: the metered session, the locks, what measures requests, and meetings, which wait by watches.
const MAY: [&str; 4] = ["src/world/zk/", "src/lock/", "src/load/calibrate/", "src/load/rendezvous.rs"];

struct Reads<'a> {
    source: &'a Source,
    found: Vec<Violation>,
}

impl<'ast> Visit<'ast> for Reads<'_> {
    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        let line = call.method.span().start().line;
        // A file's `exists` takes nothing.
        let is_read = READS.iter().any(|name| call.method == name) && !call.args.is_empty();
        if is_read && !self.source.is_test(line) {
            let what =
                format!("`{}` may read a server's past: read by `CaughtUp` or `Onlooker`", call.method);
            self.found.push(Violation::at(&self.source.path, line, what));
        }
        visit::visit_expr_method_call(self, call);
    }
}

pub fn check(tree: &[Source]) -> Vec<Violation> {
    let bound = tree.iter().filter(|source| !MAY.iter().any(|place| source.path.starts_with(place)));
    bound
        .flat_map(|source| {
            let mut reads = Reads { source, found: Vec::new() };
            reads.visit_file(&source.file);
            reads.found
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::source::planted;
    use super::*;

    #[test]
    fn read_without_a_sync_is_found_outside_of_sessions_and_locks() {
        let read = "async fn f(c: C) {\n    c.check_stat(\"/x\").await;\n}\n";
        let found = check(&planted(&[
            ("src/load/workspace.rs", read),
            ("src/world/zk/session.rs", read),
            ("src/lock/ours/count.rs", read),
            ("src/cli/report.rs", "fn f(path: P) -> bool {\n    path.exists()\n}\n"),
        ]));
        assert_eq!(found.iter().map(Violation::place).collect::<Vec<_>>(), [("src/load/workspace.rs", 2)]);
    }
}
