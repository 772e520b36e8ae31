//! Conversion of a stored run into a view.

use std::borrow::Cow;

use toml::Table;

use super::{Cell, View};
use zklockbench_core::measure::Measure;
use zklockbench_core::units::{
    capitalised, cell_name, counted, distinct_sorted, format_micros, grouped, listed, percent, shown,
};
use zklockbench_record::{EnsembleInfo, RunEnding, Trial};
use zklockbench_results::{RunFile, StoredRun};

impl<'a> View<'a> {
    /// Returns the view of a stored run. Never fails; missing data is omitted.
    pub fn of(stored: &'a StoredRun) -> Self {
        let strategies = strategies(stored);
        let position =
            |trial: &Trial| strategies.iter().position(|label| *label == trial.spec.strategy.label);
        let mut trials: Vec<(usize, &'a Trial)> =
            stored.trials.iter().filter_map(|trial| Some((position(trial)?, trial))).collect();
        trials.sort_by_key(|(strategy, trial)| {
            (*strategy, trial.spec.contenders, trial.spec.repetition, trial.spec.index)
        });
        Self {
            title: stored.run.scenario.clone(),
            question: question(&stored.run.scenario_text),
            place: place(&stored.run, stored.trials.first().map(|trial| trial.spec.load.name())),
            cells: cells(&trials),
            strategies,
            floor: stored.run.floor.clone(),
            unfinished: unfinished(stored),
            remarks: remarks(stored),
            judged: stored.run.judged.clone(),
            evidence: evidence(&stored.trials),
        }
    }
}

fn question(scenario: &str) -> Option<String> {
    let described: Table = toml::from_str(scenario).ok()?;
    described.get("description")?.as_str().map(str::to_owned)
}

/// Describes the evidence for the verdict, from the trial with the least evidence.
fn evidence(trials: &[Trial]) -> Option<String> {
    let trial = Trial::with_least_evidence(trials)?;
    let cell = cell_name(&trial.spec.strategy.label, trial.spec.contenders);
    Some(format!("weakest in {cell}: {}", trial.describe_evidence()))
}

/// Returns labels of the strategies that ran, in the scenario's order.
///
/// Trials run in random order, so colours based on that order would differ between runs.
fn strategies(stored: &StoredRun) -> Vec<String> {
    let ran = |label: &&String| stored.trials.iter().any(|trial| trial.spec.strategy.label == **label);
    stored.run.strategies.iter().filter(ran).cloned().collect()
}

fn cells<'a>(trials: &[(usize, &'a Trial)]) -> Vec<Cell<'a>> {
    let keyed = trials.iter().map(|(at, trial)| ((*at, trial.spec.contenders), Cow::Borrowed(*trial)));
    let cell = |((strategy, contenders), trials)| Cell { strategy, contenders, trials };
    grouped(keyed).into_iter().map(cell).collect()
}

fn remarks(stored: &StoredRun) -> Vec<String> {
    let run = &stored.run;
    let precision = run.precision.as_ref().map(|found| format!("precision: {}", found.describe()));
    let no_floor = run.floor.as_ref().and_then(|floor| {
        let is_partial = floor.handoff.is_some();
        let what = if is_partial { "the floor does not cover all servers" } else { "floor not measured" };
        Some(format!("{what}: {}", floor.missing.as_ref()?))
    });
    let ending = ended_early(stored).map(|why| capitalised(&why));
    let of_run = [ending, resumed(run), of_workers(stored), precision, no_floor];
    let of_trials = granted(&stored.trials).into_iter().chain(not_compared(&stored.trials));
    let of_trials = of_trials.chain(busy_generator(stored)).chain(made_again(&stored.replaced));
    of_run.into_iter().flatten().chain(of_trials).collect()
}

/// Returns remarks on granted session timeouts that differ from the requested timeout.
fn granted(trials: &[Trial]) -> Vec<String> {
    let differing = trials.iter().filter_map(|trial| Some((trial.granted_otherwise()?, trial)));
    let told = |((asked, granted), trials): ((u64, u64), Vec<&Trial>)| {
        let labels = distinct_sorted(trials.iter().map(|trial| trial.spec.strategy.label.as_str()));
        let [asked, granted] = [asked, granted].map(format_micros);
        format!("session timeout: requested {asked}, granted {granted} ({})", listed(&labels))
    };
    grouped(differing).into_iter().map(told).collect()
}

