//! Findings of the history checker on a tiny history for each rule. The snapshot contains the complete output.

use std::sync::LazyLock;

use regex::Regex;
use zklockbench_judge::history::{Breach, Judgement};

use crate::support::answered::answered;
use crate::support::story::{check, check_text, file, judged, lines, lines_of, lock, overlaps};

const STORIES: &str = include_str!("snapshots/pure__history_rules__stories.snap");

static ZERO: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\w+: (0|false)(, )?").unwrap());
static EMPTY: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\w+: \w+ \{ *\}(, )?").unwrap());

/// The verdict, each lock's report without zeros, and all findings and notes.
fn described(judgement: &Judgement) -> String {
    let mut said = vec![format!("{} {:?}", judgement.verdict.word(), judgement.verdict.reasons())];
    for lock in &judgement.locks {
        let report = format!("{lock:?}");
        let report = ZERO.replace_all(&report, "").into_owned();
        said.push(EMPTY.replace_all(&report, "").into_owned());
    }
    let (events, contenders, clocks) = (judgement.events, judgement.contenders, judgement.clocks);
    said.push(format!("{events} events, {contenders} contenders, {clocks} clocks"));
    for finding in &judgement.findings {
        let lines: Vec<u64> = finding.lines.iter().map(|place| place.line).collect();
        said.push(format!("{} in {lines:?}: {}", finding.breach.name(), finding.what));
    }
    said.extend(judgement.notes.iter().map(|note| format!("note: {note}")));
    said.join("\n")
}

/// The output for a history in short notation. Contender 99 stands for a missing contender, and `strict` turns
/// zombies into violations.
fn story_answer(story: &str) -> String {
    let is_strict = story.lines().next().is_some_and(|line| line.contains(" strict"));
    let (_dir, path) = file(lines(story).replace("\"contender\":99,", "").as_bytes());
    match check(&path, is_strict) {
        Ok(judgement) => described(&judgement),
        Err(error) => {
            format!("refused: {}", error.to_string().split("history.jsonl").skip(1).collect::<String>())
        }
    }
}

#[test]
fn history_verdicts_match_the_snapshot() {
    insta::assert_snapshot!("stories", answered(STORIES, story_answer));
}

const TURN: &str = "mutex
    10-11 a/1 acquire ok
    12 a/2 acquire invoke
    20-21 a/1 release ok
    22 a/2 acquire ok
    23-24 a/2 release ok";

#[test]
fn invalid_history_is_rejected_with_an_explanation() {
    let but = |from: &str, to: &str| lines(TURN).replacen(from, to, 1);
    for (text, said) in [
        (String::new(), "the file is empty"),
        ("{\"t_us\":1}\n".to_owned(), ":1: no header"),
        (but("\"version\":1", "\"version\":2"), "reads version 1"),
        (but("-history", "-other"), "found `zklockbench-other`"),
        (lines(&TURN.replacen("mutex", "semaphore", 1)), "`leases` must be at least 1"),
        (but("\"contender\":1,", ""), ":2: this event needs `contender`"),
        (but("\"phase\":\"invoke\",", ""), ":2: this event needs `phase`"),
        (but(",\"t_us\":10", ""), ":2: missing field `t_us`"),
        (but("\"op\":\"release\"", "\"op\":"), "history.jsonl:5: "),
    ] {
        let told = check_text(text.as_bytes()).unwrap_err().to_string();
        assert!(told.contains(said), "{said}: {told}");
    }
}

#[test]
fn last_line_of_a_history_counts_only_if_it_is_complete() {
    let text = lines(TURN);
    let whole = check_text(text.trim_end().as_bytes()).unwrap();
    assert_eq!((whole.events, whole.verdict.word()), (8, "held"));
    let cut = &text.as_bytes()[..text.len() - 9];
    for cut in [cut.to_vec(), [cut, &[0; 9]].concat()] {
        let cut = check_text(&cut).unwrap();
        assert_eq!((cut.events, cut.verdict.word()), (7, "unknown"));
        assert!(cut.verdict.reasons()[0].contains("is truncated at line 9"), "{cut:?}");
    }
}

