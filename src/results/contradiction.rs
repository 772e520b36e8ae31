//! Numbers of one trial that cannot both be true: the sign of a file that was changed or damaged.

use super::wire::{StoredCounts, StoredNotifications, TrialFile, VerdictWord};

/// Every contradiction in a trial, as a sentence; none in a sound one.
pub fn contradictions(trial: &TrialFile) -> Vec<String> {
    let mut found = in_counts("measured", &trial.measured);
    found.extend(in_counts("whole", &trial.whole));
    found.extend(in_spans(trial));
    found.extend(in_histograms(trial));
    found.extend(in_judgement(trial));
    found
}

/// Says so when two numbers that must be the same are not.
fn same(what: &str, said: u64, found: u64) -> Option<String> {
    (said != found).then(|| format!("{what}: {said} in one place, {found} in another"))
}

fn in_counts(span: &str, counts: &StoredCounts) -> Vec<String> {
    let StoredNotifications { by_release_useful: useful, by_release_spurious: spurious, .. } =
        counts.notifications;
    let notifications = &counts.notifications;
    let kinds = [
        notifications.node_created,
        notifications.node_deleted,
        notifications.data_changed,
        notifications.children_changed,
    ];
    [
        same(&format!("{span} requests"), counts.requests_total, counts.requests.values().sum()),
        same(&format!("{span} notifications"), notifications.total, kinds.iter().sum()),
        same(&format!("{span} notifications by release"), notifications.by_release, useful + spurious),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The measured phase is a part of the trial, and all that a contender acquired was acquired by one.
fn in_spans(trial: &TrialFile) -> Vec<String> {
    let (part, whole) = (&trial.measured, &trial.whole);
    let pairs = [
        ("requests", part.requests_total, whole.requests_total),
        ("notifications", part.notifications.total, whole.notifications.total),
        ("acquisitions", part.acquired(), whole.acquired()),
        ("releases", part.releases, whole.releases),
    ];
    let larger = pairs.into_iter().filter(|(_, part, whole)| part > whole).map(|(what, part, whole)| {
        format!("{what}: {part} in the measured phase, but {whole} in the whole trial")
    });
    let tallies = trial.tallies.iter().map(|tally| tally.acquired).sum();
    larger.chain(same("acquisitions", part.acquired(), tallies)).collect()
}

/// The JSON and the `.hlog` were written from the same histograms.
fn in_histograms(trial: &TrialFile) -> Vec<String> {
    let names = trial.latencies.keys().chain(trial.histograms.keys());
    let differ = |name: &String| {
        let said = trial.latencies.get(name).map_or(0, |latency| latency.count);
        let found = trial.histograms.get(name).map_or(0, |histogram| histogram.len());
        same(&format!("samples of `{name}` (JSON and .hlog)"), said, found)
    };
    names.filter_map(differ).collect()
}

fn in_judgement(trial: &TrialFile) -> Vec<String> {
    let detailed = trial.violations.len() as u64;
    let more = (detailed > trial.violation_count)
        .then(|| format!("{detailed} violations in detail, but {} counted", trial.violation_count));
    let held = (trial.exclusion.verdict == VerdictWord::Held && trial.violation_count > 0)
        .then(|| format!("held, but {} violations counted", trial.violation_count));
    let valid = (trial.health.valid != trial.health.invalid.is_none())
        .then(|| "valid and invalid at once".to_owned());
    [more, held, valid].into_iter().flatten().collect()
}
