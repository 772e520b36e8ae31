//! The judge of a trial, `check` on its history, and `merge` agree on every mix of valid holders, zombies and
//! intruders.
//!
//! A case in the snapshot is a lock and its holders, in the order of their acquisitions. A holder has a claim (`w`,
//! `r` or a number of leases), a token, and optionally a fate:
//!
//! - `expired`: the session ends, and the holder is notified only after its release;
//! - `lost`: the holder is notified right after its acquisition that its session has ended, but stays inside;
//! - `crashed`: the holder dies right after its acquisition;
//! - `suspended`: the connection breaks right after the acquisition and is restored by the release;
//! - `cut`: like `suspended`, but the connection breaks right before the acquisition;
//! - `stalled`: the connection breaks at the end, and no other event follows;
//! - `proved`: the connection breaks and is restored at the end, and then the session ends;
//! - `unknown`: the outcome of the release is unknown.

use std::fmt::Write as _;

use zklockbench_record::history::{LockKind, SessionState};
use zklockbench_record::{Deed, Facts, LockClaim, Moment, Trial};
use zklockbench_results::history::merge_histories;

use crate::support::answered::answered;
use crate::support::records;
use crate::support::story::{self, file, lines, overlaps};

/// Violations, zombies and uncertain overlaps.
type Counts = [u64; 3];

const ASKED: u64 = 1;

struct CaseHolder<'a> {
    contender: usize,
    claim: LockClaim,
    token: i64,
    fate: &'a str,
    entered: u64,
    left: u64,
}

fn holders(case: &str) -> Vec<CaseHolder<'_>> {
    let holder = |(contender, words)| {
        let words: &str = words;
        let mut words = words.split('-');
        let claim = match words.next().unwrap() {
            "w" => LockClaim::WRITE,
            "r" => LockClaim::READ,
            leases => LockClaim { leases: leases.parse().unwrap(), ..LockClaim::WRITE },
        };
        let token = words.next().unwrap().parse().unwrap();
        let at = 10 * contender as u64;
        let fate = words.next().unwrap_or("ok");
        CaseHolder { contender, claim, token, fate, entered: 10 + at, left: 1000 + at }
    };
    case.split(' ').enumerate().map(holder).collect()
}

fn kind(lock: &str) -> LockKind {
    match lock.split_once(' ') {
        Some((_, leases)) => LockKind::Semaphore(leases.parse().unwrap()),
        None if lock == "mutex" => LockKind::Mutex,
        None => LockKind::ReadWrite,
    }
}

