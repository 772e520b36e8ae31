//! From the stored run to the view.

use super::{AccountingLine, Broken, Cell, Fault, Order, Repetition, View};
use crate::measure::{Measure, Outcome, RequestKind};
use crate::results::wire::{
    EnsembleInfo, EnsembleOrder, Evidence, FaultRecord, RunEnding, RunFile, StoredAccounting, StoredCounts,
    StoredRun, Stuck, TrialFile, VerdictWord,
};
use crate::units::{contenders, format_micros};

impl View {
    /// The view of a stored run. Never fails: what is missing is not shown.
    #[must_use]
    pub fn of(stored: &StoredRun) -> Self {
        let strategies = strategies(stored);
        let mut trials: Vec<(usize, &TrialFile)> =
            stored.trials.iter().filter_map(|trial| Some((position(&strategies, trial)?, trial))).collect();
        trials.sort_by_key(|(strategy, trial)| (*strategy, trial.contenders, trial.repetition, trial.index));
        Self {
            title: stored.run.scenario.clone(),
            place: place(&stored.run, stored.trials.first().map(|trial| trial.load.as_str())),
            strategies,
            cells: cells(&trials),
            remarks: remarks(&stored.run).into_iter().chain(not_compared(&stored.trials)).collect(),
            verdict: (&stored.run.exclusion).into(),
            evidence: evidence(&stored.trials),
        }
    }
}

/// What the verdict rests on in the trial in which that is the least.
fn evidence(trials: &[TrialFile]) -> Option<String> {
    let held = trials.iter().filter(|trial| trial.exclusion.verdict == VerdictWord::Held);
    let (trial, evidence) = Evidence::least(held.map(|trial| (trial, trial.evidence)))?;
    let (label, contenders) = (&trial.label, contenders(trial.contenders));
    Some(format!("in the trial with the least ({label}, {contenders}) {}", evidence.describe()))
}

fn position(strategies: &[String], trial: &TrialFile) -> Option<usize> {
    strategies.iter().position(|label| *label == trial.label)
}

/// The labels in the order in which the scenario names the strategies.
///
/// The trials themselves ran shuffled; colours that followed them would change from run to run.
fn strategies(stored: &StoredRun) -> Vec<String> {
    let place = |name: &str| {
        let text = &stored.run.scenario_text;
        text.find(&format!("\"{name}\"")).or_else(|| text.find(name)).unwrap_or(usize::MAX)
    };
    let mut found: Vec<(usize, String)> =
        stored.trials.iter().map(|trial| (place(&trial.strategy), trial.label.clone())).collect();
    found.sort();
    found.dedup();
    found.into_iter().map(|(_, label)| label).collect()
}

fn cells(trials: &[(usize, &TrialFile)]) -> Vec<Cell> {
    let together =
        |a: &(usize, &TrialFile), b: &(usize, &TrialFile)| a.0 == b.0 && a.1.contenders == b.1.contenders;
    let cell = |same: &[(usize, &TrialFile)]| Cell {
        strategy: same[0].0,
        contenders: same[0].1.contenders,
        repetitions: same.iter().map(|(_, trial)| repetition(trial)).collect(),
    };
    trials.chunk_by(together).map(cell).collect()
}

fn repetition(trial: &TrialFile) -> Repetition {
    Repetition {
        throughput: trial.derived.throughput_per_s,
        fan_out: trial.derived.fan_out,
        requests: requests(trial),
        notifications: trial.derived.notifications_per_acquisition,
        overtaken: per_acquisition(&trial.measured, trial.measured.overtaken),
        fairness: trial.derived.fairness,
        readers: trial.derived.mean_readers,
        wait: trial.histogram(Measure::Wait).cloned(),
        handoff: trial.histogram(Measure::Handoff).cloned(),
        per_second: full_seconds(trial),
        invalid: trial.health.invalid.clone(),
        partial: partial(trial),
        violations: trial.violation_count,
        first_violation: first_violation(trial),
        verdict: (&trial.exclusion).into(),
        accounting: trial.accounting.iter().map(accounting).collect(),
        broken: broken(trial),
        ..Repetition::unmeasured(trial.index, trial.repetition)
    }
}

/// Requests per acquisition by kind; none when not all were seen.
fn requests(trial: &TrialFile) -> Vec<(RequestKind, f64)> {
    if trial.derived.requests_per_acquisition.is_none() {
        return Vec::new();
    }
    let counts = &trial.measured;
    let amount = |kind| Some((kind, per_acquisition(counts, counts.request(kind))?));
    RequestKind::ALL.into_iter().filter_map(amount).filter(|(_, amount)| *amount > 0.0).collect()
}

fn per_acquisition(counts: &StoredCounts, amount: u64) -> Option<f64> {
    (counts.acquired() > 0).then(|| amount as f64 / counts.acquired() as f64)
}

/// The timeline without its last second where that was cut short: it would look like a collapse.
fn full_seconds(trial: &TrialFile) -> Vec<u64> {
    let full = usize::try_from(trial.measured_us / 1_000_000).unwrap_or(usize::MAX);
    trial.timeline.iter().take(full).map(|second| second.acquisitions).collect()
}

fn partial(trial: &TrialFile) -> Option<String> {
    let why = || trial.completeness.why.clone().unwrap_or_else(|| "cut short".to_owned());
    (!trial.completeness.complete).then(why)
}

fn first_violation(trial: &TrialFile) -> Option<String> {
    let first = trial.violations.first()?;
    Some(format!(
        "contender {} entered lock {} while contender {} was inside",
        first.entered.contender, first.lock, first.inside.contender
    ))
}

