//! `summary.json`: what the repetitions of each strategy and number of contenders come to, for programs.

use crate::support::json_schema::Schema;
use crate::support::{records, run_dirs, shown};
use std::fs;

use zklockbench_core::measure::{Measure, new_histogram};
use zklockbench_core::units::{format_micros, number};
use zklockbench_record::Trial;
use zklockbench_report::{Style, Summary, View, summary};
use zklockbench_results::StoredRun;

/// Three repetitions, each of which acquired another number of locks in the same time; the last one is invalid.
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

fn of(trials: &[Trial]) -> Summary {
    let stored = read(trials);
    shown::summary(&stored)
}

#[test]
fn metrics_use_valid_repetitions_and_the_others_are_counted() {
    let summary = of(&trials());
    let [cell] = summary.cells.as_slice() else { panic!("{summary:?}") };
    assert_eq!((cell.contenders, cell.took_part, cell.load.as_str()), (3, 3, "closed"));
    assert_eq!((cell.repetitions.ran, cell.repetitions.sound), (3, 2));
    let acquired = trials()[0].measured.acquired() as f64;
    let throughput = cell.figures["throughput_per_s"];
    assert_eq!((throughput.min, throughput.max, throughput.count), (acquired / 2.0, acquired, 2));
    assert_eq!((throughput.median, throughput.at_least), (0.75 * acquired, false));
    // An invalid repetition says nothing against the lock: who was inside was seen
    assert_eq!(cell.verdict.as_ref().map(|verdict| verdict.word()), Some("held"));
    assert_eq!(cell.why, None);
}

#[test]
fn the_summary_agrees_with_the_table() {
    let stored = read(&trials());
    let view = View::of(&stored);
    let (summary, table) = (shown::summary(&stored), shown::terminal(&view, Style::EVERYTHING));
    let cell = &summary.cells[0];
    let (throughput, wait) = (cell.figures["throughput_per_s"], &cell.latencies[&Measure::Wait]);
    let time = |us: f64| format_micros(us.round() as u64);
    for expected in [
        number(throughput.median),
        format!("{}-{}", number(throughput.min), number(throughput.max)),
        time(wait.p50_us.median),
        time(wait.p99_us.median),
        time(wait.max_us.max),
        time(cell.latencies[&Measure::Handoff].p50_us.median),
        number(cell.figures["fan_out"].median),
        number(cell.figures["requests_per_acquisition"].median),
        "2 of 3".to_owned(),
        cell.verdict.as_ref().unwrap().word().to_owned(),
    ] {
        assert!(
            table.split_whitespace().collect::<Vec<_>>().join(" ").contains(&expected),
            "{expected}:\n{table}"
        );
    }
    assert_eq!(summary.notes, view.notes());
    assert_eq!(summary.judged, stored.run.judged);
}

#[test]
fn percentiles_that_unserved_waits_could_change_are_lower_bounds() {
    let mut trials = trials();
    let mut unserved = new_histogram();
    (0..4).for_each(|_| unserved.record(2_000_000).unwrap());
    trials[1].histograms.insert(Measure::Unserved, unserved);
    // Of 10 waits 6 were served
    let summary = of(&trials);
    let wait = &summary.cells[0].latencies[&Measure::Wait];
    assert_eq!(
        [wait.p50_us, wait.p90_us, wait.p99_us, wait.max_us, wait.mean_us].map(|one| one.at_least),
        [false, true, true, true, true]
    );
    assert!(!summary.cells[0].latencies[&Measure::Handoff].p99_us.at_least);
    assert_eq!(summary.cells[0].totals.unserved, 4);
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
    // And it can't be changed without being noticed
    assert!(zklockbench_results::read(&dir).unwrap().run.files.contains_key("summary.json"));
    fs::write(dir.join("summary.json"), "{}").unwrap();
    assert!(
        zklockbench_results::read(&dir)
            .unwrap_err()
            .to_string()
            .contains("summary.json: is not as it was written")
    );
}

#[test]
fn a_run_without_trials_has_no_cells() {
    assert!(of(&[]).cells.is_empty());
}
