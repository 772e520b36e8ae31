//! `baseline`: keeps runs by commit, lists them, and draws a figure over them.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::SystemTime;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use super::args::{
    BaselineAddArgs, BaselineArgs, BaselineCheckArgs, BaselineCommand, BaselineListArgs, BaselineTrendArgs,
};
use super::output;
use zklockbench_core::error::{Error, Exit};
use zklockbench_core::measure::{Figure, Measure, Statistic};
use zklockbench_core::units::{as_utc, counted, shown};
use zklockbench_record::RunEnding;
use zklockbench_record::figures::THROUGHPUT;
use zklockbench_report::{CheckedTrends, Trend, date};
use zklockbench_results::Baseline;
use zklockbench_scenario::gate::Scope;

pub fn execute(args: BaselineArgs) -> Result<Exit, Error> {
    match args.command {
        BaselineCommand::Add(args) => add(&args),
        BaselineCommand::List(args) => list(&args),
        BaselineCommand::Trend(args) => trend(args),
        BaselineCommand::Check(args) => check(&args),
    }
}

/// A baseline for programs.
#[derive(Serialize, JsonSchema)]
pub struct Listed<'a> {
    /// Where it lies.
    directory: &'a Path,
    /// The commit of what was measured.
    commit: &'a str,
    /// The scenario's name.
    scenario: &'a str,
    /// When it began; a label.
    #[serde(with = "as_utc")]
    #[schemars(with = "String")]
    started_at: SystemTime,
    /// The name of the generator's host.
    host: &'a str,
    /// How many trials it has.
    trials: usize,
}

impl<'a> From<&'a Baseline> for Listed<'a> {
    fn from(baseline: &'a Baseline) -> Self {
        let run = &baseline.run;
        Self {
            directory: &baseline.dir,
            commit: &baseline.commit,
            scenario: &run.scenario,
            started_at: run.started_at,
            host: &run.host.hostname,
            trials: run.trials,
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "when it was added is a label")]
fn add(args: &BaselineAddArgs) -> Result<Exit, Error> {
    let commit = args.commit.clone().or_else(measured_commit);
    let added =
        zklockbench_results::add_baseline(&args.store, &args.run, commit.as_deref(), SystemTime::now())?;
    output::tell("baseline add", Exit::Held, &Listed::from(&added), || {
        output::text(&format!("baseline: {}, of commit {}", added.dir.display(), added.commit))
    })
}

/// What CI services call the commit that is built.
const COMMIT_VARIABLES: [&str; 4] = ["GITHUB_SHA", "CI_COMMIT_SHA", "GIT_COMMIT", "BUILDKITE_COMMIT"];

/// The commit of the repository that the command is given in: what a pipeline measures is its own, and this program a tool.
fn measured_commit() -> Option<String> {
    let by_service =
        COMMIT_VARIABLES.iter().filter_map(|name| std::env::var(name).ok()).find(|one| !one.is_empty());
    by_service.or_else(|| {
        let head =
            std::process::Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).output().ok()?;
        head.status.success().then(|| String::from_utf8_lossy(&head.stdout).trim().to_owned())
    })
}

fn list(args: &BaselineListArgs) -> Result<Exit, Error> {
    let baselines = zklockbench_results::baselines(&args.store)?;
    let all: Vec<_> = baselines.iter().map(Listed::from).collect();
    output::tell("baseline list", Exit::Held, &json!({ "baselines": all }), || print(&baselines))
}

fn print(baselines: &[Baseline]) -> Result<(), Error> {
    let rows = baselines.iter().map(|one| {
        let run = &one.run;
        [
            shown(&one.commit, 40),
            date(run.started_at),
            shown(&run.scenario, 40),
            shown(&run.host.hostname, 24),
            counted(run.trials, "trial", "trials"),
        ]
    });
    output::data(&aligned(&rows.collect::<Vec<_>>()))?;
    if baselines.is_empty() {
        output::note("the store is empty; `zklockbench baseline add RUN` adds a run");
    }
    Ok(())
}

