//! `summary.json`: machine-readable results per strategy and number of contenders, over all repetitions.

use crate::support::{json_schema::Schema, records, run_dirs, shown};
use std::fs;

use zklockbench_core::measure::Measure;
use zklockbench_record::Trial;
use zklockbench_report::{Style, Summary, View, summary};
use zklockbench_results::StoredRun;

/// Three repetitions of different lengths. The last repetition is invalid.
fn trials() -> Vec<Trial> {
    let trial = |index: usize| {
        let mut trial = records::trial(index);
        trial.spec.repetition = u32::try_from(index).unwrap() + 1;
        trial.measured_us = 1_000_000 * (index as u64 + 1);
        trial
    };
    let mut trials: Vec<Trial> = (0..3).map(trial).collect();
    trials[2].health.invalid = Some("late".into());
    trials
}

fn read(trials: &[Trial]) -> StoredRun {
    let parent = tempfile::tempdir().unwrap();
    zklockbench_results::read(&run_dirs::publish(parent.path(), trials)).unwrap()
}

/// Four of the ten waits of the second repetition are unserved.
fn with_unserved() -> Vec<Trial> {
    let mut trials = trials();
    trials[1].histograms.insert(Measure::Unserved, records::histogram(&[2_000_000; 4]));
    trials
}

#[test]
fn the_summary_of_valid_repetitions_agrees_with_the_table() {
    let shown = [trials(), with_unserved(), Vec::new()].map(|trials| {
        let stored = read(&trials);
        let cells = serde_json::to_string_pretty(&shown::summary(&stored).cells).unwrap();
        let view = View::of(&stored);
        assert_eq!(shown::summary(&stored).notes, view.notes());
        assert_eq!(shown::summary(&stored).judged, stored.run.judged);
        format!("{}\n{cells}", shown::terminal(&view, Style::EVERYTHING))
    });
    insta::assert_snapshot!("cells", shown.join("\n=== and\n"));
}

#[test]
fn lower_bounds_have_no_interval() {
    let mut trials: Vec<Trial> = (0..6).map(records::trial).collect();
    trials.iter_mut().zip(1..).for_each(|(trial, repetition)| trial.spec.repetition = repetition);
    trials[1].histograms.insert(Measure::Unserved, records::histogram(&[2_000_000; 4]));
    let summary = shown::summary(&records::stored(&records::run(6), &trials));
    let wait = &summary.cells[0].latencies[&Measure::Wait];
    assert!(wait.min_us.interval.is_some() && !wait.min_us.at_least, "{wait:?}");
    assert!(wait.max_us.interval.is_none() && wait.max_us.at_least, "{wait:?}");
}

#[test]
fn the_summary_matches_its_schema_and_has_a_digest() {
    let parent = tempfile::tempdir().unwrap();
    let mut writer = zklockbench_results::RunWriter::create(parent.path(), "summed-up").unwrap();
    let trials = trials();
    trials.iter().for_each(|trial| writer.trial(trial).unwrap());
    let sealed = writer.seal(records::run(3), records::held()).unwrap();
    let stored = zklockbench_results::read(sealed.dir()).unwrap();
    let whole = shown::summary(&stored);
    sealed.summary(summary::FILE, &whole).unwrap();
    let dir = sealed.publish().unwrap();
    let mut json: serde_json::Value =
        serde_json::from_slice(&fs::read(dir.join("summary.json")).unwrap()).unwrap();
    let validator = Schema::new(summary::schema().as_value());
    let wrong: Vec<String> = validator.complaints(&json);
    assert_eq!(wrong, [""; 0]);
    assert_eq!(serde_json::from_value::<Summary>(json.clone()).unwrap(), whole);
    json["cells"][0].as_object_mut().unwrap().remove("repetitions");
    assert!(!validator.is_valid(&json));
    // The digest reveals a modified summary.
    assert!(zklockbench_results::read(&dir).unwrap().run.files.contains_key("summary.json"));
    fs::write(dir.join("summary.json"), "{}").unwrap();
    let expected = "summary.json: was modified: its digest";
    assert!(zklockbench_results::read(&dir).unwrap_err().to_string().contains(expected));
}
