//! Stored run directories of each schema version: supported versions are read, and the error for an older
//! version names the program version that reads it.

use std::path::{Path, PathBuf};

use zklockbench_analysis::plan;

use zklockbench_core::error::Error;
use zklockbench_core::verdict::Verdict;
use zklockbench_record::Judged;
use zklockbench_results::SCHEMA_VERSION;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

#[test]
fn a_directory_of_schema_1_is_refused_with_the_version_that_reads_it() {
    let error = zklockbench_results::read(&golden("schema-1")).unwrap_err();
    assert!(matches!(error, Error::Usage(_)), "{error}");
    let told = error.to_string();
    assert!(told.contains("schema-1/run.json: schema version 1, but this program reads version 2"), "{told}");
    assert!(
        told.ends_with("use the version of the program that wrote it: 0.1.0 of commit 969a6a565aae"),
        "{told}"
    );
}

#[test]
fn a_directory_of_schema_2_is_read_and_rejudged_to_its_recorded_verdict() {
    // Given a stored run of two trials, one with a lock and one without a lock
    let stored = zklockbench_results::read(&golden("schema-2")).unwrap();
    assert_eq!((stored.run.schema_version, stored.trials.len()), (SCHEMA_VERSION, 2));
    let recorded: Vec<&str> = stored.trials.iter().map(|trial| trial.judged.verdict.word()).collect();
    assert_eq!(recorded, ["held", "violated"]);
    // And values that this version did not record yet are missing rather than zero
    assert!(stored.trials.iter().all(|trial| trial.herd.is_none()));
    // When the run is judged again
    let mut trials = stored.trials.clone();
    trials.iter_mut().for_each(zklockbench_judge::judge);
    // Then every part of each verdict equals the recorded part
    for (trial, stored) in trials.iter().zip(&stored.trials) {
        assert_eq!(words(&trial.judged), words(&stored.judged), "{}", trial.name());
    }
    assert_eq!(
        words(&zklockbench_judge::of_run(&trials, stored.run.planned_trials)),
        words(&stored.run.judged)
    );
}

#[test]
fn baselines_and_plans_of_earlier_versions_are_read() {
    // Given a store and a plan of an earlier version
    let store = golden("golden/baselines");
    let baselines = zklockbench_results::baselines(&store).unwrap();
    let [one] = baselines.as_slice() else { panic!("{baselines:?}") };
    assert_eq!((one.commit.as_str(), one.run.trials), ("8bdfef6", 2));
    assert_eq!(zklockbench_results::read(&one.dir).unwrap().trials.len(), 2);
    let plan = plan::read(&golden("golden/plan")).unwrap();
    assert_eq!(plan.question.clients, 5);
    assert!(!plan.answers.is_empty());
}

/// The verdicts without their reasons, whose wording may change.
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
