//! Handcrafted runs of strategies with specified throughputs.

use std::collections::BTreeMap;

use zklockbench_core::measure::{Counts, Outcome, RequestKind};
use zklockbench_core::verdict::Verdict;
use zklockbench_record::{Counting, DriverRecord, Tally, Trial};
use zklockbench_results::StoredRun;

use super::records;

/// A strategy, and the acquisitions per second of each repetition.
pub struct Lock {
    pub label: &'static str,
    pub pace: Vec<f64>,
    pub requests: u64,
    pub what: fn(&mut Trial),
}

pub fn lock(label: &'static str, pace: impl IntoIterator<Item = f64>) -> Lock {
    Lock { label, pace: pace.into_iter().collect(), requests: 4, what: |_| {} }
}

/// Throughputs of `repetitions` within 1 % of `pace`.
pub fn around(pace: f64, repetitions: u32) -> Vec<f64> {
    (0..repetitions).map(|at| pace * (1.0 + f64::from(at % 7) / 1_000.0)).collect()
}

pub fn trial(index: usize, repetition: usize, lock: &Lock) -> Trial {
    let acquired = (lock.pace[repetition] * 100.0) as u64;
    let mut counts = Counts::default();
    counts.outcomes.add(Outcome::Acquired, acquired);
    counts.requests.add(RequestKind::Create, acquired * lock.requests);
    counts.notifications.node_deleted = acquired;
    counts.releases = acquired;
    let mut trial = records::trial(index);
    trial.spec.strategy.label = lock.label.into();
    trial.spec.repetition = u32::try_from(repetition).unwrap() + 1;
    trial.measured_us = 100_000_000;
    trial.measured = counts;
    trial.tallies = vec![Tally { acquired: acquired / 3, ..Tally::default() }; 3];
    trial.errors = BTreeMap::new();
    (lock.what)(&mut trial);
    trial
}

pub fn stored(locks: &[Lock]) -> StoredRun {
    let pairs = locks.iter().flat_map(|lock| (0..lock.pace.len()).map(move |at| (lock, at)));
    let trials: Vec<Trial> = pairs.enumerate().map(|(index, (lock, at))| trial(index, at, lock)).collect();
    let mut run = records::run(trials.len());
    run.strategies = locks.iter().map(|lock| lock.label.to_owned()).collect();
    records::stored(&run, &trials)
}

pub fn invalid(trial: &mut Trial) {
    trial.health.invalid = Some("the generator was late".into());
}

pub fn violated(trial: &mut Trial) {
    trial.violation_count = 3;
    trial.judged = records::judged(Verdict::Violated(vec!["3 entries beside a holder".into()]));
}

pub fn unknown(trial: &mut Trial) {
    trial.judged = records::judged(Verdict::Unknown(vec!["nothing could have been caught".into()]));
}

/// Turns the trial into a trial of a driver's lock, with unknown request counts.
pub fn not_counted(trial: &mut Trial) {
    trial.driver = Some(DriverRecord {
        program: "team 1.0".into(),
        processes: 1,
        contenders_each: 3,
        clock_fits: None,
        echo: None,
        contender_echo: None,
        echo_under_load: None,
    });
}

/// Like [`not_counted`], but in the first repetition, the lock's requests and one notification per acquisition were
/// counted on the wire.
pub fn counted_apart<const REQUESTS: u64>(trial: &mut Trial) {
    not_counted(trial);
    if trial.spec.repetition == 1 {
        let mut counting = Counting { missing: None, ..Counting::failed(String::new()) };
        counting.counted.acquired = 100;
        counting.counted.requests.add(RequestKind::Create, 100 * REQUESTS);
        counting.counted.notifications.node_deleted = 100;
        trial.counting = Some(counting);
    }
}

pub fn idle(trial: &mut Trial) {
    trial.measured = Counts::default();
    trial.tallies = vec![Tally::default(); 3];
}

pub fn overloaded(trial: &mut Trial) {
    let like = records::overloaded(trial.spec.index);
    (trial.spec.load, trial.steady, trial.arrived) = (like.spec.load, like.steady, like.arrived);
    if let Some(steady) = &mut trial.steady {
        steady.queue = Some(steady.growth());
    }
}
