//! Resumed runs keep finished trials and rerun unfinished trials, and the directory is readable at every step.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::support::{records, run_dirs};
use zklockbench::run::{is_unfinished, whole};
use zklockbench_core::verdict::Verdict;
use zklockbench_record::{Cause, CutShort, Run, RunEnding, RunOutcome, Trial, WorkerPart, Workers};
use zklockbench_results::{Resumed, RunWriter, StoredRun};
use zklockbench_scenario::{Catalog, TrialPlan, parse};

const PLANNED: usize = 4;

/// A run directory after these trials and a `kill -9`.
fn killed(parent: &Path, trials: &[Trial]) -> PathBuf {
    let mut writer = RunWriter::create(parent, "mine").unwrap();
    writer.begins(records::run(PLANNED), &[], records::held()).unwrap();
    for trial in trials {
        writer.trial(trial).unwrap();
        writer.so_far(records::so_far(PLANNED)).unwrap();
    }
    let dir = writer.dir().to_owned();
    // Dropping the writer publishes or removes the directory, so restore it from a copy.
    let kept = parent.join("kept");
    run_dirs::copy(&dir, &kept);
    drop(writer);
    let _ = fs::remove_dir_all(parent.join("mine"));
    fs::rename(kept, &dir).unwrap();
    dir
}

fn cut_short(index: usize) -> Trial {
    Trial { cut_short: records::interrupted(), ..records::trial(index) }
}

fn resumed(dir: &Path) -> (RunWriter, StoredRun) {
    match RunWriter::resume(dir).unwrap() {
        Resumed::Partial(writer, stored) => (*writer, stored),
        Resumed::Whole(path, _) => panic!("{} is complete", path.display()),
    }
}

fn indices(trials: &[Trial]) -> Vec<usize> {
    trials.iter().map(|trial| trial.spec.index).collect()
}

fn rows(dir: &Path, table: &str) -> Vec<String> {
    let text = fs::read_to_string(dir.join(table)).unwrap();
    text.lines().map(|line| line.split(',').next().unwrap().to_owned()).collect()
}

#[test]
fn resume_keeps_a_finished_trial_that_run_json_does_not_list() {
    let parent = tempfile::tempdir().unwrap();
    let dir = killed(parent.path(), &[records::trial(0)]);
    // Given a written trial that `run.json` does not list, an incomplete trial, and an incomplete table
    let (_other, whole) = run_dirs::published(&[records::trial(1)]);
    for name in ["trials/001.json", "trials/001.hlog"] {
        fs::copy(whole.join(name), dir.join(name)).unwrap();
    }
    fs::write(dir.join("trials/002.json"), "{").unwrap();
    fs::write(dir.join("summary.csv"), "trial\n2,predec").unwrap();
    // When the run is resumed by its final name
    let (mut writer, stored) = resumed(&parent.path().join("mine"));
    assert_eq!(indices(&stored.trials), [0, 1]);
    writer.begins(records::run(PLANNED), &stored.trials, records::held()).unwrap();
    // Then the run contains the two complete trials, but not the incomplete trial
    let there = zklockbench_results::read(writer.dir()).unwrap();
    assert_eq!(indices(&there.trials), [0, 1]);
    assert!(!writer.dir().join("trials/002.json").exists());
    // And the run continues
    writer.trial(&records::trial(2)).unwrap();
    let dir = writer.seal(records::run(3), records::held()).unwrap().publish().unwrap();
    assert_eq!(indices(&zklockbench_results::read(&dir).unwrap().trials), [0, 1, 2]);
    assert_eq!(rows(&dir, "summary.csv"), ["trial", "0", "1", "2"]);
    assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1);
}

#[test]
fn unfinished_trial_is_kept_until_its_rerun_and_counted_once() {
    for before in 0..2 {
        let parent = tempfile::tempdir().unwrap();
        let there: Vec<Trial> = (0..before).map(records::trial).chain([cut_short(before)]).collect();
        let dir = killed(parent.path(), &there);
        let (mut writer, stored) = resumed(&dir);
        writer.begins(records::run(PLANNED), &stored.trials, records::held()).unwrap();
        let found = |writer: &RunWriter| indices(&zklockbench_results::read(writer.dir()).unwrap().trials);
        assert_eq!(found(&writer), (0..=before).collect::<Vec<_>>());
        writer.forget(before, records::so_far(PLANNED)).unwrap();
        assert_eq!(found(&writer), (0..before).collect::<Vec<_>>());
        writer.trial(&records::trial(before)).unwrap();
        writer.so_far(records::so_far(PLANNED)).unwrap();
        assert_eq!(found(&writer), (0..=before).collect::<Vec<_>>());
        assert!(zklockbench_results::read(writer.dir()).unwrap().trials[before].cut_short.is_none());
        let numbers = (0..=before).map(|number| number.to_string());
        let expected: Vec<String> = std::iter::once("trial".to_owned()).chain(numbers).collect();
        let dir = writer.seal(records::run(before + 1), records::held()).unwrap().publish().unwrap();
        assert_eq!(rows(&dir, "summary.csv"), expected);
    }
}

