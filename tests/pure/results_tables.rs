//! The two tables of a run directory: every column there, every cell of its kind, empty where unmeasured.

use crate::support::records;
use crate::support::run_dirs;
use std::collections::BTreeMap;
use std::path::Path;

use zklockbench_core::measure::{Measure, Outcome, RequestKind};
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

/// The columns that hold words; every other column holds numbers.
const WORDS: &str = "strategy label system params load started_at verdict exclusion progress order accounting \
    completeness valid servers_agree cost_model_agrees";

#[test]
fn every_trial_is_a_row_of_words_and_numbers() {
    let rows = table("summary.csv", &[records::trial(0), records::trial_without_measurements(1)]);
    assert_eq!(rows.len(), 2);
    for (column, cell) in &rows[0] {
        let word = WORDS.split(' ').any(|word| word == column);
        assert!(cell.is_empty() || word != cell.parse::<f64>().is_ok(), "{column}: {cell}");
    }
}

#[test]
fn the_results_page_lists_exactly_the_columns() {
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
        assert!(named.iter().any(|name| is_of(name, column)), "{column} stands nowhere on the page");
    }
    for name in named {
        assert!(columns.iter().any(|column| is_of(name, column)), "there is no column {name}");
    }
}

#[test]
fn medians_are_compared_with_the_floor_if_measured() {
    let parent = tempfile::tempdir().unwrap();
    let trials = [records::trial(0), records::trial_without_measurements(1)];
    for (name, floor, expected) in [("with", Some(records::floor()), "1.1"), ("without", None, "")] {
        let mut writer = RunWriter::create(parent.path(), name).unwrap();
        trials.iter().for_each(|trial| writer.trial(trial).unwrap());
        let run = Run { floor, ..records::run(2) };
        let path = writer.seal(run, records::held()).unwrap().publish().unwrap();
        let rows = rows(&path.join("summary.csv"));
        // Handoffs of 1.1 ms in the middle, above a floor of 1 ms
        assert_eq!(rows[0]["handoff_p50_over_floor"], expected);
        // And no uncontended acquire
        assert_eq!((&*rows[0]["uncontended_p50_over_floor"], &*rows[1]["handoff_p50_over_floor"]), ("", ""));
    }
}

#[test]
fn every_measure_outcome_and_request_kind_has_its_columns() {
    let rows = table("summary.csv", &[records::trial(0)]);
    for measure in Measure::all() {
        for suffix in ["count", "mean_us", "min_us", "p50_us", "p90_us", "p99_us", "p999_us", "max_us"] {
            let column = format!("{}_{suffix}", measure.name());
            assert!(rows[0].contains_key(&column), "{column}");
        }
    }
    let outcomes = Outcome::ALL.map(|outcome| format!("outcome_{}", outcome.name()));
    let requests = RequestKind::ALL.map(|kind| format!("requests_{}", kind.name()));
    for column in outcomes.iter().chain(&requests) {
        assert!(rows[0].contains_key(column), "{column}");
    }
}

#[test]
fn the_cells_hold_what_the_trial_measured() {
    let rows = table("summary.csv", &[records::trial(0)]);
    let expected = [
        ("label", "predecessor-watch (ttl = \"1s\", a=b)"),
        ("params", "ttl=1s"),
        ("started_at", "2026-11-21T08:45:08.123456Z"),
        ("exclusion", "held"),
        ("completeness", "complete"),
        ("valid", "true"),
        ("servers_agree", "no"),
        ("cost_model_agrees", "yes"),
        ("violations", "0"),
        ("errors", "2"),
        ("throughput_per_s", "2.4"),
        ("fan_out", "0.5"),
        ("requests_per_acquisition", "2"),
        ("names_per_acquisition", "3"),
        ("bytes_per_acquisition", "300"),
        ("notifications_by_release_useful", "2"),
        ("outcome_timed_out", "1"),
        ("requests_get_children", "6"),
        ("wait_count", "6"),
        ("wait_p50_us", "1100"),
        ("cpu_share", "0.3333333333333333"),
    ];
    for (column, cell) in expected {
        assert_eq!(rows[0][column], cell, "{column}");
    }
}

#[test]
fn an_unmeasured_value_is_an_empty_cell_and_a_count_of_none_is_zero() {
    let rows = table("summary.csv", &[records::trial_without_measurements(0)]);
    for column in ["throughput_per_s", "fan_out", "fairness", "wait_p99_us", "wait_mean_us", "lag_share"] {
        assert_eq!(rows[0][column], "", "{column}");
    }
    for column in ["wait_count", "requests", "outcome_acquired", "notifications_by_release"] {
        assert_eq!(rows[0][column], "0", "{column}");
    }
    assert_eq!((&*rows[0]["servers_agree"], &*rows[0]["exclusion"]), ("unknown", "unknown"));
}

#[test]
fn the_timeline_states_the_length_of_its_last_second() {
    let rows = table("timeline.csv", &[records::trial(0), records::trial_without_measurements(1)]);
    let cells = |column: &str| rows.iter().map(|row| row[column].clone()).collect::<Vec<_>>();
    assert_eq!(cells("second"), ["0", "1", "2"]);
    assert_eq!(cells("length_us"), ["1000000", "1000000", "500000"]);
    assert_eq!(cells("acquisitions"), ["3", "2", "1"]);
    assert_eq!(cells("trial"), ["0", "0", "0"]);
}
