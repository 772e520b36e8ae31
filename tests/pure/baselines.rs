//! The baseline store, and the runs that it accepts or rejects.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use zklockbench_core::error::Error;
use zklockbench_record::{Run, RunOutcome};
use zklockbench_results::RunWriter;

use crate::support::records;

/// Publishes a run of one trial after applying a change.
fn run(parent: &Path, name: &str, change: impl Fn(&mut Run)) -> PathBuf {
    let mut writer = RunWriter::create(parent, name).unwrap();
    let trial = records::trial(0);
    writer.trial(&trial).unwrap();
    let mut run = records::run(1);
    change(&mut run);
    writer.seal(run, zklockbench_judge::of_run(&[trial], 1)).unwrap().publish().unwrap()
}

fn add(store: &Path, run: &Path, commit: &str) -> Result<zklockbench_results::Baseline, Error> {
    zklockbench_results::add_baseline(store, run, Some(commit), records::began())
}

/// Message of a usage error.
fn told<T: std::fmt::Debug>(result: Result<T, Error>) -> String {
    let error = result.unwrap_err();
    assert!(matches!(error, Error::Usage(_)), "{error}");
    error.to_string()
}

/// A store with two runs of commit `abc` and a later run of `def` on another host.
fn store(dir: &Path) -> PathBuf {
    let store = dir.join("baselines");
    for (minutes, commit, host) in [(0, "abc", "here"), (5, "abc", "here"), (9, "def", "there")] {
        let later = |run: &mut Run| {
            run.started_at = records::began() + Duration::from_secs(60 * minutes);
            run.host.hostname = host.into();
        };
        add(&store, &run(dir, &format!("run-{minutes}"), later), commit).unwrap();
    }
    store
}

#[test]
fn stored_baseline_equals_its_run_and_records_the_commit() {
    let dir = tempfile::tempdir().unwrap();
    let source = run(dir.path(), "mine", |_| ());
    fs::write(source.join("notes.txt"), "no part of the run").unwrap();
    let added = add(&dir.path().join("store"), &source, "abc123").unwrap();
    assert_eq!(zklockbench_results::read(&added.dir).unwrap(), zklockbench_results::read(&source).unwrap());
    assert!(!added.dir.join("notes.txt").exists());
    assert_eq!(zklockbench_results::baselines(&dir.path().join("store")).unwrap(), [added]);
    // The commit defaults to the program's commit.
    let other = run(dir.path(), "other", |run| run.seed = 1);
    let added =
        zklockbench_results::add_baseline(&dir.path().join("store"), &other, None, records::began()).unwrap();
    assert_eq!(added.commit, "0123abc-dirty");
}

#[test]
fn unsuitable_run_is_rejected_as_a_baseline_and_leaves_no_files() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let refused = |run: &Path, commit: Option<&str>| {
        told(zklockbench_results::add_baseline(&store, run, commit, records::began()))
    };
    assert!(refused(&dir.path().join("absent"), None).contains("is not a directory"));
    let nameless = run(dir.path(), "nameless", |run| run.tool_commit = None);
    assert!(refused(&nameless, None).contains("use --commit"));
    for name in ["", "a b", "\u{1b}[31m", &"x".repeat(101)] {
        assert!(refused(&nameless, Some(name)).contains("is not a valid commit name"));
    }
    let damaged = run(dir.path(), "damaged", |_| ());
    fs::write(damaged.join("summary.csv"), "x").unwrap();
    assert!(refused(&damaged, Some("abc")).contains("summary.csv: was modified: its digest"));
    assert!(!store.exists() || fs::read_dir(&store).unwrap().next().is_none());
    // The store refuses to add the same run twice.
    add(&store, &nameless, "abc").unwrap();
    let again = refused(&nameless, Some("def"));
    assert!(again.contains("is already in the store") && again.ends_with("with commit abc"), "{again}");
    assert_eq!(fs::read_dir(&store).unwrap().count(), 1);
}

#[test]
fn missing_or_damaged_store_is_reported_with_a_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let expected = "`zklockbench baseline add RUN` creates one";
    assert!(told(zklockbench_results::baselines(&dir.path().join("absent"))).contains(expected));
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    assert!(told(zklockbench_results::baselines(&file)).contains("is not a directory"));
    let store = store(dir.path());
    // A README and unfinished copies are ignored.
    fs::write(store.join("README.md"), "our baselines").unwrap();
    fs::create_dir(store.join(".other.partial")).unwrap();
    let one = zklockbench_results::baselines(&store).unwrap().swap_remove(0).dir;
    let commit = one.join("baseline.json");
    for (text, said) in [
        ("{", "baseline.json: EOF while parsing"),
        (r#"{"schema_version": 9}"#, "baseline.json: schema version 9, but this program reads version 1"),
        (
            r#"{"schema_version": 1, "commit": "a\u001b", "added_at": "2026-11-21T08:45:08Z"}"#,
            "baseline.json: `commit` is not a valid commit name",
        ),
    ] {
        fs::write(&commit, text).unwrap();
        let told = told(zklockbench_results::baselines(&store));
        assert!(told.contains(said), "{told}");
    }
    fs::remove_file(&commit).unwrap();
    assert!(
        told(zklockbench_results::baselines(&store)).contains("is not a baseline: it has no baseline.json")
    );
}

#[test]
fn baselines_are_grouped_by_commit_from_newest_to_oldest() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let of = |store: &Path, scenario| {
        zklockbench_results::baselines_by_commit(&zklockbench_results::baselines(store).unwrap(), scenario)
    };
    let sizes = |store: &Path| of(store, "quick").iter().map(Vec::len).collect::<Vec<_>>();
    assert_eq!(sizes(&store), [1, 2]);
    let later = run(dir.path(), "later", |run| run.started_at += Duration::from_secs(3_600));
    add(&store, &later, "abc").unwrap();
    assert_eq!(sizes(&store), [3, 1]);
    assert!(of(&store, "other").is_empty());
}

#[test]
fn complete_runs_in_a_plain_directory_are_listed_from_newest_to_oldest() {
    let dir = tempfile::tempdir().unwrap();
    let later = |minutes: u64| {
        move |run: &mut Run| run.started_at = records::began() + Duration::from_secs(60 * minutes)
    };
    let old = run(dir.path(), "b-old", later(0));
    let new = run(dir.path(), "a-new", later(5));
    run(dir.path(), "other", |run| run.scenario = "other".into());
    run(dir.path(), "interrupted", |run| run.outcome = RunOutcome::INTERRUPTED);
    let damaged = run(dir.path(), "damaged", later(9));
    fs::write(damaged.join("run.json"), "{").unwrap();
    assert!(!zklockbench_results::is_store_of_baselines(dir.path()));
    let (runs, passed_over) = zklockbench_results::runs_of(dir.path(), "quick").unwrap();
    assert_eq!(runs, [new, old]);
    assert!(passed_over.len() == 1, "{passed_over:?}");
    assert!(passed_over[0].to_string().contains("damaged/run.json"), "{passed_over:?}");
    assert!(zklockbench_results::is_store_of_baselines(&store(dir.path())));
}
