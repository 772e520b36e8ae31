//! Did everybody get on?

use zklockbench_judge::history::Breach;

use crate::support::story::{judged, lines_of, lock};

/// One contender asks and gets no answer while another is let in again and again, up to that time.
fn passed_over(header: &str, last_us: u64) -> String {
    let mut story = format!("{header}\n5 a/9 acquire invoke\n");
    for contender in [1, 2] {
        story += &format!("6 a/{contender} acquire invoke\n");
    }
    let mut t = 10;
    for turn in 0_u64.. {
        let who = 1 + turn % 2;
        for step in ["acquire ok", "release invoke", "release ok", "acquire invoke"] {
            story += &format!("{t} a/{who} {step}\n");
        }
        if t >= last_us {
            break;
        }
        t += 100_000;
    }
    story
}

#[test]
fn an_acquire_passed_over_far_longer_than_others_is_stuck() {
    let judgement = judged(&passed_over("mutex", 10_000_000));
    assert_eq!((judgement.verdict.word(), lock(&judgement).stuck), ("violated", 1));
    assert_eq!(lines_of(&judgement, Breach::Stuck), [2]);
}

#[test]
fn an_acquire_shortly_before_the_end_is_unfinished() {
    let judgement = judged(&passed_over("mutex", 500_000));
    // Nobody stayed inside for any time, so nothing else is known either.
    assert_eq!((judgement.verdict.word(), lock(&judgement).stuck), ("unknown", 0), "{judgement:?}");
    assert_eq!(lock(&judgement).unfinished, 3);
}

#[test]
fn an_acquire_without_an_end_is_stuck_in_a_complete_history() {
    let judgement = judged(&passed_over("mutex complete", 500_000));
    assert_eq!((judgement.verdict.word(), lock(&judgement).stuck), ("violated", 3));
}
