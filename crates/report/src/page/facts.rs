//! Tables and lists of a run's environment, outcomes, server counters, floor, verdicts and reproduction.

use std::time::SystemTime;

use super::{Source, noted};
use crate::View;
use crate::calibration::floor_grid;
use crate::document::{Block, Columns, Table, Tone, Value};
use crate::view::Cell;
use zklockbench_core::measure::Outcome;
use zklockbench_core::units::{counted, format_micros, joined, number, percent};
use zklockbench_core::verdict::Verdict;
use zklockbench_record::{EnsembleInfo, HostInfo, Trial, UNCOUNTED, WITHOUT_LOGS};

pub(crate) fn fact(name: &str, value: String) -> (String, Value) {
    (name.to_owned(), Value::from(value))
}

pub(crate) fn place(ensemble: &EnsembleInfo, host: &HostInfo) -> Vec<(String, Value)> {
    let mut facts = vec![fact("Ensemble", format!("{} ({})", ensemble.kind, ensemble.connect))];
    facts.extend(ensemble.servers.iter().map(|server| {
        fact("Server", format!("{}, {}, ZooKeeper {}", server.address, server.role, server.version))
    }));
    facts.push(fact("Data", ensemble.placement.clone()));
    let memory = format!("{} GiB of memory", number(host.memory_bytes as f64 / f64::from(1 << 30)));
    let (cores, system) = (counted(host.cores, "core", "cores"), format!("{} {}", host.os, host.kernel));
    let host = [host.hostname.as_str(), &host.cpu, &cores, &memory, system.trim()];
    // Hosts may hide some of these facts.
    facts.push(fact("Generator", joined(host.into_iter().filter(|part| !part.is_empty()), ", ")));
    facts
}

/// Returns the time and program of a measurement.
pub(crate) fn measured(at: SystemTime, version: &str, commit: Option<&str>) -> Block {
    Block::Facts(vec![fact("Measured", when(at)), program(version, commit)])
}

pub(crate) fn when(at: SystemTime) -> String {
    humantime::format_rfc3339_seconds(at).to_string()
}

pub(crate) fn program(version: &str, commit: Option<&str>) -> (String, Value) {
    let commit = commit.map_or_else(String::new, |commit| format!(", commit {commit}"));
    fact("Program", format!("zklockbench {version}{commit}"))
}

const SHARED: &str = "Servers and generator share one host and compete for its processors: compare strategies within \
    this run, not metrics across hosts.";
const COLD: &str = "The servers were not warmed up, so the first trials are slower than later ones.";

pub(super) fn environment(source: &Source<'_>) -> impl Iterator<Item = Block> {
    let run = &source.stored.run;
    let ensemble = &run.ensemble;
    let mut facts = place(ensemble, &run.host);
    facts.push(fact("Threads", run.generator_threads.to_string()));
    facts.push(fact("Measured", format!("{} to {}", when(run.started_at), when(run.ended_at))));
    facts.push(program(&run.tool_version, run.tool_commit.as_deref()));
    let shared = ensemble.shares_host.then(|| SHARED.to_owned());
    let cold = ensemble.starts_cold.then(|| COLD.to_owned());
    let limit = ensemble.load_limit().map(|rate| {
        format!(
            "The load was limited to {rate} to protect other clients of the ensemble: throughput reflects \
             the limit, not the locks."
        )
    });
    let missing =
        ensemble.config.iter().filter(|(name, _)| [UNCOUNTED, WITHOUT_LOGS].contains(&name.as_str()));
    let missing = missing.map(|(name, why)| format!("The {name} are {why}."));
    let trials = || source.stored.trials.iter();
    let busiest = trials().map(|trial| trial.health.cpu_share).reduce(f64::max).filter(|share| *share > 0.0);
    let busiest = busiest.map(|share| format!("The generator used up to {} of one core.", percent(share)));
    let disk = trials().filter_map(Trial::busiest_disk).reduce(f64::max).map(percent);
    let disk = disk.map(|share| {
        format!("The busiest server spent up to {share} of a trial waiting for its log to be synced to disk.")
    });
    let idle = trials().filter_map(|trial| trial.health.host_idle_share).reduce(f64::min).map(percent);
    let idle = idle.map(|idle| format!("At its busiest, the generator's host was {idle} idle."));
    let of_ensemble = shared.into_iter().chain(cold).chain(limit).chain(missing);
    let limits = of_ensemble.chain(busiest).chain(disk).chain(idle).collect();
    std::iter::once(Block::Facts(facts)).chain(noted(limits))
}