#[test]
fn an_interrupted_trial_is_rerun_unless_violated_or_stuck() {
    assert!(!is_unfinished(&records::trial(0)));
    let mut trial = cut_short(0);
    assert!(is_unfinished(&trial));
    trial.cut_short = Some(CutShort { cause: Cause::NoProgress, why: "no contender acquired".into() });
    assert!(!is_unfinished(&trial));
    let mut found = cut_short(0);
    found.judged = records::judged(Verdict::Violated(vec!["two contenders were inside".into()]));
    assert!(!is_unfinished(&found));
}

/// Returns a plan and its only trial, which has this fault and is invalid.
fn invalid_trial(servers: &str, fault: &str) -> (TrialPlan, Trial) {
    let text = format!(
        "name = \"x\"\nstrategies = [\"curator-mutex\"]\ncontenders = 4\nduration = \"9s\"\nrepetitions = 1\n\
         [ensemble]\n{servers}\n[[fault]]\nkind = \"{fault}\"\nat = \"1s\"\n"
    );
    let catalog = Catalog { has_host_commands: true, ..zklockbench_load::catalog() };
    let plan =
        TrialPlan::of(&parse("x.toml", &text, &catalog).unwrap_or_else(|wrong| panic!("{wrong}")).scenario);
    let mut trial = Trial { spec: plan.trials[0].clone(), ..records::trial(0) };
    trial.judged = records::judged(Verdict::Held);
    trial.health.invalid = Some("the host was busy".into());
    (plan, trial)
}

#[test]
fn invalid_trial_with_server_faults_is_rerun_only_on_the_runs_own_servers() {
    let (own, foreign) = ("servers = 3", "connect = \"127.0.0.1:1,127.0.0.1:2\"");
    for (servers, fault, is_complete) in [
        (foreign, "rolling-restart", true),
        (own, "rolling-restart", false),
        // Contenders are the run's own, even on foreign servers.
        (foreign, "crash", false),
        (own, "crash", false),
    ] {
        // If the run is incomplete, the trial is rerun.
        let (plan, trial) = invalid_trial(servers, fault);
        assert_eq!(whole(&plan, &[trial]).is_some(), is_complete, "{servers}, {fault}");
    }
}

#[test]
fn resuming_a_run_adds_no_reruns_to_those_it_has_made() {
    // Given as many reruns as planned trials, which are invalid, too
    let (plan, trial) = invalid_trial("servers = 3", "crash");
    let mut rerun = trial.clone();
    rerun.spec.makes_up_for = Some(trial.spec.index);
    rerun.spec.index += 1;
    // Then the run is complete
    assert!(whole(&plan, &[trial, rerun]).is_some());
}

#[test]
fn resume_locks_the_run_and_changes_nothing_if_abandoned() {
    let parent = tempfile::tempdir().unwrap();
    let mut writer = RunWriter::create(parent.path(), "mine").unwrap();
    let going = RunWriter::resume(writer.dir()).unwrap_err().to_string();
    assert!(going.contains("is in use"), "{going}");
    writer.trial(&records::trial(0)).unwrap();
    let mut run = records::run(PLANNED);
    run.outcome = RunOutcome::INTERRUPTED;
    let end = writer.seal(run, records::held()).unwrap().publish().unwrap();
    let before = zklockbench_results::read(&end).unwrap();

    let (first, _) = resumed(&end);
    for name in [&end, &first.dir().to_owned()] {
        let second = RunWriter::resume(name).unwrap_err().to_string();
        assert!(second.contains("is being resumed by another process"), "{second}");
    }
    let taken = RunWriter::create(parent.path(), "mine").unwrap_err().to_string();
    assert!(taken.contains("zklockbench run --resume"), "{taken}");
    drop(first);

    assert_eq!(zklockbench_results::read(&end).unwrap(), before);
    let taken = RunWriter::create(parent.path(), "mine").unwrap_err().to_string();
    assert!(taken.contains("already exists") && taken.contains("--resume"), "{taken}");
}

#[test]
fn resume_rejects_complete_and_empty_runs_and_suggests_a_remedy() {
    let (parent, dir) = run_dirs::published(&[records::trial(0)]);
    let Ok(Resumed::Whole(path, _)) = RunWriter::resume(&dir) else { panic!("the run is not complete") };
    assert!(path.ends_with("quick-2026-11-21T08-45-08Z"), "{}", path.display());
    let half = parent.path().join(".half.partial");
    fs::create_dir_all(half.join("trials")).unwrap();
    let told = RunWriter::resume(&half).unwrap_err().to_string();
    assert!(told.contains("is an incomplete run") && told.contains("run the scenario again"), "{told}");
    let told = RunWriter::resume(&parent.path().join("absent")).unwrap_err().to_string();
    assert!(told.contains("absent") && told.contains("specify the directory of a run"), "{told}");
}

#[test]
fn trial_file_that_is_a_link_is_refused_when_a_run_is_resumed() {
    let parent = tempfile::tempdir().unwrap();
    let dir = killed(parent.path(), &[records::trial(0)]);
    symlink("000.json", dir.join("trials/000.history.jsonl")).unwrap();
    let (mut writer, stored) = resumed(&dir);
    let told = writer.begins(records::run(PLANNED), &stored.trials, records::held()).unwrap_err().to_string();
    assert!(told.contains("trials/000.history.jsonl: is a link"), "{told}");
}

