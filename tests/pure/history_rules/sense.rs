//! Histories that make no sense are refused, with the line; one that was cut off is judged up to there.

use crate::support::story::{check_text, judged, lines, refused};

const TURN: &str = "mutex
    10-11 a/1 acquire ok
    12 a/2 acquire invoke
    20 a/1 release invoke
    21 a/1 release ok
    22 a/2 acquire ok
    23 a/2 release invoke
    24 a/2 release ok";

/// What is told of the story with one more event at its end, which is line 10.
fn after_turn(event: &str) -> String {
    let told = refused(&format!("{TURN}\n{event}"));
    assert!(told.contains("history.jsonl:10: "), "{told}");
    assert!(told.ends_with("docs/history.md describes the format"), "{told}");
    told
}

#[test]
fn a_number_that_no_transaction_can_have_is_refused_with_its_field() {
    let lowest = i64::MIN;
    for (event, field) in [
        (format!("30 a/1 write ok token={lowest} accepted=true"), "token"),
        ("30 a/1 write ok token=1 accepted=true zxid=-1".to_owned(), "zxid"),
        ("30 a/1 release ok deleted_zxid=-7".to_owned(), "deleted_zxid"),
    ] {
        let told = after_turn(&event);
        assert!(told.contains(&format!("`{field}` is -")), "{told}");
    }
}

#[test]
fn a_double_release_is_refused() {
    let told = after_turn("30 a/1 release invoke");
    assert!(
        told.contains(
            "contender 1 of `a`, lock `lock`: release is called by a contender that does not hold it"
        )
    );
}

#[test]
fn a_second_acquire_of_a_holder_is_refused_unless_it_is_reentrant() {
    let told = refused(&TURN.replace("20 a/1 release invoke", "20 a/1 acquire invoke"));
    assert!(
        told.contains(":5: ") && told.contains("acquire is called by a contender that holds it"),
        "{told}"
    );
}

#[test]
fn an_answer_without_a_call_is_refused() {
    assert!(after_turn("30 a/7 acquire ok").contains("acquire ends, but the contender does not hold it"));
}

#[test]
fn time_that_goes_backwards_on_one_clock_is_refused() {
    let told = after_turn("23 a/1 acquire invoke");
    assert!(told.contains("time goes backwards on clock `a`: 23 µs after 24 µs in line 9"), "{told}");
}

#[test]
fn a_process_that_changes_its_clock_is_refused() {
    let told = after_turn("30 a/1 acquire invoke clock=other");
    assert!(told.contains("process `a` switches from clock `a` to `other`"), "{told}");
}

#[test]
fn a_process_that_no_longer_names_its_clock_is_refused() {
    let told = refused("mutex\n10 a/1 acquire invoke clock=host\n11 a/1 acquire ok");
    assert!(told.contains(":3: process `a` switches from clock `host` to `a`"), "{told}");
}

#[test]
fn a_lock_that_the_header_does_not_name_is_refused() {
    assert!(after_turn("30 a/1 acquire invoke lock=other").contains("the header does not name this lock"));
}

#[test]
fn an_operation_that_is_not_known_is_refused_and_a_field_that_is_not_known_is_not() {
    assert!(after_turn("30 a/1 steal invoke").contains("unknown variant `steal`"));
    assert!(after_turn("30 a/1 acquire begin").contains("unknown variant `begin`"));
    judged(&TURN.replace("20 a/1 release invoke", "20 a/1 release invoke colour=red"));
}

#[test]
fn a_field_that_is_missing_is_named() {
    assert!(after_turn("30 a/1 write ok").contains("a write that ended with `ok` needs `accepted`"));
    let without = |field: &str| {
        let text = lines(TURN).replacen(field, "", 1);
        check_text(text.as_bytes()).unwrap_err().to_string()
    };
    assert!(without("\"contender\":1,").contains(":2: this event needs `contender`"));
    assert!(without("\"phase\":\"invoke\",").contains(":2: this event needs `phase`"));
    assert!(without(",\"t_us\":10").contains(":2: missing field `t_us`"));
}

#[test]
fn a_first_line_that_is_no_header_is_refused() {
    let told = |text: &str| check_text(text.as_bytes()).unwrap_err().to_string();
    assert!(told("").contains("the file is empty"));
    assert!(told("{\"t_us\":1}\n").contains(":1: no header"));
    assert!(told(&lines(TURN).replacen("\"version\":1", "\"version\":2", 1)).contains("reads version 1"));
    assert!(
        told(&lines(TURN).replacen("-history", "-other", 1)).contains("the format is `zklockbench-other`")
    );
    assert!(told(&lines(&TURN.replacen("mutex", "semaphore", 1))).contains("needs `leases`, 1 or more"));
}

#[test]
fn a_last_line_that_was_cut_off_is_told_and_leaves_the_verdict_open() {
    let text = lines(TURN);
    let judgement = check_text(&text.as_bytes()[..text.len() - 9]).unwrap();
    assert_eq!((judgement.events, judgement.verdict.word()), (7, "unknown"));
    assert!(judgement.verdict.reasons()[0].contains("breaks off in line 9"), "{judgement:?}");
}

#[test]
fn a_broken_line_before_the_last_is_refused() {
    let text = lines(TURN).replacen("\"op\":\"release\"", "\"op\":", 1);
    let told = check_text(text.as_bytes()).unwrap_err().to_string();
    assert!(told.contains("history.jsonl:5: ") && told.contains("column"), "{told}");
}

#[test]
fn a_last_line_without_an_end_counts_when_it_is_whole() {
    let text = lines(TURN);
    let judgement = check_text(text.trim_end().as_bytes()).unwrap();
    assert_eq!((judgement.events, judgement.verdict.word()), (8, "held"));
}
