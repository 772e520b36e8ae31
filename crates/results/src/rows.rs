//! The tables of a run as CSV: `summary.csv` with a row per trial and every number worth plotting,
//! `timeline.csv` with a row per second, and `faults.csv` with a row per fault of each trial.

use std::fmt::Display;
use std::io;
use std::ops::Deref;

use serde::Serialize;

use super::files::TrialFile;
use zklockbench_core::catalog::LockCard;
use zklockbench_core::measure::{Counts, Latency, Measure, Notifications, Outcome, RequestKind, Second};
use zklockbench_record::{Arrived, FaultRecord, Floor, Health, Run, Trial, figures};

/// A trial with the floor for comparison.
struct SummaryRow<'a> {
    file: &'a TrialFile<'a>,
    floor: Option<&'a Floor>,
}

impl<'a> Deref for SummaryRow<'a> {
    type Target = TrialFile<'a>;

    fn deref(&self) -> &TrialFile<'a> {
        self.file
    }
}

/// Writes `summary.csv`. Header and rows come from the same table of columns, so they cannot disagree. An empty cell means that
/// nothing was measured.
pub fn summary(out: impl io::Write, run: &Run, trials: &[&Trial]) -> csv::Result<()> {
    let columns = columns();
    let mut csv = csv::Writer::from_writer(out);
    csv.write_record(columns.iter().map(|column| &column.name))?;
    for trial in trials {
        let row = SummaryRow { file: &TrialFile::from(*trial), floor: run.floor_of(trial.spec.index) };
        csv.write_record(columns.iter().map(|column| (column.cell)(&row).unwrap_or_default()))?;
    }
    Ok(csv.flush()?)
}

/// Text of a cell; `None` if the value was not measured.
type CellText = Option<String>;