pub(super) fn outcomes(source: &Source<'_>) -> Table {
    let view = source.view;
    let all = |cell: &Cell<'_>, outcome: Outcome| cell.sum(|trial| trial.measured.outcomes.get(outcome));
    let mut columns = Columns::<&Cell<'_>>::of_cells(view, |cell| cell);
    for outcome in Outcome::ALL {
        if outcome == Outcome::Acquired || view.cells.iter().any(|cell| all(cell, outcome) > 0) {
            columns = columns.numbers(name(outcome), 1, move |cell| all(cell, outcome));
        }
    }
    columns
        .numbers("unserved at the end", 1, |cell| cell.sum(Trial::unserved))
        .explained("waits that ended without the lock, or were still in progress at the end of the phase")
        .numbers("lost while held", 1, |cell| cell.sum(|trial| trial.measured.lost_while_held))
        .table("Outcome of every acquire", 2, &view.cells)
        .noted("Counts of the measured phase over all repetitions.")
}

const fn name(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Acquired => "acquired",
        Outcome::TimedOut => "timed out",
        Outcome::SessionExpired => "session expired",
        Outcome::ConnectionLost => "connection lost",
        Outcome::Cancelled => "cancelled",
        Outcome::Failed => "failed",
        Outcome::Crashed => "crashed",
    }
}

/// Returns the increase in a counter over the valid trials (all trials if none is valid), summed over the
/// servers that did not restart; `None` if all restarted, or if one has no such counter.
fn growth(cell: &Cell<'_>, key: &str) -> Option<f64> {
    let servers = cell.counting().flat_map(|trial| &trial.servers).filter(|server| !server.has_restarted());
    let all: Vec<i128> = servers.map(|server| server.growth(key)).collect::<Option<_>>()?;
    (!all.is_empty()).then(|| all.iter().sum::<i128>() as f64)
}

pub(super) fn servers(source: &Source<'_>) -> Table {
    let each = |cell: &Cell<'_>, key| {
        let is_counted = |trial: &&Trial| trial.servers.iter().any(|server| !server.has_restarted());
        let acquired: u64 = cell.counting().filter(is_counted).map(|trial| trial.whole.acquired()).sum();
        Some(Value::Amount(growth(cell, key).filter(|_| acquired > 0)? / acquired as f64))
    };
    let mut columns = Columns::<&Cell<'_>>::of_cells(source.view, |cell| cell);
    for (heading, key) in [
        ("packets in/acq", "zk_packets_received"),
        ("packets out/acq", "zk_packets_sent"),
        ("proposals/acq", "zk_proposal_count"),
        ("log syncs/acq", "zk_cnt_fsynctime"),
    ] {
        columns = columns.numbers(heading, 1, move |cell| each(cell, key));
    }
    let table = columns
        .numbers("mean log sync", 1, |cell| {
            let count = growth(cell, "zk_cnt_fsynctime").filter(|count| *count > 0.0)?;
            Some(Value::Duration(1e3 * growth(cell, "zk_sum_fsynctime")? / count))
        })
        .table("Server counters", 2, &source.view.cells)
        .noted(
            "Increase in the servers' own counters (mntr) over a trial, per acquisition of the whole trial, including \
             pings and the opening of sessions. Servers that restarted during the trial are excluded.",
        );
    let is_measured = |row: &Vec<Value>| row[2..].iter().any(|value| !value.is_not_measured());
    let is_shown = table.rows.iter().any(is_measured);
    table.shown_if(is_shown)
}

pub(super) fn floor(view: &View<'_>) -> Vec<Block> {
    let Some(floor) = &view.floor else { return Vec::new() };
    let all = [
        ("handoff, over all servers", floor.handoff),
        ("handoff, both sessions on one server", floor.handoff_same_server),
        ("handoff, sessions on two servers", floor.handoff_other_server),
        ("uncontended acquire", floor.uncontended),
    ];
    let table = floor_grid(all.into_iter().filter(|(_, of)| of.is_some())).captioned(
        "Cost of the ensemble itself",
        "Duration of raw requests without a lock, measured before the first trial: no lock can be faster.",
    );
    let missing = floor.missing.iter().map(|why| Block::Text(format!("Not measured: {why}.")));
    let outlier = floor.outlier_us.map(format_micros).map(|us| {
        Block::Text(format!("An earlier measurement, {us} for a handoff, was an outlier and was replaced."))
    });
    [table.into()].into_iter().chain(missing).chain(outlier).collect()
}

