//! Merging several workers' records of one trial. Counts are added up, and for other values the worse value is kept.
//! Values that need a common clock are dropped.

use std::path::PathBuf;

use zklockbench_core::{measure::Measure, verdict::Verdict};
use zklockbench_judge::history::Judgement;
use zklockbench_record::{Beside, Election, FaultRecord, Trial, of_different_trials};
use zklockbench_results::history::merge_histories;

use crate::support::ranked;
use crate::support::records::{histogram, overloaded, trial};
use crate::support::story;

#[test]
fn merging_a_single_workers_record_returns_it_unchanged() {
    let alone = trial(0);
    assert_eq!(Trial::of_workers(vec![alone.clone()]), Some(alone));
    assert_eq!(Trial::of_workers(Vec::new()), None);
}

#[test]
fn merged_records_sum_counts_and_keep_the_worse_health() {
    // Given records of two workers, the second of which is invalid and contains violations
    let (mut one, mut other) = (overloaded(0), overloaded(0));
    one.histograms.insert(Measure::Wait, histogram(&[900, 1_000]));
    other.histograms.insert(Measure::Wait, histogram(&[1_000, 30_000]));
    other.health.lag_share = Some(0.3);
    other.health.invalid = Some("late".into());
    other.violation_count = 2;
    one.beside = Some(Beside { reads: 3, ..Beside::default() });
    other.beside = Some(Beside { reads: 4, writes: 1, ..Beside::default() });
    // When their records are merged
    let both = Trial::of_workers(vec![one.clone(), other]).unwrap();
    // Then counts add up, second by second
    assert_eq!(both.measured.acquired(), 2 * one.measured.acquired());
    assert_eq!(both.histograms[&Measure::Wait], histogram(&[900, 1_000, 1_000, 30_000]));
    assert_eq!(both.timeline[0].acquisitions, 2 * one.timeline[0].acquisitions);
    assert_eq!(both.tallies[1].acquired, 2 * one.tallies[1].acquired);
    let (arrived, alone) = (both.arrived.unwrap(), one.arrived.unwrap());
    assert_eq!((arrived.offered, arrived.backlog_us), (2 * alone.offered, alone.backlog_us));
    assert_eq!(both.steady.unwrap().backlog[99], 2 * one.steady.unwrap().backlog[99]);
    assert_eq!(both.errors["create: connection loss"], 4);
    assert_eq!((both.violation_count, both.beside.unwrap().reads), (2, 7));
    // And the health of the worse generator is kept
    assert_eq!((both.health.lag_share, both.health.invalid.as_deref()), (Some(0.3), Some("late")));
    // And values that need a common clock are missing
    assert!(both.utilisation.is_none() && both.herd.is_none() && both.dispersion.is_empty());
}

#[test]
fn election_in_a_merged_record_names_its_fault_by_the_new_number() {
    let with_fault = |asked_us| {
        let fault = FaultRecord { number: 1, asked_us, ..FaultRecord::default() };
        Trial { faults: vec![fault], ..trial(0) }
    };
    let mut leader = with_fault(20);
    leader.elections =
        Some(vec![Election { seen_us: 25, leader: "zk2:2181".into(), epoch: 5, after_fault: Some(1) }]);
    let merged = Trial::of_workers(vec![leader, with_fault(10)]).unwrap();
    let numbered: Vec<_> = merged.faults.iter().map(|fault| (fault.number, fault.asked_us)).collect();
    assert_eq!(numbered, [(1, 10), (2, 20)]);
    assert_eq!(merged.elections.unwrap()[0].after_fault, Some(2));
}

#[test]
fn counts_of_a_drivers_lock_are_not_compared_with_the_servers() {
    let compared = |change: fn(&mut Trial)| {
        let part = || {
            let mut part = trial(0);
            change(&mut part);
            part
        };
        !Trial::of_workers(vec![part(), part()]).unwrap().accounting.is_empty()
    };
    assert!(compared(|_| {}) && !compared(ranked::not_counted));
}

#[test]
fn trials_with_different_plans_are_not_merged() {
    let mut other = trial(0);
    assert_eq!(of_different_trials(&[trial(0), other.clone()]), None);
    other.spec.contenders = 4;
    assert!(of_different_trials(&[trial(0), other]).unwrap().contains("have different specifications"));
}

