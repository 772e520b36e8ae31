//! `timeline.csv` and `faults.csv`: a row for each second, and for each fault, of each trial.

use std::io;

use serde::Serialize;

use crate::record::{FaultRecord, Trial};

const SECOND_US: u64 = 1_000_000;

#[derive(Serialize)]
struct TimelineRow<'a> {
    trial: usize,
    strategy: &'a str,
    label: &'a str,
    contenders: usize,
    repetition: u32,
    second: usize,
    length_us: u64,
    acquisitions: u64,
    requests: u64,
    notifications: u64,
    offered: u64,
    waits: u64,
    wait_us: u64,
    service_us: u64,
    handoffs: u64,
    handoff_us: u64,
}

/// Writes the rows of a trial, after the header where that is not there yet.
pub fn timeline(out: impl io::Write, trial: &Trial, header: bool) -> csv::Result<()> {
    // Written by hand: a first trial without a second would leave the file without its header.
    let mut csv = csv::WriterBuilder::new().has_headers(false).from_writer(out);
    if header {
        csv.write_record(HEADER)?;
    }
    for row in rows(trial) {
        csv.serialize(row)?;
    }
    Ok(csv.flush()?)
}

const HEADER: [&str; 16] = [
    "trial",
    "strategy",
    "label",
    "contenders",
    "repetition",
    "second",
    "length_us",
    "acquisitions",
    "requests",
    "notifications",
    "offered",
    "waits",
    "wait_us",
    "service_us",
    "handoffs",
    "handoff_us",
];

fn rows(trial: &Trial) -> impl Iterator<Item = TimelineRow<'_>> {
    trial.timeline.iter().enumerate().map(|(second, counts)| TimelineRow {
        trial: trial.spec.index,
        strategy: &trial.spec.strategy.name,
        label: &trial.spec.strategy.label,
        contenders: trial.spec.contenders,
        repetition: trial.spec.repetition,
        second,
        length_us: length_us(trial, second),
        acquisitions: counts.acquisitions,
        requests: counts.requests,
        notifications: counts.notifications,
        offered: counts.offered,
        waits: counts.waits,
        wait_us: counts.wait_us,
        service_us: counts.service_us,
        handoffs: counts.handoffs,
        handoff_us: counts.handoff_us,
    })
}

/// A second is a second, except the last: it ends with the measured phase. It is shorter, or longer where
/// the recorder had no room for more rows and put the rest into it.
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

/// Writes the rows of a trial, after the header where that is not there yet.
pub fn faults(out: impl io::Write, trial: &Trial, header: bool) -> csv::Result<()> {
    let mut csv = csv::WriterBuilder::new().has_headers(header).from_writer(out);
    for fault in &trial.faults {
        csv.serialize(row(trial, fault))?;
    }
    Ok(csv.flush()?)
}

fn row<'a>(trial: &'a Trial, fault: &'a FaultRecord) -> FaultRow<'a> {
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

/// Acquisitions per second over the whole seconds that lie between; `None` when none does.
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
