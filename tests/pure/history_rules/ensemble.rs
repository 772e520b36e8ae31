//! Exclusion as the ensemble saw it: by zxids, whatever the clocks say.

use zklockbench_judge::history::Breach;

use crate::support::story::{judged, lines_of, lock, overlaps};

/// Two processes with clocks of their own; the second contender finds itself the holder at that zxid.
fn handoff(found_at: &str) -> String {
    format!(
        "mutex complete
         10-11 a/1 acquire ok token=1 zxid=2
         500 b/2 acquire invoke
         20-21 a/1 release ok deleted_zxid=9
         510 b/2 acquire ok token=3 {found_at}
         520-521 b/2 release ok deleted_zxid=12"
    )
}

#[test]
fn a_holder_let_in_by_the_deletion_of_the_one_before_is_held_across_clocks() {
    let judgement = judged(&handoff("zxid=9"));
    assert_eq!(judgement.verdict.word(), "held", "{judgement:?}");
    let order = lock(&judgement).order;
    assert_eq!((order.compared, order.waited, order.too_early), (1, 1, 0));
}

#[test]
fn a_holder_let_in_by_an_older_reply_is_too_early_though_no_clock_shows_it() {
    let judgement = judged(&handoff("zxid=8"));
    assert_eq!((judgement.verdict.word(), overlaps(&judgement)), ("violated", [0, 0, 0]));
    assert_eq!(lines_of(&judgement, Breach::Order), [3, 6, 7]);
}

#[test]
fn without_zxids_nothing_is_compared_across_clocks() {
    let judgement = judged(&handoff(""));
    assert_eq!(judgement.verdict.word(), "unknown");
    assert!(judgement.verdict.reasons()[0].contains("could not be compared"), "{judgement:?}");
    assert!(judgement.notes[0].contains("was not checked, for lack of"), "{judgement:?}");
}

#[test]
fn a_token_older_than_one_granted_before_is_reported_and_no_violation() {
    let judgement = judged(
        "mutex complete
         10 a/1 acquire invoke
         11-12 a/2 acquire ok token=2
         19-20 a/2 release ok
         21 a/1 acquire ok token=1
         22-23 a/1 release ok",
    );
    assert_eq!((judgement.verdict.word(), lock(&judgement).order.out_of_order), ("held", 1));
}

#[test]
fn a_hold_within_a_much_earlier_one_is_too_early() {
    // By zxids: 1 from 2 to 10, 2 from 20 to 30, and 3 from 5 to 15, written down by clocks of their own.
    let turn = |process: &str, from: u64, found: &str, deleted: u64| {
        format!(
            "{from} {process}/1 acquire invoke\n{} {process}/1 acquire ok {found}\n{} {process}/1 release invoke\n\
             {} {process}/1 release ok deleted_zxid={deleted}\n",
            from + 1,
            from + 2,
            from + 3
        )
    };
    let judgement = judged(&format!(
        "mutex complete\n{}{}{}",
        turn("a", 10, "token=1 zxid=2", 10),
        turn("b", 20, "token=2 zxid=20", 30),
        turn("c", 30, "token=3 zxid=5", 15)
    ));
    assert_eq!((judgement.verdict.word(), overlaps(&judgement)), ("violated", [0, 0, 0]));
    assert_eq!(lines_of(&judgement, Breach::Order), [3, 5, 11]);
}
