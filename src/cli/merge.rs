//! `merge`: merges the parts of several workers into one run, and judges and reports it like any other run.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::args::MergeArgs;
use super::run::{Concluding, MeasuredRun};
use super::scenario_file::ScenarioFile;
use crate::run::Ran;
use zklockbench_core::error::{Error, Exit};
use zklockbench_core::units::counted;
use zklockbench_judge::history::HistoryEnd;
use zklockbench_record::{Cause, CutShort, Run, RunEnding, RunOutcome, Trial, Workers, of_different_trials};
use zklockbench_results::history::{HistoryReader, merge_histories};
use zklockbench_results::{RunWriter, StoredRun, layout};

struct StoredPart {
    dir: PathBuf,
    index: usize,
    workers: Workers,
    stored: StoredRun,
}

pub fn execute(args: &MergeArgs) -> Result<Exit, Error> {
    let outputs = args.outputs.prepare()?;
    let parts = read(&args.parts)?;
    let first = &parts[0];
    let file = ScenarioFile::recorded(&first.stored.run)?;
    let concluding = Concluding::of(&args.concluding, false, &file.parsed.scenario)?;
    let run = merged_run(&parts);
    let name = args.run_id.clone().unwrap_or_else(|| format!("{}-merged", first.workers.run_id));
    let mut writer = RunWriter::create(&args.out, &name)?;
    writer.begins(run.clone(), &[], zklockbench_judge::of_run(&[], run.planned_trials))?;
    let mut trials = Vec::new();
    for index in numbers(&parts) {
        let mut trial = merged_trial(&parts, index, writer.dir())?;
        writer.trial(&trial)?;
        trial.histograms.clear();
        trials.push(trial);
    }
    let ran = Ran { trials, planned: run.planned_trials, precision: None, outcome: run.outcome.clone() };
    MeasuredRun { concluding, file, writer, run, ran }.conclude(&outputs)
}

/// Reads all parts of one run, sorted by worker number.
fn read(named: &[PathBuf]) -> Result<Vec<StoredPart>, Error> {
    let mut dirs = Vec::new();
    for dir in named {
        let found = layout::runs_in(dir)?;
        refuse_if!(found.is_empty(), "{} contains no part of a run", dir.display());
        dirs.extend(found);
    }
    let mut parts = dirs.into_iter().map(read_part).collect::<Result<Vec<_>, Error>>()?;
    parts.sort_by_key(|part| part.index);
    alike(&parts)?;
    Ok(parts)
}

fn read_part(dir: PathBuf) -> Result<StoredPart, Error> {
    let stored = zklockbench_results::read(&dir)?;
    let not_one = || Error::usage(format!("{} is a complete run, not one worker's part", dir.display()));
    let workers = stored.run.workers.clone().ok_or_else(not_one)?;
    let [part] = workers.parts.as_slice() else { return Err(not_one()) };
    Ok(StoredPart { index: part.index, dir, workers, stored })
}

/// Rejects parts that do not form exactly one run.
fn alike(parts: &[StoredPart]) -> Result<(), Error> {
    let Some(first) = parts.first() else { return Err(Error::usage("there are no parts to merge")) };
    for part in parts {
        let [own, other] = [&first.stored.run, &part.stored.run];
        let what = if own.tool_version != other.tool_version || own.tool_commit != other.tool_commit {
            "runs made with different versions of zklockbench"
        } else if (&first.workers.run_id, first.workers.of) != (&part.workers.run_id, part.workers.of) {
            "different runs"
        } else if first.workers.configuration != part.workers.configuration
            || own.scenario_text != other.scenario_text
        {
            "runs of different scenarios"
        } else {
            continue;
        };
        let (one, other) = (first.dir.display(), part.dir.display());
        return Err(Error::usage(format!("cannot merge {one} and {other}: they are parts of {what}")));
    }
    let of = first.workers.of;
    let times = |index: usize| parts.iter().filter(|part| part.index == index).count();
    if let Some(twice) = (0..of).find(|index| times(*index) > 1) {
        return Err(Error::usage(format!(
            "there are two parts of worker {twice}; specify each part only once"
        )));
    }
    let missing: Vec<String> =
        (0..of).filter(|index| times(*index) == 0).map(|index| index.to_string()).collect();
    refuse_if!(
        !missing.is_empty(),
        "parts are missing: the run {} had {}, but there is no part of worker {}; specify the missing directories, \
         too",
        first.workers.run_id,
        counted(of, "worker", "workers"),
        missing.join(", ")
    );
    Ok(())
}