pub(super) fn verdicts(source: &Source<'_>) -> Table {
    type Promise = fn(&Trial) -> Option<&Verdict>;
    let all = |cell: &Cell<'_>, of: Promise| cell.all().filter_map(of).cloned().reduce(Verdict::and);
    let word = |verdict: Option<Verdict>| verdict.map(|verdict| Value::from(&verdict));
    Columns::<&Cell<'_>>::of_cells(source.view, |cell| cell)
        .words("verdict", |cell| cell.judged())
        .words("exclusion", |cell| {
            word(all(cell, |one| Some(&one.judged.exclusion)).filter(|_| cell.contenders > 1))
        })
        .explained("contenders never observed two holders at once")
        .words("order", |cell| word(all(cell, |one| one.judged.order.as_ref())))
        .explained("no contender entered before the servers had deleted the previous holder's node")
        .words("progress", |cell| word(all(cell, |one| one.judged.progress.as_ref())))
        .explained("every waiter was served once all faults had healed")
        .words("counts", |cell| {
            Some(match all(cell, |one| one.judged.accounting.as_ref())? {
                Verdict::Held => Value::verdict("agree", Tone::Good),
                // Counts that disagree cast doubt on metrics, not on the lock.
                Verdict::Violated(_) => Value::verdict("disagree", Tone::Doubtful),
                Verdict::Unknown(_) => Value::verdict("unknown", Tone::Doubtful),
            })
        })
        .numbers("acquisitions", 1, |cell| cell.sum(|trial| trial.measured.acquired()))
        .numbers("checked", 1, |cell| cell.sum(Trial::checked))
        .explained("acquisitions at which a violation would have been detected")
        .words("why", |cell| cell.verdict()?.why().filter(|why| !why.is_empty()))
        .table("Verdicts", 2, &source.view.cells)
        .noted("A single contender has no other contender to exclude.")
}

pub(super) fn reproduce(source: &Source<'_>) -> [Block; 3] {
    let run = &source.stored.run;
    // The scenario text below already includes all overrides.
    let command = format!("zklockbench run {}.toml --seed {}", run.scenario, run.seed);
    let overrides = if run.overrides.is_empty() { "none".to_owned() } else { run.overrides.join(" ") };
    [
        Block::code("Save the scenario below, and run:", command),
        Block::Facts(vec![
            fact("Seed", run.seed.to_string()),
            fact("Overrides", overrides),
            fact("Directory", source.name.to_owned()),
        ]),
        Block::code("The scenario as run", run.scenario_text.clone()),
    ]
}

pub(super) fn method(source: &Source<'_>) -> [Block; 6] {
    let load = match source.stored.trials.first().map_or("closed", |trial| trial.spec.load.name()) {
        "batch" => "In a batch, all contenders queue up behind a holder, and each acquires once.",
        "open" => {
            "In an open load, arrivals keep coming, whether or not earlier arrivals have been served; a wait \
             starts when the arrival is due."
        }
        _ => "In a closed load, each contender repeatedly acquires, holds, releases and thinks.",
    };
    [
        "Each contender has its own session, and all of its requests and notifications are counted and timed.",
        load,
        "Each repetition of a strategy at a contender count is a trial on a fresh root node with fresh sessions; \
         repetitions are interleaved, so that other activity on the machine affects all strategies alike. \
         Metrics are medians over the valid repetitions.",
        "A strategy is called faster, lighter or fairer only if the whole interval of the ratio lies beyond 5 %. \
         Intervals are exact rank intervals, corrected for multiple comparisons; intervals in brackets are not \
         corrected.",
        "An unfinished wait counts as at least as long as it had lasted (Kaplan-Meier). Trials in which the \
         generator itself was the bottleneck are invalid, and trials that were cut short are partial; neither \
         kind counts.",
        "The verdict on exclusion is based on the contenders' observations and, where the servers' logs can be \
         read, on their transactions.",
    ]
    .map(|text| Block::Text(text.to_owned()))
}
