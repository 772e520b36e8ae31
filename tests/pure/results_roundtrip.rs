//! A report reads exactly the data that a run wrote, and rejects an incomplete directory.

use crate::support::{json_schema::Schema, records, run_dirs};
use std::fs;
use std::time::Duration;

use zklockbench_core::{error::Error, measure::Measure, verdict::Verdict};
use zklockbench_record::{Run, RunOutcome, Trial, figures};
use zklockbench_results::{RunWriter, SCHEMA_VERSION};

#[test]
fn a_published_run_is_read_back_unchanged() {
    let mut trials =
        [records::trial(0), records::trial_with_a_violation(1), records::trial_without_measurements(2)];
    trials[1].spec.evidence = "0.99@1%".parse().unwrap();
    trials[1].wrong_holds = vec!["3 holds were shorter than requested, by up to 3 ms".into()];
    trials[1].orphan_nodes = vec!["/run/lock-0/n-0000000007 (session 0x7)".into()];
    let (parent, dir) = run_dirs::published(&trials);

    assert_eq!(dir, parent.path().join("quick-2026-11-21T08-45-08Z"));
    let read = zklockbench_results::read(&dir).unwrap();
    assert_eq!(read.run.run, records::run(3));
    assert_eq!((read.run.schema_version, read.run.trials), (SCHEMA_VERSION, 3));
    assert_eq!(read.run.judged, zklockbench_judge::of_run(&trials, 3));
    assert_eq!(read.trials, trials);
    let text = fs::read_to_string(dir.join("trials/000.json")).unwrap();
    assert!(text.contains("\"started_at\": \"2026-11-21T08:45:08.123456Z\""));
}

#[test]
fn unmeasured_values_are_null_never_zero() {
    let (_parent, dir) = run_dirs::published(&[records::trial_without_measurements(0)]);

    let text = fs::read_to_string(dir.join("trials/000.json")).unwrap();
    for field in
        ["throughput_per_s", "fan_out", "fairness", "lag_share", "host_idle_share", "resident_bytes", "herd"]
    {
        assert!(text.contains(&format!("\"{field}\": null")), "{field}");
    }
    let trial = &zklockbench_results::read(&dir).unwrap().trials[0];
    assert_eq!(figures::THROUGHPUT.of(trial), None);
    assert_eq!(trial.latencies().get(&Measure::Wait), None);
    assert_eq!((trial.cost_model_agrees(), trial.servers_agree()), (None, None));
    assert!(matches!(trial.judged.verdict, Verdict::Unknown(_)));
}

#[test]
fn client_model_and_server_counts_are_compared_separately() {
    // The servers counted one more write than the client.
    let trial = records::trial(0);
    assert_eq!(trial.servers_agree(), Some(false));
    assert_eq!(trial.cost_model_agrees(), Some(true));
}

#[test]
fn an_interrupted_or_aborted_run_is_published_with_its_outcome_and_trials() {
    let unknown = Verdict::Unknown(vec!["3 of 4 trials did not run".into()]);
    let cut = Trial { cut_short: records::interrupted(), ..records::trial(0) };
    for (outcome, trials) in
        [(RunOutcome::INTERRUPTED, vec![cut]), (RunOutcome::aborted("the ensemble was lost"), Vec::new())]
    {
        let parent = tempfile::tempdir().unwrap();
        let mut writer = RunWriter::create(parent.path(), "cut").unwrap();
        trials.iter().for_each(|trial| writer.trial(trial).unwrap());
        let run = Run { outcome, ..records::run(4) };
        let dir = writer.seal(run.clone(), records::judged(unknown.clone())).unwrap().publish().unwrap();
        let read = zklockbench_results::read(&dir).unwrap();
        assert_eq!((&read.run.run, &read.run.judged.verdict, &read.trials), (&run, &unknown, &trials));
        assert_eq!((read.run.planned_trials, read.run.trials), (4, trials.len()));
    }
}

#[test]
fn run_directory_gets_its_final_name_only_when_published() {
    let parent = tempfile::tempdir().unwrap();
    let end = parent.path().join("mine");
    let mut writer = RunWriter::create(parent.path(), "mine").unwrap();
    writer.trial(&records::trial(0)).unwrap();
    assert!(writer.dir().join("trials/000.hlog").is_file());
    assert!(!end.exists());

    let sealed = writer.seal(records::run(1), records::held()).unwrap();
    assert!(!end.exists());
    // The sealed run is already complete, because charts are drawn from its files.
    assert_eq!(zklockbench_results::read(sealed.dir()).unwrap().trials.len(), 1);
    fs::write(sealed.dir().join("chart.svg"), "<svg/>").unwrap();

    assert_eq!(sealed.publish().unwrap(), end);
    assert!(end.join("run.json").is_file() && end.join("chart.svg").is_file());
    assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1);
}