/// Each column as wide as its widest text, below its heading.
fn aligned(rows: &[[String; 5]]) -> String {
    let headings = ["commit", "date", "scenario", "host", "size"].map(str::to_owned);
    let all = || std::iter::once(&headings).chain(rows);
    let widths = [0, 1, 2, 3, 4].map(|at| all().map(|row| row[at].chars().count()).max().unwrap_or(0));
    let line = |row: &[String; 5]| {
        let cells: Vec<_> = row.iter().zip(widths).map(|(text, width)| format!("{text:width$}")).collect();
        cells.join("  ").trim_end().to_owned()
    };
    all().map(line).collect::<Vec<_>>().join("\n")
}

fn check(args: &BaselineCheckArgs) -> Result<Exit, Error> {
    let baselines = zklockbench_results::baselines(&args.store)?;
    let scenario = scenario(&baselines, &args.store, args.scenario.as_deref())?;
    let own: Vec<&Baseline> = baselines.iter().filter(|one| one.run.scenario == scenario).collect();
    let accepted = match &args.since {
        None => 0,
        // Every commit begins with nothing: an empty variable of a pipeline would accept all there is.
        Some(commit) if commit.trim().is_empty() => {
            return Err(Error::usage("--since: name a commit, or leave it out"));
        }
        Some(commit) => {
            1 + own.iter().rposition(|one| one.commit.starts_with(commit.as_str())).ok_or_else(|| {
                Error::usage(format!("{} has no run of commit {}", args.store.display(), shown(commit, 60)))
            })?
        }
    };
    let usual = || vec![THROUGHPUT.figure(), Figure::Latency(Measure::Wait, Statistic::percent(50))];
    let figures = if args.figures.is_empty() { usual() } else { args.figures.clone() };
    let mut trends: Vec<Trend> = figures.iter().map(|figure| Trend::new(*figure, Scope::default())).collect();
    for one in &own {
        let stored = zklockbench_results::read(&one.dir)?;
        trends.iter_mut().for_each(|trend| trend.add(&one.commit, &stored));
    }
    if args.figures.is_empty() {
        trends.retain(Trend::applies);
    }
    let checked = CheckedTrends::of(trends, accepted, args.margin)?;
    let exit = RunEnding::Complete.exit(&checked.verdict);
    let found = json!({ "changes": checked.changes, "notes": checked.notes });
    output::tell("baseline check", exit, &found, || output::text(&checked.told()))
}

fn trend(args: BaselineTrendArgs) -> Result<Exit, Error> {
    let baselines = zklockbench_results::baselines(&args.store)?;
    let scenario = scenario(&baselines, &args.store, args.scenario.as_deref())?;
    let mut trend = Trend::new(args.figure, Scope { strategy: args.strategy, contenders: args.contenders });
    for one in baselines.iter().filter(|one| one.run.scenario == scenario) {
        // One after the other: a run with its histograms takes some memory.
        trend.add(&one.commit, &zklockbench_results::read(&one.dir)?);
    }
    let trend = trend.concluded(Trend::ALPHA);
    if trend.lines.is_empty() {
        let store = args.store.display();
        return Err(Error::usage(format!(
            "no run of `{scenario}` in {store} has such trials; drop --strategy or --contenders"
        )));
    }
    if let Some(file) = &args.svg {
        zklockbench_report::chart::draw_trend(&trend, file)?;
    }
    output::tell("baseline trend", Exit::Held, &trend, || {
        output::text(&zklockbench_report::trend(&trend, output::style()))
    })
}

/// The one asked for or, where the store has runs of one only, that.
fn scenario(baselines: &[Baseline], store: &Path, asked: Option<&str>) -> Result<String, Error> {
    let all: BTreeSet<&str> = baselines.iter().map(|one| one.run.scenario.as_str()).collect();
    let listed = || all.iter().map(|name| shown(name, 60)).collect::<Vec<_>>().join(", ");
    let store = store.display();
    match (asked, all.len()) {
        (_, 0) => Err(Error::usage(format!("{store} is empty; `zklockbench baseline add RUN` adds a run"))),
        (Some(name), _) if all.contains(name) => Ok(name.to_owned()),
        (Some(name), _) => {
            Err(Error::usage(format!("{store} has no run of `{}`, only of {}", shown(name, 60), listed())))
        }
        (None, 1) => Ok(all.first().copied().unwrap_or_default().to_owned()),
        (None, _) => {
            Err(Error::usage(format!("{store} has runs of {}; choose one with --scenario NAME", listed())))
        }
    }
}
