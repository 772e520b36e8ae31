//! `zklockbench check` from outside, and histories written as a run writes them.

use crate::support::depth;
use crate::support::records;
use crate::support::run_dirs;
use crate::support::story;
use std::cmp::Reverse;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use crate::support::program::{Bench, stderr, stdout};
use serde_json::Value;
use zklockbench_record::history::{Acquire, Event, Header, LockClaim, LockKind, Release, Step, What};
use zklockbench_results::history::{HistoryReader, HistoryWriter};

const HELD: &str = "mutex complete
    10 w1/1 acquire invoke
    11 w1/1 acquire ok token=1 zxid=1
    12 w1/2 acquire invoke
    20 w1/1 release invoke
    21 w1/1 release ok deleted_zxid=3
    22 w1/2 acquire ok token=2 zxid=3
    30 w1/2 release invoke
    31 w1/2 release ok deleted_zxid=4";

impl Bench {
    fn history(&self, story: &str) -> PathBuf {
        let path = self.path("history.jsonl");
        std::fs::write(&path, story::lines(story)).unwrap();
        path
    }

    fn check(&self, path: &std::path::Path, options: &[&str]) -> (Option<i32>, String, String) {
        // These histories are too short for the default.
        let typed = ["check", path.to_str().unwrap(), "--evidence", "0.5@100%"];
        let output = self.output(&[&typed[..], options].concat());
        (output.status.code(), stdout(&output), stderr(&output))
    }
}

#[test]
fn a_held_history_exits_with_0_and_names_its_lock() {
    let bench = Bench::new();
    let (code, out, err) = bench.check(&bench.history(HELD), &["--all"]);
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
    assert!(out.contains("8 events of 2 contenders on 1 clock"), "{out}");
    assert!(out.starts_with("verdict: held\n"), "{out}");
    let row = out.lines().find(|line| line.starts_with("lock ") && line.contains("mutex")).unwrap();
    let row: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(row, ["lock", "mutex", "2", "1", "0", "0", "0", "-", "0", "-", "-", "0"]);
}

#[test]
fn a_history_of_two_acquisitions_is_unknown_unless_less_evidence_is_asked_for() {
    let bench = Bench::new();
    let history = bench.history(HELD);
    let output = bench.output(&["check", history.to_str().unwrap()]);
    let out = stdout(&output);
    assert_eq!(output.status.code(), Some(4), "{out}");
    assert!(out.contains("1 of 2 acquisitions checked, 0.99@100% needs 5"), "{out}");
    assert!(
        out.contains("a lock that errs at every acquisition would have been caught with probability 0.63")
    );
}

#[test]
fn the_verdict_on_a_history_has_a_page() {
    let bench = Bench::new();
    let page = bench.path("page.html");
    let (code, out, err) = bench.check(&bench.history(HELD), &["--html", page.to_str().unwrap()]);
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("<strong>Verdict</strong> held</li>"), "{page}");
    assert!(page.contains("What was seen of each lock"), "{page}");
    assert!(page.contains("longest together") && page.contains(">mutex<"), "{page}");
}

#[test]
fn a_violated_history_exits_with_1_and_shows_the_lines_of_the_two_holders_alone() {
    let bench = Bench::new();
    let early = HELD.replace("22 w1/2 acquire ok", "12 w1/2 acquire ok");
    let mut events: Vec<&str> = early.lines().collect();
    let entry = events.remove(6);
    events.insert(4, entry);
    let (code, out, _) = bench.check(&bench.history(&events.join("\n")), &[]);
    assert_eq!(code, Some(1), "{out}");
    assert!(
        out.contains("violation, lock: contender 2 of `w1` entered at 12 µs while contender 1 of `w1`"),
        "{out}"
    );
    let excerpt = out.split("violation, lock").nth(1).unwrap().split("\n\n").next().unwrap();
    let lines: Vec<&str> =
        excerpt.lines().filter_map(|line| line.trim().strip_prefix("line ")?.split(':').next()).collect();
    assert_eq!(lines, ["3", "5", "6"], "{out}");
    assert!(
        out.contains(
            "verdict: violated\n  lock: entries while another was inside whose session was alive: 1"
        ),
        "{out}"
    );
}

