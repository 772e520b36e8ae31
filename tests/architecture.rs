//! The house rules, read off the sources: who may import whom, how large things may get, what must be
//! written down, what must be registered, and what must not be called.
//!
//! Every rule is a function from sources to violations. The tests here apply each to the real tree; beside
//! each rule stand tests that plant a violation and look for it, so that no rule can pass by seeing nothing.

#![allow(clippy::unwrap_used, clippy::expect_used)] // what prepares a test may stop it at once

#[path = "architecture/banned.rs"]
mod banned;
#[path = "architecture/budgets.rs"]
mod budgets;
#[path = "architecture/cycles.rs"]
mod cycles;
#[path = "architecture/documented.rs"]
mod documented;
#[path = "architecture/excused.rs"]
mod excused;
#[path = "architecture/layers.rs"]
mod layers;
#[path = "architecture/mention.rs"]
mod mention;
#[path = "architecture/registered.rs"]
mod registered;
#[path = "architecture/source.rs"]
mod source;
#[path = "architecture/violation.rs"]
mod violation;

use source::Source;
use violation::Violation;

fn assert_kept(rule: impl Fn(&[Source]) -> Vec<Violation>) {
    let tree = source::tree();
    assert!(tree.iter().any(|source| source.path == "src/lib.rs"), "the sources were not found");
    let broken = rule(&tree);
    let lines: Vec<String> = broken.iter().map(ToString::to_string).collect();
    assert!(lines.is_empty(), "{} violations:\n{}", lines.len(), lines.join("\n"));
}

#[test]
fn a_module_imports_only_what_its_layer_may() {
    assert_kept(layers::check);
}

#[test]
fn files_of_one_module_do_not_import_each_other_in_a_circle() {
    assert_kept(cycles::check);
}

#[test]
fn every_file_says_at_its_top_what_it_holds() {
    assert_kept(documented::files);
}

#[test]
fn at_least_95_percent_of_public_items_are_documented() {
    assert_kept(documented::public_items);
}

#[test]
fn files_stay_within_their_budget() {
    assert_kept(budgets::files);
}

#[test]
fn functions_stay_within_their_budget() {
    assert_kept(budgets::functions);
}

#[test]
fn functions_take_five_parameters_at_most() {
    assert_kept(budgets::parameters);
}

#[test]
fn every_file_belongs_to_the_crate() {
    assert_kept(registered::modules);
}

#[test]
fn every_strategy_is_in_the_registry() {
    assert_kept(registered::strategies);
}

#[test]
fn every_fault_is_in_the_registry() {
    assert_kept(registered::faults);
}

#[test]
fn every_chart_is_drawn() {
    assert_kept(registered::charts);
}

#[test]
fn every_command_is_dispatched() {
    assert_kept(registered::commands);
}

#[test]
fn nothing_banned_is_used() {
    assert_kept(banned::check);
}

#[test]
fn nothing_is_unwrapped_without_a_reason() {
    assert_kept(excused::check);
}
