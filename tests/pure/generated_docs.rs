//! Tests that generated pages and tables match the code.
//!
//! Update the pages with `ZKLOCKBENCH_UPDATE_DOCS=1 cargo test --test pure docs`.

mod explored;
mod faults;
pub mod scenario_keys;

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

/// Asserts that a file has the expected text. Writes the file if `ZKLOCKBENCH_UPDATE_DOCS` is set.
pub fn assert_fresh(name: &str, expected: &str) {
    if std::env::var_os("ZKLOCKBENCH_UPDATE_DOCS").is_some() {
        std::fs::write(file(name), expected).unwrap();
    }
    let text = std::fs::read_to_string(file(name)).unwrap_or_default();
    assert!(
        text == expected,
        "{name} is stale; regenerate it: ZKLOCKBENCH_UPDATE_DOCS=1 cargo test --test pure docs"
    );
}

/// Text of a file with the part between two markers replaced.
fn with_part(name: &str, marker: &str, part: &str) -> String {
    let text = std::fs::read_to_string(file(name)).unwrap();
    let (begin, end) = (format!("<!-- {marker}: begin -->\n"), format!("<!-- {marker}: end -->"));
    let from = text.find(&begin).unwrap_or_else(|| panic!("{name} has no marker {begin}")) + begin.len();
    let to = text.find(&end).unwrap_or_else(|| panic!("{name} has no marker {end}"));
    format!("{}{part}{}", &text[..from], &text[to..])
}

#[test]
fn the_pages_on_locks_faults_metrics_and_scenarios_are_up_to_date() {
    assert_fresh("docs/reference/locks.md", &zklockbench_locks::reference());
    assert_fresh("docs/reference/faults.md", &faults::page());
    assert_fresh("docs/reference/metrics.md", &figures::reference());
    let page = scenario_keys::page(&zklockbench_locks::cards(), &fault::cards());
    assert_fresh("docs/reference/scenario-keys.md", &page);
}

#[test]
fn the_page_on_ci_lists_every_exit_code() {
    let exits: String =
        Exit::ALL.iter().map(|(exit, meaning)| format!("| {} | {meaning} |\n", *exit as u8)).collect();
    let exits = format!("| code | meaning |\n|---:|---|\n{exits}");
    assert_fresh("docs/ci.md", &with_part("docs/ci.md", "exit codes", &exits));
}

#[test]
fn one_request_page_shows_the_java_code_that_is_compiled() {
    let java = std::fs::read_to_string(file("drivers/curator/Count.java")).unwrap();
    let method = java.find("    @Override\n    boolean joins()").unwrap();
    let method = java[method..].strip_suffix("}\n").unwrap();
    let lines: String =
        method.lines().map(|line| format!("{}\n", line.strip_prefix("    ").unwrap_or(line))).collect();
    let part = format!("```java\n{lines}```\n");
    assert_fresh("docs/one-request-lock.md", &with_part("docs/one-request-lock.md", "count in java", &part));
}

/// Words between backticks.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Locks in the second column of the first table under a heading.
fn recommended(page: &str, heading: &str) -> Vec<String> {
    let text = std::fs::read_to_string(file(page)).unwrap();
    let (_, section) = text.split_once(heading).unwrap_or_else(|| panic!("{page} has no heading {heading}"));
    let rows =
        section.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    rows.skip(2).filter_map(|row| row.split(" | ").nth(1)).flat_map(names).map(str::to_owned).collect()
}

#[test]
fn every_recommended_lock_exists() {
    let cards = zklockbench_locks::cards();
    for (page, heading) in [("README.md", "## Which lock?"), ("docs/choosing-a-lock.md", "## By need")] {
        let mut names = recommended(page, heading);
        assert!(names.len() >= 5, "{page}: {names:?}");
        names.retain(|name| !cards.iter().any(|card| card.name == *name));
        assert_eq!(names, Vec::<String>::new(), "{page}");
    }
}

/// The table with this header in the Markdown report of a stored run.
fn table(run: &str, header: &str) -> String {
    let stored = zklockbench_results::read(&file(run)).unwrap();
    let text = shown::markdown(&View::of(&stored));
    text.split("\n\n").find(|part| part.starts_with(header)).unwrap().to_owned()
}

/// The example run's Markdown table, reduced to its header and the rows with 20 contenders.
fn example_rows() -> Vec<String> {
    let table = table("results/example", "| strategy | contenders |");
    let rows = table.lines().enumerate();
    rows.filter(|(at, row)| *at < 2 || cells(row)[1] == "20").map(|(_, row)| row.to_owned()).collect()
}

fn cells(row: &str) -> Vec<&str> {
    row.trim_matches('|').split('|').map(str::trim).collect()
}

#[test]
fn reports_page_shows_the_example_run_and_its_fault_table_as_rendered() {
    let page = "docs/reading-the-report.md";
    let rows: String = example_rows().iter().map(|row| format!("{row}\n")).collect();
    assert_fresh(page, &with_part(page, "example", &rows));
    let table = table("results/example-faults", "| strategy | fault |");
    assert_fresh(page, &with_part(page, "faults example", &format!("{table}\n")));
}

#[test]
fn the_readme_shows_the_example_run_with_20_contenders() {
    let rows = example_rows();
    let header = cells(&rows[0]);
    let column = |name: &str| header.iter().position(|cell| *cell == name).unwrap();
    let columns =
        ["strategy", "acq/s", "wait p50", "requests/acq", "notifications/acq", "verdict"].map(column);
    let rows: String = rows[2..]
        .iter()
        .map(|row| {
            let row = cells(row);
            let [strategy, rate, wait, requests, notifications, verdict] = columns.map(|column| row[column]);
            format!("| {strategy} | {rate} | {wait} | {requests} + {notifications} | {verdict} |\n")
        })
        .collect();
    let part = format!(
        "| strategy | acquisitions/s | median wait | requests + notifications per acquisition | exclusion |\n\
         | --- | ---: | ---: | ---: | --- |\n{rows}"
    );
    assert_fresh("README.md", &with_part("README.md", "quick example", &part));
}

#[test]
fn every_parameter_has_a_valid_default() {
    let locks = zklockbench_locks::cards().into_iter().map(|card| (card.name, card.params));
    for (name, params) in locks.chain(fault::cards().into_iter().map(|card| (card.name, card.params))) {
        for param in params {
            assert!(default_value(param).is_some(), "{name}: {}", param.name);
        }
    }
}