#[test]
fn zombies_violate_when_the_check_is_strict() {
    let bench = Bench::new();
    let zombie = HELD
        .replace("20 w1/1 release invoke", "12 w1/1 session suspended\n13 w1/2 acquire ok token=2 zxid=2");
    let zombie = zombie.replace("21 w1/1 release ok deleted_zxid=3", "20 w1/1 release invoke");
    let zombie = zombie.replace("22 w1/2 acquire ok token=2 zxid=3", "21 w1/1 release fail state=expired");
    let path = bench.history(&zombie);
    assert_eq!(bench.check(&path, &[]).0, Some(0), "{:?}", bench.check(&path, &[]));
    let (code, out, _) = bench.check(&path, &["--strict"]);
    assert_eq!(code, Some(1), "{out}");
    assert!(out.contains("lock: entries while a zombie was inside: 1"), "{out}");
}

#[test]
fn a_contradictory_history_exits_with_2_and_names_the_line() {
    let bench = Bench::new();
    let path = bench.history(&format!("{HELD}\n40 w1/1 release invoke"));
    let (code, out, err) = bench.check(&path, &["--json"]);
    let told: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &told["error"]["kind"], &told["verdict"]), (Some(2), &"usage".into(), &Value::Null));
    assert!(
        err.contains("history.jsonl:10: contender 1 of `w1`, lock `lock`: release is called by"),
        "{err}"
    );
    let (code, _, err) = bench.check(&bench.path("nowhere.jsonl"), &[]);
    assert_eq!(code, Some(2));
    assert!(err.contains("there is no file") && err.contains("nowhere.jsonl"), "{err}");
}

#[test]
fn json_output_equals_the_text() {
    let bench = Bench::new();
    let (code, out, _) =
        bench.check(&bench.history(&HELD.replace("token=2 zxid=3", "token=2 zxid=2")), &["--json"]);
    let judged: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &judged["verdict"], &judged["exit_code"]), (Some(1), &"violated".into(), &1.into()));
    assert_eq!(judged["locks"][0]["order"]["too_early"], 1, "{out}");
    let lines = judged["findings"][0]["lines"].as_array().unwrap();
    let numbers: Vec<&Value> = lines.iter().map(|line| &line["line"]).collect();
    assert_eq!(numbers, [3, 6, 7], "{out}");
    let shown: Value = serde_json::from_str(lines[1]["text"].as_str().unwrap()).unwrap();
    assert_eq!(shown["deleted_zxid"], 3);
}

#[test]
fn the_trials_of_a_run_are_rejudged() {
    let bench = Bench::new();
    let sound = run_dirs::publish(bench.dir.path(), &[records::trial(0)]);
    let (code, out, _) = bench.check(&sound, &[]);
    assert_eq!(code, Some(0), "{out}");
    assert!(out.contains("trials: 1; held 1, violated 0, unknown 0"), "{out}");
    let broken =
        run_dirs::publish(bench.dir.path(), &[records::trial(0), records::trial_with_a_violation(1)]);
    let (code, out, _) = bench.check(&broken, &["--json"]);
    let judged: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &judged["trials"][1]["verdict"]), (Some(1), &"violated".into()), "{out}");
    assert_eq!(judged["changed"], serde_json::json!([]), "{out}");
}

#[test]
fn a_verdict_contradicted_by_its_evidence_is_an_error() {
    let bench = Bench::new();
    // Given a trial that was recorded as held, though it has one contender only
    let mut trial = records::trial(0);
    trial.spec.contenders = 1;
    let (code, out, err) = bench.check(&run_dirs::publish(bench.dir.path(), &[trial]), &[]);
    assert_eq!(code, Some(2), "{out}");
    assert!(out.contains("1 contender): recorded as held, now unknown"), "{out}");
    assert!(err.contains("the recorded verdicts do not follow from the recorded facts"), "{err}");
}

