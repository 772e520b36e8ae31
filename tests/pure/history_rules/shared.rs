//! Locks that let several in: semaphores and read/write locks; and locks that one contender takes several times.

use crate::support::story::{judged, overlaps, refused};

/// Contenders that ask, enter in this order, and leave in the same.
fn together(kind: &str, who: &[&str]) -> String {
    let mut story = format!("{kind} complete\n");
    for (step, first) in
        [("acquire invoke", 10), ("acquire ok", 20), ("release invoke", 30), ("release ok", 40)]
    {
        for (at, one) in who.iter().enumerate() {
            let (number, fields) = one.split_once(' ').unwrap_or((one, ""));
            story += &format!("{} a/{number} {step} {fields}\n", first + at);
        }
    }
    story
}

#[test]
fn as_many_contenders_as_leases_may_hold() {
    assert_eq!(overlaps(&judged(&together("semaphore 3", &["1", "2 leases=2"]))), [0, 0, 0]);
}

#[test]
fn one_lease_too_many_is_a_violation() {
    let judgement = judged(&together("semaphore 3", &["1", "2 leases=2", "3"]));
    assert_eq!((judgement.verdict.word(), overlaps(&judgement)), ("violated", [1, 0, 0]));
}

#[test]
fn a_zombie_among_the_holders_explains_one_lease_too_many_and_no_second() {
    let story = together("semaphore 2", &["1", "2", "3"]);
    let zombie = story.replace("40 a/1 release ok", "40 a/1 release fail state=expired");
    assert_eq!(overlaps(&judged(&zombie)), [0, 1, 0]);
    let story = together("semaphore 2", &["1", "2", "3", "4"]);
    let zombie = story.replace("40 a/1 release ok", "40 a/1 release fail state=expired");
    assert_eq!(overlaps(&judged(&zombie)), [1, 1, 0]);
}

#[test]
fn more_permits_than_leases_are_refused() {
    let told = refused(&together("semaphore 3", &["1 leases=4"]));
    assert!(told.contains(":2: ") && told.contains("4 leases are requested; the semaphore has 3"), "{told}");
}

#[test]
fn readers_may_hold_together() {
    let judgement = judged(&together("read-write", &["1 mode=read", "2 mode=read"]));
    assert_eq!(overlaps(&judgement), [0, 0, 0]);
}

#[test]
fn a_writer_and_a_reader_together_are_a_violation_in_either_order() {
    for who in [["1 mode=read", "2 mode=write"], ["1 mode=write", "2 mode=read"]] {
        let judgement = judged(&together("read-write", &who));
        assert_eq!((judgement.verdict.word(), overlaps(&judgement)), ("violated", [1, 0, 0]));
    }
}

#[test]
fn a_reentrant_holder_states_its_depth_and_holds_until_the_last_release() {
    let judgement = judged(
        "mutex complete
         10-11 a/1 acquire ok
         12-13 a/1 acquire ok depth=2
         14-15 a/1 release ok
         16-17 a/2 acquire ok
         18-19 a/1 release ok
         20-21 a/2 release ok",
    );
    assert_eq!(overlaps(&judgement), [1, 0, 0]);
}
