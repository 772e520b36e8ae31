//! `summary.csv`: one row for each trial, with every number that one would plot.
//!
//! Header and rows come from one table of columns, so they cannot disagree. An empty cell means: not
//! measured.

use std::fmt::Display;
use std::io;

use super::wire::{
    Derived, Latency, StoredBroken, StoredCounts, StoredHealth, StoredNotifications, TrialFile,
};
use crate::measure::{Measure, Outcome, RequestKind};

/// Writes the rows of all trials.
pub fn write(out: impl io::Write, trials: &[TrialFile]) -> csv::Result<()> {
    let columns = columns();
    let mut csv = csv::Writer::from_writer(out);
    csv.write_record(columns.iter().map(|column| &column.name))?;
    for trial in trials {
        csv.write_record(columns.iter().map(|column| (column.cell)(trial).unwrap_or_default()))?;
    }
    Ok(csv.flush()?)
}

/// The text of a cell; `None` when the value was not measured.
type Cell = Option<String>;

/// A column's name (or a part of it), and its value in one part of a trial.
type Of<Part, Value> = (&'static str, fn(&Part) -> Value);

/// One column.
struct Column {
    /// Its name in the header.
    name: String,
    /// Its cell in the row of a trial.
    cell: Box<dyn Fn(&TrialFile) -> Cell>,
}

/// Every column, in the order of the file.
fn columns() -> Vec<Column> {
    [
        identity(),
        judgement(),
        broken(),
        derived(),
        counts(),
        notifications(),
        by_name(),
        latencies(),
        health(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn column(name: impl Into<String>, cell: impl Fn(&TrialFile) -> Cell + 'static) -> Column {
    Column { name: name.into(), cell: Box::new(cell) }
}

/// A column whose value is always there.
fn known<T: Display>(name: impl Into<String>, value: impl Fn(&TrialFile) -> T + 'static) -> Column {
    column(name, move |trial| Some(value(trial).to_string()))
}

/// A column whose value may be missing.
fn maybe<T: Display>(name: impl Into<String>, value: impl Fn(&TrialFile) -> Option<T> + 'static) -> Column {
    column(name, move |trial| value(trial).map(|value| value.to_string()))
}

fn identity() -> Vec<Column> {
    vec![
        known("trial", |t| t.index),
        known("strategy", |t| t.strategy.clone()),
        known("label", |t| t.label.clone()),
        known("params", |t| {
            t.params.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(";")
        }),
        known("load", |t| t.load.clone()),
        known("contenders", |t| t.contenders),
        known("locks", |t| t.locks),
        known("repetition", |t| t.repetition),
        known("started_at", |t| humantime::format_rfc3339_micros(t.started_at)),
        known("measured_us", |t| t.measured_us),
    ]
}

fn judgement() -> Vec<Column> {
    vec![
        known("exclusion", |t| crate::verdict::Verdict::from(&t.exclusion).word()),
        known("completeness", |t| if t.completeness.complete { "complete" } else { "partial" }),
        known("valid", |t| t.health.valid),
        known("servers_agree", |t| yes_no_unknown(t.servers_agree())),
        known("cost_model_agrees", |t| yes_no_unknown(t.cost_model_agrees())),
        known("violations", |t| t.violation_count),
        maybe("most_inside", |t| t.most_inside),
        known("errors", |t| t.errors.values().sum::<u64>()),
    ]
}

fn broken() -> Vec<Column> {
    let of: [Of<StoredBroken, Option<u64>>; 7] = [
        ("faults", |b| u64::try_from(b.faults.len()).ok()),
        ("faults_proved", |b| u64::try_from(b.proved()).ok()),
        ("longest_gap_us", StoredBroken::longest_gap_us),
        ("longest_recovery_us", StoredBroken::longest_recovery_us),
        ("stuck", |b| u64::try_from(b.stuck.len()).ok()),
        ("orphans", |b| b.orphans),
        ("stale_writes", |b| Some(b.fencing.stale)),
    ];
    let columns = of.into_iter().map(|(name, value)| maybe(name, move |t| value(t.broken.as_ref()?)));
    let rest = [
        maybe("stale_writes_rejected", |t| Some(t.broken.as_ref()?.fencing.stale_rejected)),
        known("zombies", |t| t.excused.zombies),
        known("uncertain", |t| t.excused.uncertain),
        known("longest_unsafe_us", |t| t.excused.longest_unsafe_us),
    ];
    columns.chain(rest).collect()
}

fn yes_no_unknown(agrees: Option<bool>) -> &'static str {
    agrees.map_or("unknown", |agrees| if agrees { "yes" } else { "no" })
}

fn derived() -> Vec<Column> {
    let columns: [Of<Derived, Option<f64>>; 13] = [
        ("throughput_per_s", |d| d.throughput_per_s),
        ("fairness", |d| d.fairness),
        ("mean_readers", |d| d.mean_readers),
        ("fan_out", |d| d.fan_out),
        ("fan_out_useful", |d| d.fan_out_useful),
        ("fan_out_spurious", |d| d.fan_out_spurious),
        ("requests_per_acquisition", |d| d.requests_per_acquisition),
        ("notifications_per_acquisition", |d| d.notifications_per_acquisition),
        ("names_per_acquisition", |d| d.names_per_acquisition),
        ("bytes_per_acquisition", |d| d.bytes_per_acquisition),
        ("bytes_sent_per_acquisition", |d| d.bytes_sent_per_acquisition),
        ("bytes_received_per_acquisition", |d| d.bytes_received_per_acquisition),
        ("watches_left", |d| d.watches_left),
    ];
    columns.into_iter().map(|(name, value)| maybe(name, move |t| value(&t.derived))).collect()
}

fn counts() -> Vec<Column> {
    let columns: [Of<StoredCounts, u64>; 9] = [
        ("releases", |c| c.releases),
        ("lost_while_held", |c| c.lost_while_held),
        ("overtaken", |c| c.overtaken),
        ("reads_acquired", |c| c.reads_acquired),
        ("read_held_us", |c| c.read_held_us),
        ("requests", |c| c.requests_total),
        ("names_returned", |c| c.names_returned),
        ("bytes_sent", |c| c.bytes_sent),
        ("bytes_received", |c| c.bytes_received),
    ];
    columns.into_iter().map(|(name, value)| known(name, move |t| value(&t.measured))).collect()
}

fn notifications() -> Vec<Column> {
    let columns: [Of<StoredNotifications, u64>; 12] = [
        ("notifications", |n| n.total),
        ("notifications_by_release", |n| n.by_release),
        ("notifications_by_release_useful", |n| n.by_release_useful),
        ("notifications_by_release_spurious", |n| n.by_release_spurious),
        ("notifications_to_releaser", |n| n.to_releaser),
        ("notifications_by_arrival", |n| n.by_arrival),
        ("notifications_by_departure", |n| n.by_departure),
        ("notifications_cause_unknown", |n| n.cause_unknown),
        ("notifications_node_created", |n| n.node_created),
        ("notifications_node_deleted", |n| n.node_deleted),
        ("notifications_data_changed", |n| n.data_changed),
        ("notifications_children_changed", |n| n.children_changed),
    ];
    columns.into_iter().map(|(name, value)| known(name, move |t| value(&t.measured.notifications))).collect()
}

fn by_name() -> Vec<Column> {
    let outcomes = Outcome::ALL
        .into_iter()
        .map(|outcome| known(format!("outcome_{}", outcome.name()), move |t| t.measured.outcome(outcome)));
    let requests = RequestKind::ALL
        .into_iter()
        .map(|kind| known(format!("requests_{}", kind.name()), move |t| t.measured.request(kind)));
    outcomes.chain(requests).collect()
}

fn latencies() -> Vec<Column> {
    Measure::all().into_iter().flat_map(latency).collect()
}

/// No sample is a count of 0, which was counted; the other cells are empty, because nothing was measured.
fn latency(measure: Measure) -> Vec<Column> {
    let name = measure.name();
    let count =
        known(format!("{name}_count"), move |t| t.latency(measure).map_or(0, |latency| latency.count));
    let mean = maybe(format!("{name}_mean_us"), move |t| Some(t.latency(measure)?.mean_us));
    let values: [Of<Latency, u64>; 6] = [
        ("min", |l| l.min_us),
        ("p50", |l| l.p50_us),
        ("p90", |l| l.p90_us),
        ("p99", |l| l.p99_us),
        ("p999", |l| l.p999_us),
        ("max", |l| l.max_us),
    ];
    let values = values
        .into_iter()
        .map(|(which, value)| maybe(format!("{name}_{which}_us"), move |t| t.latency(measure).map(value)));
    [count, mean].into_iter().chain(values).collect()
}

fn health() -> Vec<Column> {
    let columns: [Of<StoredHealth, Option<f64>>; 4] = [
        ("lag_share", |h| h.lag_share),
        ("cpu_share", |h| Some(h.cpu_share)),
        ("host_idle_share", |h| h.host_idle_share),
        ("host_steal_share", |h| h.host_steal_share),
    ];
    let shares = columns.into_iter().map(|(name, value)| maybe(name, move |t| value(&t.health)));
    let rest = [
        known("timer_lag_p99_us", |t| t.health.timer_lag_p99_us),
        known("timer_lag_max_us", |t| t.health.timer_lag_max_us),
        known("cpu_us", |t| t.health.cpu_us),
        maybe("resident_bytes", |t| t.health.resident_bytes),
        maybe("standstill_us", |t| t.health.standstill_us),
        known("sessions_opened", |t| t.sessions.opened),
        known("sessions_expired", |t| t.sessions.expired),
        known("sessions_rejoined", |t| t.sessions.rejoined),
        known("connect_us", |t| t.sessions.connect_us),
        known("negotiated_timeout_us", |t| t.sessions.negotiated_timeout_us),
    ];
    shares.chain(rest).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_two_columns_share_a_name_and_durations_say_their_unit() {
        let names: Vec<_> = columns().into_iter().map(|column| column.name).collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
        for name in names.iter().filter(|name| name.contains("_p99") || name.contains("_mean")) {
            assert!(name.ends_with("_us"), "{name}");
        }
    }
}
