//! The CSV tables of a run: `summary.csv` with a row per trial, `timeline.csv` with a row per second, and
//! `faults.csv` with a row per fault.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io;

use zklockbench_core::catalog::LockCard;
use zklockbench_core::measure::{Counts, Latency, Measure, Outcome, RequestKind, Second};
use zklockbench_record::{Derived, FaultRecord, Floor, Run, Trial, figures};

/// A trial with derived values, and the floor for comparison.
struct SummaryRow<'a> {
    trial: &'a Trial,
    derived: Derived,
    latencies: BTreeMap<Measure, Latency>,
    floor: Option<&'a Floor>,
}

/// Writes `summary.csv`. Empty cells mean that nothing was measured.
pub fn summary(out: impl io::Write, run: &Run, trials: &[&Trial]) -> csv::Result<()> {
    let columns = columns();
    let mut csv = csv::Writer::from_writer(out);
    csv.write_record(columns.iter().map(|column| &column.name))?;
    for trial in trials {
        let (derived, latencies) = (trial.derived(), trial.latencies());
        let row = SummaryRow { trial, derived, latencies, floor: run.floor_of(trial.spec.index) };
        csv.write_record(columns.iter().map(|column| (column.cell)(&row).unwrap_or_default()))?;
    }
    Ok(csv.flush()?)
}

/// Text of a cell; `None` if the value was not measured.
type CellText = Option<String>;

struct Column {
    name: String,
    cell: Box<dyn Fn(&SummaryRow<'_>) -> CellText>,
}

fn columns() -> Vec<Column> {
    let all = [of_trial(), derived(), counts(), by_name(), latencies(), over_floor_and_health()];
    all.into_iter().flatten().collect()
}

/// Creates a column with a value that is always known.
fn known<T: Display>(name: impl Into<String>, value: impl Fn(&SummaryRow<'_>) -> T + 'static) -> Column {
    maybe(name, move |trial| Some(value(trial)))
}

/// Creates a column with a value that may be missing.
fn maybe<T: Display>(
    name: impl Into<String>,
    value: impl Fn(&SummaryRow<'_>) -> Option<T> + 'static,
) -> Column {
    let cell = move |trial: &SummaryRow<'_>| value(trial).map(|value| value.to_string());
    Column { name: name.into(), cell: Box::new(cell) }
}

fn of_trial() -> Vec<Column> {
    vec![
        known("trial", |t| t.trial.spec.index),
        known("strategy", |t| t.trial.spec.strategy.name.clone()),
        known("label", |t| t.trial.spec.strategy.label.clone()),
        known("system", |t| {
            t.trial.spec.strategy.system.clone().unwrap_or_else(|| LockCard::ZOOKEEPER.to_owned())
        }),
        known("params", |t| {
            let params = t.trial.spec.strategy.params.iter();
            params.map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(";")
        }),
        known("load", |t| t.trial.spec.load.name()),
        known("contenders", |t| t.trial.spec.contenders),
        known("took_part", |t| t.trial.took_part()),
        known("locks", |t| t.trial.spec.locks),
        known("repetition", |t| t.trial.spec.repetition),
        known("started_at", |t| humantime::format_rfc3339_micros(t.trial.started_at)),
        known("measured_us", |t| t.trial.measured_us),
        known("verdict", |t| t.trial.judged.verdict.word()),
        known("exclusion", |t| t.trial.judged.exclusion.word()),
        maybe("progress", |t| Some(t.trial.judged.progress.as_ref()?.word())),
        maybe("order", |t| Some(t.trial.judged.order.as_ref()?.word())),
        maybe("accounting", |t| Some(t.trial.judged.accounting.as_ref()?.word())),
        known("completeness", |t| if t.trial.cut_short.is_none() { "complete" } else { "partial" }),
        known("valid", |t| t.trial.health.invalid.is_none()),
        known("servers_agree", |t| yes_no_unknown(t.trial.servers_agree())),
        known("cost_model_agrees", |t| yes_no_unknown(t.trial.cost_model_agrees())),
        known("violations", |t| t.trial.violation_count),
        known("most_inside", |t| t.trial.most_inside),
        known("errors", |t| t.trial.errors.values().sum::<u64>()),
        maybe("faults", |t| Some(under_faults(t)?.faults.len())),
        maybe("faults_proved", |t| Some(under_faults(t)?.faults_proved())),
        maybe("longest_gap_us", |t| under_faults(t)?.longest_gap_us()),
        maybe("longest_recovery_us", |t| under_faults(t)?.longest_recovery_us()),
        maybe("stuck", |t| Some(under_faults(t)?.stuck.len())),
        maybe("stale_writes", |t| Some(under_faults(t)?.fencing.stale)),
        maybe("stale_writes_rejected", |t| Some(under_faults(t)?.fencing.stale_rejected)),
        maybe("orphans", |t| t.trial.orphans),
        known("zombies", |t| t.trial.excused.zombies),
        known("uncertain", |t| t.trial.excused.uncertain),
        known("longest_unsafe_us", |t| t.trial.excused.longest_unsafe_us),
        maybe("offered", |t| Some(t.trial.arrived?.offered)),
        maybe("started", |t| Some(t.trial.arrived?.started)),
        maybe("served", |t| Some(t.trial.arrived?.served)),
        maybe("unserved_arrivals", |t| Some(t.trial.arrived?.unserved)),
        maybe("dropped", |t| Some(t.trial.arrived?.dropped)),
        maybe("backlog_us", |t| Some(t.trial.arrived?.backlog_us)),
        maybe("utilisation", |t| Some(t.trial.utilisation?.mean)),
        maybe("utilisation_busiest", |t| Some(t.trial.utilisation?.busiest)),
    ]
}

/// Returns the trial if it had faults.
fn under_faults<'a>(row: &SummaryRow<'a>) -> Option<&'a Trial> {
    Some(row.trial).filter(|trial| !trial.faults.is_empty())
}

fn yes_no_unknown(agrees: Option<bool>) -> &'static str {
    agrees.map_or("unknown", |agrees| if agrees { "yes" } else { "no" })
}

