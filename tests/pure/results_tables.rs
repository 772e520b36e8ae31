//! The CSV tables in a run directory. Every column exists, and unmeasured cells are empty.

use crate::support::{records, run_dirs};
use std::collections::BTreeMap;
use std::path::Path;

use zklockbench_record::{Run, Trial};
use zklockbench_results::RunWriter;

type Row = BTreeMap<String, String>;

fn rows(path: &Path) -> Vec<Row> {
    csv::Reader::from_path(path).unwrap().deserialize().map(Result::unwrap).collect()
}

fn table(name: &str, trials: &[Trial]) -> Vec<Row> {
    let parent = tempfile::tempdir().unwrap();
    rows(&run_dirs::publish(parent.path(), trials).join(name))
}

/// Lists every column with its cells.
fn listed(rows: &[Row]) -> String {
    let column = |name: &String| {
        let cells: Vec<&str> = rows.iter().map(|row| row[name].as_str()).collect();
        format!("{name}: {}\n", cells.join(" | "))
    };
    rows[0].keys().map(column).collect()
}

#[test]
fn both_csv_tables_have_every_column_and_leave_unmeasured_cells_empty() {
    let trials = [records::trial(0), records::trial_without_measurements(1)];
    let tables = ["summary.csv", "timeline.csv"].map(|name| listed(&table(name, &trials)));
    insta::assert_snapshot!("columns", tables.join("\n"));
}

#[test]
fn the_results_readme_lists_exactly_the_columns_of_summary_csv() {
    const PAGE: &str = include_str!("../../results/README.md");
    let rows = table("summary.csv", &[records::trial(0)]);
    let columns: Vec<&str> = rows[0].keys().map(String::as_str).collect();
    let section = PAGE.split("## Columns of `summary.csv`").nth(1).unwrap();
    let described = section.lines().skip_while(|line| !line.starts_with('|')).skip(2);
    let described = described.map_while(|line| line.strip_prefix('|')?.split('|').next());
    let named: Vec<&str> = described.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    let is_of = |name: &str, column: &str| match name.split_once('*') {
        None => name == column,
        Some((begin, end)) => column.starts_with(begin) && column.ends_with(end),
    };
    for column in &columns {
        assert!(named.iter().any(|name| is_of(name, column)), "column {column} is missing from the page");
    }
    for name in named {
        assert!(columns.iter().any(|column| is_of(name, column)), "the page lists an unknown column {name}");
    }
}

#[test]
fn summary_csv_compares_medians_with_the_floor_if_measured() {
    let parent = tempfile::tempdir().unwrap();
    let trials = [records::trial(0), records::trial_without_measurements(1)];
    for (name, floor, expected) in [("with", Some(records::floor()), "1.1"), ("without", None, "")] {
        let mut writer = RunWriter::create(parent.path(), name).unwrap();
        trials.iter().for_each(|trial| writer.trial(trial).unwrap());
        let run = Run { floor, ..records::run(2) };
        let path = writer.seal(run, records::held()).unwrap().publish().unwrap();
        let rows = rows(&path.join("summary.csv"));
        // The median handoff of 1.1 ms is 1.1 times the floor of 1 ms.
        assert_eq!(rows[0]["handoff_p50_over_floor"], expected);
        // There are no uncontended acquires.
        assert_eq!((&*rows[0]["uncontended_p50_over_floor"], &*rows[1]["handoff_p50_over_floor"]), ("", ""));
    }
}
