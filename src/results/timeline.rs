//! `timeline.csv`: one row for each second of each trial's measured phase.

use std::io;

use serde::Serialize;

use crate::record::Trial;

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
pub fn write(out: impl io::Write, trial: &Trial, header: bool) -> csv::Result<()> {
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
