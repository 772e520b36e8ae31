//! Did the fenced resource keep old tokens out?

use zklockbench_judge::history::Breach;

use crate::support::story::{judged, lines_of, lock};

/// A holder that ignores the end of its session writes after its successor, with that answer.
fn late_write(answer: &str) -> String {
    format!(
        "mutex complete
         10-11 a/1 acquire ok token=1
         12 a/2 acquire invoke
         14 a/1 session expired
         15 a/2 acquire ok token=2
         16 a/2 write invoke token=2
         17 a/2 write ok token=2 accepted=true
         18 a/1 write invoke token=1
         19 a/1 write {answer}
         20-21 a/1 release fail
         30-31 a/2 release ok"
    )
}

#[test]
fn a_zombies_refused_write_is_counted() {
    let judgement = judged(&late_write("ok token=1 accepted=false"));
    let writes = lock(&judgement).writes;
    assert_eq!((writes.accepted, writes.stale_rejected, writes.stale_accepted), (1, 1, 0));
    assert_eq!(judgement.verdict.word(), "held", "{judgement:?}");
}

#[test]
fn a_zombies_accepted_write_is_a_violation_and_both_writes_are_shown() {
    let judgement = judged(&late_write("ok token=1 accepted=true"));
    assert_eq!((judgement.verdict.word(), lock(&judgement).writes.stale_accepted), ("violated", 1));
    assert_eq!(lines_of(&judgement, Breach::StaleWrite), [8, 10]);
}

#[test]
fn concurrent_writes_may_have_happened_in_either_order() {
    let story = late_write("ok token=1 accepted=true");
    let story = story
        .replace("18 a/1 write invoke token=1", "")
        .replace("16 a/2 write invoke token=2", "16 a/2 write invoke token=2\n16 a/1 write invoke token=1");
    let judgement = judged(&story);
    let writes = lock(&judgement).writes;
    assert_eq!((judgement.verdict.word(), writes.stale_accepted, writes.undecided), ("unknown", 0, 1));
}

#[test]
fn a_write_without_a_token_proves_nothing() {
    let judgement = judged(&late_write("ok accepted=true"));
    assert_eq!((judgement.verdict.word(), lock(&judgement).writes.without_token), ("unknown", 1));
}
