//! What is counted of a lock besides its overlaps, and how what was found is told.

use zklockbench_judge::history::{Breach, Finding, Judgement, LockReport};

use crate::support::story::{check_text, judged, lines, lines_of, lock, overlaps, refused};

/// A contender that takes the lock and gives it back within three microseconds.
fn turn(who: &str, from: u64) -> String {
    format!(
        "{from} {who} acquire invoke\n{} {who} acquire ok\n{} {who} release invoke\n{} {who} release ok\n",
        from + 1,
        from + 2,
        from + 3
    )
}

fn turn_of_writing(from: u64, token: i64, accepted: bool) -> String {
    let answered = format!("{} a/1 write ok token={token} accepted={accepted}", from + 1);
    format!("{from} a/1 write invoke token={token}\n{answered}\n")
}

fn told(judgement: &Judgement, breach: Breach) -> Vec<&str> {
    let of_kind = |finding: &&Finding| finding.breach == breach;
    judgement.findings.iter().filter(of_kind).map(|finding| finding.what.as_str()).collect()
}

fn acquires(lock: &LockReport) -> [u64; 3] {
    [lock.acquired, lock.failed, lock.unknown]
}

#[test]
fn acquires_are_counted_by_how_they_ended() {
    let judgement = judged(
        "mutex complete
         1-2 a/1 acquire fail
         3-4 a/1 acquire fail
         5-6 a/2 acquire unknown
         7-8 a/1 acquire ok
         9-10 a/1 release ok",
    );
    assert_eq!(acquires(lock(&judgement)), [1, 2, 1]);
    assert_eq!((judgement.events, judgement.contenders, judgement.clocks), (10, 2, 1));
}

#[test]
fn contenders_processes_and_clocks_are_distinguished() {
    let story = format!(
        "mutex\n{}{}{}",
        turn("a/1", 10),
        turn("b/1", 20).replace('\n', " clock=host\n"),
        turn("c/1", 30).replace('\n', " clock=host\n")
    );
    let judgement = judged(&story);
    assert_eq!((judgement.events, judgement.contenders, judgement.clocks), (12, 3, 2));
    assert!(lock(&judgement).contended && lock(&judgement).several_clocks);
    let judgement = judged(&format!("mutex\n{}{}", turn("a/1", 10), turn("a/1", 20)));
    assert!(!lock(&judgement).contended && !lock(&judgement).several_clocks);
}

#[test]
fn a_contender_let_in_after_another_came_and_went_has_waited() {
    let met_nobody_but_was_passed = format!("mutex complete\n5 a/1 acquire invoke\n{}", turn("a/2", 10))
        + "20 a/1 acquire ok\n21 a/1 release invoke\n22 a/1 release ok\n";
    assert_eq!(lock(&judged(&met_nobody_but_was_passed)).waited, 1);
    let one_by_one = format!("mutex complete\n{}{}", turn("a/1", 10), turn("a/2", 20));
    assert_eq!(lock(&judged(&one_by_one)).waited, 0);
}

/// Two contenders of one thread that walk in and out in turn, in for 20 µs and out for 200 µs; each leaves with that.
fn walking_in(leaves: &str) -> String {
    let turn = |turn: u64| {
        let (who, from) = (turn % 2, 110 * turn);
        format!(
            "{from} a/{who} acquire invoke\n{} a/{who} acquire ok\n{} a/{who} release invoke{leaves}\n{} a/{who} release ok\n",
            from + 200,
            from + 220,
            from + 220
        )
    };
    let mut events: Vec<String> =
        (0..100).flat_map(|number| turn(number).lines().map(str::to_owned).collect::<Vec<_>>()).collect();
    events.sort_by_key(|event| event.split(' ').next().unwrap().parse::<u64>().unwrap());
    format!("mutex complete\n{}", events.join("\n"))
}

#[test]
fn a_hold_without_other_runnable_contenders_is_no_evidence() {
    let verdict = |leaves| judged(&walking_in(leaves)).verdict;
    assert_eq!(verdict("").word(), "held", "a history that does not say so is taken at its word");
    let alone = verdict(" alone=true");
    assert_eq!(alone.word(), "unknown");
    assert!(alone.reasons()[0].contains("no contention was recorded"), "{alone:?}");
}

