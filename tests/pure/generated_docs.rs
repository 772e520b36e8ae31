//! Pages and tables that are made from the code say what the code says.
//!
//! To make them anew: `ZKLOCKBENCH_UPDATE_DOCS=1 cargo test --test pure docs`.

use std::path::{Path, PathBuf};

use crate::support::shown;
use zklockbench_core::error::Exit;
use zklockbench_ensemble::fault;
use zklockbench_record::figures;
use zklockbench_report::View;
use zklockbench_scenario::default_value;

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Compares a file with what it should be, or makes it so when that was asked for.
pub fn assert_fresh(name: &str, expected: &str) {
    if std::env::var_os("ZKLOCKBENCH_UPDATE_DOCS").is_some() {
        std::fs::write(file(name), expected).unwrap();
    }
    let text = std::fs::read_to_string(file(name)).unwrap_or_default();
    assert!(
        text == expected,
        "{name} is stale; make it anew: ZKLOCKBENCH_UPDATE_DOCS=1 cargo test --test pure docs"
    );
}

/// A file's text with the part between two markers replaced.
fn with_part(name: &str, marker: &str, part: &str) -> String {
    let text = std::fs::read_to_string(file(name)).unwrap();
    let (begin, end) = (format!("<!-- {marker}: begin -->\n"), format!("<!-- {marker}: end -->"));
    let from = text.find(&begin).unwrap_or_else(|| panic!("{name} has no marker {begin}")) + begin.len();
    let to = text.find(&end).unwrap_or_else(|| panic!("{name} has no marker {end}"));
    format!("{}{part}{}", &text[..from], &text[to..])
}

#[test]
fn the_page_on_locks_is_fresh() {
    assert_fresh("docs/reference/locks.md", &zklockbench_locks::reference());
}

#[test]
fn the_page_on_faults_is_fresh() {
    assert_fresh("docs/reference/faults.md", &fault::reference());
}

#[test]
fn the_page_on_figures_is_fresh() {
    assert_fresh("docs/reference/metrics.md", &figures::reference());
}

#[test]
fn the_page_on_scenarios_is_fresh() {
    assert_fresh(
        "docs/reference/scenario-keys.md",
        &zklockbench_scenario::reference(&zklockbench_locks::cards(), &fault::cards()),
    );
}

#[test]
fn the_readme_lists_every_exit_code() {
    let exits: String =
        Exit::ALL.iter().map(|(exit, meaning)| format!("| {} | {meaning} |\n", *exit as u8)).collect();
    let exits = format!("| code | meaning |\n|---:|---|\n{exits}");
    assert_fresh("README.md", &with_part("README.md", "exit codes", &exits));
}

#[test]
fn the_page_on_one_request_shows_the_java_that_is_compiled() {
    let java = std::fs::read_to_string(file("drivers/curator/Count.java")).unwrap();
    let method = java.find("    @Override\n    boolean joins()").unwrap();
    let method = java[method..].strip_suffix("}\n").unwrap();
    let lines: String =
        method.lines().map(|line| format!("{}\n", line.strip_prefix("    ").unwrap_or(line))).collect();
    let part = format!("```java\n{lines}```\n");
    assert_fresh("docs/one-request-lock.md", &with_part("docs/one-request-lock.md", "count in java", &part));
}

/// Between backticks, the words of a text that look like names of locks or scenarios.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn the_readme_recommends_locks_that_there_are() {
    let text = std::fs::read_to_string(file("README.md")).unwrap();
    let (_, table) = text.split_once("## Which lock should I use?").unwrap();
    let recommended = table.split("\n\n").nth(1).unwrap().lines().skip(2);
    let recommended = recommended.filter_map(|row| row.split(" | ").nth(1));
    let cards = zklockbench_locks::cards();
    let unknown = recommended.flat_map(names).filter(|name| !cards.iter().any(|card| card.name == *name));
    assert_eq!(unknown.collect::<Vec<_>>(), Vec::<&str>::new());
}

#[test]
fn the_readme_shows_the_example_run_as_the_report_renders_it() {
    let stored = zklockbench_results::read(&file("results/example")).unwrap();
    let table = shown::markdown(&View::of(&stored));
    let table = table.split("#### Conclusions").next().unwrap().split_once("\n\n").unwrap().1;
    assert_fresh("README.md", &with_part("README.md", "example", &format!("{}\n", table.trim_end())));
}

#[test]
fn the_readme_shows_the_table_of_faults_of_the_example_run() {
    let stored = zklockbench_results::read(&file("results/example-faults")).unwrap();
    let text = shown::markdown(&View::of(&stored));
    let table = text.split("\n\n").find(|part| part.starts_with("| strategy | fault |")).unwrap();
    assert_fresh("README.md", &with_part("README.md", "faults example", &format!("{table}\n")));
}

#[test]
fn every_parameter_has_a_default_of_its_own_kind() {
    let locks = zklockbench_locks::cards().into_iter().map(|card| (card.name, card.params));
    for (name, params) in locks.chain(fault::cards().into_iter().map(|card| (card.name, card.params))) {
        for param in params {
            assert!(default_value(param).is_some(), "{name}: {}", param.name);
        }
    }
}
