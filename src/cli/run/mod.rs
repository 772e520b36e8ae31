//! `run`: runs a scenario and writes a directory of results.

mod conclude;
mod gates;
pub mod host;
pub mod metrics;
pub mod open_ensemble;
pub mod progress;
mod resume;
pub mod sharing;

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use tokio_util::sync::CancellationToken;

use super::args::RunArgs;
use super::export::Prepared;
use super::scenario_file::ScenarioFile;
use super::worker::WorkerPlace;
use super::{drivers, output};
use crate::run::{self, Ran, RunContext};
use zklockbench_analysis::gate::GateWatch;
use zklockbench_core::error::{Error, Exit};
use zklockbench_core::units::counted;
use zklockbench_ensemble::fault;
use zklockbench_ensemble::{Hosts, Processes};
use zklockbench_load::{
    Environment, LoadLimits, NearEnd, Probing, SignOfLife, Workspace, check_one_ensemble,
};
use zklockbench_locks::DrivenLocks;
use zklockbench_record::{EnsembleInfo, Floor, Run, RunEnding, RunOutcome, Segment};
use zklockbench_report::ci::Live;
use zklockbench_results::{Resumed, RunWriter, StoredRun, layout, recorded_run, tidy};
use zklockbench_scenario::{Scenario, Slice, TrialPlan, advice};

use conclude::RunResult;
pub(super) use conclude::{Concluding, MeasuredRun, places};
use metrics::{Endpoint, Port};
use open_ensemble::{Needs, OpenEnsemble};
use progress::Progress;
use sharing::Sharing;

#[expect(clippy::disallowed_methods, reason = "the start time of a run is only a label")]
pub async fn execute(mut args: RunArgs, port: Option<Port>, stop: &CancellationToken) -> Result<Exit, Error> {
    let (outputs, began) = (args.outputs.prepare()?, SystemTime::now());
    let named = args.scenario.clone().or(args.resume.clone()).unwrap_or_default();
    let title = named.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let broke_off = |error| {
        outputs.broke_off(&title, began, &error);
        error
    };
    let (file, there) = if let Some(dir) = args.resume.take() {
        match resume::take_over(&dir, &mut args).map_err(broke_off)? {
            (file, Resumed::Whole(path, stored)) => {
                return nothing_to_do(&args, &file, path, stored, &outputs);
            }
            (file, Resumed::Partial(writer, stored)) => (file, Some((*writer, stored))),
        }
    } else {
        match ScenarioFile::read(&named, &args.overrides) {
            Ok(file) => (file, None),
            Err(unusable) => {
                broke_off(Error::usage(format!("{} is not a valid scenario", named.display())));
                return unusable.tell(NAME, &named);
            }
        }
    };
    measure(args, file, there, port, None, stop).await.map_err(broke_off)?.conclude(&outputs)
}

const NAME: &str = "run";

fn nothing_to_do(
    args: &RunArgs,
    file: &ScenarioFile,
    path: PathBuf,
    stored: StoredRun,
    outputs: &Prepared,
) -> Result<Exit, Error> {
    output::note("nothing to do: the run is already complete");
    let scenario = &file.parsed.scenario;
    let concluding = Concluding::of(&args.concluding, args.opening.quiet, scenario)?;
    RunResult::of(scenario, path, stored, &concluding).tell(scenario, outputs, None)
}

