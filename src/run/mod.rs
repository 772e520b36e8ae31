//! Runs, judges and records the trials of a run. Also runs series of runs, each in a separate process.

mod precision;
pub mod series;

use tokio_util::sync::CancellationToken;
use tracing::info;

use zklockbench_core::error::Error;
use zklockbench_core::units::{cell_name, counted};
use zklockbench_core::verdict::Verdict;
use zklockbench_ensemble::fault::reaches_servers;
use zklockbench_load::{Environment, run_trial};
use zklockbench_locks::Entry;
use zklockbench_record::{Cause, CellKey, Counting, CutShort, Judged, Precision, Run, RunOutcome, Trial};
use zklockbench_results::history::write_trial;
use zklockbench_results::{RunWriter, SoFar, layout};
use zklockbench_scenario::{TrialPlan, TrialSpec};

use precision::Figures;

#[derive(Debug)]
pub enum RunEvent<'a> {
    /// The trial already exists, because the run was resumed.
    AlreadyThere(&'a TrialSpec),
    /// The requests of the trial's lock are being counted in a separate trial.
    Counts(&'a TrialSpec),
    TrialBegins(&'a TrialSpec),
    Within(zklockbench_load::EnvironmentEvent<'a>),
    TrialEnded(&'a Trial),
    /// These trials were added because the metrics are less precise than the scenario requires.
    RoundAdded(&'a [TrialSpec], &'a Precision),
    /// These trials replace invalid trials.
    MadeAgain(&'a [TrialSpec]),
}

pub struct RunContext<'a> {
    pub environment: &'a Environment,
    pub stop: &'a CancellationToken,
    pub tell: &'a (dyn Fn(RunEvent<'_>) + Sync),
    /// Whether to count requests on the wire: once for each strategy and contender count, or for each trial of a
    /// driver's lock.
    pub counts: bool,
    /// Whether to rerun invalid trials.
    pub reruns: bool,
    /// Checks a trial that still has its histograms; returns the reason to end the run early, if any.
    pub hopeless: &'a dyn Fn(&Trial) -> Option<String>,
}

pub struct Ran {
    /// Judged trials. Their histograms are only on disk.
    pub trials: Vec<Trial>,
    /// Number of planned trials, including added rounds but not replacements.
    pub planned: usize,
    /// Precision of the metrics; `None` if the scenario requires none.
    pub precision: Option<Precision>,
    pub outcome: RunOutcome,
}

impl Ran {
    pub fn judge(&self) -> Judged {
        zklockbench_judge::of_run(&self.trials, self.planned)
    }

    /// Adds the precision and the outcome to a finished run.
    pub fn ended(&self, run: Run) -> Run {
        let (precision, outcome) = (self.precision.clone(), self.outcome.clone());
        Run { planned_trials: self.planned, precision, outcome, ..run }
    }
}

/// Returns whether a resumed run must repeat this trial. Trials with violations are final.
pub fn is_unfinished(trial: &Trial) -> bool {
    let ended = |cut: &CutShort| {
        matches!(cut.cause, Cause::Interrupted | Cause::EnsembleLost | Cause::EnsembleOverloaded)
    };
    trial.cut_short.as_ref().is_some_and(ended) && !matches!(trial.judged.verdict, Verdict::Violated(_))
}

/// Returns the result of these trials if the run is complete; `None` if more trials are required.
pub fn whole(plan: &TrialPlan, there: &[Trial]) -> Option<Ran> {
    let mut figures = Figures::of(plan);
    let mut round = 0;
    let wants_more = |figures: &Option<Figures>, rounds| {
        figures.as_ref().is_some_and(|figures| figures.wants_more(&figures.precision(rounds)))
    };
    while round < plan.scenario.repetitions || wants_more(&figures, round) {
        round += 1;
        for spec in plan.round(round) {
            let found = there.iter().find(|trial| trial.spec.index == spec.index && !is_unfinished(trial))?;
            figures.iter_mut().for_each(|figures| figures.note(found));
        }
    }
    let planned = slots(there);
    let is_over = !there.iter().any(is_unfinished) && Again::of(plan, planned, there).next(there).is_empty();
    let precision = figures.map(|figures| figures.precision(round));
    is_over.then(|| Ran { trials: there.to_vec(), planned, precision, outcome: RunOutcome::COMPLETE })
}

/// Returns the number of trials that do not replace another trial.
fn slots(trials: &[Trial]) -> usize {
    trials.iter().filter(|trial| trial.spec.makes_up_for.is_none()).count()
}

/// Runs the trials of a plan in order, except the trials in `there`, and writes each trial. Stops once the
/// metrics are precise enough. An earlier end is an outcome, not an error: finished trials are kept.
pub async fn run(
    plan: &TrialPlan,
    there: Vec<Trial>,
    writer: &mut RunWriter,
    context: &RunContext<'_>,
) -> Ran {
    let figures = Figures::of(plan);
    let spares_servers = spares_servers(plan);
    let mut under_way =
        UnderWay { writer, context, figures, trials: there, planned: 0, rounds: 0, spares_servers };
    let outcome = match under_way.run_all(plan).await {
        Err(outcome) => outcome,
        Ok(()) if context.stop.is_cancelled() => RunOutcome::INTERRUPTED,
        Ok(()) => RunOutcome::COMPLETE,
    };
    let UnderWay { figures, trials, planned, rounds, .. } = under_way;
    let planned = planned.max(slots(&trials));
    Ran { trials, planned, precision: figures.map(|figures| figures.precision(rounds)), outcome }
}

struct UnderWay<'a> {
    writer: &'a mut RunWriter,
    context: &'a RunContext<'a>,
    /// `None` if the scenario requires no precision.
    figures: Option<Figures>,
    /// Recorded trials, sorted by index.
    trials: Vec<Trial>,
    planned: usize,
    rounds: u32,
    /// Whether trials with faults that break servers must not be repeated.
    spares_servers: bool,
}

impl UnderWay<'_> {
    /// Runs the planned rounds, and more rounds until the metrics are precise. The error is the outcome of a run
    /// that ended early.
    async fn run_all(&mut self, plan: &TrialPlan) -> Result<(), RunOutcome> {
        self.planned = plan.trials.len();
        let mut round = 1;
        while round <= plan.scenario.repetitions {
            self.run_round(&plan.round(round)).await?;
            round += 1;
        }
        while let Some(so_far) = self.more_wanted() {
            let trials = plan.round(round);
            self.planned += trials.len();
            info!("another round of trials: {}", so_far.describe());
            (self.context.tell)(RunEvent::RoundAdded(&trials, &so_far));
            self.run_round(&trials).await?;
            round += 1;
        }
        // With several workers, invalid trials become known only when the parts are merged.
        let is_alone = self.context.environment.rendezvous.is_none();
        if is_alone && self.context.reruns { self.make_again(plan).await } else { Ok(()) }
    }

    /// Reruns invalid trials. A rerun replaces another trial, so reruns do not count as planned trials.
    async fn make_again(&mut self, plan: &TrialPlan) -> Result<(), RunOutcome> {
        let mut again = Again::of(plan, self.planned, &self.trials);
        let earlier = self.trials.iter().filter(|trial| trial.spec.makes_up_for.is_some());
        let earlier: Vec<TrialSpec> = earlier.map(|trial| trial.spec.clone()).collect();
        self.run_trials(&earlier).await?;
        loop {
            let trials = again.next(&self.trials);
            if trials.is_empty() {
                self.note_spared(&again);
                return Ok(());
            }
            for spec in &trials {
                let spoiled = self.trials.iter().find(|trial| Some(trial.spec.index) == spec.makes_up_for);
                let why = spoiled.and_then(|trial| trial.health.invalid.as_deref()).unwrap_or_default();
                let replaced = spec.makes_up_for.unwrap_or_default();
                info!("trial {} replaces trial {replaced}, which is invalid: {why}", spec.index);
            }
            (self.context.tell)(RunEvent::MadeAgain(&trials));
            self.run_trials(&trials).await?;
        }
    }

    /// Warns about invalid trials that were not rerun.
    fn note_spared(&self, again: &Again) {
        let spared = again.spoiled(&self.trials).filter(|trial| !again.may_rerun(trial)).count();
        if spared > 0 {
            let trials = counted(spared, "invalid trial was not rerun", "invalid trials were not rerun");
            let why = format!("{trials}, because their faults break servers that this run did not start");
            (self.context.tell)(RunEvent::Within(zklockbench_load::EnvironmentEvent::Warning(&why)));
        }
    }

    /// Returns the precision of the metrics if it is insufficient.
    fn more_wanted(&self) -> Option<Precision> {
        let figures = self.figures.as_ref()?;
        Some(figures.precision(self.rounds)).filter(|so_far| figures.wants_more(so_far))
    }

    async fn run_round(&mut self, trials: &[TrialSpec]) -> Result<(), RunOutcome> {
        self.run_trials(trials).await?;
        self.rounds += 1;
        Ok(())
    }

    async fn run_trials(&mut self, trials: &[TrialSpec]) -> Result<(), RunOutcome> {
        for spec in trials {
            if self.is_there(spec) {
                (self.context.tell)(RunEvent::AlreadyThere(spec));
                continue;
            }
            if self.context.stop.is_cancelled() {
                return Err(RunOutcome::INTERRUPTED);
            }
            self.run_one(spec).await?;
        }
        Ok(())
    }

    /// Returns whether a trial already has a final result. If so, records the trial's metrics.
    fn is_there(&mut self, spec: &TrialSpec) -> bool {
        let mut there = self.trials.iter_mut();
        let is_final = |trial: &Trial| {
            !is_unfinished(trial)
                || self.spares_servers && trial.faults.iter().any(|one| reaches_servers(&one.kind))
        };
        let Some(trial) = there.find(|trial| trial.spec.index == spec.index && is_final(trial)) else {
            return false;
        };
        self.figures.iter_mut().for_each(|figures| figures.note(trial));
        // If a gate can no longer pass, `hopeless` returns the reason again after the next trial.
        (self.context.hopeless)(trial);
        trial.histograms.clear();
        true
    }

    async fn run_one(&mut self, spec: &TrialSpec) -> Result<(), RunOutcome> {
        let RunContext { environment, stop, tell, .. } = *self.context;
        let Some(entry) = zklockbench_locks::find(&spec.strategy.name) else {
            return Err(RunOutcome::aborted(format!("no strategy `{}`", spec.strategy.name)));
        };
        let counting = self.counting(spec, entry).await?;
        let (index, name) = (spec.index, cell_name(&spec.strategy.label, spec.contenders));
        info!("trial {index} started: {name}, repetition {}", spec.repetition);
        tell(RunEvent::TrialBegins(spec));
        let sink = |event: zklockbench_load::EnvironmentEvent<'_>| tell(RunEvent::Within(event));
        let mut trial = run_trial(environment, spec, entry, stop, &sink)
            .await
            .map_err(|error| self.aborted(&error.to_string()))?;
        trial.counting = counting;
        zklockbench_judge::judge(&mut trial);
        if let Some(figures) = &mut self.figures {
            figures.note(&trial);
        }
        let why = trial.judged.why.as_deref().map_or_else(String::new, |why| format!(": {why}"));
        info!("trial {index} ended, {}{why}", trial.judged.verdict.word());
        tell(RunEvent::TrialEnded(&trial));
        let is_end = |cut: &CutShort| {
            matches!(cut.cause, Cause::EnsembleLost | Cause::WorkerLost | Cause::EnsembleOverloaded)
        };
        let lost = trial.cut_short.clone().filter(is_end);
        let hopeless = (self.context.hopeless)(&trial);
        self.keep(trial).map_err(|error| RunOutcome::aborted(error.to_string()))?;
        give_back_memory();
        if let Some(lost) = lost {
            return Err(self.aborted(&lost.why));
        }
        hopeless.map_or(Ok(()), |why| Err(RunOutcome::gate_failed(why)))
    }

    /// Counts the requests of a trial's lock; `None` for a built-in lock if an earlier valid repetition already has
    /// counts. A driver's requests are counted for each repetition, because comparisons need to
    /// know how much the counts vary.
    async fn counting(&self, spec: &TrialSpec, entry: &Entry) -> Result<Option<Counting>, RunOutcome> {
        let RunContext { environment, stop, tell, counts, .. } = *self.context;
        let cell = CellKey::of(spec);
        let is_driven = zklockbench_locks::driven(&spec.strategy.name).is_some();
        let has_counts =
            |trial: &Trial| cell.is_of(trial) && trial.is_sound() && trial.on_the_wire().is_some();
        if !counts || (!is_driven && self.trials.iter().any(has_counts)) {
            return Ok(None);
        }
        info!("counting the requests of {}", cell.name());
        tell(RunEvent::Counts(spec));
        let sink = |event: zklockbench_load::EnvironmentEvent<'_>| tell(RunEvent::Within(event));
        let counted = zklockbench_load::count(environment, spec, entry, stop, &sink).await;
        if stop.is_cancelled() {
            return Err(RunOutcome::INTERRUPTED);
        }
        let counting = match counted {
            Ok((counting, mut trial)) => {
                zklockbench_judge::judge(&mut trial);
                if let Some(why) = trial.judged.why.filter(|_| trial.violation_count > 0) {
                    let cell = cell.name();
                    let warning = format!("violation while counting requests, {cell}: {why}");
                    sink(zklockbench_load::EnvironmentEvent::Warning(&warning));
                }
                counting
            }
            Err(error) => Counting::failed(error.to_string()),
        };
        if let Some(why) = &counting.missing {
            let warning = format!("requests were not counted on the wire, {}: {why}", cell.name());
            sink(zklockbench_load::EnvironmentEvent::Warning(&warning));
        }
        Ok(Some(counting))
    }

    /// Returns the outcome of an aborted run. If a server ended, the reason mentions the server first, because its
    /// end is the likely cause.
    fn aborted(&self, what: &str) -> RunOutcome {
        let ended = self.context.environment.server_ended(what);
        RunOutcome::aborted(ended.map_or_else(|| what.to_owned(), |server| format!("{server}; {what}")))
    }

    /// Writes a trial and the results so far. In memory, keeps the trial without its histograms and history.
    fn keep(&mut self, mut trial: Trial) -> Result<(), Error> {
        self.forget_earlier(trial.spec.index)?;
        self.writer.trial(&trial)?;
        let mut written = Ok(());
        if self.context.environment.keeps_history {
            written = write_trial(&layout::trial_history(self.writer.dir(), trial.spec.index), &trial);
            trial.history = None;
        }
        trial.histograms.clear();
        let place = self.trials.partition_point(|other| other.spec.index < trial.spec.index);
        self.trials.insert(place, trial);
        let so_far = self.so_far();
        written.and(self.writer.so_far(so_far))
    }

    /// Drops the earlier record of a trial that was rerun.
    fn forget_earlier(&mut self, index: usize) -> Result<(), Error> {
        let before = self.trials.len();
        self.trials.retain(|trial| trial.spec.index != index);
        if self.trials.len() == before {
            return Ok(());
        }
        let so_far = self.so_far();
        self.writer.forget(index, so_far)
    }

    fn so_far(&self) -> SoFar {
        let precision = self.figures.as_ref().map(|figures| figures.precision(self.rounds));
        let judged = zklockbench_judge::of_run(&self.trials, self.planned);
        SoFar { planned: self.planned, precision, judged }
    }
}