/// The judged trial, with facts as recorded by the load.
fn judged_trial(lock: &str, holders: &[CaseHolder<'_>]) -> Trial {
    let mut moments = Vec::new();
    for CaseHolder { contender, claim, token, fate, entered, left } in holders {
        let mut did = |at, deed| {
            moments.push(Moment { at, contender: *contender, lock: 0, session: Some(*token), deed });
        };
        did(ASKED, Deed::Asks(*claim));
        if *fate == "cut" {
            did(entered - 1, Deed::Session(SessionState::Suspended));
        }
        did(*entered, Deed::Enters { claim: *claim, token: Some(100 + token), zxid: None });
        match *fate {
            "lost" | "crashed" => did(entered + 1, Deed::Session(SessionState::Expired)),
            "suspended" => did(entered + 1, Deed::Session(SessionState::Suspended)),
            _ => {}
        }
        match *fate {
            "crashed" => continue,
            "stalled" => {
                did(*left, Deed::Session(SessionState::Suspended));
                continue;
            }
            "proved" => {
                did(left - 3, Deed::Session(SessionState::Suspended));
                did(left - 2, Deed::Session(SessionState::Connected));
                did(left - 1, Deed::Session(SessionState::Expired));
            }
            _ => {}
        }
        did(*left, Deed::Leaves { alone: false });
        match *fate {
            "expired" => did(left + 1, Deed::Session(SessionState::Expired)),
            "suspended" | "cut" => did(left + 1, Deed::Session(SessionState::Connected)),
            _ => {}
        }
        let is_open = matches!(*fate, "expired" | "lost" | "proved" | "unknown");
        did(left + 2, if is_open { Deed::MayHaveLeft } else { Deed::HasLeft { deleted: None, there: None } });
        if is_open {
            // After a release with an unknown outcome, the contender opens a new session.
            let (session, deed) = (Some(100 + *token), Deed::Asks(*claim));
            moments.push(Moment { at: left + 10_000, contender: *contender, lock: 0, session, deed });
        }
    }
    let facts = Facts::without_moments(kind(lock)).with_moments(moments);
    let mut trial = Trial { facts: Some(facts), ..records::trial(0) };
    zklockbench_judge::judge(&mut trial);
    trial
}

/// The history of a case.
fn history(lock: &str, holders: &[CaseHolder<'_>]) -> String {
    let mut events: Vec<(u64, String)> = Vec::new();
    for CaseHolder { contender, claim, token, fate, entered, left } in holders {
        let mode = format!("{:?}", claim.mode).to_lowercase();
        let asked = format!("mode={mode} leases={}", claim.leases);
        let mut says = |at: u64, what: &str| {
            events.push((at, format!("{at} a/{contender} {what} session=0x{contender}")))
        };
        says(ASKED, &format!("acquire invoke {asked}"));
        if *fate == "cut" {
            says(entered - 1, "session suspended");
        }
        says(*entered, &format!("acquire ok {asked} token={}", 100 + token));
        match *fate {
            "lost" | "crashed" => says(entered + 1, "session expired"),
            "suspended" => says(entered + 1, "session suspended"),
            _ => {}
        }
        match *fate {
            "crashed" => continue,
            "stalled" => {
                says(*left, "session suspended");
                continue;
            }
            "proved" => {
                says(left - 3, "session suspended");
                says(left - 2, "session connected");
                says(left - 1, "session expired");
            }
            _ => {}
        }
        says(*left, "release invoke");
        match *fate {
            "expired" => {
                says(left + 1, "release unknown");
                says(left + 2, "session expired");
            }
            "lost" | "proved" => says(left + 1, "release fail"),
            "suspended" | "cut" => {
                says(left + 1, "session connected");
                says(left + 2, "release ok");
            }
            "unknown" => says(left + 1, "release unknown"),
            _ => says(left + 1, "release ok"),
        }
    }
    events.sort_by_key(|(at, _)| *at);
    let mut story = format!("{lock} complete\n");
    events.iter().for_each(|(_, event)| writeln!(story, "{event}").unwrap());
    lines(&story)
}

/// The case as one worker's record, merged with the record of another worker with a single contender.
fn merged(lock: &str, trial: &Trial, history: &str) -> (Trial, Counts) {
    let alone = lines(&format!("{lock} complete\n1-2 a/0 acquire ok\n3-4 a/0 release ok"));
    let (_one_dir, one) = file(history.as_bytes());
    let (dir, other) = file(alone.as_bytes());
    let to = dir.path().join("merged.jsonl");
    merge_histories(&[(0, one), (1, other)], &to).unwrap();
    let judgement = story::check(&to, false).unwrap();
    let mut both = Trial::of_workers(vec![trial.clone(), records::trial(0)]).unwrap();
    zklockbench_judge::add_order(&mut both, &judgement);
    zklockbench_judge::judge(&mut both);
    (both, overlaps(&judgement))
}

fn counts(trial: &Trial) -> Counts {
    [trial.violation_count, trial.excused.zombies, trial.excused.uncertain]
}

/// Asserts that the judge, `check` and `merge` agree on a case, and returns their classification.
fn classified(case: &str) -> String {
    let (lock, case) = case.trim().split_once(": ").unwrap();
    let holders = holders(case);
    let trial = judged_trial(lock, &holders);
    let [violations, zombies, uncertain] = counts(&trial);
    let history = history(lock, &holders);
    let judgement = story::check_text(history.as_bytes()).unwrap();
    assert_eq!(overlaps(&judgement), counts(&trial), "check: {lock}: {case}");
    assert_eq!(zklockbench_judge::differences(&trial, &judgement, true), [], "{lock}: {case}");
    let (both, of_history) = merged(lock, &trial, &history);
    assert_eq!((counts(&both), of_history), (counts(&trial), counts(&trial)), "merge: {lock}: {case}");
    assert!(violations == 0 || trial.most_inside > 1, "{lock}: {case}");
    for word in [trial.judged.verdict.word(), judgement.verdict.word(), both.judged.verdict.word()] {
        assert_eq!(word == "violated", violations > 0, "{lock}: {case}: {word}");
    }
    format!("{violations} violated, {zombies} zombies, {uncertain} uncertain")
}

#[test]
fn judge_check_and_merge_agree_on_every_mix_of_holders() {
    let snapshot = include_str!("snapshots/pure__mixed_holders__mixes.snap");
    insta::assert_snapshot!("mixes", answered(snapshot, classified));
}
