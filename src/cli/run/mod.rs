//! `run`: the main job, from a scenario file to a directory of results.

pub mod capabilities;
pub mod floor;
mod gates;
pub mod host;
pub mod metrics;
pub mod progress;
pub mod warm_up;
pub mod world;

use std::path::Path;
use std::time::SystemTime;

use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::args::RunArgs;
use super::output;
use super::outputs::Prepared;
use super::scenario_file::ScenarioFile;
use crate::compare::{Comparison, Loaded, Side};
use crate::ensemble::namespace_of;
use crate::error::{Error, Exit};
use crate::load::{Environment, TOP, Workspace, make_chroot};
use crate::record::{EnsembleInfo, Floor, Run, RunEnding, RunOutcome};
use crate::report::ci::{Document, Live};
use crate::report::page::{Source, document};
use crate::report::{self, Summary, View};
use crate::results::{self, RunWriter, StoredRun, TrialFile, layout, tidy};
use crate::run::{self, Course, Ran};
use crate::scenario::{Plan, Scenario, advice};
use crate::units::counted;
use crate::verdict::Verdict;
use crate::zk::{Access, Target, keep_awake};
use crate::{check, fault, gate, lock};
use capabilities::Needs;
use gates::{Baseline, Gated};
use metrics::{Endpoint, Port};
use progress::Progress;
use world::World;

#[expect(clippy::disallowed_methods, reason = "when a run began is a label")]
pub async fn execute(args: RunArgs, port: Option<Port>, stop: &CancellationToken) -> Result<Exit, Error> {
    let (outputs, began) = (args.outputs.prepare()?, SystemTime::now());
    let title = args.scenario.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let file = match ScenarioFile::read(&args.scenario, &args.overrides) {
        Ok(file) => file,
        Err(unusable) => {
            let nothing = Error::usage(format!("{} cannot be run as it is", args.scenario.display()));
            outputs.broke_off(&title, began, &nothing);
            return if args.json {
                unusable.answer(NAME, &args.scenario)
            } else {
                Err(unusable.report(&args.scenario))
            };
        }
    };
    match measure(args, file, port, stop).await {
        Ok((session, measured)) => session.conclude(measured, &outputs),
        Err(error) => {
            outputs.broke_off(&title, began, &error);
            Err(error)
        }
    }
}

/// As answers for programs call it.
const NAME: &str = "run";

/// Measures what the scenario asks, one trial at least.
#[expect(clippy::disallowed_methods, reason = "when a run began is a label")]
async fn measure(
    args: RunArgs,
    file: ScenarioFile,
    port: Option<Port>,
    stop: &CancellationToken,
) -> Result<(Session, Measured), Error> {
    let needs = Needs::of(&file.parsed.scenario);
    needs.check(&file.parsed.scenario, args.allow_faults, args.opening.access.wants_tls())?;
    // Found right or wrong before anything is started.
    let baseline = Baseline::find(args.baseline.as_deref(), &file.parsed.scenario)?;
    let access = args.opening.access.access(args.overrides.unnamed(&file.parsed.scenario))?;
    file.left_out.iter().for_each(|left| output::note(&format!("note: {left}")));
    for advice in advice(&file.parsed.scenario, &lock::cards(), &fault::cards()) {
        output::note(&format!("note: {}: {} ({})", advice.key, advice.message, advice.help));
    }
    for left in tidy(&args.out) {
        let left = left.display();
        output::note(&format!(
            "note: {left} holds the trials of a run that was killed, and can be read; delete it when you no longer \
             need it"
        ));
    }
    let started_at = SystemTime::now();
    let scenario = &file.parsed.scenario.name;
    let mut writer = match &args.run_id {
        Some(name) => RunWriter::create(&args.out, name),
        None => RunWriter::create_dated(&args.out, scenario, started_at),
    }?;
    writer.tell_if_kept(|path| {
        output::note(&format!("what was measured is kept, as a partial run: {}", path.display()))
    });
    let run_id = args.run_id.clone().unwrap_or_else(|| unique(&layout::run_name(scenario, started_at)));
    let plan = Plan::of(&file.parsed.scenario);
    let progress = Progress::new(&plan, args.opening.quiet, !args.no_progress);
    let trials = counted(plan.trials.len(), "trial", "trials");
    progress.note(&format!("{trials}, about {}", progress.expected()));
    let logs = writer.server_logs();
    let opening = World::open(&file.parsed.scenario, &args.opening, &needs, &logs, &progress);
    let world = stop.run_until_cancelled(opening).await.unwrap_or(Err(Error::Interrupted))?;
    let live = Live::new(scenario, started_at, plan.trials.len());
    let metrics = port.map(|port| port.serve(live)).transpose()?;
    if let Some(metrics) = &metrics {
        progress.note(&format!("metrics at {}", metrics.url()));
    }
    let mut session = Session {
        args,
        access,
        baseline,
        file,
        needs,
        plan,
        progress,
        metrics,
        world,
        writer,
        started_at,
        run_id,
    };
    let measured = session.measure(stop).await?;
    if measured.ran.trials.is_empty() {
        return Err(nothing(measured.ran.outcome));
    }
    Ok((session, measured))
}