#[test]
fn the_first_twenty_findings_of_each_kind_are_reported_in_line_order() {
    let turn = |number: u64| {
        let t = 100 * number;
        let enter = format!("{t}-{} a/1 acquire ok\n{}-{} a/2 acquire ok\n", t + 1, t + 2, t + 3);
        enter + &format!("{}-{} a/1 release ok\n{}-{} a/2 release ok\n", t + 4, t + 5, t + 6, t + 7)
    };
    let zombie = "8000-8001 a/30 acquire ok\n8002 a/30 session expired\n8003-8004 a/31 acquire ok\n\
                  8005-8006 a/31 release ok\n8007-8008 a/30 release fail\n";
    let asks: String = (0..22).map(|who| format!("9000 a/{who} acquire invoke\n")).collect();
    let turns: String = (0..25).map(turn).collect();
    let judgement = judged(&format!("mutex complete\n{turns}{zombie}{asks}"));
    assert_eq!((overlaps(&judgement), lock(&judgement).stuck), ([25, 1, 0], 22));
    let count = |judgement: &Judgement, breach: Breach| {
        judgement.findings.iter().filter(|finding| finding.breach == breach).count()
    };
    let kinds = [Breach::Violation, Breach::Stuck, Breach::Zombie];
    assert_eq!(kinds.map(|breach| count(&judgement, breach)), [20, 20, 1]);
    let lines: Vec<u64> = judgement.findings.iter().take(20).map(|finding| finding.lines[0].line).collect();
    assert_eq!(lines, (0..20).map(|turn| 3 + 8 * turn).collect::<Vec<_>>());
    // Given holds that begin before the deletion of the previous node, and writes with an old token
    let hold = |t: u64| {
        let enter = format!("{t}0-{t}1 a/1 acquire ok token={t}0 zxid={t}1\n");
        enter + &format!("{t}2-{t}3 a/1 release ok deleted_zxid={}\n", 10 * t + 50)
    };
    let holds: String = (1..=25).map(hold).collect();
    let writes: String =
        (300..325).map(|t| format!("{t}-{t} a/2 write ok token=5 accepted=true\n")).collect();
    let first = "290-290 a/2 write ok token=9 accepted=true\n";
    let judgement = judged(&format!("mutex complete\n{holds}{first}{writes}"));
    let report = lock(&judgement);
    assert_eq!((report.order.too_early, report.writes.stale_accepted), (24, 25));
    assert_eq!([Breach::Order, Breach::StaleWrite].map(|breach| count(&judgement, breach)), [20, 20]);
}

/// One contender waits while two others acquire the lock alternately until `last_us`.
fn passed_over(header: &str, last_us: u64) -> Judgement {
    let mut story = format!("{header}\n5 a/9 acquire invoke\n6 a/1 acquire invoke\n6 a/2 acquire invoke\n");
    for turn in 0..=last_us.div_ceil(100_000) {
        let (t, who) = (10 + 100_000 * turn, 1 + turn % 2);
        story += &format!("{t} a/{who} acquire ok\n{t}-{t} a/{who} release ok\n{t} a/{who} acquire invoke\n");
    }
    judged(&story)
}

#[test]
fn unfinished_acquire_counts_as_stuck_if_overtaken_for_a_long_time_or_if_the_history_is_complete() {
    let long = passed_over("mutex", 10_000_000);
    assert_eq!((long.verdict.word(), lock(&long).stuck), ("violated", 1));
    assert_eq!(lines_of(&long, Breach::Stuck), [2]);
    // Instantaneous holds give no evidence of exclusion.
    let short = passed_over("mutex", 500_000);
    let report = lock(&short);
    assert_eq!((short.verdict.word(), report.stuck, report.unfinished), ("unknown", 0, 3), "{short:?}");
    let complete = passed_over("mutex complete", 500_000);
    assert_eq!((complete.verdict.word(), lock(&complete).stuck), ("violated", 3));
}