#[test]
fn only_the_time_that_a_lone_hold_excluded_is_left_out() {
    // Two leases: the second to enter shuts the semaphore alone, and the first has been inside all the time.
    let story = |alone: &str| {
        format!(
            "semaphore 2 complete
             0-1 a/1 acquire ok
             2 a/2 acquire invoke
             3 a/3 acquire invoke
             10 a/2 acquire ok
             30 a/2 release invoke{alone}
             31 a/2 release ok
             32 a/3 acquire ok
             40-41 a/1 release ok"
        )
    };
    assert_eq!(lock(&judged(&story(""))).waited, 1);
    assert_eq!(lock(&judged(&story(" alone=true"))).waited, 0);
    // Whoever came before it keeps the third one out, too.
    let mutex = "mutex complete
         0-1 a/1 acquire ok
         2 a/3 acquire invoke
         20-21 a/1 release ok
         22-23 a/2 acquire ok
         24-25 a/2 release ok alone=true
         26 a/3 acquire ok";
    assert_eq!(lock(&judged(mutex)).waited, 1);
}

#[test]
fn an_untouched_lock_is_omitted_and_one_with_writes_is_not() {
    let header = "mutex complete\n";
    assert_eq!(judged(header).locks, []);
    let events = ["1 a/1 write invoke", "2 a/1 write ok token=1 accepted=true"];
    assert_eq!(judged(&format!("{header}{}\n{}", events[0], events[1])).locks.len(), 1);
    let rejected = events[1].replace("true", "false");
    let judgement = judged(&format!("{header}{}\n{rejected}", events[0]));
    assert_eq!(lock(&judgement).writes.other_rejected, 1);
    assert_eq!(judged(&format!("{header}{}\n2 a/1 write unknown", events[0])).locks, []);
    let (newer, older) = (turn_of_writing(1, 7, true), turn_of_writing(3, 6, false));
    let judgement = judged(&format!("{header}{newer}{older}"));
    assert_eq!((lock(&judgement).writes.accepted, lock(&judgement).writes.stale_rejected), (1, 1));
}

#[test]
fn a_write_with_unknown_outcome_changes_nothing() {
    for answer in ["fail", "unknown accepted=true"] {
        let judgement = judged(&format!(
            "mutex complete\n{}30 a/1 write invoke token=1\n31 a/1 write {answer}",
            turn("a/1", 1)
        ));
        assert_eq!(lock(&judgement).writes.accepted, 0, "{answer}");
    }
    let refused = "30 a/1 write invoke token=1\n31 a/1 write fail token=1 accepted=false";
    let judgement = judged(&format!("mutex complete\n{}{refused}", turn("a/1", 1)));
    assert_eq!(lock(&judgement).writes.other_rejected, 1);
}

#[test]
fn overlaps_are_reported_with_both_contenders_and_times() {
    let judgement = judged(
        "mutex complete
         10-11 a/1 acquire ok
         12-15 b/2 acquire ok clock=a
         20-22 a/1 release ok
         30-31 b/2 release ok clock=a
         40 a/3 acquire invoke",
    );
    let violation = "contender 2 of `b` entered at 15 µs while contender 1 of `a` was inside, whose session was alive; \
                     both were inside for 5 µs";
    assert_eq!(told(&judgement, Breach::Violation), [violation]);
    assert_eq!(told(&judgement, Breach::Stuck), ["contender 3 of `a` asked and got no answer"]);
}

#[test]
fn zombies_and_uncertain_overlaps_are_reported_with_a_reason() {
    let ended = |how: &str| {
        judged(&format!(
            "mutex complete
             10-11 a/1 acquire ok
             12-15 a/2 acquire ok
             20-21 a/1 release {how}
             30-31 a/2 release ok"
        ))
    };
    let entered = "contender 2 of `a` entered at 15 µs while contender 1 of `a` was inside,";
    let zombie =
        format!("{entered} after a session had been suspended or had expired; both were inside for 5 µs");
    assert_eq!(told(&ended("fail state=expired"), Breach::Zombie), [zombie]);
    let uncertain =
        format!("{entered} and it is unknown whether a session had ended; both were inside for 5 µs");
    assert_eq!(told(&ended("unknown"), Breach::Uncertain), [uncertain]);
    assert_eq!(overlaps(&ended("fail")), [1, 0, 0], "a definite failure came from a live session");
}