const TIMES_AT_MOST: usize = 3;

/// Limits for rerunning invalid trials at the end of the run, when a disturbance may be over.
///
/// Measured values do not influence reruns, because only the load generator and its host make a trial
/// invalid; `ab` replaces blocks by the same rule. If a limit is reached, some trials remain invalid.
struct Again {
    times: usize,
    trials: usize,
    /// Whether trials with faults that break servers must not be rerun.
    spares_servers: bool,
}

/// Returns how many trials this one replaces, directly or through other replacements; at most [`TIMES_AT_MOST`].
fn generation(trial: &Trial, there: &[Trial]) -> usize {
    let replaced = |trial: &&Trial| there.iter().find(|one| Some(one.spec.index) == trial.spec.makes_up_for);
    std::iter::successors(Some(trial), replaced).skip(1).take(TIMES_AT_MOST).count()
}

/// Returns whether the ensemble is external: a fault must not break its servers again.
fn spares_servers(plan: &TrialPlan) -> bool {
    plan.scenario.ensemble.is_external()
}

impl Again {
    /// Returns what is left of the limits after the reruns in `there`, so that resuming a run adds none.
    fn of(plan: &TrialPlan, planned: usize, there: &[Trial]) -> Self {
        let made = there.iter().filter(|trial| trial.spec.makes_up_for.is_some()).count();
        let times = there.iter().map(|trial| generation(trial, there)).max().unwrap_or(0);
        Self {
            times: TIMES_AT_MOST - times,
            trials: planned.saturating_sub(made),
            spares_servers: spares_servers(plan),
        }
    }

