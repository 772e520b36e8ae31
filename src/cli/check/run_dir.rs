//! The directory of a run: its trials are judged again by what they recorded.

use serde_json::json;

use super::{conclusion, exit, output};
use crate::check;
use crate::cli::args::CheckArgs;
use crate::error::Error;
use crate::record::Trial;
use crate::results::{self, StoredRun, TrialFile};
use crate::verdict::Verdict;

/// Judges a run and prints where the verdicts differ from those that it recorded.
///
/// # Errors
/// As [`super::execute`].
pub fn judge(args: &CheckArgs) -> Result<Verdict, Error> {
    let StoredRun { run, trials: stored } = results::read(&args.path)?;
    let trials: Vec<Trial> = stored.iter().map(again).collect::<Result<_, _>>()?;
    let verdict = check::of_run(&trials, run.planned_trials);
    let changed: Vec<String> = stored.iter().zip(&trials).filter_map(|(old, new)| change(old, new)).collect();
    if args.json {
        output::json(&json!({
            "run": args.path.display().to_string(),
            "verdict": verdict.word(),
            "exit_code": exit(&verdict) as u8,
            "reasons": verdict.reasons(),
            "recorded": run.exclusion,
            "trials": trials.iter().map(machine).collect::<Vec<_>>(),
            "changed": changed,
        }))?;
    } else {
        let count = |word| trials.iter().filter(|trial| trial.exclusion.word() == word).count();
        let [held, violated, unknown] = ["held", "violated", "unknown"].map(count);
        let counts = format!("trials: {}; held {held}, violated {violated}, unknown {unknown}", trials.len());
        let changed: String = changed.iter().map(|line| format!("! {line}\n")).collect();
        output::data(&format!("{}: {counts}\n{changed}{}", args.path.display(), conclusion(&verdict)))?;
    }
    Ok(verdict)
}

fn again(stored: &TrialFile) -> Result<Trial, Error> {
    let mut trial = stored.evidence().map_err(|missing| {
        Error::usage(format!(
            "trial {} can't be judged again: its file has no {missing}, because an older version wrote it; its \
             verdict was `{}`",
            stored.index,
            Verdict::from(&stored.exclusion).word()
        ))
    })?;
    trial.exclusion = check::exclusion(&trial);
    Ok(trial)
}

fn change(old: &TrialFile, new: &Trial) -> Option<String> {
    let (old, again) = (Verdict::from(&old.exclusion), &new.exclusion);
    (old.word() != again.word())
        .then(|| format!("trial {}: recorded as {}, now {}", new.index, old.word(), again.word()))
}

fn machine(trial: &Trial) -> serde_json::Value {
    json!({
        "index": trial.index,
        "label": trial.label,
        "contenders": trial.contenders,
        "verdict": trial.exclusion.word(),
        "reasons": trial.exclusion.reasons(),
    })
}