fn accounting(line: &StoredAccounting) -> AccountingLine {
    AccountingLine {
        what: line.what.clone(),
        client: line.client,
        expected: line.expected,
        servers: line.servers,
        agrees: line.agrees,
    }
}

fn remarks(run: &RunFile) -> Vec<String> {
    let ran = format!("{} of {} trials ran", run.trials, run.planned_trials);
    match run.outcome.ending {
        RunEnding::Complete => Vec::new(),
        RunEnding::Interrupted => vec![format!("The run was interrupted: {ran}")],
        RunEnding::Aborted => {
            let why = run.outcome.why.as_deref().unwrap_or("the environment failed");
            vec![format!("The run was cut short: {why}; {ran}")]
        }
    }
}

/// What was broken in a trial; `None` when nothing was.
fn broken(trial: &TrialFile) -> Option<Broken> {
    let stored = trial.broken.as_ref()?;
    let outcome = |outcome| trial.whole.outcome(outcome);
    Some(Broken {
        faults: stored.faults.iter().map(fault).collect(),
        order: stored.ensemble_order.as_ref().map(order),
        zombies: trial.excused.zombies,
        longest_unsafe_us: trial.excused.longest_unsafe_us,
        uncertain: trial.excused.uncertain,
        stuck: stored.stuck.iter().map(stuck).collect(),
        orphans: stored.orphans,
        sessions_lost: trial.sessions.expired,
        holds_lost: trial.whole.lost_while_held,
        waits_lost: outcome(Outcome::SessionExpired) + outcome(Outcome::ConnectionLost),
        stale_writes: stored.fencing.stale,
        stale_rejected: stored.fencing.stale_rejected,
    })
}

fn order(stored: &EnsembleOrder) -> Order {
    Order { compared: stored.checked, too_early: stored.overlaps.max(stored.too_early) }
}

fn fault(stored: &FaultRecord) -> Fault {
    Fault {
        number: stored.number,
        label: stored.label.clone(),
        target: stored.target.clone(),
        asked_us: stored.asked_us,
        ended_us: stored.ended_us,
        unproved: (!stored.proved).then(|| stored.proof.clone()),
        left: stored.left.clone(),
        elected_us: stored.elected_us,
        longest_gap_us: stored.longest_gap_us,
        recovered_us: stored.recovered_us,
    }
}

/// Who waited how long, and where it stood.
fn stuck(stored: &Stuck) -> String {
    let waited = format_micros(stored.waited_us);
    let mut said = vec![format!("contender {} waited {waited} for lock {}", stored.contender, stored.lock)];
    said.push(stored.node.as_ref().map_or_else(|| "no node found".to_owned(), |node| format!("node {node}")));
    said.extend(stored.position.map(|before| format!("nodes before it: {before}")));
    said.extend(stored.blocked_by.as_ref().map(|first| format!("blocked by {first}")));
    said.push(match stored.watches.as_slice() {
        [] => "watches nothing".to_owned(),
        paths => format!("watches {}", paths.join(" ")),
    });
    said.join(", ")
}

/// The sentences on where a run was measured, most telling first.
fn place(run: &RunFile, load: Option<&str>) -> Vec<String> {
    let mut said = vec![ensemble(&run.ensemble), host(run)];
    if !run.ensemble.placement.is_empty() {
        said.push(format!("data: {}", run.ensemble.placement));
    }
    if run.ensemble.starts_cold {
        said.push("servers not warmed up".to_owned());
    }
    let load = load.map_or_else(String::new, |load| format!("{load} load, "));
    said.push(format!("scenario {}, {load}seed {}", run.scenario, run.seed));
    said
}

/// Why the servers' counts are not beside the client's: one line for each server and reason.
fn not_compared(trials: &[TrialFile]) -> Vec<String> {
    let servers = trials.iter().flat_map(|trial| &trial.servers);
    let silent = servers.filter(|server| server.before.is_empty() || server.after.is_empty());
    let mut lines: Vec<String> = silent
        .filter_map(|server| {
            let why = server.role.strip_prefix("not known (")?.strip_suffix(')')?;
            Some(format!("not compared: the client's counts with those of {}: {why}", server.address))
        })
        .collect();
    lines.sort_unstable();
    lines.dedup();
    lines
}

fn ensemble(ensemble: &EnsembleInfo) -> String {
    let servers = match ensemble.servers.len() {
        0 => "unknown number of servers".to_owned(),
        1 => "1 server".to_owned(),
        many => format!("{many} servers"),
    };
    let told = ensemble.servers.iter().map(|server| short(&server.version));
    let mut versions: Vec<&str> =
        told.filter(|told| told.starts_with(|c: char| c.is_ascii_digit())).collect();
    versions.sort_unstable();
    versions.dedup();
    let version = match versions.as_slice() {
        [] if ensemble.servers.is_empty() => String::new(),
        [] => " (ZooKeeper's version not known)".to_owned(),
        some => format!(" (ZooKeeper {})", some.join(" and ")),
    };
    format!("{} ensemble, {servers}{version}", ensemble.kind)
}

/// `3.9.4-abc, built on …` as the server says it, without its commit and build date.
fn short(version: &str) -> &str {
    version.split(['-', ',', ' ']).next().unwrap_or(version)
}

fn host(run: &RunFile) -> String {
    let cores = match run.host.cores {
        1 => "1 core".to_owned(),
        many => format!("{many} cores"),
    };
    if run.ensemble.shares_host {
        format!("ensemble and generator share one host and its {cores}")
    } else {
        format!("generator on a host of its own ({cores})")
    }
}