#[test]
fn early_acquisitions_and_stale_writes_are_reported_with_their_numbers() {
    let judgement = judged(
        "mutex complete
         10-11 a/1 acquire ok token=1 zxid=2
         12-13 a/1 write ok token=5 accepted=true
         14-15 a/1 write ok token=4 accepted=true
         20-21 a/1 release ok deleted_zxid=9
         500-510 b/2 acquire ok token=3 zxid=8
         520-521 b/2 release ok deleted_zxid=12",
    );
    let early = "contender 2 of `b` found itself the holder at zxid 8, but the node of contender 1 of `a` was deleted at \
                 zxid 9";
    assert_eq!(told(&judgement, Breach::Order), [early]);
    assert_eq!(told(&judgement, Breach::StaleWrite), ["token 4 was accepted after token 5"]);
}

#[test]
fn the_first_twenty_of_each_kind_are_reported_in_line_order() {
    let mut story = "mutex complete\n".to_owned();
    for turn in 0..25_u64 {
        let t = 100 * turn;
        for (after, what) in [
            (0, "a/1 acquire invoke"),
            (1, "a/1 acquire ok"),
            (2, "a/2 acquire invoke"),
            (3, "a/2 acquire ok"),
            (4, "a/1 release invoke"),
            (5, "a/1 release ok"),
            (6, "a/2 release invoke"),
            (7, "a/2 release ok"),
        ] {
            story += &format!("{} {what}\n", t + after);
        }
    }
    (0..22).for_each(|who| story += &format!("9000 a/{who} acquire invoke\n"));
    let judgement = judged(&story);
    assert_eq!((overlaps(&judgement), lock(&judgement).stuck), ([25, 0, 0], 22));
    let kinds = |breach| told(&judgement, breach).len();
    assert_eq!((kinds(Breach::Violation), kinds(Breach::Stuck)), (20, 20));
    let lines: Vec<u64> = judgement.findings.iter().take(20).map(|finding| finding.lines[0].line).collect();
    assert_eq!(lines, (0..20).map(|turn| 3 + 8 * turn).collect::<Vec<_>>());
}

#[test]
fn overlaps_on_several_clocks_are_added_up_and_the_longest_is_kept() {
    let apart = |process: &str, length: u64| {
        format!(
            "10 {process}/1 acquire invoke\n11 {process}/1 acquire ok\n12 {process}/2 acquire invoke\n\
             20 {process}/2 acquire ok\n{} {process}/1 release invoke\n{0} {process}/1 release ok\n\
             90 {process}/2 release invoke\n91 {process}/2 release ok\n",
            20 + length
        )
    };
    let judgement = judged(&format!("mutex complete\n{}{}", apart("a", 7), apart("b", 5)));
    assert_eq!((overlaps(&judgement), lock(&judgement).violations.longest_us), ([2, 0, 0], 7));
}

/// A holder that takes its lock again, what it does then, and another that enters afterwards.
fn reentrant(then: &str) -> String {
    format!(
        "mutex complete
         10-11 a/1 acquire ok
         12 a/1 acquire invoke depth=2
         {then}
         30-31 a/2 acquire ok
         40-41 a/2 release ok
         50-51 a/1 release ok"
    )
}

#[test]
fn a_further_acquire_that_failed_needs_no_release() {
    let story = reentrant("13 a/1 acquire fail depth=2\n14 a/1 release invoke\n15 a/1 release ok");
    let told = refused(&story);
    assert!(told.contains("release is called by a contender that does not hold it"), "{told}");
    let let_go = story.replace("50-51 a/1 release ok", "");
    assert_eq!(overlaps(&judged(&let_go)), [0, 0, 0]);
}

#[test]
fn a_further_acquire_goes_with_a_release_unless_that_failed() {
    let eased = |how: &str| {
        let then = format!("13 a/1 acquire ok depth=2\n14 a/1 release invoke\n15 a/1 release {how}");
        let again = "16 a/1 release invoke\n17 a/1 release ok";
        judged(&reentrant(&format!("{then}\n{again}")).replace("50-51 a/1 release ok", ""))
    };
    for how in ["ok", "unknown"] {
        assert_eq!(overlaps(&eased(how)), [0, 0, 0], "{how}: the second release was the last");
    }
    assert_eq!(overlaps(&eased("fail")), [1, 0, 0], "two were left to be given back, and one was");
}