fn derived() -> Vec<Column> {
    let stored = figures::ALL.iter().filter_map(|entry| Some((entry.stored_as?, *entry)));
    stored.map(|(name, entry)| maybe(name, move |t| t.derived.get(entry))).collect()
}

fn counts() -> Vec<Column> {
    vec![
        known("releases", |t| t.trial.measured.releases),
        known("lost_while_held", |t| t.trial.measured.lost_while_held),
        known("overtaken", |t| t.trial.measured.overtaken),
        known("reads_acquired", |t| t.trial.measured.reads_acquired),
        known("read_held_us", |t| t.trial.measured.read_held_us),
        known("saturated", |t| t.trial.measured.saturated),
        maybe("requests", |t| Some(seen(t)?.requests.total())),
        known("unseen", |t| t.trial.measured.unseen),
        maybe("names_returned", |t| Some(seen(t)?.names_returned)),
        maybe("bytes_sent", |t| Some(seen(t)?.bytes_sent)),
        maybe("bytes_received", |t| Some(seen(t)?.bytes_received)),
        maybe("notifications", |t| Some(seen(t)?.notifications.total())),
        maybe("notifications_by_release", |t| Some(seen(t)?.notifications.by_release())),
        maybe("notifications_by_release_useful", |t| Some(seen(t)?.notifications.by_release_useful)),
        maybe("notifications_by_release_spurious", |t| Some(seen(t)?.notifications.by_release_spurious)),
        maybe("notifications_to_releaser", |t| Some(seen(t)?.notifications.to_releaser)),
        maybe("notifications_by_arrival", |t| Some(seen(t)?.notifications.by_arrival)),
        maybe("notifications_by_departure", |t| Some(seen(t)?.notifications.by_departure)),
        maybe("notifications_cause_unknown", |t| Some(seen(t)?.notifications.cause_unknown)),
        maybe("notifications_node_created", |t| Some(seen(t)?.notifications.node_created)),
        maybe("notifications_node_deleted", |t| Some(seen(t)?.notifications.node_deleted)),
        maybe("notifications_data_changed", |t| Some(seen(t)?.notifications.data_changed)),
        maybe("notifications_children_changed", |t| Some(seen(t)?.notifications.children_changed)),
    ]
}

/// Counts of the measured phase; `None` if some traffic was hidden.
fn seen<'a>(row: &SummaryRow<'a>) -> Option<&'a Counts> {
    Some(&row.trial.measured).filter(|counts| counts.unseen == 0)
}

fn by_name() -> Vec<Column> {
    let outcomes = Outcome::ALL.into_iter().map(|outcome| {
        known(format!("outcome_{}", outcome.name()), move |t| t.trial.measured.outcomes.get(outcome))
    });
    let requests = RequestKind::ALL
        .into_iter()
        .map(|kind| maybe(format!("requests_{}", kind.name()), move |t| Some(seen(t)?.requests.get(kind))));
    outcomes.chain(requests).collect()
}