/// Runs the trials of a scenario, or the missing trials of a resumed run.
#[expect(clippy::disallowed_methods, reason = "the start time of a run is only a label")]
pub(super) async fn measure(
    args: RunArgs,
    file: ScenarioFile,
    there: Option<(RunWriter, StoredRun)>,
    port: Option<Port>,
    worker: Option<WorkerPlace>,
    stop: &CancellationToken,
) -> Result<MeasuredRun, Error> {
    let scenario = &file.parsed.scenario;
    let needs = Needs::of(scenario);
    needs.check(scenario, DrivenLocks::registered(), &args.generator, &args.opening.access)?;
    let plan = TrialPlan::of(scenario);
    if let Some(why) = host::lacks_memory(&plan, worker.as_ref().map_or(Slice::WHOLE, |worker| worker.slice))
    {
        return Err(Error::Environment(why));
    }
    needs.check_host_commands(scenario, args.overrides.hosts.as_deref()).await?;
    // Check the baseline before anything is started. Gates of workers are judged on the merged run.
    let concluding = match worker {
        None => Concluding::of(&args.concluding, args.opening.quiet, scenario)?,
        Some(_) => Concluding::default(),
    };
    let access = args.opening.access.access(args.overrides.unnamed(scenario))?;
    // Only the leading worker prints notes on the scenario.
    if worker.as_ref().is_none_or(|worker| worker.slice.leads()) {
        file.left_out.iter().for_each(|left| output::note(&format!("note: {left}")));
        for advice in advice(scenario, &zklockbench_locks::cards(), &fault::cards()) {
            output::note(&format!("note: {}: {} ({})", advice.key, advice.message, advice.help));
        }
    }
    let own = there.as_ref().and_then(|(writer, _)| writer.dir().parent()).unwrap_or(&args.out);
    // Workers may share a directory across hosts, where the file locks of other workers are invisible.
    let abandoned = if worker.is_some() { Vec::new() } else { tidy(own) };
    for left in abandoned {
        let is_of_workers = recorded_run(&left).is_ok_and(|run| run.workers.is_some());
        let left = left.display();
        if is_of_workers {
            output::note(&format!(
                "note: {left} was left behind by a worker or merge that was killed; delete the directory"
            ));
            continue;
        }
        output::note(&format!(
            "note: {left} contains the trials of a killed run; resume the run with `zklockbench run \
             --resume {left}`, or delete the directory"
        ));
    }
    let started_at = SystemTime::now();
    let (mut writer, stored) = match (there, &args.run_id) {
        (Some((writer, stored)), _) => (writer, Some(stored)),
        (None, Some(name)) => (RunWriter::create(&args.out, name)?, None),
        (None, None) => (RunWriter::create_dated(&args.out, &scenario.name, started_at)?, None),
    };
    writer.tell_if_kept(if worker.is_some() { tell_kept } else { tell_resumable });
    let of_workers = worker.as_ref().map(|worker| worker.run_id.clone()).or(args.run_id.clone());
    let run_id = of_workers.unwrap_or_else(|| unique(&layout::run_name(&scenario.name, started_at)));
    let trials = counted(plan.trials.len(), "trial", "trials");
    let progress = Progress::new(&plan, args.opening.quiet, !args.no_progress);
    match &stored {
        None => progress.note(&format!("{trials}, about {}{}", progress.expected(), requests(&plan))),
        Some(stored) => {
            resume::same_trials(&plan, &stored.trials)?;
            if let Some(ran) = run::whole(&plan, &stored.trials) {
                progress.note("all trials exist; completing the results");
                let run = ran.ended(stored.run.run.clone());
                writer.begins(run.clone(), &ran.trials, ran.judge())?;
                return Ok(MeasuredRun { concluding, file, writer, run, ran });
            }
            progress.note(&resume::announcement(stored));
        }
    }
    let logs = writer.server_logs();
    let opened = OpenEnsemble::open(scenario, &needs, &args.opening, access, logs, &progress, stop).await?;
    let hosts = opened.host_commands(args.overrides.hosts.as_deref(), &needs);
    let hosts = stop.run_until_cancelled(hosts).await.unwrap_or(Err(Error::Interrupted))?;
    let slice = worker.as_ref().map_or(Slice::WHOLE, |worker| worker.slice);
    // Worker 0 decides for all workers, which learn the limit when they join.
    let sharing = Sharing::of(&opened, &args.opening.sharing, worker.as_ref());
    let sharing = stop.run_until_cancelled(sharing).await.ok_or(Error::Interrupted)?;
    let fits = sharing::check(&opened, &sharing, &plan, slice);
    if let Err(error) = stop.run_until_cancelled(fits).await.unwrap_or(Err(Error::Interrupted)) {
        opened.close();
        return Err(error);
    }
    sharing.note().iter().for_each(|note| progress.note(note));
    let live = Live::new(&scenario.name, started_at, plan.trials.len());
    let metrics = port.map(|port| port.serve(live)).transpose()?;
    if let Some(metrics) = &metrics {
        progress.note(&format!("metrics at {}", metrics.url()));
    }
    let under_way = RunInProgress {
        args,
        concluding,
        file,
        needs,
        plan,
        progress,
        metrics,
        opened,
        writer,
        started_at,
        earlier: stored.as_ref().map_or_else(Vec::new, segments),
        run_id,
        worker,
        hosts,
        sharing,
    };
    under_way.measure(stored, stop).await
}

const COUNTS: &str = "before the first trial of each strategy, and each trial of a driver's lock, requests are counted on \
    the wire for about 2 s (skip counting with --counting never)";