#[test]
fn a_run_whose_record_was_changed_is_violated_by_its_history() {
    let bench = Bench::new();
    // Given a run that was recorded as held, with digests that say so, beside a history that shows a violation
    let run = run_dirs::publish(bench.dir.path(), &[records::trial(0)]);
    let early = HELD
        .replace("22 w1/2 acquire ok token=2 zxid=3", "")
        .replace("20 w1/1 release invoke", "13 w1/2 acquire ok token=2 zxid=3\n20 w1/1 release invoke");
    let history = run.join("trials/000.history.jsonl");
    std::fs::write(&history, story::lines(&early)).unwrap();
    let (code, out, err) = bench.check(&run, &[]);
    assert_eq!(code, Some(1), "{out}{err}");
    assert!(out.starts_with("verdict: violated\n"), "{out}");
    assert!(out.contains("its history shows 1 violation, its record none"), "{out}");
    let (_, out, _) = bench.check(&run, &["--json"]);
    let judged: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (&judged["verdict"], judged["histories_differ"].as_array().unwrap().len()),
        (&"violated".into(), 1)
    );
    // And beside one that shows none, it is held
    std::fs::write(&history, story::lines(HELD)).unwrap();
    assert_eq!(bench.check(&run, &[]).0, Some(0));
}

#[test]
fn zombies_violate_a_strict_check_of_a_run() {
    let bench = Bench::new();
    let mut trial = records::trial(0);
    trial.excused.zombies = 147;
    let run = run_dirs::publish(bench.dir.path(), &[trial]);
    assert_eq!(bench.check(&run, &[]).0, Some(0));
    let (code, out, _) = bench.check(&run, &["--strict"]);
    assert_eq!(code, Some(1), "{out}");
    assert!(out.contains("147 entries while a holder without a live session was inside"), "{out}");
}

/// To write the output anew: `ZKLOCKBENCH_UPDATE_DOCS=1 cargo test --test program history_check`.
#[test]
fn the_example_in_the_docs_equals_the_output() {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/results-format.md");
    let text = std::fs::read_to_string(&page).unwrap();
    let history = text.split("```json\n").nth(1).unwrap().split("```").next().unwrap();
    let bench = Bench::new();
    std::fs::write(bench.path("history.jsonl"), history).unwrap();
    let (code, out, err) = bench.check("history.jsonl".as_ref(), &[]);
    assert_eq!(code, Some(0), "{err}");
    let (begin, end) = ("<!-- output: begin -->\n", "<!-- output: end -->");
    let (before, rest) = text.split_once(begin).unwrap();
    let fresh = format!("{before}{begin}```\n{out}```\n{end}{}", rest.split_once(end).unwrap().1);
    if std::env::var_os("ZKLOCKBENCH_UPDATE_DOCS").is_some() {
        std::fs::write(&page, &fresh).unwrap();
    }
    assert!(std::fs::read_to_string(&page).unwrap() == fresh, "docs/results-format.md is stale; see above");
}