/// Name of a statistic, which becomes part of a column's name, and the function that reads it.
type OfLatency = (&'static str, fn(&Latency) -> u64);

fn latencies() -> Vec<Column> {
    Measure::all().into_iter().flat_map(latency).collect()
}

/// If there are no samples, the count is 0 and the other cells are empty.
fn latency(measure: Measure) -> Vec<Column> {
    let name = measure.name();
    let count =
        known(format!("{name}_count"), move |t| t.latencies.get(&measure).map_or(0, |latency| latency.count));
    let mean = maybe(format!("{name}_mean_us"), move |t| Some(t.latencies.get(&measure)?.mean_us));
    let values: [OfLatency; 6] = [
        ("min", |l| l.min_us),
        ("p50", |l| l.p50_us),
        ("p90", |l| l.p90_us),
        ("p99", |l| l.p99_us),
        ("p999", |l| l.p999_us),
        ("max", |l| l.max_us),
    ];
    let values = values.into_iter().map(|(which, value)| {
        maybe(format!("{name}_{which}_us"), move |t| t.latencies.get(&measure).map(value))
    });
    let from = measure
        .open_parts()
        .map(|_| maybe(format!("{name}_known"), move |t| Some(t.latencies.get(&measure)?.known)));
    [count, mean].into_iter().chain(values).chain(from).collect()
}

fn over_floor_and_health() -> Vec<Column> {
    let median = |t: &SummaryRow<'_>, measure| Some(t.latencies.get(&measure)?.p50_us as f64);
    vec![
        maybe("handoff_p50_over_floor", move |t| t.floor?.handoffs(median(t, Measure::Handoff)?)),
        maybe("uncontended_p50_over_floor", move |t| {
            t.floor?.uncontended_acquires(median(t, Measure::Uncontended)?)
        }),
        maybe("lag_share", |t| t.trial.health.lag_share),
        maybe("hold_overshoot_share", |t| t.trial.health.hold_overshoot_share),
        known("cpu_share", |t| t.trial.health.cpu_share),
        maybe("run_queue_share", |t| t.trial.health.run_queue_share),
        maybe("host_idle_share", |t| t.trial.health.host_idle_share),
        maybe("host_steal_share", |t| t.trial.health.host_steal_share),
        known("timer_lag_p99_us", |t| t.trial.health.timer_lag_p99_us),
        known("timer_lag_max_us", |t| t.trial.health.timer_lag_max_us),
        known("cpu_us", |t| t.trial.health.cpu_us),
        maybe("resident_bytes", |t| t.trial.health.resident_bytes),
        known("standstill_us", |t| t.trial.health.standstill_us),
        known("sessions_opened", |t| t.trial.sessions.opened),
        known("sessions_expired", |t| t.trial.sessions.expired),
        known("sessions_rejoined", |t| t.trial.sessions.rejoined),
        known("connect_us", |t| t.trial.sessions.connect_us),
        known("negotiated_timeout_us", |t| t.trial.sessions.negotiated_timeout_us),
    ]
}

const SECOND_US: u64 = 1_000_000;

/// A column of `timeline.csv`: its name, and its cell for one second of a trial.
type OfSecond = (&'static str, fn(&Trial, usize, &Second) -> String);

const TIMELINE: [OfSecond; 16] = [
    ("trial", |trial, _, _| trial.spec.index.to_string()),
    ("strategy", |trial, _, _| trial.spec.strategy.name.clone()),
    ("label", |trial, _, _| trial.spec.strategy.label.clone()),
    ("contenders", |trial, _, _| trial.spec.contenders.to_string()),
    ("repetition", |trial, _, _| trial.spec.repetition.to_string()),
    ("second", |_, number, _| number.to_string()),
    ("length_us", |trial, number, _| length_us(trial, number).to_string()),
    ("acquisitions", |_, _, second| second.acquisitions.to_string()),
    ("requests", |_, _, second| second.requests.to_string()),
    ("notifications", |_, _, second| second.notifications.to_string()),
    ("offered", |_, _, second| second.offered.to_string()),
    ("waits", |_, _, second| second.waits.to_string()),
    ("wait_us", |_, _, second| second.wait_us.to_string()),
    ("service_us", |_, _, second| second.service_us.to_string()),
    ("handoffs", |_, _, second| second.handoffs.to_string()),
    ("handoff_us", |_, _, second| second.handoff_us.to_string()),
];

pub fn timeline(out: impl io::Write, trials: &[&Trial]) -> csv::Result<()> {
    let mut csv = csv::Writer::from_writer(out);
    csv.write_record(TIMELINE.map(|(name, _)| name))?;
    for trial in trials {
        for (number, second) in trial.timeline.iter().enumerate() {
            csv.write_record(TIMELINE.map(|(_, cell)| cell(trial, number, second)))?;
        }
    }
    Ok(csv.flush()?)
}

/// Length of a row in microseconds: one second, except for the last row, which lasts to the end of the
/// measured phase.
fn length_us(trial: &Trial, second: usize) -> u64 {
    if second + 1 < trial.timeline.len() {
        return SECOND_US;
    }
    trial.measured_us.saturating_sub(second as u64 * SECOND_US)
}

/// A column of `faults.csv`: its name, and its cell for one fault of a trial.
type OfFault = (&'static str, fn(&Trial, &FaultRecord) -> String);

const FAULTS: [OfFault; 20] = [
    ("trial", |trial, _| trial.spec.index.to_string()),
    ("label", |trial, _| trial.spec.strategy.label.clone()),
    ("contenders", |trial, _| trial.spec.contenders.to_string()),
    ("repetition", |trial, _| trial.spec.repetition.to_string()),
    ("number", |_, fault| fault.number.to_string()),
    ("kind", |_, fault| fault.kind.clone()),
    ("fault", |_, fault| fault.label.clone()),
    ("target", |_, fault| fault.target.clone()),
    ("asked_us", |_, fault| fault.asked_us.to_string()),
    ("effective_us", |_, fault| or_empty(fault.effective_us)),
    ("ended_us", |_, fault| or_empty(fault.ended_us)),
    ("proved", |_, fault| fault.proved.to_string()),
    ("proof", |_, fault| fault.proof.clone()),
    ("left", |_, fault| or_empty(fault.left.as_ref())),
    ("elected_us", |_, fault| or_empty(fault.elected_us)),
    ("longest_gap_us", |_, fault| or_empty(fault.longest_gap_us)),
    ("recovered_us", |_, fault| or_empty(fault.recovered_us)),
    ("acquisitions_per_s_before", |trial, fault| throughput(trial, i64::MIN, fault.asked_us)),
    ("acquisitions_per_s_during", |trial, fault| throughput(trial, fault.asked_us, end(fault))),
    ("acquisitions_per_s_after", |trial, fault| throughput(trial, end(fault), i64::MAX)),
];

fn or_empty(value: Option<impl Display>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

fn end(fault: &FaultRecord) -> i64 {
    fault.ended_us.or(fault.effective_us).unwrap_or(fault.asked_us)
}

pub fn faults(out: impl io::Write, trials: &[&Trial]) -> csv::Result<()> {
    let mut csv = csv::Writer::from_writer(out);
    csv.write_record(FAULTS.map(|(name, _)| name))?;
    for (trial, fault) in trials.iter().flat_map(|trial| trial.faults.iter().map(move |fault| (trial, fault)))
    {
        csv.write_record(FAULTS.map(|(_, cell)| cell(trial, fault)))?;
    }
    Ok(csv.flush()?)
}

/// Acquisitions per second over the complete seconds from `from` to `to`; empty if there are none.
fn throughput(trial: &Trial, from: i64, to: i64) -> String {
    let whole = usize::try_from(trial.measured_us / SECOND_US).unwrap_or(usize::MAX);
    let between = |second: &usize| {
        let begin = i64::try_from(*second).unwrap_or(i64::MAX).saturating_mul(SECOND_US as i64);
        begin >= from && begin.saturating_add(SECOND_US as i64) <= to
    };
    let seconds: Vec<u64> = (0..trial.timeline.len().min(whole))
        .filter(between)
        .map(|second| trial.timeline[second].acquisitions)
        .collect();
    let mean = || seconds.iter().sum::<u64>() as f64 / seconds.len() as f64;
    if seconds.is_empty() { String::new() } else { format!("{:?}", mean()) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn column_names_are_unique_and_durations_have_a_unit() {
        let names: Vec<_> = columns().into_iter().map(|column| column.name).collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
        for name in names.iter().filter(|name| name.contains("_p99") || name.contains("_mean")) {
            assert!(name.ends_with("_us"), "{name}");
        }
    }
}