/// Returns the merged run's metadata, taken from worker 0 or combined from all parts.
fn merged_run(parts: &[StoredPart]) -> Run {
    let first = &parts[0].stored.run.run;
    // A worker that lost another worker is not the cause.
    let broke_off = parts
        .iter()
        .filter(|part| part.stored.run.outcome.ending != RunEnding::Complete)
        .min_by_key(|part| part.stored.trials.iter().any(Trial::lost_a_worker));
    let outcome = broke_off.map_or(RunOutcome::COMPLETE, |part| {
        let RunOutcome { ending, why } = part.stored.run.outcome.clone();
        let why = why.map_or_else(|| " was interrupted".to_owned(), |why| format!(": {why}"));
        RunOutcome { ending, why: Some(format!("worker {}{why}", part.index)) }
    });
    let workers = Workers {
        parts: parts.iter().flat_map(|part| part.workers.parts.clone()).collect(),
        ..parts[0].workers.clone()
    };
    let all = || parts.iter().map(|part| &part.stored.run);
    Run {
        outcome,
        started_at: all().map(|run| run.started_at).min().unwrap_or(first.started_at),
        ended_at: all().map(|run| run.ended_at).max().unwrap_or(first.ended_at),
        generator_threads: all().map(|run| run.generator_threads).sum(),
        workers: Some(workers),
        ..first.clone()
    }
}

fn trial_of(part: &StoredPart, index: usize) -> Option<&Trial> {
    part.stored.trials.iter().find(|trial| trial.spec.index == index)
}

/// Returns the numbers of the trials that all workers recorded, or in which any worker found a violation.
fn numbers(parts: &[StoredPart]) -> Vec<usize> {
    let all = parts.iter().flat_map(|part| &part.stored.trials).map(|trial| trial.spec.index);
    let all: BTreeSet<usize> = all.collect();
    let of = |index: usize| parts.iter().map(move |part| trial_of(part, index));
    let is_merged = |index: &usize| {
        of(*index).all(|trial| trial.is_some()) || of(*index).flatten().any(Trial::is_violated)
    };
    all.into_iter().filter(is_merged).collect()
}

/// Merges the parts of a trial, writes the merged history into `dir`, and judges the trial.
fn merged_trial(parts: &[StoredPart], index: usize, dir: &Path) -> Result<Trial, Error> {
    let seen: Vec<Trial> = parts.iter().filter_map(|part| trial_of(part, index)).cloned().collect();
    if let Some(why) = of_different_trials(&seen) {
        return Err(Error::usage(format!("cannot merge the parts: {why}")));
    }
    let Some(mut trial) = Trial::of_workers(seen) else {
        return Err(Error::usage("there are no parts to merge"));
    };
    if parts.len() == 1 {
        return Ok(trial);
    }
    if let Some(part) = parts.iter().find(|part| trial_of(part, index).is_none()) {
        let why = format!("worker {} did not record this trial", part.index);
        trial.cut_short.get_or_insert(CutShort { cause: Cause::WorkerLost, why });
    }
    let histories: Vec<(usize, PathBuf)> =
        parts.iter().map(|part| (part.index, layout::trial_history(&part.dir, index))).collect();
    if histories.iter().all(|(_, path)| path.is_file()) {
        let merged = layout::trial_history(dir, index);
        merge_histories(&histories, &merged)?;
        let judgement =
            super::check::read_through(HistoryReader::open(&merged)?, HistoryEnd::default(), || false)?;
        zklockbench_judge::add_order(&mut trial, &judgement);
    } else {
        trial
            .unchecked
            .push("a worker's history is missing, so exclusion across workers was not checked".to_owned());
    }
    zklockbench_judge::judge(&mut trial);
    Ok(trial)
}

#[cfg(test)]
mod tests {
    use super::*;
    use zklockbench_record::WorkerPart;

    /// Returns the parts of two workers, with the first trials of the example run.
    fn two_parts() -> Vec<StoredPart> {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("results/example");
        let mut stored = zklockbench_results::read(&dir).unwrap();
        stored.trials.truncate(2);
        let part = |index| {
            let parts = vec![WorkerPart { index, host: "bench".into(), generator_threads: 1 }];
            let workers = Workers { run_id: "job".into(), of: 2, configuration: "x".into(), parts };
            StoredPart { dir: dir.clone(), index, workers, stored: stored.clone() }
        };
        vec![part(0), part(1)]
    }

    #[test]
    fn merged_run_names_the_worker_that_ended_first() {
        let mut parts = two_parts();
        // Given that worker 1 was interrupted, and worker 0 then lost worker 1
        let cut = CutShort { cause: Cause::WorkerLost, why: "lost worker 1".into() };
        parts[0].stored.trials[1].cut_short = Some(cut);
        parts[0].stored.run.run.outcome = RunOutcome::aborted("lost worker 1");
        parts[1].stored.run.run.outcome = RunOutcome::INTERRUPTED;
        let outcome = merged_run(&parts).outcome;
        assert_eq!(outcome.ending, RunEnding::Interrupted);
        assert_eq!(outcome.why.as_deref(), Some("worker 1 was interrupted"));
    }

    #[test]
    fn violation_is_merged_even_if_another_worker_did_not_record_the_trial() {
        let mut parts = two_parts();
        let lost = parts[1].stored.trials.pop().unwrap().spec.index;
        assert!(!numbers(&parts).contains(&lost));
        let violated = &mut parts[0].stored.trials[1];
        (violated.violation_count, violated.most_inside) = (3, 2);
        zklockbench_judge::judge(violated);
        assert!(numbers(&parts).contains(&lost));
        let place = tempfile::tempdir().unwrap();
        let merged = merged_trial(&parts, lost, place.path()).unwrap();
        assert!(merged.is_violated() && !merged.is_sound(), "{:?}", merged.judged);
    }
}