/// The events of one process whose contenders take turns, as often as that.
fn turns(count: u64, mut write: impl FnMut(&Event<'static>)) {
    let event = |t_us, contender, what| Event {
        t_us,
        process: "w1",
        clock: None,
        contender: Some(contender),
        session: None,
        state: None,
        what,
    };
    let acquire = |step, token: Option<i64>| {
        let zxid = token.map(|token| token + 100);
        let (lock, claim) = ("lock", LockClaim::WRITE);
        What::Acquire(Acquire { lock, step, claim, depth: None, token, zxid })
    };
    let release = |step, deleted_zxid| {
        let there_zxid = None;
        What::Release(Release { lock: "lock", step, alone: false, deleted_zxid, there_zxid })
    };
    const CONTENDERS: u64 = 100;
    (0..CONTENDERS).for_each(|contender| write(&event(0, contender, acquire(Step::Invoke, None))));
    for turn in 0..count {
        let (who, t_us, token) = (turn % CONTENDERS, 10_000 * turn, i64::try_from(turn).unwrap());
        write(&event(t_us, who, acquire(Step::Ok, Some(token))));
        write(&event(t_us + 5_000, who, release(Step::Invoke, None)));
        write(&event(t_us + 8_000, who, release(Step::Ok, Some(token + 101))));
        write(&event(t_us + 8_000, who, acquire(Step::Invoke, None)));
    }
}

fn header() -> Header {
    Header { complete: None, locks: [("lock".to_owned(), LockKind::Mutex)].into() }
}

#[test]
fn a_history_is_written_in_order_although_threads_deliver_out_of_order() {
    let bench = Bench::new();
    let path = bench.path("history.jsonl");
    let mut events: Vec<Event<'static>> = Vec::new();
    turns(500, |event| events.push(*event));
    let expected: Vec<String> = events.iter().map(|event| format!("{event:?}")).collect();

    // Within each tenth of a second the later event comes first; events of one time keep their order.
    events.sort_by_key(|event| (event.t_us / 100_000, Reverse(event.t_us)));
    let mut writer = HistoryWriter::create(&path, &header()).unwrap();
    events.iter().for_each(|event| writer.write(event).unwrap());
    writer.finish().unwrap();

    let mut reader = HistoryReader::open(&path).unwrap();
    assert_eq!(reader.header().complete, Some(true));
    let mut read = Vec::new();
    while let Some(line) = reader.next_event().unwrap() {
        read.push(format!("{:?}", line.event().unwrap()));
    }
    assert_eq!(read, expected);
}

#[test]
fn a_history_whose_writer_was_dropped_is_marked_incomplete() {
    let bench = Bench::new();
    let path = bench.path("history.jsonl");
    let mut writer = HistoryWriter::create(&path, &header()).unwrap();
    turns(50, |event| writer.write(event).unwrap());
    drop(writer);
    let (code, out, _) = bench.check(&path, &[]);
    assert_eq!(code, Some(4), "{out}");
    assert!(out.contains("the history says that it is incomplete"), "{out}");
    let taken = HistoryWriter::create(&path, &header()).unwrap_err();
    assert!(taken.to_string().contains("history.jsonl"), "{taken}");
}

#[test]
fn an_event_that_comes_far_too_late_is_refused() {
    let bench = Bench::new();
    let mut writer = HistoryWriter::create(&bench.path("history.jsonl"), &header()).unwrap();
    let session = |t_us| Event {
        t_us,
        process: "w1",
        clock: None,
        contender: None,
        session: None,
        state: Some(zklockbench_record::history::SessionState::Connected),
        what: What::Session,
    };
    for t_us in [500, 600, 2_000_000] {
        writer.write(&session(t_us)).unwrap();
    }
    writer.write(&session(600)).unwrap();
    let late = writer.write(&session(599)).unwrap_err();
    assert!(late.to_string().contains("came 1999401 µs after a later one"), "{late}");
}

/// Set for the process in which memory is measured.
const ALONE: &str = "ZKLOCKBENCH_TEST_ALONE";

/// The largest resident memory of this process so far, in kilobytes.
fn peak_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// `ZKLOCKBENCH_HISTORY_TURNS=1000000 cargo test --release --test program memory -- --nocapture` shows the rate with
/// four million lines.
#[test]
#[cfg(target_os = "linux")]
fn memory_does_not_grow_with_the_length_of_a_history() {
    // In a process of its own: the other tests of this one take memory, too.
    if std::env::var_os(ALONE).is_none() {
        let name = "history_check::memory_does_not_grow_with_the_length_of_a_history";
        let mut alone = Command::new(std::env::current_exe().unwrap());
        let output = alone.args([name, "--exact", "--nocapture"]).env(ALONE, "1").output().unwrap();
        println!("{}", stdout(&output));
        assert!(output.status.success(), "{}", stderr(&output));
        assert!(stdout(&output).contains(" lines/s, "), "it was not run");
        return;
    }
    let bench = Bench::new();
    let count = std::env::var("ZKLOCKBENCH_HISTORY_TURNS")
        .map_or(depth::of(50_000, 100_000), |turns| turns.parse().unwrap());
    let path = bench.path("history.jsonl");
    let mut writer = HistoryWriter::create(&path, &header()).unwrap();
    turns(count, |event| writer.write(event).unwrap());
    writer.finish().unwrap();

    let (before, began) = (peak_kb(), Instant::now());
    let judgement = story::check(&path, false).unwrap();
    let took = began.elapsed();
    let grown = peak_kb() - before;
    assert_eq!(story::lock(&judgement).acquired, count);
    assert_eq!(story::lock(&judgement).order.compared, count - 1);
    assert!(grown < 8 << 10, "{grown} kB for {} lines", judgement.events);
    let rate = judgement.events as f64 / took.as_secs_f64();
    println!("{} lines in {took:?}: {rate:.0} lines/s, {grown} kB", judgement.events);
}