    /// Returns the invalid trials without a replacement.
    fn spoiled<'a>(&self, ran: &'a [Trial]) -> impl Iterator<Item = &'a Trial> {
        let replaced = Trial::replaced(ran);
        ran.iter().filter(move |trial| trial.is_spoiled() && !replaced.contains(&trial.spec.index))
    }

    fn may_rerun(&self, trial: &Trial) -> bool {
        !self.spares_servers || !trial.spec.faults.iter().any(|one| reaches_servers(&one.kind))
    }

    /// Returns the replacements to run next; empty if no trial is invalid or a limit is reached.
    fn next(&mut self, ran: &[Trial]) -> Vec<TrialSpec> {
        let spoiled = self.spoiled(ran).filter(|trial| self.may_rerun(trial)).take(self.trials);
        let spoiled: Vec<TrialSpec> = spoiled.map(|trial| trial.spec.clone()).collect();
        if self.times == 0 {
            return Vec::new();
        }
        self.times -= 1;
        self.trials -= spoiled.len();
        let first = ran.iter().map(|trial| trial.spec.index + 1).max().unwrap_or(0);
        zklockbench_scenario::again(&spoiled, first)
    }
}

/// Returns freed memory to the system. Otherwise, glibc keeps freed memory in the arenas of a trial's threads,
/// which the next trial does not use: three trials of 2,000 contenders took 1.4 GB instead of 0.6 GB.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code, reason = "`malloc_trim` is a C function")]
pub fn give_back_memory() {
    // SAFETY: `malloc_trim` touches only free memory and takes the allocator's locks.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn give_back_memory() {}