const RESUME: &str = "zklockbench run --resume ";

fn tell_kept(path: &Path) {
    output::note(&format!("the measurements are kept as a partial run: {}", path.display()));
}

fn tell_resumable(path: &Path) {
    tell_kept(path);
    output::note(&format!("resume with: {RESUME}{}{}", path.display(), drivers::options()));
}

fn segments(stored: &StoredRun) -> Vec<Segment> {
    let trials: Vec<usize> = stored.trials.iter().map(|trial| trial.spec.index).collect();
    stored.run.in_segments(&trials)
}

/// Returns a phrase with the approximate number of requests to an external ensemble; empty for other ensembles.
fn requests(plan: &TrialPlan) -> String {
    let is_external = plan.scenario.ensemble.is_external();
    let told = is_external.then(|| format!(", {}", plan.requests_in_words()));
    told.unwrap_or_default()
}

/// Adds a random suffix, because two machines may start the same scenario in the same second.
fn unique(name: &str) -> String {
    format!("{name}-{:04x}", rand::random::<u16>())
}

/// Limits of the load, and the requests that watch its effect.
type Watched = (LoadLimits, Option<Probing>);

struct RunInProgress {
    args: RunArgs,
    concluding: Concluding,
    file: ScenarioFile,
    needs: Needs,
    plan: TrialPlan,
    progress: Progress,
    metrics: Option<Endpoint>,
    opened: OpenEnsemble,
    writer: RunWriter,
    started_at: SystemTime,
    /// Earlier parts of a resumed run.
    earlier: Vec<Segment>,
    /// Name of the run's node on the ensemble.
    run_id: String,
    /// Worker's part of the run, if the run has several workers.
    worker: Option<WorkerPlace>,
    /// Commands for faults on external servers.
    hosts: Option<Arc<Hosts>>,
    sharing: Sharing,
}

impl RunInProgress {
    #[expect(clippy::disallowed_methods, reason = "the end time of a run is only a label")]
    async fn measure(
        mut self,
        stored: Option<StoredRun>,
        stop: &CancellationToken,
    ) -> Result<MeasuredRun, Error> {
        let contenders = self.plan.trials.iter().map(|trial| trial.contenders).max().unwrap_or(0);
        let own = self.worker.as_ref().map_or(contenders, |worker| worker.slice.below(contenders).count());
        host::allow_sessions(own, self.needs.files_of_a_session(self.opened.addresses.len()))?;
        let mut ensemble = self.opened.describe().await;
        self.opened.notes(&ensemble).iter().for_each(|note| self.progress.note(note));
        let proxy = self.needs.proxy(&self.opened.addresses)?;
        let rendezvous = match &self.worker {
            None => None,
            Some(worker) => {
                let joining = worker.join(&self.opened.target, &self.file, self.sharing.at_most);
                let joined = stop.run_until_cancelled(joining).await;
                Some(joined.unwrap_or(Err(Error::Interrupted))?)
            }
        };
        if let Some(rendezvous) = &rendezvous {
            self.sharing.at_most = rendezvous.at_most;
            let own = self.args.opening.sharing.at_most;
            if own.is_some() && own != rendezvous.at_most {
                output::warn("--at-most is ignored: worker 0 sets the limit for all workers".to_owned());
            }
        }
        ensemble.config.extend(self.sharing.facts());
        let slice = rendezvous.as_ref().map_or(Slice::WHOLE, |rendezvous| rendezvous.slice);
        let (workspace, _alive, (limits, probing)) = match self.prepare(slice).await {
            Ok(prepared) => prepared,
            Err(error) => {
                if let Some(rendezvous) = rendezvous {
                    rendezvous.leave(false).await;
                }
                return Err(error);
            }
        };
        probing.iter().filter_map(Probing::note).for_each(output::warn);
        let mut environment = Environment {
            limits,
            threads: self.threads(),
            local: self
                .opened
                .started
                .clone()
                .or_else(|| Some(Arc::clone(self.hosts.as_ref()?) as Arc<dyn Processes>)),
            keeps_history: self.args.history,
            scratch: self.writer.dir().to_owned(),
            proxy,
            rendezvous,
            ..self.opened.environment(workspace, &ensemble.servers)
        };
        let measured = self.trials(&environment, ensemble, stored, stop).await;
        self.progress.finish();
        let outcome = measured.as_ref().map_or(&RunOutcome::INTERRUPTED, |(_, ran)| &ran.outcome);
        if let Some(rendezvous) = environment.rendezvous.take() {
            rendezvous.leave(outcome.ending == RunEnding::Complete).await;
        }
        if let Some(probing) = probing {
            probing.end().await;
        }
        if slice.leads() {
            self.tidy(&environment, outcome).await;
        }
        let (begun, ran) = measured?;
        let mut run = Run { ended_at: SystemTime::now(), ..ran.ended(begun) };
        if let Some(last) = run.segments.last_mut() {
            (last.ended_at, last.outcome) = (run.ended_at, run.outcome.clone());
        }
        if ran.trials.is_empty() {
            return Err(nothing(ran.outcome));
        }
        let Self { concluding, file, opened, writer, .. } = self;
        opened.close();
        Ok(MeasuredRun { concluding, file, writer, run, ran })
    }