#[test]
fn the_depth_of_a_further_acquire_must_be_the_next() {
    let said = |depth: &str| {
        refused(&reentrant("13 a/1 acquire ok depth=2").replacen("depth=2", &format!("depth={depth}"), 1))
    };
    assert!(said("3").contains("`depth` is 3, expected 2"), "{}", said("3"));
    assert!(said("1").contains("acquire is called by a contender that holds it"), "{}", said("1"));
    let first = "mutex\n10 a/1 acquire invoke depth=1\n11 a/1 acquire ok depth=1";
    assert_eq!(lock(&judged(first)).acquired, 1);
}

#[test]
fn an_acquire_after_the_end_of_a_session_starts_a_new_one() {
    let judgement = judged(
        "mutex complete
         10 a/1 session expired
         11-12 a/1 acquire ok
         13-15 a/2 acquire ok
         20-21 a/1 release ok
         30-31 a/2 release ok",
    );
    assert_eq!(overlaps(&judgement), [1, 0, 0]);
    let suspended = "mutex complete
         10 a/1 session suspended
         11-12 a/1 acquire ok
         13-15 a/2 acquire ok
         20-21 a/1 release ok
         30-31 a/2 release ok";
    assert_eq!(
        overlaps(&judged(suspended)),
        [0, 1, 0],
        "a connection that is away does not come back by asking"
    );
}

#[test]
fn a_contender_that_acquires_again_after_an_unknown_outcome_did_not_hold() {
    let after = |then: &str| {
        overlaps(&judged(&format!(
            "mutex complete
             10-11 a/1 acquire unknown
             {then}
             20-21 a/2 acquire ok
             30-31 a/2 release ok"
        )))
    };
    assert_eq!(after("12 a/1 acquire invoke\n13 a/1 acquire fail"), [0, 0, 0]);
    assert_eq!(after("12 a/1 release invoke\n13 a/1 release ok"), [0, 0, 0]);
    assert_eq!(after("12 a/1 session expired"), [0, 0, 0]);
    assert_eq!(after(""), [0, 0, 1]);
}

#[test]
fn a_failed_release_is_resolved_by_what_its_contender_does_next() {
    let overlap = |then: &str| {
        overlaps(&judged(&format!(
            "mutex complete
             10-11 a/1 acquire ok
             12-15 a/2 acquire ok
             20 a/1 release invoke
             {then}
             30-31 a/2 release ok"
        )))
    };
    assert_eq!(overlap("21 a/1 release fail\n22 a/1 acquire invoke\n23 a/1 acquire fail"), [1, 0, 0]);
    assert_eq!(overlap("21 a/1 release unknown\n22 a/1 acquire invoke\n23 a/1 acquire fail"), [0, 0, 1]);
    assert_eq!(overlap("21 a/1 release fail\n22 a/1 session connected"), [1, 0, 0]);
    assert_eq!(overlap("21 a/1 release unknown\n22 a/1 session connected"), [0, 0, 1]);
    assert_eq!(overlap("21 a/1 release unknown\n22 a/1 session expired"), [0, 1, 0]);
    assert_eq!(overlap("21 a/1 release unknown\n22 a/1 release invoke\n23 a/1 release ok"), [1, 0, 0]);
    let later = "22 a/1 session connected\n23 a/1 session expired";
    assert_eq!(overlap(&format!("21 a/1 release fail\n{later}")), [1, 0, 0], "that had been settled");
    assert_eq!(overlap(&format!("21 a/1 release unknown\n{later}")), [0, 0, 1]);
    assert_eq!(overlap(""), [0, 0, 1], "a release without an answer");
}

/// A holder with session 1, news of a process's sessions, and another that enters afterwards.
fn after_news(news: &str) -> [u64; 3] {
    let story = format!(
        "mutex complete
         10-11 a/1 acquire ok session=0x1
         12 a/2 acquire invoke session=0x2
         {news}
         15 a/2 acquire ok
         20-21 a/1 release ok
         30-31 a/2 release ok"
    );
    let text = lines(&story).replace("\"contender\":99,", "");
    overlaps(&check_text(text.as_bytes()).unwrap())
}