/// Name of a column (or a part of it), with its value in one part of a trial.
type Of<Part, Value> = (&'static str, fn(&Part) -> Value);

struct Column {
    name: String,
    cell: Box<dyn Fn(&SummaryRow<'_>) -> CellText>,
}

fn columns() -> Vec<Column> {
    [
        identity(),
        judgement(),
        broken(),
        arrived(),
        derived(),
        counts(),
        notifications(),
        by_name(),
        latencies(),
        over_floor(),
        health(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn column(name: impl Into<String>, cell: impl Fn(&SummaryRow<'_>) -> CellText + 'static) -> Column {
    Column { name: name.into(), cell: Box::new(cell) }
}

/// A column whose value is always known.
fn known<T: Display>(name: impl Into<String>, value: impl Fn(&SummaryRow<'_>) -> T + 'static) -> Column {
    column(name, move |trial| Some(value(trial).to_string()))
}

/// A column whose value may be missing.
fn maybe<T: Display>(
    name: impl Into<String>,
    value: impl Fn(&SummaryRow<'_>) -> Option<T> + 'static,
) -> Column {
    column(name, move |trial| value(trial).map(|value| value.to_string()))
}

fn identity() -> Vec<Column> {
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
    ]
}

fn judgement() -> Vec<Column> {
    vec![
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
    ]
}

fn arrived() -> Vec<Column> {
    let of: [Of<Arrived, u64>; 6] = [
        ("offered", |a| a.offered),
        ("started", |a| a.started),
        ("served", |a| a.served),
        ("unserved_arrivals", |a| a.unserved),
        ("dropped", |a| a.dropped),
        ("backlog_us", |a| a.backlog_us),
    ];
    let columns = of
        .into_iter()
        .map(|(name, value)| maybe(name, move |t: &SummaryRow<'_>| t.trial.arrived.as_ref().map(value)));
    let utilisation = [
        maybe("utilisation", |t| Some(t.trial.utilisation?.mean)),
        maybe("utilisation_busiest", |t| Some(t.trial.utilisation?.busiest)),
    ];
    columns.chain(utilisation).collect()
}

fn broken() -> Vec<Column> {
    let of: [Of<Trial, Option<u64>>; 7] = [
        ("faults", |t| u64::try_from(t.faults.len()).ok()),
        ("faults_proved", |t| u64::try_from(t.faults_proved()).ok()),
        ("longest_gap_us", Trial::longest_gap_us),
        ("longest_recovery_us", Trial::longest_recovery_us),
        ("stuck", |t| u64::try_from(t.stuck.len()).ok()),
        ("stale_writes", |t| Some(t.fencing.stale)),
        ("stale_writes_rejected", |t| Some(t.fencing.stale_rejected)),
    ];
    // Without faults, these values were not measured.
    let under_faults = |value: fn(&Trial) -> Option<u64>| {
        move |t: &SummaryRow<'_>| if t.trial.faults.is_empty() { None } else { value(&t.trial) }
    };
    let columns = of.into_iter().map(|(name, value)| maybe(name, under_faults(value)));
    let rest = [
        maybe("orphans", |t| t.trial.orphans),
        known("zombies", |t| t.trial.excused.zombies),
        known("uncertain", |t| t.trial.excused.uncertain),
        known("longest_unsafe_us", |t| t.trial.excused.longest_unsafe_us),
    ];
    columns.chain(rest).collect()
}

fn yes_no_unknown(agrees: Option<bool>) -> &'static str {
    agrees.map_or("unknown", |agrees| if agrees { "yes" } else { "no" })
}

fn derived() -> Vec<Column> {
    let stored = figures::ALL.iter().filter_map(|entry| Some((entry.stored_as?, *entry)));
    stored.map(|(name, entry)| maybe(name, move |t| t.derived.get(entry))).collect()
}

fn counts() -> Vec<Column> {
    let columns: [Of<Counts, Option<u64>>; 11] = [
        ("releases", |c| Some(c.releases)),
        ("lost_while_held", |c| Some(c.lost_while_held)),
        ("overtaken", |c| Some(c.overtaken)),
        ("reads_acquired", |c| Some(c.reads_acquired)),
        ("read_held_us", |c| Some(c.read_held_us)),
        ("saturated", |c| Some(c.saturated)),
        ("requests", |c| Some(seen(c)?.requests.total())),
        ("unseen", |c| Some(c.unseen)),
        ("names_returned", |c| Some(seen(c)?.names_returned)),
        ("bytes_sent", |c| Some(seen(c)?.bytes_sent)),
        ("bytes_received", |c| Some(seen(c)?.bytes_received)),
    ];
    columns.into_iter().map(|(name, value)| maybe(name, move |t| value(&t.trial.measured))).collect()
}

/// The counts, unless some traffic was hidden.
fn seen(counts: &Counts) -> Option<&Counts> {
    Some(counts).filter(|counts| counts.unseen == 0)
}

fn notifications() -> Vec<Column> {
    let columns: [Of<Notifications, u64>; 12] = [
        ("notifications", Notifications::total),
        ("notifications_by_release", Notifications::by_release),
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
    columns
        .into_iter()
        .map(|(name, value)| maybe(name, move |t| Some(value(&seen(&t.trial.measured)?.notifications))))
        .collect()
}

fn by_name() -> Vec<Column> {
    let outcomes = Outcome::ALL.into_iter().map(|outcome| {
        known(format!("outcome_{}", outcome.name()), move |t| t.trial.measured.outcomes.get(outcome))
    });
    let requests = RequestKind::ALL.into_iter().map(|kind| {
        maybe(format!("requests_{}", kind.name()), move |t| Some(seen(&t.trial.measured)?.requests.get(kind)))
    });
    outcomes.chain(requests).collect()
}

fn latencies() -> Vec<Column> {
    Measure::all().into_iter().flat_map(latency).collect()
}

/// Without samples, the count is 0 because it was counted, and the other cells are empty because nothing was
/// measured.
fn latency(measure: Measure) -> Vec<Column> {
    let name = measure.name();
    let count =
        known(format!("{name}_count"), move |t| t.latencies.get(&measure).map_or(0, |latency| latency.count));
    let mean = maybe(format!("{name}_mean_us"), move |t| Some(t.latencies.get(&measure)?.mean_us));
    let values: [Of<Latency, u64>; 6] = [
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

fn over_floor() -> Vec<Column> {
    let median = |t: &SummaryRow<'_>, measure| Some(t.latencies.get(&measure)?.p50_us as f64);
    vec![
        maybe("handoff_p50_over_floor", move |t| t.floor?.handoffs(median(t, Measure::Handoff)?)),
        maybe("uncontended_p50_over_floor", move |t| {
            t.floor?.uncontended_acquires(median(t, Measure::Uncontended)?)
        }),
    ]
}

fn health() -> Vec<Column> {
    let columns: [Of<Health, Option<f64>>; 6] = [
        ("lag_share", |h| h.lag_share),
        ("hold_overshoot_share", |h| h.hold_overshoot_share),
        ("cpu_share", |h| Some(h.cpu_share)),
        ("run_queue_share", |h| h.run_queue_share),
        ("host_idle_share", |h| h.host_idle_share),
        ("host_steal_share", |h| h.host_steal_share),
    ];
    let shares = columns.into_iter().map(|(name, value)| maybe(name, move |t| value(&t.trial.health)));
    let rest = [
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
    ];
    shares.chain(rest).collect()
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

/// Length of a row in microseconds: one second, except for the last row, which ends with the measured phase. That row is shorter,
/// or longer if the recorder put all later seconds into it.
fn length_us(trial: &Trial, second: usize) -> u64 {
    if second + 1 < trial.timeline.len() {
        return SECOND_US;
    }
    trial.measured_us.saturating_sub(second as u64 * SECOND_US)
}

#[derive(Serialize)]
struct FaultRow<'a> {
    trial: usize,
    label: &'a str,
    contenders: usize,
    repetition: u32,
    number: usize,
    kind: &'a str,
    fault: &'a str,
    target: &'a str,
    asked_us: i64,
    effective_us: Option<i64>,
    ended_us: Option<i64>,
    proved: bool,
    proof: &'a str,
    left: Option<&'a str>,
    elected_us: Option<u64>,
    longest_gap_us: Option<u64>,
    recovered_us: Option<u64>,
    acquisitions_per_s_before: Option<f64>,
    acquisitions_per_s_during: Option<f64>,
    acquisitions_per_s_after: Option<f64>,
}

pub fn faults(out: impl io::Write, trials: &[&Trial]) -> csv::Result<()> {
    let mut csv = csv::Writer::from_writer(out);
    for (trial, fault) in trials.iter().flat_map(|trial| trial.faults.iter().map(move |fault| (trial, fault)))
    {
        csv.serialize(fault_row(trial, fault))?;
    }
    Ok(csv.flush()?)
}

fn fault_row<'a>(trial: &'a Trial, fault: &'a FaultRecord) -> FaultRow<'a> {
    let from = fault.asked_us;
    let to = fault.ended_us.or(fault.effective_us).unwrap_or(from);
    FaultRow {
        trial: trial.spec.index,
        label: &trial.spec.strategy.label,
        contenders: trial.spec.contenders,
        repetition: trial.spec.repetition,
        number: fault.number,
        kind: &fault.kind,
        fault: &fault.label,
        target: &fault.target,
        asked_us: fault.asked_us,
        effective_us: fault.effective_us,
        ended_us: fault.ended_us,
        proved: fault.proved,
        proof: &fault.proof,
        left: fault.left.as_deref(),
        elected_us: fault.elected_us,
        longest_gap_us: fault.longest_gap_us,
        recovered_us: fault.recovered_us,
        acquisitions_per_s_before: throughput(trial, i64::MIN, from),
        acquisitions_per_s_during: throughput(trial, from, to),
        acquisitions_per_s_after: throughput(trial, to, i64::MAX),
    }
}

/// Acquisitions per second over the complete seconds from `from` to `to`; `None` if there are none.
fn throughput(trial: &Trial, from: i64, to: i64) -> Option<f64> {
    let whole = usize::try_from(trial.measured_us / SECOND_US).unwrap_or(usize::MAX);
    let between = |second: &usize| {
        let begin = i64::try_from(*second).unwrap_or(i64::MAX).saturating_mul(SECOND_US as i64);
        begin >= from && begin.saturating_add(SECOND_US as i64) <= to
    };
    let seconds: Vec<u64> = (0..trial.timeline.len().min(whole))
        .filter(between)
        .map(|second| trial.timeline[second].acquisitions)
        .collect();
    (!seconds.is_empty()).then(|| seconds.iter().sum::<u64>() as f64 / seconds.len() as f64)
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