    /// Creates the run's directory and sign of life on the ensemble, and watches its latency, if this is the leading
    /// worker.
    async fn prepare(&self, slice: Slice) -> Result<(Workspace, Option<SignOfLife>, Watched), Error> {
        let target = &self.opened.target;
        let limits = LoadLimits::at_most(self.sharing.at_most.map(|per_s| per_s / slice.of as f64));
        let throttle = limits.throttle.clone();
        if !slice.leads() {
            let workspace = Workspace::made_by_another(target.clone(), &self.run_id).limited_by(throttle);
            return Ok((workspace, None, (limits, None)));
        }
        let workspace = Workspace::create(target.clone(), &self.run_id).await?.limited_by(throttle);
        let prepared = async {
            let mut alive = None;
            if self.opened.is_external() {
                check_one_ensemble(target, &self.opened.addresses, &self.run_id).await?;
            }
            if self.opened.started.is_none() {
                NearEnd::told(workspace.counters_near_end().await).into_iter().for_each(output::warn);
                alive = Some(workspace.show_life().await?);
            }
            let slower = self.sharing.stop_if_slower;
            Ok::<_, Error>((alive, limits.watching(target, &self.opened.addresses, slower).await?))
        };
        match prepared.await {
            Ok((alive, watched)) => Ok((workspace, alive, watched)),
            Err(error) => {
                self.opened.clear(&workspace).await;
                Err(error)
            }
        }
    }

    /// Warms up the servers, measures the floor, runs the trials and measures the floor again. Returns the run
    /// and the outcome of its trials.
    async fn trials(
        &mut self,
        environment: &Environment,
        ensemble: EnsembleInfo,
        stored: Option<StoredRun>,
        stop: &CancellationToken,
    ) -> Result<(Run, Ran), Error> {
        open_ensemble::warm_up(&self.opened, environment, &self.progress, stop).await?;
        let floor = match self.args.no_floor {
            true => Floor::not_measured("disabled by --no-floor"),
            false => open_ensemble::measure_floor(&self.opened, environment, stop).await,
        };
        if let Some(rendezvous) = &environment.rendezvous {
            // Without this barrier, the floor would include the cost of opening other workers' sessions.
            let ready = async { rendezvous.meet("floor").await.release().await };
            let ready = stop.run_until_cancelled(ready).await.ok_or(Error::Interrupted)?;
            ready.map_err(|failed| failed.error())?;
        }
        if let Some(stored) = &stored {
            resume::same_ground(&stored.run, &Run { ensemble: ensemble.clone(), ..stored.run.run.clone() })?;
        }
        let earlier = stored.as_ref().map_or(0, |stored| stored.run.planned_trials);
        let begun = self.begun(ensemble, floor, self.plan.trials.len().max(earlier));
        let there = stored.map_or_else(Vec::new, |stored| stored.trials);
        self.writer.begins(begun.clone(), &there, zklockbench_judge::of_run(&there, begun.planned_trials))?;
        if !self.opened.is_external() && !stop.is_cancelled() {
            self.progress.note("starting the first trial");
        }
        // A worker sees only its own part of the traffic, and TLS hides all traffic.
        let is_readable = environment.rendezvous.is_none() && environment.target.access.tls.is_none();
        let counts =
            is_readable && self.args.generator.counting.counts(self.scenario(), DrivenLocks::registered());
        if counts {
            self.progress.note(COUNTS);
        }
        let (progress, metrics) = (self.progress.clone(), self.metrics.as_ref());
        let watch = self.args.abort_on_fail.then(|| RefCell::new(self.watch(begun.floor.clone())));
        let context = RunContext {
            environment,
            stop,
            tell: &move |event| {
                progress.event(&event);
                metrics.inspect(|metrics| metrics.event(&event));
            },
            counts,
            reruns: !self.args.no_reruns,
            hopeless: &|trial| watch.as_ref()?.borrow_mut().note(trial),
        };
        let ran = run::run(&self.plan, there, &mut self.writer, &context).await;
        let is_whole = ran.outcome.ending == RunEnding::Complete && environment.rendezvous.is_none();
        let before = begun.floor.clone().filter(|floor| floor.is_measured() && is_whole);
        let floors = match before {
            Some(before) => self.floors(before, environment, stop).await.map(Some),
            None => [begun.floor.clone(), None],
        };
        let [floor, floor_after] = floors;
        Ok((Run { floor, floor_after, ..begun }, ran))
    }

