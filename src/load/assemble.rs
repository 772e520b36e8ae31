//! Puts together what the threads, the conductor and the servers know into one trial record.

use std::collections::BTreeMap;

use super::desk::Log;
use super::shared::Shared;
use super::worker::ThreadRecord;
use crate::measure::{Histogram, Measure, Sheet};
use crate::record::{Accounting, FencingCounts, ServerCounters, Tally};

/// All threads' sheets as one; an empty one when no thread gave a record.
#[must_use]
pub fn merge_sheets(threads: &[ThreadRecord]) -> Sheet {
    let mut sheets = threads.iter().map(|thread| &thread.sheet);
    let mut merged = sheets.next().cloned().unwrap_or_else(|| Sheet::new(1));
    for sheet in sheets {
        merged.merge(sheet);
    }
    merged
}

/// All threads' logs as one.
#[must_use]
pub fn merge_logs(threads: Vec<ThreadRecord>) -> Log {
    let mut merged = Log::default();
    for log in threads.into_iter().map(|thread| thread.log) {
        merged.tallies.extend(log.tallies);
        for (kind, count) in log.errors {
            *merged.errors.entry(kind).or_default() += count;
        }
        merged.overlaps.merge(log.overlaps);
        merged.grants.extend(log.grants);
        merged.history.extend(log.history);
        merged.opened += log.opened;
        merged.expired += log.expired;
        merged.rejoined += log.rejoined;
        merged.looks_by_wait += log.looks_by_wait;
    }
    merged
}

/// The histograms that have samples.
#[must_use]
pub fn histograms(sheet: &Sheet) -> BTreeMap<Measure, Histogram> {
    Measure::all()
        .into_iter()
        .map(|measure| (measure, sheet.histogram(measure)))
        .filter(|(_, histogram)| !histogram.is_empty())
        .map(|(measure, histogram)| (measure, histogram.clone()))
        .collect()
}

/// The tallies in the contenders' order.
#[must_use]
pub fn tallies(shared: &Shared, log: &Log) -> Vec<Tally> {
    (0..shared.spec.contenders).map(|id| log.tallies.get(&id).copied().unwrap_or_default()).collect()
}

/// The most contenders that were inside any one lock together.
#[must_use]
pub fn most_inside(shared: &Shared) -> u64 {
    shared.scenes.iter().map(|scene| scene.most_inside() as u64).max().unwrap_or(0)
}

/// What the resources behind the locks saw.
#[must_use]
pub fn fencing(shared: &Shared) -> FencingCounts {
    shared.scenes.iter().fold(FencingCounts::default(), |sum, scene| sum.and(scene.fence.counts()))
}

/// Client, cost model and servers side by side, over the whole trial.
#[must_use]
pub fn accounting(shared: &Shared, sheet: &Sheet, log: &Log, servers: &[ServerCounters]) -> Vec<Accounting> {
    // Servers that are broken forget their counts, and delete what belonged to sessions that have ended.
    if shared.has_faults() {
        return Vec::new();
    }
    super::accounting::compare(shared, &sheet.whole, log, servers)
}
