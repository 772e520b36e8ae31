//! `timeline.csv`: one row for each second of each trial's measured phase.

use std::io;

use serde::Serialize;

use super::wire::TrialFile;

const SECOND_US: u64 = 1_000_000;

#[derive(Serialize)]
struct Row<'a> {
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
}

/// Writes the rows of all trials.
pub fn write(out: impl io::Write, trials: &[TrialFile]) -> csv::Result<()> {
    let mut csv = csv::WriterBuilder::new().has_headers(false).from_writer(out);
    csv.write_record([
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
    ])?;
    for row in trials.iter().flat_map(rows) {
        csv.serialize(row)?;
    }
    Ok(csv.flush()?)
}

fn rows(trial: &TrialFile) -> impl Iterator<Item = Row<'_>> {
    trial.timeline.iter().enumerate().map(|(second, counts)| Row {
        trial: trial.index,
        strategy: &trial.strategy,
        label: &trial.label,
        contenders: trial.contenders,
        repetition: trial.repetition,
        second,
        length_us: length_us(trial, second),
        acquisitions: counts.acquisitions,
        requests: counts.requests,
        notifications: counts.notifications,
    })
}

/// A second is a second, except the last: it ends with the measured phase. It is shorter, or longer where
/// the recorder had no room for more rows and put the rest into it.
fn length_us(trial: &TrialFile, second: usize) -> u64 {
    if second + 1 < trial.timeline.len() {
        return SECOND_US;
    }
    trial.measured_us.saturating_sub(second as u64 * SECOND_US)
}
