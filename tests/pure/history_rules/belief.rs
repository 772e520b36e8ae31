//! Exclusion as the contenders believe, on one clock.

use zklockbench_judge::history::Breach;

use crate::support::story::{check, file, judged, lines, lines_of, lock, overlaps};

#[test]
fn consecutive_holds_are_held() {
    let judgement = judged(
        "mutex complete
         10-11 a/1 acquire ok
         12 a/2 acquire invoke
         20 a/1 release invoke
         21 a/2 acquire ok
         22 a/1 release ok
         30-31 a/2 release ok",
    );
    assert_eq!(judgement.verdict.word(), "held", "{judgement:?}");
    assert_eq!((lock(&judgement).acquired, lock(&judgement).waited), (2, 1));
    assert_eq!(overlaps(&judgement), [0, 0, 0]);
}

#[test]
fn entering_early_is_a_violation_shown_by_the_lines_of_the_two() {
    let judgement = judged(
        "mutex complete
         10 a/1 acquire invoke
         10 a/3 acquire invoke
         11 a/1 acquire ok
         12-15 a/2 acquire ok
         16 a/3 acquire fail
         20-22 a/1 release ok
         30-31 a/2 release ok",
    );
    assert_eq!(judgement.verdict.word(), "violated");
    assert_eq!(overlaps(&judgement), [1, 0, 0]);
    assert_eq!(lock(&judgement).violations.longest_us, 5);
    assert_eq!(lines_of(&judgement, Breach::Violation), [4, 6, 8]);
}

#[test]
fn a_holder_that_never_releases_is_caught_when_the_next_enters() {
    let judgement = judged(
        "mutex
         10-11 a/1 acquire ok
         12-15 a/2 acquire ok
         30-31 a/2 release ok",
    );
    assert_eq!(judgement.verdict.word(), "violated");
    assert_eq!(lines_of(&judgement, Breach::Violation), [3, 5, 6]);
}

#[test]
fn a_silent_process_leaves_its_hold_unknown() {
    let silent = "mutex
         10-11 a/1 acquire ok clock=host
         12-15 b/2 acquire ok clock=host
         30 b/2 release invoke clock=host
         31 b/2 release ok clock=host";
    let judgement = judged(silent);
    assert_eq!((judgement.verdict.word(), overlaps(&judgement)), ("unknown", [0, 0, 1]));
    let judgement = judged(&silent.replace("mutex", "mutex complete"));
    assert_eq!((judgement.verdict.word(), overlaps(&judgement)), ("violated", [1, 0, 0]));
}

#[test]
fn a_holder_that_was_suspended_before_the_other_entered_is_a_zombie() {
    let told = lines(
        "mutex complete
         10-11 a/1 acquire ok
         12 a/2 acquire invoke
         13 a/1 session suspended
         15 a/2 acquire ok
         20 a/1 session expired
         25-26 a/1 release fail
         30-31 a/2 release ok",
    );
    let (_dir, path) = file(told.as_bytes());
    let judgement = check(&path, false).unwrap();
    assert_eq!((judgement.verdict.word(), overlaps(&judgement)), ("held", [0, 1, 0]));
    assert_eq!(lock(&judgement).zombies.longest_us, 10);
    let judgement = check(&path, true).unwrap();
    assert_eq!(judgement.verdict.word(), "violated", "strict: zombies violate, too");
}

#[test]
fn a_session_that_turns_out_to_have_expired_makes_its_holder_a_zombie_after_the_fact() {
    for end in ["25 a/1 release fail state=expired", "25 a/1 release unknown\n26 a/1 session expired"] {
        let judgement = judged(&format!(
            "mutex complete
             10-11 a/1 acquire ok
             12-15 a/2 acquire ok
             20 a/1 release invoke
             {end}
             30-31 a/2 release ok"
        ));
        assert_eq!((judgement.verdict.word(), overlaps(&judgement)), ("held", [0, 1, 0]), "{end}");
    }
}

