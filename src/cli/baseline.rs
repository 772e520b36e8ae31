//! `baseline`: stores runs by commit, lists stored runs, and compares the newest run with earlier runs.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::SystemTime;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use super::args::{BaselineAddArgs, BaselineCheckArgs, BaselineCommand};
use super::output;
use zklockbench_analysis::compare::{Ask, Comparison, Side, compare, differences};
use zklockbench_core::error::{Error, Exit};
use zklockbench_core::units::{as_utc, counted, shown};
use zklockbench_report::{Columns, Style, table_text};
use zklockbench_results::Baseline;

pub fn execute(command: BaselineCommand) -> Result<Exit, Error> {
    match command {
        BaselineCommand::Add(args) => add(&args),
        BaselineCommand::List { store } => list(&store),
        BaselineCommand::Check(args) => check(&args),
    }
}

/// A stored baseline.
#[derive(Serialize, JsonSchema)]
pub struct Listed<'a> {
    directory: String,
    /// Measured commit.
    commit: &'a str,
    scenario: &'a str,
    /// Start time of the run.
    #[serde(with = "as_utc")]
    #[schemars(with = "String")]
    started_at: SystemTime,
    /// Host name of the load generator.
    host: &'a str,
    trials: usize,
}

impl<'a> From<&'a Baseline> for Listed<'a> {
    fn from(baseline: &'a Baseline) -> Self {
        let run = &baseline.run;
        Self {
            directory: baseline.dir.display().to_string(),
            commit: &baseline.commit,
            scenario: &run.scenario,
            started_at: run.started_at,
            host: &run.host.hostname,
            trials: run.trials,
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the time of adding is only a label")]
fn add(args: &BaselineAddArgs) -> Result<Exit, Error> {
    let commit = args.commit.clone().or_else(measured_commit);
    let added =
        zklockbench_results::add_baseline(&args.store, &args.run, commit.as_deref(), SystemTime::now())?;
    output::tell("baseline add", Exit::Held, &Listed::from(&added), || {
        output::text(&format!("baseline: {}, commit {}", added.dir.display(), added.commit))
    })
}

/// Environment variables in which CI services provide the commit.
const COMMIT_VARIABLES: [&str; 4] = ["GITHUB_SHA", "CI_COMMIT_SHA", "GIT_COMMIT", "BUILDKITE_COMMIT"];

/// Returns the commit from the CI service, or else from the current repository, because a pipeline measures
/// its own code.
fn measured_commit() -> Option<String> {
    let by_service =
        COMMIT_VARIABLES.iter().filter_map(|name| std::env::var(name).ok()).find(|one| !one.is_empty());
    by_service.or_else(|| {
        let head =
            std::process::Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).output().ok()?;
        head.status.success().then(|| String::from_utf8_lossy(&head.stdout).trim().to_owned())
    })
}

fn list(store: &Path) -> Result<Exit, Error> {
    let baselines = zklockbench_results::baselines(store)?;
    let all: Vec<_> = baselines.iter().map(Listed::from).collect();
    output::tell("baseline list", Exit::Held, &json!({ "baselines": all }), || print(&baselines))
}

fn print(baselines: &[Baseline]) -> Result<(), Error> {
    let table = Columns::<&Baseline>::new()
        .words("commit", |one| shown(&one.commit, 40))
        .words("date", |one| date(one.run.started_at))
        .words("scenario", |one| shown(&one.run.scenario, 40))
        .words("host", |one| shown(&one.run.host.hostname, 24))
        .words("size", |one| counted(one.run.trials, "trial", "trials"))
        .table("", 0, baselines);
    output::data(&table_text(&table, Style { width: None, ..output::style() }))?;
    if baselines.is_empty() {
        output::note("the store is empty; `zklockbench baseline add RUN` adds a run");
    }
    Ok(())
}

fn date(time: SystemTime) -> String {
    humantime::format_rfc3339_seconds(time).to_string().chars().take(10).collect()
}

fn check(args: &BaselineCheckArgs) -> Result<Exit, Error> {
    let baselines = zklockbench_results::baselines(&args.store)?;
    let scenario = scenario(&baselines, &args.store, args.scenario.as_deref())?;
    let own: Vec<&Baseline> = baselines.iter().filter(|one| one.run.scenario == scenario).collect();
    let (newest, earlier) = own.split_last().ok_or_else(|| Error::usage("the store is empty"))?;
    let new = Side::read(&newest.dir)?;
    let reference = match args.reference.as_deref() {
        Some(named) => Some(reference(earlier, named)?),
        None => comparable(earlier.iter(), &new, args.force)?,
    };
    let before = comparable(earlier.iter().rev(), &new, args.force)?;
    let mut bases: Vec<Side> = before.into_iter().chain(reference).collect();
    bases.dedup_by(|one, other| one.path == other.path);
    let ask =
        Ask { figures: args.judging.figures.clone(), terms: args.judging.terms(None), force: args.force };
    let compared = bases.iter().map(|base| compare(base, &new, &ask));
    let mut compared = compared.collect::<Result<Vec<Comparison>, Error>>()?;
    // Put the worst comparison first, because it determines the exit code.
    compared.sort_by_key(|one| std::cmp::Reverse(one.conclusion.regression));
    let exit = compared.first().map_or(Exit::Unknown, |worst| worst.conclusion.exit());
    output::tell("baseline check", exit, &json!({ "comparisons": compared }), || match compared.as_slice() {
        [] => output::text(&format!(
            "Unknown: no earlier run of `{}` is comparable with the newest run.",
            shown(&scenario, 60)
        )),
        all => {
            let told = all.iter().map(|one| zklockbench_report::comparison(one, output::style()));
            output::text(&told.collect::<Vec<_>>().join("\n"))
        }
    })
}

/// Returns the earlier run with this directory name or commit, or else the run at this path.
fn reference(earlier: &[&Baseline], named: &Path) -> Result<Side, Error> {
    let name = named.to_string_lossy();
    let is_named = |one: &&&Baseline| one.dir.ends_with(named) || one.commit.starts_with(&*name);
    match earlier.iter().find(is_named) {
        Some(one) => Side::read(&one.dir),
        None if named.is_dir() => Side::read(named),
        None => Err(Error::usage(format!(
            "--reference: no earlier run, commit or directory `{}`; `zklockbench baseline list` lists the runs",
            shown(&name, 60)
        ))),
    }
}

/// Returns the first run that is comparable with the newest; with `force`, the first run.
fn comparable<'a>(
    runs: impl Iterator<Item = &'a &'a Baseline>,
    new: &Side,
    force: bool,
) -> Result<Option<Side>, Error> {
    let is_comparable = |side: &Side| force || !differences(side, new).iter().any(|one| one.meaningless);
    let mut sides = runs.map(|one| Side::read(&one.dir));
    sides.find(|side| side.as_ref().map_or(true, is_comparable)).transpose()
}

/// Returns the requested scenario, or the scenario of the newest run.
fn scenario(baselines: &[Baseline], store: &Path, asked: Option<&str>) -> Result<String, Error> {
    let all: BTreeSet<&str> = baselines.iter().map(|one| one.run.scenario.as_str()).collect();
    let store = store.display();
    match (asked, baselines.last()) {
        (_, None) => {
            Err(Error::usage(format!("{store} is empty; `zklockbench baseline add RUN` adds a run")))
        }
        (None, Some(newest)) => Ok(newest.run.scenario.clone()),
        (Some(name), _) if all.contains(name) => Ok(name.to_owned()),
        (Some(name), _) => {
            let listed = all.iter().map(|name| shown(name, 60)).collect::<Vec<_>>().join(", ");
            Err(Error::usage(format!("{store} has no run of `{}`, only of {listed}", shown(name, 60))))
        }
    }
}