#[test]
fn part_of_a_worker_is_not_resumed_as_a_whole_run() {
    let parent = tempfile::tempdir().unwrap();
    // Given the part of one of two workers, in a run that was cut short
    let parts = vec![WorkerPart { index: 0, host: "bench".into(), generator_threads: 1 }];
    let workers = Workers { run_id: "job-17".into(), of: 2, configuration: "x".into(), parts };
    let part = Run { workers: Some(workers), outcome: RunOutcome::INTERRUPTED, ..records::run(PLANNED) };
    let mut writer = RunWriter::create(parent.path(), "worker-0").unwrap();
    writer.begins(part.clone(), &[], records::held()).unwrap();
    // Then neither an error for a taken name nor `resume` offers to run the other trials with the whole load
    let taken = || RunWriter::create(parent.path(), "worker-0").unwrap_err().to_string();
    assert!(taken().contains("delete the directory") && !taken().contains("--resume"), "{}", taken());
    writer.trial(&records::trial(0)).unwrap();
    let dir = writer.seal(part, records::held()).unwrap().publish().unwrap();
    assert!(taken().contains("already exists") && !taken().contains("--resume"), "{}", taken());
    let told = RunWriter::resume(&dir).unwrap_err().to_string();
    assert!(told.contains("cannot be resumed"), "{told}");
    assert!(zklockbench_results::read(&dir).is_ok());
}

#[test]
fn writer_never_follows_symlinks_in_a_run_directory() {
    let parent = tempfile::tempdir().unwrap();
    let precious = parent.path().join("precious");
    fs::write(&precious, "mine").unwrap();
    let dir = killed(parent.path(), &[records::trial(0)]);
    for name in ["summary.csv", "timeline.csv", "report.html", "summary.json"] {
        let _ = fs::remove_file(dir.join(name));
        symlink(&precious, dir.join(name)).unwrap();
    }
    let (mut writer, stored) = resumed(&dir);
    writer.begins(records::run(PLANNED), &stored.trials, records::held()).unwrap();
    writer.trial(&records::trial(1)).unwrap();
    drop(writer.seal(records::run(2), records::held()).unwrap());
    assert_eq!(fs::read_to_string(&precious).unwrap(), "mine");
    // A link in place of the next `run.json` is not followed either.
    let again = killed(&parent.path().join("again"), &[records::trial(0)]);
    let _ = fs::remove_file(again.join(".run.json.new"));
    symlink(&precious, again.join(".run.json.new")).unwrap();
    let (mut writer, stored) = resumed(&again);
    writer.begins(records::run(PLANNED), &stored.trials, records::held()).unwrap();
    assert_eq!(fs::read_to_string(&precious).unwrap(), "mine");
    assert!(zklockbench_results::read(writer.dir()).is_ok(), "a regular file must replace the link");
}

#[test]
fn a_run_reserves_disk_space_for_its_final_record() {
    let parent = tempfile::tempdir().unwrap();
    let mut writer = RunWriter::create(parent.path(), "mine").unwrap();
    writer.begins(records::run(PLANNED), &[], records::held()).unwrap();
    let room = || {
        let new = writer.dir().join(".run.json.new").metadata().unwrap().len();
        new.saturating_sub(writer.dir().join("run.json").metadata().unwrap().len())
    };
    assert!(room() >= 4096, "{}", room());
    // The published directory must not contain the reserve.
    writer.trial(&records::trial(0)).unwrap();
    let mut run = records::run(PLANNED);
    run.outcome.ending = RunEnding::Interrupted;
    let dir = writer.seal(run, records::held()).unwrap().publish().unwrap();
    assert!(!dir.join(".run.json.new").exists());
    assert!(zklockbench_results::read(&dir).is_ok());
}

#[test]
fn resuming_a_complete_run_without_tables_writes_its_tables() {
    // Given a complete run whose tables could not be written
    let parent = tempfile::tempdir().unwrap();
    let trials = [records::trial(0)];
    let mut writer = RunWriter::create(parent.path(), "mine").unwrap();
    writer.trial(&trials[0]).unwrap();
    let mut sealed = writer.seal(records::run(1), records::held()).unwrap();
    let in_the_way = sealed.dir().join("summary.csv");
    fs::create_dir(&in_the_way).unwrap();
    assert!(sealed.finish().is_err());
    fs::remove_dir(&in_the_way).unwrap();
    let dir = sealed.publish().unwrap();
    assert!(!dir.join("summary.csv").exists());
    // When the run is resumed and finished
    let (writer, stored) = resumed(&dir);
    assert_eq!(indices(&stored.trials), [0]);
    let dir = writer.seal(records::run(1), records::held()).unwrap().publish().unwrap();
    // Then the run has its tables, and there is nothing left to resume
    assert_eq!(rows(&dir, "summary.csv").len(), 2, "a heading and a trial");
    assert!(matches!(RunWriter::resume(&dir), Ok(Resumed::Whole(..))));
}