#[test]
fn session_events_apply_to_contenders_that_may_have_the_session() {
    assert_eq!(after_news("13 a/99 session suspended session=0x1"), [0, 1, 0]);
    assert_eq!(after_news("13 a/99 session suspended"), [0, 1, 0], "no session is named: all of the process");
    assert_eq!(after_news("13 a/99 session suspended session=0x3"), [1, 0, 0], "nobody here has that one");
    assert_eq!(after_news("13 b/99 session suspended session=0x1 clock=a"), [1, 0, 0], "another process");
    assert_eq!(
        after_news("13 a/99 session suspended session=0x2"),
        [1, 0, 0],
        "the session of the one that enters excuses nothing"
    );
}

#[test]
fn late_events_of_a_former_session_do_not_affect_the_present_one() {
    assert_eq!(after_news("13 a/1 session expired session=0x7"), [1, 0, 0]);
    assert_eq!(
        after_news("13 a/1 session suspended session=0x7"),
        [0, 1, 0],
        "a new one, so the former has ended"
    );
    let away = "13 a/1 session suspended session=0x1\n14 a/1 session connected";
    assert_eq!(after_news(&format!("{away} session=0x1")), [1, 0, 0], "the same came back");
    assert_eq!(after_news(&format!("{away} session=0x2")), [0, 1, 0], "another came back");
}

#[test]
fn an_event_that_concerns_a_contender_must_name_it() {
    let text = lines("mutex\n10 a/99 acquire invoke").replace("\"contender\":99,", "");
    let told = check_text(text.as_bytes()).unwrap_err().to_string();
    assert!(told.contains("this event needs `contender`"), "{told}");
}

#[test]
fn holds_without_a_token_are_counted_and_those_without_a_zxid_not_compared() {
    let story = |kind: &str| {
        format!(
            "{kind} complete\n{}{}",
            turn("a/1", 10).replace("acquire ok", "acquire ok token=1 zxid=2"),
            turn("a/2", 20)
        )
    };
    for kind in ["mutex", "read-write", "semaphore 2"] {
        assert_eq!(lock(&judged(&story(kind))).order.without_token, 1, "{kind}");
        let without_zxid = story(kind).replace("21 a/2 acquire ok", "21 a/2 acquire ok token=3");
        assert_eq!(lock(&judged(&without_zxid)).order.not_compared, 1, "{kind}");
    }
}

#[test]
fn a_silent_process_counts_up_to_its_last_event() {
    let story = |last: u64| {
        format!(
            "mutex
             10-11 a/1 acquire ok clock=host
             12-15 b/2 acquire ok clock=host
             {last} a/3 acquire invoke clock=host
             30-31 b/2 release ok clock=host"
        )
    };
    assert_eq!(overlaps(&judged(&story(16))), [1, 0, 0], "heard of after the other had entered");
    let stuck = lock(&judged(&story(16))).unfinished;
    assert_eq!(stuck, 1);
}

#[test]
fn two_endless_holds_overlap_up_to_the_last_time_of_their_clock() {
    let judgement = judged(
        "mutex complete
         10-11 a/1 acquire ok
         12-15 a/2 acquire ok
         40-40 a/3 acquire fail
         90-90 b/1 acquire fail",
    );
    assert_eq!((overlaps(&judgement), lock(&judgement).violations.longest_us), ([1, 0, 0], 40 - 15));
    assert!(!lock(&judgement).several_clocks, "whoever was refused on the other clock was never inside");
}

#[test]
fn a_holder_asked_to_leave_and_silent_afterwards_left_at_once() {
    let judgement = judged(
        "mutex complete
         10-11 a/1 acquire ok
         12-15 a/2 acquire ok
         20 a/1 session expired
         40-41 a/3 acquire fail",
    );
    assert_eq!((overlaps(&judgement), lock(&judgement).zombies.longest_us), ([0, 1, 0], 20 - 15));
    assert_eq!(lock(&judgement).ignored_expiry, 0);
}

#[test]
fn a_new_connection_does_not_restore_lost_holds() {
    let judgement = judged(
        "mutex complete
         10-11 a/1 acquire ok
         12 a/2 acquire invoke
         13 a/1 session expired
         14 a/1 session connected
         15 a/2 acquire ok
         20-21 a/1 release fail
         30-31 a/2 release ok",
    );
    assert_eq!(overlaps(&judgement), [0, 1, 0]);
    assert_eq!(lines_of(&judgement, Breach::Zombie), [3, 5, 7, 8], "its end is among the lines that show it");
}