/// Writes the history of one worker with a single contender. A hold consists of its token, the zxid at its start,
/// and a zxid at which its node still existed.
fn history(dir: &tempfile::TempDir, worker: usize, holds: &[(i64, i64, i64)]) -> (usize, PathBuf) {
    let path = dir.path().join(format!("{worker}.jsonl"));
    let mut text =
        r#"{"format":"zklockbench-history","version":1,"complete":true,"locks":{"lock-0":{"kind":"mutex"}}}"#
            .to_owned();
    for (at, (token, found, there)) in holds.iter().enumerate() {
        let at = 1_000 * at;
        let event = |t_us: usize, rest: String| {
            format!(
                "\n{{\"t_us\":{t_us},\"process\":\"run\",\"contender\":{worker},\"lock\":\"lock-0\",{rest}}}"
            )
        };
        text += &event(at, r#""op":"acquire","phase":"invoke""#.into());
        text += &event(at + 100, format!(r#""op":"acquire","phase":"ok","token":{token},"zxid":{found}"#));
        text += &event(at + 200, r#""op":"release","phase":"invoke""#.into());
        text += &event(at + 300, format!(r#""op":"release","phase":"ok","there_zxid":{there}"#));
    }
    std::fs::write(&path, text + "\n").unwrap();
    (worker, path)
}

/// Holds of one of two workers that hold alternately, and that request the lock while the other worker holds it.
fn alternating(first: i64) -> Vec<(i64, i64, i64)> {
    (0..20).map(|turn| 20 * turn + first).map(|z| (z + 1, z + 2, z + 11)).collect()
}

fn judged(parts: &[(usize, PathBuf)], dir: &tempfile::TempDir) -> Judgement {
    let merged = dir.path().join("merged.jsonl");
    merge_histories(parts, &merged).unwrap();
    story::check(&merged, false).unwrap()
}

/// A trial judged with this history.
fn seen_in(judgement: &Judgement) -> Trial {
    let mut seen = trial(0);
    zklockbench_judge::add_order(&mut seen, judgement);
    zklockbench_judge::judge(&mut seen);
    seen
}

#[test]
fn workers_exclude_each_other_when_their_holds_alternate_by_zxid() {
    let dir = tempfile::tempdir().unwrap();
    // Given two workers that hold alternately, and that request the lock while the other worker holds it
    let judgement = judged(&[history(&dir, 0, &alternating(0)), history(&dir, 1, &alternating(10))], &dir);
    assert_eq!(judgement.clocks, 2);
    let seen = seen_in(&judgement);
    let order = seen.ensemble_order.as_ref().unwrap();
    assert!(order.too_early == 0 && order.contested_by_zxid > 30, "{order:?}");
    assert!(seen.unchecked.is_empty() && seen.judged.order == Some(Verdict::Held), "{:?}", seen.judged);
}

#[test]
fn overlapping_zxids_of_two_workers_are_a_violation() {
    let dir = tempfile::tempdir().unwrap();
    // Given a worker that entered at zxid 5 while the other worker's node still existed at zxid 9
    let parts = [history(&dir, 0, &[(1, 2, 9)]), history(&dir, 1, &[(4, 5, 12)])];
    let seen = seen_in(&judged(&parts, &dir));
    assert!(matches!(seen.judged.verdict, Verdict::Violated(_)), "{:?}", seen.judged);
    assert!(seen.ensemble_order.unwrap().first.unwrap().contains("of `worker-1`"));
}

#[test]
fn violation_that_only_the_merged_history_shows_decides_the_verdict() {
    let seen = seen_in(&story::judged("mutex complete\n10-11 a/1 acquire ok\n12-13 a/2 acquire ok"));
    assert_eq!((seen.violation_count, seen.judged.verdict.word()), (1, "violated"), "{:?}", seen.judged);
    assert!(seen.most_inside > 1, "a violation implies an overlap");
}

#[test]
fn workers_without_a_common_lock_give_no_evidence() {
    let dir = tempfile::tempdir().unwrap();
    let parts = [history(&dir, 0, &[(1, 2, 3)]), history(&dir, 1, &[(7, 8, 9)])];
    let Verdict::Unknown(why) = seen_in(&judged(&parts, &dir)).judged.verdict else { panic!("decided") };
    assert!(why[0].contains("too little evidence across workers"), "{why:?}");
}

#[test]
fn end_of_an_incomplete_history_is_no_violation() {
    let dir = tempfile::tempdir().unwrap();
    let parts = [history(&dir, 0, &alternating(0)), history(&dir, 1, &alternating(10))];
    // Given that the first worker's events are missing after its sixth acquisition
    let text = std::fs::read_to_string(&parts[0].1).unwrap();
    let known: Vec<_> = text.lines().take(1 + 5 * 4 + 2).collect();
    let incomplete = known.join("\n").replacen("\"complete\":true", "\"complete\":false", 1) + "\n";
    std::fs::write(&parts[0].1, incomplete).unwrap();
    // Then the other worker's later acquisitions are not compared with the open hold
    let judgement = judged(&parts, &dir);
    let lock = story::lock(&judgement);
    assert_eq!((lock.acquired, lock.order.too_early, lock.violations.count), (26, 0, 0), "{lock:?}");
    assert_eq!(judgement.verdict.word(), "unknown", "{judgement:?}");
}