/// Two runs of one scenario may start within a second, from two machines.
fn unique(name: &str) -> String {
    format!("{name}-{:04x}", rand::random::<u16>())
}

struct Session {
    args: RunArgs,
    /// Read once, so that its files are the same for all that follows.
    access: Access,
    baseline: Option<Baseline>,
    file: ScenarioFile,
    needs: Needs,
    plan: Plan,
    progress: Progress,
    metrics: Option<Endpoint>,
    world: World,
    writer: RunWriter,
    started_at: SystemTime,
    /// The name of its node on the ensemble.
    run_id: String,
}

/// What measuring came to.
struct Measured {
    ran: Ran,
    ensemble: EnsembleInfo,
    floor: Floor,
}

impl Session {
    async fn measure(&mut self, stop: &CancellationToken) -> Result<Measured, Error> {
        let contenders = self.plan.trials.iter().map(|trial| trial.contenders).max().unwrap_or(0);
        host::allow_sessions(contenders, self.needs.files_of_a_session(self.world.addresses().len()))?;
        let target = Target { connect: self.world.connect(), access: self.world.access(self.access.clone()) };
        let mut ensemble = self.world.describe().await;
        ensemble.starts_cold = self.args.opening.cold && !self.world.is_external();
        if self.args.opening.create_chroot {
            make_chroot(&target).await?;
        }
        let workspace = Workspace::create(target.clone(), &self.run_id).await?;
        let environment = Environment {
            target,
            workspace,
            servers: self.world.addresses(),
            namespace: namespace_of(&self.world.chroot(), TOP),
            threads: self.threads(),
            keep_awake: self.world.keep_awake(&ensemble.servers).then_some(keep_awake::EVERY),
            local: self.world.started(),
            keeps_history: self.args.history,
            proxy: self.needs.proxy(&self.world.addresses())?,
        };
        let is_own = !self.world.is_external();
        if is_own && !self.args.opening.cold && !stop.is_cancelled() {
            self.progress.note(warm_up::NOTE);
            warm_up::warm_up(&environment, stop).await?;
        }
        let floor = match self.args.no_floor {
            true => Floor::not_measured("--no-floor was given"),
            false => floor::measure(&environment, self.args.opening.cold, stop).await,
        };
        self.writer.compare_with(floor.clone());
        let nothing = Ran {
            trials: Vec::new(),
            planned: self.plan.trials.len(),
            precision: None,
            outcome: RunOutcome::INTERRUPTED,
        };
        let mut measured = Measured { ran: nothing, ensemble, floor };
        let begun = self.record(&measured);
        self.writer.begins(begun);
        if is_own && !stop.is_cancelled() {
            self.progress.note("the first trial begins");
        }
        let (progress, metrics) = (self.progress.clone(), self.metrics.as_ref());
        let course = Course {
            environment: &environment,
            stop,
            tell: &move |event| {
                progress.event(&event);
                metrics.inspect(|metrics| metrics.event(&event));
            },
            server_ended: &|| self.world.ended(),
        };
        measured.ran = run::run(&self.plan, &mut self.writer, &course).await;
        self.progress.finish();
        self.tidy(&environment, &measured.ran.outcome).await;
        Ok(measured)
    }

    fn threads(&self) -> usize {
        self.args.threads.map_or_else(|| (host::cores() / 4).max(1), usize::from)
    }

    /// Removes the run's nodes. On a local ensemble they go with it.
    async fn tidy(&self, environment: &Environment, outcome: &RunOutcome) {
        if self.world.is_fresh() {
            return;
        }
        if outcome.ending == RunEnding::Aborted && !self.world.answers().await {
            output::note(&format!(
                "warning: {} stays on the ensemble, which does not answer; remove it later with: zklockbench \
                 clean --connect {} --run-id {}",
                environment.workspace.root(),
                self.world.connect(),
                self.run_id
            ));
        } else if let Err(error) = environment.workspace.close().await {
            output::note(&format!("warning: {error}"));
        }
    }