/// Returns a sentence on the run's workers and hosts, and on handoffs between workers, which no single clock
/// can time.
fn of_workers(stored: &StoredRun) -> Option<String> {
    let workers = stored.run.workers.as_ref().filter(|workers| workers.of > 1)?;
    if workers.is_part() {
        let part = workers.parts.first().map_or(0, |part| part.index);
        let of = format!("Only the part of worker {part} of {} in the run {}", workers.of, workers.run_id);
        return Some(of + ": merge all parts before you use any metric of the run");
    }
    let hosts = distinct_sorted(workers.parts.iter().map(|part| part.host.as_str()));
    let sum = |of: fn(&Trial) -> u64| stored.trials.iter().map(of).sum::<u64>();
    let handoffs = sum(|trial| trial.histograms.get(&Measure::Handoff).map_or(0, |samples| samples.len()));
    let acquired = sum(|trial| trial.measured.acquired());
    let spread = stored.trials.iter().filter_map(|trial| trial.start_spread_us).max().map(format_micros);
    let spread = spread.map_or_else(String::new, |spread| format!(", which started within {spread}"));
    let (workers, hosts) = (counted(workers.of, "worker", "workers"), counted(hosts.len(), "host", "hosts"));
    let timed = format!("{handoffs} of {}", counted(acquired, "acquisition", "acquisitions"));
    Some(format!("Run by {workers} on {hosts}{spread}. Handoffs were timed only within each worker: {timed}"))
}

/// Share of a generator thread's time above which the generator may have limited the throughput.
const BUSY: f64 = 0.9;

/// Describes the trials whose throughput the generator may have limited. Open loads are skipped, because a
/// missed rate has a separate remark.
fn busy_generator(stored: &StoredRun) -> Vec<String> {
    let threads = stored.run.generator_threads.max(1) as f64;
    let told = |trial: &Trial| {
        let (of, share) = (trial.repetition(), trial.health.cpu_share / threads);
        let ran = format!("its threads ran {} of the time; use more threads (--threads)", percent(share));
        (trial.arrived.is_none() && share >= BUSY).then(|| format!("busy generator: {of}: {ran}"))
    };
    stored.trials.iter().filter_map(told).collect()
}

/// Describes the trials that were rerun because the generator spoiled their measurements.
fn made_again(replaced: &[Trial]) -> Vec<String> {
    let why = |trial: &Trial| trial.health.invalid.clone().unwrap_or_default();
    replaced.iter().map(|trial| format!("rerun: {}: {}", trial.repetition(), why(trial))).collect()
}

fn unfinished(stored: &StoredRun) -> Option<String> {
    let how = match stored.run.outcome.ending {
        RunEnding::Complete => return None,
        RunEnding::Interrupted => "Interrupted",
        RunEnding::Aborted | RunEnding::GateFailed => "Ended early,",
    };
    let planned = counted(stored.run.planned_trials, "trial", "trials");
    Some(format!("{how} after {} of {planned}", stored.trials.len()))
}

/// Returns how many of the planned trials ran.
pub(crate) fn trials_ran(stored: &StoredRun) -> String {
    format!("{} of {} ran", stored.trials.len(), counted(stored.run.planned_trials, "trial", "trials"))
}

/// Describes how a run ended early, without a capital letter or a full stop; `None` for a complete run.
pub(crate) fn ended_early(stored: &StoredRun) -> Option<String> {
    let (ran, outcome) = (trials_ran(stored), &stored.run.outcome);
    let why = outcome.why.as_deref();
    Some(match outcome.ending {
        RunEnding::Complete => return None,
        RunEnding::Interrupted => {
            let why = why.map_or_else(String::new, |why| format!("; {why}"));
            format!("the run was interrupted: {ran}{why}")
        }
        RunEnding::Aborted | RunEnding::GateFailed => {
            format!("the run ended early: {}; {ran}", why.unwrap_or("the environment failed"))
        }
    })
}

