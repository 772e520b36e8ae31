//! The rules of the structure, read off the sources: who may import whom, and what must be registered. Everything else
//! that is asked of the sources is asked by the compiler's and clippy's own lints.
//!
//! Every rule is a function from sources to violations. The tests here apply each to the real tree; beside
//! each rule stand tests that plant a violation and look for it, so that no rule can pass by seeing nothing.

mod caught_up;
mod cycles;
mod floors;
mod layers;
mod mention;
mod one_of_each;
mod registered;
mod source;
mod violation;

use source::Source;
use violation::Violation;

type Rule = fn(&[Source]) -> Vec<Violation>;

/// All rules by what they ask; one test for all of them, since most of its time goes into reading the sources.
const RULES: [(&str, Rule); 10] = [
    ("a module imports only what its layer may", layers::check),
    ("a floor uses only what it says", floors::check),
    ("files of one module do not import each other in a circle", cycles::check),
    ("a general name is defined once", one_of_each::check),
    ("nodes are read for a check only by a server that has caught up", caught_up::check),
    ("every file belongs to the crate", registered::modules),
    ("every strategy is in the registry", registered::strategies),
    ("every fault is in the registry", registered::faults),
    ("every chart is drawn", registered::charts),
    ("every command is dispatched", registered::commands),
];

#[test]
fn every_rule_is_kept() {
    let tree = source::tree();
    assert!(tree.iter().any(|source| source.path == "src/lib.rs"), "the sources were not found");
    let broken = RULES.iter().flat_map(|(rule, check)| {
        check(&tree).into_iter().map(move |violation| format!("{violation} [{rule}]"))
    });
    let lines: Vec<String> = broken.collect();
    assert!(lines.is_empty(), "{} violations:\n{}", lines.len(), lines.join("\n"));
}