    /// Ends the ensemble, if it is ours, and turns what was measured into results.
    fn conclude(self, measured: Measured, outputs: &Prepared) -> Result<Exit, Error> {
        let (run, judged) = (self.record(&measured), measured.ran.judge());
        let strict = if self.args.strict { check::zombies(&measured.ran.trials) } else { Verdict::Held };
        let Self { args, baseline, file, world, writer, .. } = self;
        world.close(&writer.server_logs());
        let outcome = measured.ran.outcome;
        let verdict = judged.verdict.clone().and(strict);
        let mut sealed = writer.seal(run, judged)?;
        let loaded = Loaded { path: sealed.dir().to_owned(), stored: results::read(sealed.dir())? };
        let new = Side { path: loaded.path.clone(), runs: vec![loaded] };
        let Gated { outcomes: gates, comparison, baseline } =
            gates::judge(&file.parsed.scenario, &new, baseline.as_ref(), &verdict);
        let exit = exit(outcome.ending, &gate::overall(&gates));
        let stored = &new.runs[0].stored;
        let view = View::of(stored);
        let summary = Summary { gates, baseline, ..Summary::of(stored, &view) };
        // What follows can be made again from what is there.
        if let Err(error) = sealed.summary(report::summary::FILE, &summary) {
            output::note(&format!("warning: {error}"));
        }
        if !args.no_charts {
            draw(&view, sealed.dir());
            let name = sealed.name();
            let gated = summary.gated();
            let source = Source { name: &name, stored, view: &view, gated: &gated };
            // A page that can't be written costs no results, and what there is of it takes their place.
            let page = sealed.dir().join(layout::REPORT);
            if let Err(error) = super::report::write(&[document(&source)], None, &page) {
                let _ = std::fs::remove_file(&page);
                output::note(&format!("warning: {error}"));
            }
        }
        write_markdown(&view, &summary, sealed.dir());
        let unfinished = sealed.finish().err();
        let path = sealed.publish()?;
        let mut document = Document::of_run(stored, &view).with_gates(&summary.gates);
        // Gates that say what may not regress decide alone: a build that they let pass must have no red case. What else the
        // comparison says is for people, in the table.
        let is_gated = file.parsed.scenario.gates.iter().any(|gate| gate.condition.needs_baseline());
        if let Some(comparison) = comparison.as_ref().filter(|_| !is_gated) {
            document = document.with_comparison(comparison);
        }
        let written = outputs.write(&document.with_fact("results", &path.display().to_string()));
        let aborted = (outcome.ending == RunEnding::Aborted).then(|| {
            Error::environment(format!(
                "{}; what was measured until then is in {}",
                outcome.why.unwrap_or_default(),
                path.display()
            ))
        });
        let error = aborted.or(unfinished).or(written.err());
        print(
            &args,
            &Outcome { stored, view: &view, summary: &summary, comparison, path: &path, exit },
            error,
        )
    }

    fn scenario(&self) -> &Scenario {
        &self.file.parsed.scenario
    }

    #[expect(clippy::disallowed_methods, reason = "when a run ended is a label")]
    fn record(&self, measured: &Measured) -> Run {
        Run {
            tool_version: env!("CARGO_PKG_VERSION").into(),
            tool_commit: tool_commit(),
            scenario: self.scenario().name.clone(),
            strategies: self.scenario().strategies.iter().map(|strategy| strategy.label.clone()).collect(),
            replayed: self.file.replayed.clone(),
            scenario_text: self.file.text.clone(),
            overrides: self.file.overrides.clone(),
            seed: self.scenario().seed,
            planned_trials: measured.ran.planned,
            precision: measured.ran.precision.clone(),
            generator_threads: self.threads(),
            host: host::describe(),
            ensemble: measured.ensemble.clone(),
            floor: Some(measured.floor.clone()),
            started_at: self.started_at,
            ended_at: SystemTime::now(),
            outcome: measured.ran.outcome.clone(),
        }
    }
}

/// The commit that the program was built from; `None` outside a checkout.
pub fn tool_commit() -> Option<String> {
    option_env!("ZKLOCKBENCH_COMMIT").filter(|commit| !commit.is_empty()).map(str::to_owned)
}