/// Stories of two contenders, each with its verdict where that is not a matter of course, and its violations, zombies and
/// uncertain overlaps.
const STORIES: [(&str, Option<&str>, [u64; 3], &str); 10] = [
    (
        "a connection that came back with its session excuses nothing",
        None,
        [1, 0, 0],
        "mutex complete
        10-11 a/1 acquire ok session=0x1
        12 a/2 acquire invoke
        13 a/1 session suspended
        14 a/1 session connected session=0x1
        15 a/2 acquire ok
        20-21 a/1 release ok
        30-31 a/2 release ok",
    ),
    (
        "a connection with another session means that the former has ended",
        None,
        [0, 1, 0],
        "mutex complete
        10-11 a/1 acquire ok session=0x1
        12 a/2 acquire invoke
        14 a/1 session connected session=0x2
        15 a/2 acquire ok
        20-21 a/1 release fail
        30-31 a/2 release ok",
    ),
    (
        "a holder that goes when its session has ended overlaps with nobody",
        Some("held"),
        [0, 0, 0],
        "mutex complete
        10-11 a/1 acquire ok
        12 a/2 acquire invoke
        13 a/1 session expired
        15 a/2 acquire ok
        20 a/1 acquire invoke
        30-31 a/2 release ok
        32 a/1 acquire ok
        40-41 a/1 release ok",
    ),
    (
        "a contender that lost its session leaves the overlap uncertain where nothing orders the grants",
        Some("unknown"),
        [0, 0, 1],
        "mutex complete
        10 a/1 acquire invoke
        10 a/2 acquire invoke
        11 a/1 acquire ok
        15 a/2 acquire ok
        16 a/2 session expired
        20-21 a/1 release ok
        30-31 a/2 release fail",
    ),
    (
        "a holder whose release failed is inside until it releases again",
        Some("violated"),
        [2, 0, 0],
        "mutex complete
        10-11 a/1 acquire ok
        12 a/2 acquire invoke
        12 a/3 acquire invoke
        20 a/1 release invoke
        21 a/2 acquire ok
        22 a/1 release fail
        23-24 a/2 release ok
        25 a/3 acquire ok
        30-31 a/1 release ok
        35-36 a/3 release ok",
    ),
    (
        "a holder that goes on after a release of unknown outcome leaves entries before it releases again uncertain",
        Some("unknown"),
        [0, 0, 1],
        "mutex complete
        10-11 a/1 acquire ok
        12 a/2 acquire invoke
        20-21 a/1 release unknown
        22 a/2 acquire ok
        25-26 a/1 release ok
        30-31 a/2 release ok",
    ),
    (
        "a contender that asks again after a release of unknown outcome had left",
        None,
        [0, 0, 0],
        "mutex complete
        10-11 a/1 acquire ok
        12 a/2 acquire invoke
        20-21 a/1 release unknown
        22 a/2 acquire ok
        25 a/1 acquire invoke
        30-31 a/2 release ok
        32 a/1 acquire ok
        40-41 a/1 release ok",
    ),
    (
        "a holder whose release failed and whose session expires is a zombie",
        None,
        [0, 1, 0],
        "mutex complete
        10-11 a/1 acquire ok
        12 a/2 acquire invoke
        20-21 a/1 release fail
        22 a/2 acquire ok
        25 a/1 session expired
        26-27 a/1 release fail
        30-31 a/2 release ok",
    ),
    (
        "an acquire without a clear answer makes the next entry uncertain once",
        None,
        [0, 0, 1],
        "mutex complete
        10-11 a/1 acquire unknown
        12-15 a/2 acquire ok
        20-21 a/2 release ok
        22-25 a/2 acquire ok
        30-31 a/2 release ok",
    ),
    (
        "two clocks are never compared by their times",
        Some("unknown"),
        [0, 0, 0],
        "mutex complete
        10-11 a/1 acquire ok
        5-15 b/2 acquire ok
        20-21 a/1 release ok
        30-31 b/2 release ok",
    ),
];

#[test]
fn the_fate_of_session_grant_and_release_classifies_an_overlap() {
    for (name, word, expected, story) in STORIES {
        let judgement = judged(story);
        assert_eq!(overlaps(&judgement), expected, "{name}");
        assert!(word.is_none_or(|word| judgement.verdict.word() == word), "{name}: {judgement:?}");
    }
}

#[test]
fn a_holder_that_ignores_the_end_of_its_session_is_a_zombie_until_its_release() {
    let judgement = judged(
        "mutex complete
         10-11 a/1 acquire ok
         12 a/2 acquire invoke
         13 a/1 session expired
         15 a/2 acquire ok
         20-21 a/1 release fail
         30-31 a/2 release ok",
    );
    assert_eq!(overlaps(&judgement), [0, 1, 0]);
    assert_eq!((lock(&judgement).ignored_expiry, lock(&judgement).zombies.longest_us), (1, 5));
    assert_eq!(lines_of(&judgement, Breach::Zombie), [3, 5, 6, 7]);
    assert!(judgement.notes.iter().any(|note| note.contains("had been told")), "{:?}", judgement.notes);
}

#[test]
fn a_lock_without_waiters_proves_nothing() {
    let judgement = judged(
        "mutex complete
         10-11 a/1 acquire ok
         20-21 a/1 release ok
         22-25 a/2 acquire ok
         30-31 a/2 release ok",
    );
    assert_eq!(judgement.verdict.word(), "unknown");
    assert!(judgement.verdict.reasons()[0].contains("no contention was recorded"));
}

/// Rounds in which a holder keeps another contender out for 13 µs, while an acquire of a third ends in this way.
fn rounds(ends: &str) -> String {
    let round = |start: u64| {
        let events = [
            (0, "a/0 acquire invoke"),
            (5, "a/0 acquire ok"),
            (6, "a/1 acquire invoke"),
            (7, "a/2 acquire invoke"),
            (10, &format!("a/1 acquire {ends}")),
            (20, "a/0 release invoke"),
            (21, "a/0 release ok"),
            (22, "a/1 acquire invoke"),
            (23, "a/1 acquire fail"),
            (24, "a/2 acquire ok"),
            (30, "a/2 release invoke"),
            (31, "a/2 release ok"),
        ];
        events.map(|(after, what)| format!("{} {what}\n", start + after)).concat()
    };
    format!("mutex complete\n{}", (0..8).map(|number| round(1000 * number)).collect::<String>())
}

#[test]
fn an_acquire_without_a_clear_answer_leaves_the_evidence_of_other_holds() {
    for ends in ["fail", "unknown"] {
        let judgement = judged(&rounds(ends));
        let lock = lock(&judgement);
        assert_eq!((lock.waited, lock.seen_inside), (8, 6), "{ends}: 13 of 17 µs in each of 8 rounds");
        assert_eq!(judgement.verdict.word(), "held", "{ends}");
    }
}
