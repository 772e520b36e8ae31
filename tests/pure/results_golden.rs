//! Stored run directories of each schema version. Supported versions can be read, and the error for an older version
//! states the program version to use.

use std::path::{Path, PathBuf};

use zklockbench_analysis::plan;

use zklockbench_core::{error::Error, verdict::Verdict};
use zklockbench_record::Judged;
use zklockbench_results::SCHEMA_VERSION;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

#[test]
fn error_for_a_schema_1_run_states_the_program_version_to_use() {
    let error = zklockbench_results::read(&golden("schema-1")).unwrap_err();
    assert!(matches!(error, Error::Usage(_)), "{error}");
    let told = error.to_string();
    assert!(told.contains("schema-1/run.json: schema version 1, but this program reads version 2"), "{told}");
    let expected = "use the program version that wrote the file: 0.1.0 of commit 969a6a565aae";
    assert!(told.ends_with(expected), "{told}");
}

#[test]
fn rejudged_schema_2_run_gets_its_recorded_verdict() {
    // Given a stored run of two trials, one with a lock and one without a lock
    let stored = zklockbench_results::read(&golden("schema-2")).unwrap();
    assert_eq!((stored.run.schema_version, stored.trials.len()), (SCHEMA_VERSION, 2));
    let recorded: Vec<&str> = stored.trials.iter().map(|trial| trial.judged.verdict.word()).collect();
    assert_eq!(recorded, ["held", "violated"]);
    // And values that this version did not record are missing, not zero
    assert!(stored.trials.iter().all(|trial| trial.herd.is_none()));
    // When the run is judged again
    let mut trials = stored.trials.clone();
    trials.iter_mut().for_each(zklockbench_judge::judge);
    // Then each part of every verdict equals the recorded part
    for (trial, stored) in trials.iter().zip(&stored.trials) {
        assert_eq!(words(&trial.judged), words(&stored.judged), "{}", trial.name());
    }
    let found = words(&zklockbench_judge::of_run(&trials, stored.run.planned_trials));
    assert_eq!(found, words(&stored.run.judged));
}

#[test]
fn baselines_and_plans_of_earlier_versions_are_read() {
    // Given a store and a plan from an earlier version
    let store = golden("golden/baselines");
    let baselines = zklockbench_results::baselines(&store).unwrap();
    let [one] = baselines.as_slice() else { panic!("{baselines:?}") };
    assert_eq!((one.commit.as_str(), one.run.trials), ("8bdfef6", 2));
    assert_eq!(zklockbench_results::read(&one.dir).unwrap().trials.len(), 2);
    let plan = plan::read(&golden("golden/plan")).unwrap();
    assert_eq!(plan.question.clients, 5);
    assert!(!plan.answers.is_empty());
}

/// The verdicts without their reasons, because the wording of reasons may change.
fn words(judged: &Judged) -> [Option<&'static str>; 5] {
    let part = |verdict: &Option<Verdict>| verdict.as_ref().map(Verdict::word);
    [
        Some(judged.verdict.word()),
        Some(judged.exclusion.word()),
        part(&judged.progress),
        part(&judged.order),
        part(&judged.accounting),
    ]
}
