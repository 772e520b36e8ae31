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
    assert!(told.ends_with("docs/results-format.md describes the format"), "{told}");
    told
}

#[test]
fn a_contradictory_event_is_refused_with_its_line() {
    let lowest = format!("30 a/1 write ok token={} accepted=true", i64::MIN);
    for (event, said) in [
        // Numbers that no transaction can have
        (lowest.as_str(), "`token` is -"),
        ("30 a/1 write ok token=1 accepted=true zxid=-1", "`zxid` is -"),
        ("30 a/1 release ok deleted_zxid=-7", "`deleted_zxid` is -"),
        // A double release, and an answer without a call
        (
            "30 a/1 release invoke",
            "contender 1 of `a`, lock `lock`: release is called by a contender that does not hold it",
        ),
        ("30 a/7 acquire ok", "acquire ends, but the contender does not hold it"),
        // Clocks
        ("23 a/1 acquire invoke", "time goes backwards on clock `a`: 23 µs after 24 µs in line 9"),
        ("30 a/1 acquire invoke clock=other", "process `a` switches from clock `a` to `other`"),
        // What the format does not know, or misses
        ("30 a/1 acquire invoke lock=other", "the header does not name this lock"),
        ("30 a/1 steal invoke", "unknown variant `steal`"),
        ("30 a/1 acquire begin", "unknown variant `begin`"),
        ("30 a/1 write ok", "a write that ended with `ok` needs `accepted`"),
    ] {
        let told = after_turn(event);
        assert!(told.contains(said), "{event}: {told}");
    }
}

#[test]
fn an_unknown_field_is_ignored() {
    judged(&TURN.replace("20 a/1 release invoke", "20 a/1 release invoke colour=red"));
}

#[test]
fn a_second_acquire_of_a_holder_is_refused_unless_it_is_reentrant() {
    let told = refused(&TURN.replace("20 a/1 release invoke", "20 a/1 acquire invoke"));
    assert!(told.contains(":5: "), "{told}");
    assert!(told.contains("acquire is called by a contender that holds it"), "{told}");
}

#[test]
fn a_process_that_stops_naming_its_clock_is_refused() {
    let told = refused("mutex\n10 a/1 acquire invoke clock=host\n11 a/1 acquire ok");
    assert!(told.contains(":3: process `a` switches from clock `host` to `a`"), "{told}");
}

/// What is told of the text of a file that is refused.
fn told_of(text: &str) -> String {
    check_text(text.as_bytes()).unwrap_err().to_string()
}

#[test]
fn a_field_that_is_missing_is_named() {
    for (field, said) in [
        ("\"contender\":1,", ":2: this event needs `contender`"),
        ("\"phase\":\"invoke\",", ":2: this event needs `phase`"),
        (",\"t_us\":10", ":2: missing field `t_us`"),
    ] {
        let told = told_of(&lines(TURN).replacen(field, "", 1));
        assert!(told.contains(said), "{field}: {told}");
    }
}

#[test]
fn a_missing_header_is_refused() {
    let but = |from: &str, to: &str| lines(TURN).replacen(from, to, 1);
    for (text, said) in [
        (String::new(), "the file is empty"),
        ("{\"t_us\":1}\n".to_owned(), ":1: no header"),
        (but("\"version\":1", "\"version\":2"), "reads version 1"),
        (but("-history", "-other"), "the format is `zklockbench-other`"),
        (lines(&TURN.replacen("mutex", "semaphore", 1)), "needs `leases`, 1 or more"),
    ] {
        let told = told_of(&text);
        assert!(told.contains(said), "{told}");
    }
}

#[test]
fn a_truncated_last_line_is_reported_and_leaves_the_verdict_unknown() {
    let text = lines(TURN);
    let judgement = check_text(&text.as_bytes()[..text.len() - 9]).unwrap();
    assert_eq!((judgement.events, judgement.verdict.word()), (7, "unknown"));
    assert!(judgement.verdict.reasons()[0].contains("breaks off in line 9"), "{judgement:?}");
}

#[test]
fn a_broken_line_before_the_last_is_refused() {
    let text = lines(TURN).replacen("\"op\":\"release\"", "\"op\":", 1);
    let told = told_of(&text);
    assert!(told.contains("history.jsonl:5: ") && told.contains("column"), "{told}");
}

#[test]
fn a_complete_last_line_without_a_newline_counts() {
    let text = lines(TURN);
    let judgement = check_text(text.trim_end().as_bytes()).unwrap();
    assert_eq!((judgement.events, judgement.verdict.word()), (8, "held"));
}