fn nothing(outcome: RunOutcome) -> Error {
    match outcome.ending {
        RunEnding::Aborted => Error::Environment(outcome.why.unwrap_or_default()),
        RunEnding::Interrupted | RunEnding::Complete => Error::Interrupted,
    }
}

/// Charts that can't be drawn cost no results.
fn draw(view: &View, directory: &Path) {
    match report::chart::draw_all(view, &directory.join(layout::CHARTS)) {
        Ok(drawn) => {
            for (chart, why) in drawn.left_out {
                output::note(&format!("note: no chart {chart}: {why}"));
            }
        }
        Err(error) => {
            let _ = std::fs::remove_dir_all(directory.join(layout::CHARTS));
            output::note(&format!("warning: charts could not be drawn: {error}"));
        }
    }
}

fn write_markdown(view: &View, summary: &Summary, directory: &Path) {
    let gates = report::gates_markdown(&summary.gates).map(|gates| format!("\n{gates}"));
    let said = report::conclusions_markdown(&summary.conclusions);
    let page = report::markdown(view) + &said + &gates.unwrap_or_default();
    let path = directory.join("summary.md");
    if let Err(error) = std::fs::write(&path, page) {
        let _ = std::fs::remove_file(&path);
        output::note(&format!("warning: summary.md could not be written: {error}"));
    }
}

fn exit(ending: RunEnding, verdict: &Verdict) -> Exit {
    match (ending, verdict) {
        (RunEnding::Interrupted, _) => Exit::Interrupted,
        (RunEnding::Aborted, _) => Exit::Environment,
        (RunEnding::Complete, Verdict::Violated(_)) => Exit::Violated,
        (RunEnding::Complete, Verdict::Unknown(_)) => Exit::Unknown,
        (RunEnding::Complete, Verdict::Held) => Exit::Held,
    }
}

struct Outcome<'a> {
    stored: &'a StoredRun,
    view: &'a View,
    summary: &'a Summary,
    comparison: Option<Comparison>,
    path: &'a Path,
    exit: Exit,
}

/// Prints it, and the error that ends the run after all, if there is one.
fn print(args: &RunArgs, outcome: &Outcome<'_>, error: Option<Error>) -> Result<Exit, Error> {
    let Outcome { stored, view, summary, ref comparison, path, exit } = *outcome;
    if args.json {
        let found = json!({
            "results": path,
            "run": stored.run,
            "summary": summary,
            "comparison": comparison,
            "trials": stored.trials.iter().map(TrialFile::from).collect::<Vec<_>>(),
        });
        return output::conclude(NAME, exit, error, &found);
    }
    let style = output::style();
    let table = report::terminal(view, style);
    let compared =
        comparison.as_ref().map(|one| format!("\nAgainst the baseline: {}", report::comparison(one, style)));
    let compared = compared.unwrap_or_default();
    // First what a build hangs on: nobody looks for it below the tables.
    let gates = report::gates(&summary.gates, style).map(|gates| format!("\n{gates}")).unwrap_or_default();
    let said = report::said(&summary.conclusions, style);
    output::text(&format!("{gates}\n{table}{compared}\n{said}{}", places(path)))?;
    error.map_or(Ok(exit), Err)
}

/// Where results are, and charts where there are any: a trial that was interrupted early has none.
pub(super) fn places(path: &Path) -> String {
    let mut places = format!("results: {}", path.display());
    for (name, place) in [("charts: ", path.join(layout::CHARTS)), ("report: ", path.join(layout::REPORT))] {
        if place.exists() {
            places = format!("{places}\n{name} {}", place.display());
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_charts_is_named_only_where_there_are_some() {
        let run = tempfile::tempdir().unwrap();
        assert_eq!(places(run.path()), format!("results: {}", run.path().display()));
        std::fs::create_dir(run.path().join("charts")).unwrap();
        assert!(places(run.path()).ends_with("/charts"));
    }

    #[test]
    fn nothing_but_a_complete_run_that_held_is_green() {
        let unknown = || Verdict::Unknown(vec!["why".into()]);
        let violated = || Verdict::Violated(vec!["why".into()]);
        assert_eq!(exit(RunEnding::Complete, &Verdict::Held), Exit::Held);
        assert_eq!(exit(RunEnding::Complete, &violated()), Exit::Violated);
        assert_eq!(exit(RunEnding::Complete, &unknown()), Exit::Unknown);
        assert_eq!(exit(RunEnding::Interrupted, &unknown()), Exit::Interrupted);
        assert_eq!(exit(RunEnding::Aborted, &unknown()), Exit::Environment);
    }
}
