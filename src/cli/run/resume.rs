//! `run --resume`: settings that are read from the recorded run, must be passed again, or must not change.

use std::path::Path;

use super::{host, tool_commit};
use crate::cli::args::RunArgs;
use crate::cli::output;
use crate::cli::scenario_file::ScenarioFile;
use crate::cli::shared_args::PlaceArgs;
use crate::run::is_unfinished;
use zklockbench_analysis::compare::{Difference, between_parts};
use zklockbench_core::error::Error;
use zklockbench_core::units::counted;
use zklockbench_ensemble::{CONNECT_VARIABLE, parse_connect, source_of_connect};
use zklockbench_record::{Run, Trial};
use zklockbench_results::{Resumed, RunFile, RunWriter, StoredRun};
use zklockbench_scenario::{EnsembleChoice, TrialPlan, TrialSpec};

/// Continues the run in this directory with its recorded scenario and original options.
pub fn take_over(dir: &Path, args: &mut RunArgs) -> Result<(ScenarioFile, Resumed), Error> {
    refuse_if!(
        args.overrides.change_more_than_the_place()?,
        "a resumed run keeps its scenario: remove the options that change the scenario"
    );
    let resumed = RunWriter::resume(dir)?;
    let (Resumed::Whole(_, stored) | Resumed::Partial(_, stored)) = &resumed;
    let run = &stored.run;
    let file = ScenarioFile::recorded(run)?;
    if matches!(resumed, Resumed::Partial(..)) {
        ignore_variable(&file.parsed.scenario.ensemble, &mut args.overrides.place);
        same_place(&file.parsed.scenario.ensemble, &run.ensemble.connect, args)?;
        args.generator.threads = u16::try_from(run.generator_threads).ok();
        args.history = run.history || run.files.keys().any(|name| name.ends_with(".history.jsonl"));
        starts_alike(run, args)?;
        // The ensemble is checked later, once it is open.
        same_ground(
            run,
            &Run {
                tool_version: env!("CARGO_PKG_VERSION").into(),
                tool_commit: tool_commit(),
                host: host::describe(),
                ..run.run.clone()
            },
        )?;
    }
    Ok((file, resumed))
}

/// Ignores a connect string of the environment that names another ensemble than the run's.
fn ignore_variable(recorded: &EnsembleChoice, place: &mut PlaceArgs) {
    let Some(named) = &place.connect else { return };
    let text = parse_connect(named).map(|connect| connect.text()).ok();
    let is_same = matches!(recorded, EnsembleChoice::Connect(recorded) if text.as_ref() == Some(recorded));
    if !is_same && source_of_connect(named) == CONNECT_VARIABLE {
        place.connect = None;
    }
}

/// Rejects a recorded ensemble that could do harm, unless the user specifies it: records may be untrusted.
fn same_place(recorded: &EnsembleChoice, connect: &str, args: &RunArgs) -> Result<(), Error> {
    let place = &args.overrides.place;
    let refused = |why: String| Err(Error::usage(why));
    match recorded {
        EnsembleChoice::Connect(recorded) => match &place.connect {
            Some(named) if parse_connect(named)?.text() == *recorded => Ok(()),
            Some(named) => refused(format!("the run used {recorded}, not {named}: remove --connect")),
            None if args.opening.access.is_any() => refused(format!(
                "passwords and keys are sent only to an ensemble on the command line: add --connect {recorded}"
            )),
            None => Ok(()),
        },
        EnsembleChoice::Compose(file) if place.compose.as_ref() == Some(file) => Ok(()),
        EnsembleChoice::Compose(file) => refused(format!(
            "the run used a Compose file, which can do anything to this host: inspect the file and, if you \
             trust it, add --compose {}",
            file.display()
        )),
        EnsembleChoice::Local { .. } if place.connect.is_some() || place.compose.is_some() => {
            refused(format!("the run used local servers ({connect}): remove --connect and --compose"))
        }
        EnsembleChoice::Local { .. } => Ok(()),
    }
}

/// Makes local servers start as in the original run: fresh or kept, warm or cold.
fn starts_alike(run: &RunFile, args: &mut RunArgs) -> Result<(), Error> {
    let was_cold = run.ensemble.starts_cold;
    if run.ensemble.kind == "external" {
        return Ok(());
    }
    refuse_if!(
        args.opening.cold && !was_cold,
        "the run's servers were warmed up: remove --cold (or ZKLOCKBENCH_COLD)"
    );
    args.opening.cold = was_cold;
    args.opening.fresh |= run.ensemble.kind == "local";
    Ok(())
}

/// Returns the state of the run and the remaining work, on one line.
pub fn announcement(stored: &StoredRun) -> String {
    let run = &stored.run;
    let planned = counted(run.planned_trials, "trial", "trials");
    let again: Vec<String> = stored
        .trials
        .iter()
        .filter(|trial| is_unfinished(trial))
        .map(|trial| format!("; {} was cut short and will be rerun", trial.name()))
        .collect();
    format!(
        "resuming the run of {}: {} of {planned} exist{}",
        humantime::format_rfc3339_seconds(run.started_at),
        stored.trials.len(),
        again.concat()
    )
}

/// Facts that must be the same in all parts of a run, as named in comparisons.
const SAME: [&str; 8] = [
    "processors",
    "data",
    "ensemble",
    "ensemble on the generator's host",
    "servers",
    "ZooKeeper",
    "servers started cold",
    "version of the program",
];

/// Rejects a different environment or program; prints other differences.
pub fn same_ground(earlier: &Run, now: &Run) -> Result<(), Error> {
    let (refused, told): (Vec<Difference>, Vec<Difference>) = between_parts(earlier, now)
        .into_iter()
        .partition(|difference| SAME.contains(&difference.what.as_str()));
    if let Some(first) = refused.first() {
        return Err(Error::usage(format!(
            "cannot resume the run here, because its metrics would not be comparable: {}; resume the run in \
             its original environment with the same program, or run the scenario again",
            first.describe()
        )));
    }
    told.iter()
        .for_each(|one| output::note(&format!("note: changed since the run started: {}", one.describe())));
    Ok(())
}

pub fn same_trials(plan: &TrialPlan, there: &[Trial]) -> Result<(), Error> {
    let identity =
        |spec: &TrialSpec| (spec.strategy.label.clone(), spec.contenders, spec.repetition, spec.seed);
    let stranger = there.iter().find(|trial| {
        // A trial that replaces an invalid one has a different number.
        let has_its_number =
            |asked: &TrialSpec| asked.index == trial.spec.index || trial.spec.makes_up_for.is_some();
        let asked = plan.round(trial.spec.repetition);
        !asked.iter().any(|asked| has_its_number(asked) && identity(asked) == identity(&trial.spec))
    });
    match stranger {
        None => Ok(()),
        Some(trial) => Err(Error::usage(format!(
            "{} does not match the scenario's trial with this number: the directory was modified, or written by \
             another version of zklockbench",
            trial.name()
        ))),
    }
}
