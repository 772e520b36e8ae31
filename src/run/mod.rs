//! The loop over the trials of a run: each is run, judged and written down; when the run ends, and how. And series of runs, each of
//! which is a process of its own.

mod precision;
pub mod series;

use tokio_util::sync::CancellationToken;

use zklockbench_core::error::Error;
use zklockbench_core::units::counted;
use zklockbench_core::verdict::Verdict;
use zklockbench_ensemble::fault;
use zklockbench_load::{Environment, run_trial};
use zklockbench_locks::Entry;
use zklockbench_record::history::LockKind;
use zklockbench_record::{Cause, CellKey, Counting, CutShort, Judged, Precision, Run, RunOutcome, Trial};
use zklockbench_results::history::write_trial;
use zklockbench_results::{RunWriter, SoFar, layout};
use zklockbench_scenario::{TrialPlan, TrialSpec};

use precision::Figures;

#[derive(Debug)]
pub enum RunEvent<'a> {
    /// A trial is there already, as the run is resumed.
    AlreadyThere(&'a TrialSpec),
    /// What the trial's lock sends and receives is counted before it, in a trial of its own.
    Counts(&'a TrialSpec),
    TrialBegins(&'a TrialSpec),
    Within(zklockbench_load::EnvironmentEvent<'a>),
    TrialEnded(&'a Trial),
    /// The figures are not as precise as the scenario asks, so these trials are added.
    RoundAdded(&'a [TrialSpec], &'a Precision),
    /// The generator spoiled some trials, so these are made in their place.
    MadeAgain(&'a [TrialSpec]),
}

pub struct RunContext<'a> {
    pub environment: &'a Environment,
    pub stop: &'a CancellationToken,
    pub tell: &'a (dyn Fn(RunEvent<'_>) + Sync),
    /// Which server that was started for the run has ended by itself, if one has.
    pub server_ended: &'a dyn Fn() -> Option<String>,
    /// Whether it is counted on the wire what locks send and receive: once for each strategy and number of contenders.
    pub counts: bool,
    /// Takes a trial, with its histograms, and says why the run need not go on, if it need not.
    pub hopeless: &'a dyn Fn(&Trial) -> Option<String>,
}

pub struct Ran {
    /// Every trial that ran, judged, without its histograms, which are on disk.
    pub trials: Vec<Trial>,
    /// How many were to run, rounds that were added among them, but not those made in place of others.
    pub planned: usize,
    /// How precise the figures are, where the scenario asks for that.
    pub precision: Option<Precision>,
    pub outcome: RunOutcome,
}

impl Ran {
    pub fn judge(&self) -> Judged {
        zklockbench_judge::of_run(&self.trials, self.planned)
    }

    /// What that run has come to.
    pub fn ended(&self, run: Run) -> Run {
        let (precision, outcome) = (self.precision.clone(), self.outcome.clone());
        Run { planned_trials: self.planned, precision, outcome, ..run }
    }
}

/// Whether a trial takes place anew where its run is resumed: the end of the run cut it short. One that found a violation stays,
/// because that is found.
pub fn is_unfinished(trial: &Trial) -> bool {
    let ended = |cut: &CutShort| {
        matches!(cut.cause, Cause::Interrupted | Cause::EnsembleLost | Cause::EnsembleOverloaded)
    };
    trial.cut_short.as_ref().is_some_and(ended) && !matches!(trial.judged.verdict, Verdict::Violated(_))
}

/// What these trials come to if they are all that the plan asks for, with its precision; `None` where some are missing.
pub fn whole(plan: &TrialPlan, there: &[Trial]) -> Option<Ran> {
    let mut figures =
        plan.scenario.precision.map(|asked| Figures::of(asked, plan.scenario.repetitions, &plan.round(1)));
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
    let is_over = !there.iter().any(is_unfinished) && Again::of(plan, planned).next(there).is_empty();
    let precision = figures.map(|figures| figures.precision(round));
    is_over.then(|| Ran { trials: there.to_vec(), planned, precision, outcome: RunOutcome::COMPLETE })
}

/// How many trials there are, those in place of others not counted.
fn slots(trials: &[Trial]) -> usize {
    trials.iter().filter(|trial| trial.spec.makes_up_for.is_none()).count()
}

/// Runs the trials of a plan one after the other, and hands each to the writer, until all ran and their figures are as
/// precise as the scenario asks, or something ends the run early. That is its outcome, and no error: what ran till then is
/// kept. Trials that are there already do not run.
pub async fn run(
    plan: &TrialPlan,
    there: Vec<Trial>,
    writer: &mut RunWriter,
    context: &RunContext<'_>,
) -> Ran {
    let figures =
        plan.scenario.precision.map(|asked| Figures::of(asked, plan.scenario.repetitions, &plan.round(1)));
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
    /// Their figures, where it depends on them whether more follow.
    figures: Option<Figures>,
    /// Those that are recorded, in the order of their numbers.
    trials: Vec<Trial>,
    planned: usize,
    rounds: u32,
    /// A trial that breaks servers is never repeated.
    spares_servers: bool,
}

impl UnderWay<'_> {
    /// Runs the rounds of the plan and those that its precision takes; gives how the run ends when it can't go on.
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
            (self.context.tell)(RunEvent::RoundAdded(&trials, &so_far));
            self.run_round(&trials).await?;
            round += 1;
        }
        // Whether a trial was spoiled is known once all workers' parts are one.
        if self.context.environment.rendezvous.is_some() { Ok(()) } else { self.make_again(plan).await }
    }

    /// Makes up for the trials that the generator spoiled. They are not planned: each takes the place of another.
    async fn make_again(&mut self, plan: &TrialPlan) -> Result<(), RunOutcome> {
        let mut again = Again::of(plan, self.planned);
        let earlier = self.trials.iter().filter(|trial| trial.spec.makes_up_for.is_some());
        let earlier: Vec<TrialSpec> = earlier.map(|trial| trial.spec.clone()).collect();
        self.run_trials(&earlier).await?;
        loop {
            let trials = again.next(&self.trials);
            if trials.is_empty() {
                self.note_spared(&again);
                return Ok(());
            }
            (self.context.tell)(RunEvent::MadeAgain(&trials));
            self.run_trials(&trials).await?;
        }
    }

    /// Names the reason for which invalid trials were not rerun, if there are any.
    fn note_spared(&self, again: &Again) {
        let spared = again.spoiled(&self.trials).filter(|trial| !again.may_rerun(trial)).count();
        if spared > 0 {
            let trials = counted(spared, "invalid trial was not rerun", "invalid trials were not rerun");
            let why = format!("{trials}, because their faults break servers that this run did not start");
            (self.context.tell)(RunEvent::Within(zklockbench_load::EnvironmentEvent::Warning(&why)));
        }
    }

    /// How precise the figures are, where that is not enough.
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

    /// Whether a trial need not run; its figures are then noted as if it just had.
    fn is_there(&mut self, spec: &TrialSpec) -> bool {
        let mut there = self.trials.iter_mut();
        let is_final = |trial: &Trial| {
            !is_unfinished(trial)
                || self.spares_servers && trial.faults.iter().any(|one| breaks_servers(&one.kind))
        };
        let Some(trial) = there.find(|trial| trial.spec.index == spec.index && is_final(trial)) else {
            return false;
        };
        self.figures.iter_mut().for_each(|figures| figures.note(trial));
        // It is told again with the next trial.
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

    /// What the lock of a trial sends and receives, where the trial is the one to have it: the first sound one of its repetitions.
    async fn counting(&self, spec: &TrialSpec, entry: &Entry) -> Result<Option<Counting>, RunOutcome> {
        let RunContext { environment, stop, tell, counts, .. } = *self.context;
        let cell = CellKey::of(spec);
        let repetitions = || self.trials.iter().filter(|trial| cell.is_of(trial));
        if !counts || repetitions().any(|trial| trial.is_sound() && trial.on_the_wire().is_some()) {
            return Ok(None);
        }
        // The figures of those others don't count; but nothing of what was counted is timed.
        if let Some(counting) = repetitions().find_map(Trial::on_the_wire) {
            return Ok(Some(counting.clone()));
        }
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
                    let warning = format!("violated where requests were counted, {cell}: {why}");
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

    /// Says, too, when a server of our own has ended.
    fn aborted(&self, what: &str) -> RunOutcome {
        let ended = (self.context.server_ended)();
        // What follows from a server's end comes after it.
        RunOutcome::aborted(ended.map_or_else(|| what.to_owned(), |server| format!("{server}; {what}")))
    }

    /// Writes a trial down, with what the run comes to so far, and keeps it without what would fill the memory.
    fn keep(&mut self, mut trial: Trial) -> Result<(), Error> {
        self.forget_earlier(trial.spec.index)?;
        self.writer.trial(&trial)?;
        let mut written = Ok(());
        if self.context.environment.keeps_history {
            written = self.write_history(&trial);
            trial.history = None;
        }
        trial.histograms.clear();
        let place = self.trials.partition_point(|other| other.spec.index < trial.spec.index);
        self.trials.insert(place, trial);
        let so_far = self.so_far();
        written.and(self.writer.so_far(so_far))
    }

    /// Gives up what there is of a trial that has been made again.
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

    fn write_history(&self, trial: &Trial) -> Result<(), Error> {
        let strategy = &trial.spec.strategy;
        let kind = zklockbench_locks::find(&strategy.name)
            .map_or(LockKind::Mutex, |entry| zklockbench_load::kind_of(entry, &strategy.params));
        write_trial(&layout::trial_history(self.writer.dir(), trial.spec.index), trial, kind)
    }
}

const TIMES_AT_MOST: usize = 3;

/// Trials whose figures the generator spoiled are made again at the end of the run, where what disturbed them may be
/// over; this is how much of that is left.
///
/// It looks at no value: a trial is invalid by what was seen of the generator and its host. (`ab` makes up for blocks by
/// the same rule.) Where the host spoils so many that it is no place to measure, some stay invalid, and count as that.
struct Again {
    times: usize,
    trials: usize,
    /// Trials that break servers are not rerun.
    spares_servers: bool,
}

/// Whether the run does not start its servers, so that each fault may hit them only once.
fn spares_servers(plan: &TrialPlan) -> bool {
    plan.scenario.ensemble.is_external()
}

fn breaks_servers(kind: &str) -> bool {
    fault::find(kind).is_some_and(|entry| entry.card.needs.reaches_servers())
}

impl Again {
    fn of(plan: &TrialPlan, planned: usize) -> Self {
        Self { times: TIMES_AT_MOST, trials: planned, spares_servers: spares_servers(plan) }
    }

    /// The invalid trials that no other replaces.
    fn spoiled<'a>(&self, ran: &'a [Trial]) -> impl Iterator<Item = &'a Trial> {
        let replaced = Trial::replaced(ran);
        ran.iter().filter(move |trial| trial.is_spoiled() && !replaced.contains(&trial.spec.index))
    }

    fn may_rerun(&self, trial: &Trial) -> bool {
        !self.spares_servers || !trial.spec.faults.iter().any(|one| breaks_servers(&one.kind))
    }

    /// The trials that follow those that ran, in the order of running; none where there is nothing to make up for, or where
    /// that was tried often enough.
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

/// Gives back to the system what a trial used and freed. The allocator of glibc keeps it, and the threads of the next trial
/// take other memory than those of the last: three trials of 2,000 contenders took 1.4 GB instead of 0.6.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code, reason = "a function of C")]
pub fn give_back_memory() {
    // SAFETY: it touches nothing but what is free, and takes the allocator's own locks.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn give_back_memory() {}