/// Describes the segments of a resumed run: their trials, and how each segment ended.
fn resumed(run: &RunFile) -> Option<String> {
    let parts = run.segments.iter().map(|part| {
        let from = humantime::format_rfc3339_seconds(part.started_at);
        let trials = match part.trials.as_slice() {
            [] => "no trial".to_owned(),
            [one] => format!("trial {one}"),
            [first, .., last] if part.trials.windows(2).all(|two| two[0] + 1 == two[1]) => {
                format!("trials {first} to {last}")
            }
            some => format!("trials {}", listed(&some.iter().map(ToString::to_string).collect::<Vec<_>>())),
        };
        let count = part.made_again.len();
        let again = format!(", {count} of them restarted from the beginning");
        let again = if count > 0 { again.as_str() } else { "" };
        let why = part.outcome.why.as_ref().map_or_else(String::new, |why| format!(": {why}"));
        let how = match part.outcome.ending {
            RunEnding::Complete => "to the end".to_owned(),
            RunEnding::Interrupted => format!("interrupted{why}"),
            RunEnding::Aborted | RunEnding::GateFailed => format!("ended early{why}"),
        };
        let floor = part.floor.as_ref().and_then(|floor| floor.handoff);
        let floor = floor.map(|floor| format!(", floor of a handoff {}", format_micros(floor.p50_us)));
        let floor = floor.unwrap_or_default();
        format!("from {from}: {trials}{again} ({how}{floor})")
    });
    let parts: Vec<String> = parts.collect();
    let resumed = parts.len().checked_sub(1)?;
    let times = if resumed == 1 { "once".to_owned() } else { format!("{resumed} times") };
    Some(format!("The run was resumed {times}, on a restarted ensemble: {}", parts.join("; ")))
}

/// Returns sentences on the measurement environment, most important first.
fn place(run: &RunFile, load: Option<&str>) -> Vec<String> {
    let (placement, overrides) = (&run.ensemble.placement, &run.overrides);
    let data = (!placement.is_empty()).then(|| format!("data: {placement}"));
    let cold = run.ensemble.starts_cold.then(|| "servers not warmed up".to_owned());
    let limited = |rate| format!("load limited to {rate}: throughput reflects the limit, not the locks");
    let load = load.map_or_else(String::new, |load| format!("{load} load, "));
    let scenario = format!("scenario {}, {load}seed {}", run.scenario, run.seed);
    let replayed = run.replayed.as_ref().map(|file| {
        format!("arrivals from {} (SHA-256 {}…)", shown(&file.file, 60), shown(&file.sha256, 12))
    });
    let changed = (!overrides.is_empty()).then(|| format!("changed by options: {}", overrides.join(", ")));
    let required = [ensemble(&run.ensemble), host(run)].into_iter().chain(data).chain(cold);
    let limited = run.ensemble.load_limit().map(limited);
    required.chain(limited).chain([scenario]).chain(replayed).chain(changed).collect()
}

/// Returns reasons for missing server counts: one line for each server and reason.
fn not_compared(trials: &[Trial]) -> Vec<String> {
    let servers = trials.iter().flat_map(|trial| &trial.servers);
    distinct_sorted(servers.filter_map(|server| {
        let why = server.silent.as_ref()?;
        Some(format!("not compared with the client's counts: {}: {why}", server.address))
    }))
}

fn ensemble(ensemble: &EnsembleInfo) -> String {
    let servers = match ensemble.servers.len() {
        0 => "unknown number of servers".to_owned(),
        servers => counted(servers, "server", "servers"),
    };
    // A server reports its version as `3.9.4-abc, built on …`.
    let told = ensemble.servers.iter().filter_map(|server| server.version.split(['-', ',', ' ']).next());
    let versions = distinct_sorted(told.filter(|told| told.starts_with(|c: char| c.is_ascii_digit())));
    let version = match versions.as_slice() {
        [] if ensemble.servers.is_empty() => String::new(),
        [] => " (ZooKeeper version unknown)".to_owned(),
        some => format!(" (ZooKeeper {})", some.join(" and ")),
    };
    format!("{} ensemble, {servers}{version}", ensemble.kind)
}

fn host(run: &RunFile) -> String {
    let cores = counted(run.host.cores, "core", "cores");
    let (own, all) = (run.ensemble.on_generators_host(), run.ensemble.servers.len());
    if 0 < own && own < all {
        format!("{own} of {all} servers and the load generator share one host with {cores}")
    } else if run.ensemble.shares_host {
        format!("ensemble and load generator share one host with {cores}")
    } else {
        format!("load generator on its own host ({cores})")
    }
}
