//! `faults.csv`: one row for each fault of each trial.

use std::io;

use serde::Serialize;

use crate::record::{FaultRecord, Trial};

const SECOND_US: i64 = 1_000_000;

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
pub fn write(out: impl io::Write, trial: &Trial, header: bool) -> csv::Result<()> {
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
    let whole = usize::try_from(trial.measured_us / 1_000_000).unwrap_or(usize::MAX);
    let between = |second: &usize| {
        let begin = i64::try_from(*second).unwrap_or(i64::MAX).saturating_mul(SECOND_US);
        begin >= from && begin.saturating_add(SECOND_US) <= to
    };
    let seconds: Vec<u64> = (0..trial.timeline.len().min(whole))
        .filter(between)
        .map(|second| trial.timeline[second].acquisitions)
        .collect();
    (!seconds.is_empty()).then(|| seconds.iter().sum::<u64>() as f64 / seconds.len() as f64)
}