#[test]
fn an_aborted_run_is_published_as_partial_with_its_finished_trials() {
    let parent = tempfile::tempdir().unwrap();
    let mut writer = RunWriter::create(parent.path(), "mine").unwrap();
    writer.begins(records::run(0), &[], records::held()).unwrap();
    writer.trial(&records::trial(0)).unwrap();
    writer.so_far(records::so_far(3)).unwrap();
    // After `kill -9`, the directory is readable, even if the next trial's files were partly written.
    fs::write(writer.dir().join("trials/001.json"), "{").unwrap();
    let killed = zklockbench_results::read(writer.dir()).unwrap();
    assert_eq!((killed.trials.len(), killed.run.run.planned_trials), (1, 3));
    fs::remove_file(writer.dir().join("trials/001.json")).unwrap();

    drop(writer);

    let left = zklockbench_results::read(&parent.path().join("mine")).unwrap();
    assert_eq!((left.trials.len(), left.run.run.outcome.clone()), (1, RunOutcome::not_noted()));
}

#[test]
fn a_run_aborted_before_its_first_trial_leaves_no_files() {
    let parent = tempfile::tempdir().unwrap();
    let mut aborted = RunWriter::create(parent.path(), "aborted").unwrap();
    aborted.begins(records::run(0), &[], records::held()).unwrap();
    drop(aborted);
    let sealed = RunWriter::create(parent.path(), "sealed").unwrap();
    drop(sealed.seal(records::run(0), records::held()).unwrap());
    assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
}

#[test]
fn run_directory_contains_the_server_logs_in_a_folder() {
    let parent = tempfile::tempdir().unwrap();
    let writer = RunWriter::create(parent.path(), "mine").unwrap();
    assert!(!writer.server_logs().exists());
    fs::create_dir(writer.server_logs()).unwrap();
    fs::write(writer.server_logs().join("server-1.log"), "started").unwrap();

    let dir = writer.seal(records::run(0), records::held()).unwrap().publish().unwrap();

    assert_eq!(fs::read_to_string(dir.join("server-logs/server-1.log")).unwrap(), "started");
}

#[test]
fn error_for_writing_a_trial_twice_contains_the_file_name() {
    let parent = tempfile::tempdir().unwrap();
    let mut writer = RunWriter::create(parent.path(), "mine").unwrap();
    writer.trial(&records::trial(0)).unwrap();
    let error = writer.trial(&records::trial(0)).unwrap_err();
    assert!(matches!(error, Error::Environment(_)));
    assert!(error.to_string().contains("trials/000.json"), "{error}");
}

#[test]
fn every_json_file_of_a_run_matches_its_published_schema() {
    let trials =
        [records::trial(0), records::trial_with_a_violation(1), records::trial_without_measurements(2)];
    let (_parent, dir) = run_dirs::published(&trials);
    let [(run, run_schema), (_, trial_schema)] = zklockbench_results::schemas();
    let files = [(run, &run_schema), ("trials/000.json", &trial_schema), ("trials/001.json", &trial_schema)];
    for (name, schema) in files {
        let mut json: serde_json::Value = serde_json::from_slice(&fs::read(dir.join(name)).unwrap()).unwrap();
        let validator = Schema::new(schema.as_value());
        let wrong: Vec<String> = validator.complaints(&json);
        assert_eq!(wrong, [""; 0], "{name}");
        // A file without a verdict must not match.
        json.as_object_mut().unwrap().remove("judged");
        assert!(!validator.is_valid(&json), "{name}");
    }
}

#[test]
fn throughput_of_a_fixed_number_of_acquisitions_counts_only_the_time_with_all_contenders() {
    let mut trial = records::trial(0);
    trial.spec.stop = zklockbench_scenario::Stop::Acquisitions(2);
    trial.full_crew = Some(zklockbench_record::FullCrew { lasted_us: 500_000, acquired: 4 });
    assert_eq!(figures::THROUGHPUT.of(&trial), Some(8.0));
    // Fairness is unknown if every contender stops after the same number of acquisitions.
    trial.tallies.iter_mut().for_each(|tally| tally.acquired = 100);
    assert_eq!(figures::FAIRNESS.of(&trial), None);
    trial.spec.stop = zklockbench_scenario::Stop::After(Duration::from_secs(1));
    assert_eq!(figures::FAIRNESS.of(&trial), Some(1.0));
    // Throughput and fairness are unknown for a batch, because the conductor sets its pace.
    (trial.spec.load, trial.full_crew) = (zklockbench_scenario::Load::Batch, None);
    assert_eq!((figures::THROUGHPUT.of(&trial), figures::FAIRNESS.of(&trial)), (None, None));
}

#[test]
fn fairness_is_not_reported_after_too_few_cycles() {
    let mut trial = records::trial(0);
    trial.tallies.iter_mut().zip([5, 5, 4]).for_each(|(tally, turns)| tally.acquired = turns);
    assert_eq!(figures::FAIRNESS.of(&trial), None);
    trial.tallies[2].acquired = 5;
    assert_eq!(figures::FAIRNESS.of(&trial), Some(1.0));
}