    /// Measures the floor after the trials, and returns the floors before and after. If they differ widely, measures
    /// a third time and drops the outlier.
    async fn floors(&self, before: Floor, environment: &Environment, stop: &CancellationToken) -> [Floor; 2] {
        let after = open_ensemble::measure_floor(&self.opened, environment, stop).await;
        if !before.is_far_from(&after) {
            return [before, after];
        }
        let third = open_ensemble::measure_floor(&self.opened, environment, stop).await;
        Floor::without_outlier(before, after, third)
    }

    fn watch(&self, floor: Option<Floor>) -> GateWatch {
        let scenario = self.scenario();
        let fixed = scenario.precision.is_none();
        let repetitions = usize::try_from(scenario.repetitions).ok().filter(|_| fixed);
        GateWatch::new(scenario.gates.clone(), repetitions).with_floor(floor)
    }

    fn threads(&self) -> usize {
        self.args.generator.threads.map_or_else(host::usual_threads, usize::from)
    }

    /// Removes the run's nodes. Nodes on local servers disappear with the servers.
    async fn tidy(&self, environment: &Environment, outcome: &RunOutcome) {
        if self.opened.started.is_some() {
            return;
        }
        if outcome.ending == RunEnding::Aborted && !self.opened.answers().await {
            output::warn(format!(
                "the ensemble does not respond, so {} remains on it; remove the node later with: zklockbench \
                 clean --connect {} --run-id {}",
                environment.workspace.root(),
                self.opened.target.connect_from(0),
                self.run_id
            ));
        } else if let Err(error) = environment.workspace.close().await {
            output::warn(error);
        }
    }

    fn scenario(&self) -> &Scenario {
        &self.file.parsed.scenario
    }

    /// Returns the facts known before the first trial or, for a resumed run, before the first missing trial.
    fn begun(&self, ensemble: EnsembleInfo, floor: Floor, planned: usize) -> Run {
        let run = Run {
            tool_version: env!("CARGO_PKG_VERSION").into(),
            tool_commit: tool_commit(),
            scenario: self.scenario().name.clone(),
            strategies: self.scenario().strategies.iter().map(|strategy| strategy.label.clone()).collect(),
            replayed: self.file.replayed.clone(),
            scenario_text: self.file.text.clone(),
            overrides: self.file.overrides.clone(),
            seed: self.scenario().seed,
            planned_trials: planned,
            precision: None,
            generator_threads: self.threads(),
            history: self.args.history,
            host: host::describe(),
            ensemble,
            floor: Some(floor),
            floor_after: None,
            segments: Vec::new(),
            workers: self.worker.as_ref().map(|worker| worker.part(&self.file, self.threads())),
            started_at: self.started_at,
            ended_at: self.started_at,
            outcome: RunOutcome::not_noted(),
        };
        match self.earlier.first() {
            None => run,
            Some(first) => {
                let segments = [self.earlier.clone(), run.in_segments(&[])].concat();
                let floor = Segment::common_floor(&segments);
                Run { started_at: first.started_at, ensemble: first.ensemble.clone(), floor, segments, ..run }
            }
        }
    }
}

/// Returns the commit from which the program was built; `None` outside a checkout.
pub fn tool_commit() -> Option<String> {
    option_env!("ZKLOCKBENCH_COMMIT").filter(|commit| !commit.is_empty()).map(str::to_owned)
}

fn nothing(outcome: RunOutcome) -> Error {
    match outcome.ending {
        RunEnding::Aborted => Error::Environment(outcome.why.unwrap_or_default()),
        RunEnding::Interrupted | RunEnding::Complete | RunEnding::GateFailed => Error::Interrupted,
    }
}
