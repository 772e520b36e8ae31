//! The `check` command, and histories in the format that `run` writes.

use crate::support::answered::answered;
use crate::support::depth;
use crate::support::records;
use crate::support::run_dirs;
use crate::support::shown;
use crate::support::story;
use std::cmp::Reverse;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::support::program::{Bench, has, stderr, stdout};
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

/// Required evidence, lowered because these histories are too short for the default.
const LITTLE: &str = "--evidence 0.5@100%";

const CHECKS: &str = include_str!("snapshots/program__history_check__checks.snap");

/// Returns the output for a history in the notation of `support::story`, with the options after its `$`.
fn checked(case: &str) -> String {
    let (history, options) = case.split_once("$ check").unwrap();
    let bench = Bench::new();
    std::fs::write(bench.path("history.jsonl"), story::lines(history)).unwrap();
    let told = bench.told(&bench.typed(&format!("check history.jsonl {}", options.trim())).output().unwrap());
    if !options.contains("--json") && !options.contains("--all") {
        // A finding starts with its kind and lock, which are not part of its sentence.
        let sentences: Vec<&str> =
            told.lines().map(|line| line.split_once(": ").map_or(line, |(_, rest)| rest)).collect();
        shown::assert_is_brief(case, &sentences.join("\n"));
        assert!(sentences.len() <= 25, "{told}");
    }
    told
}

#[test]
fn check_output_for_each_history_matches_the_snapshot() {
    insta::assert_snapshot!("checks", answered(CHECKS, checked));
}

#[test]
fn check_writes_a_page_with_the_verdict() {
    let bench = Bench::new();
    std::fs::write(bench.path("history.jsonl"), story::lines(HELD)).unwrap();
    bench.ends(0, &format!("check history.jsonl {LITTLE} --html page.html"));
    let parts =
        ["<strong>Verdict</strong> held</li>", "Evidence about each lock", "longest together", ">mutex<"];
    has(&bench.text("page.html"), &parts);
}

/// History of a lock whose second contender enters when its list request fails, with its messages and the fault.
const ENTERS_WHEN_ITS_LIST_FAILS: &str = r#"{"format":"zklockbench-history","version":1,"complete":true,"locks":{"lock-0":{"kind":"mutex"}}}
{"t_us":1000,"process":"w1","contender":1,"op":"acquire","lock":"lock-0","phase":"invoke"}
{"t_us":2000,"process":"w1","contender":1,"op":"acquire","lock":"lock-0","phase":"ok"}
{"t_us":3000,"process":"w1","contender":3,"op":"acquire","lock":"lock-0","phase":"invoke"}
{"t_us":3100,"process":"w1","contender":3,"op":"trace","kind":"request","what":"create n-"}
{"t_us":3900,"process":"w1","contender":3,"op":"trace","kind":"reply","what":"create, reply"}
{"t_us":4000,"process":"w1","op":"trace","kind":"fault","what":"reset on server 2"}
{"t_us":4010,"process":"w1","contender":3,"op":"trace","kind":"request","what":"getChildren lock-0"}
{"t_us":4432,"process":"w1","contender":3,"op":"trace","kind":"lost-reply","what":"getChildren: connection loss"}
{"t_us":4500,"process":"w1","contender":3,"op":"acquire","lock":"lock-0","phase":"ok"}
{"t_us":9000,"process":"w1","contender":1,"op":"release","lock":"lock-0","phase":"invoke"}
{"t_us":9100,"process":"w1","contender":1,"op":"release","lock":"lock-0","phase":"ok"}
{"t_us":9200,"process":"w1","contender":3,"op":"release","lock":"lock-0","phase":"invoke"}
{"t_us":9300,"process":"w1","contender":3,"op":"release","lock":"lock-0","phase":"ok"}
"#;

#[test]
fn check_shows_a_violation_timeline_as_text_page_and_json() {
    let bench = Bench::new();
    std::fs::write(bench.path("history.jsonl"), ENTERS_WHEN_ITS_LIST_FAILS).unwrap();
    let (out, _) = bench.ends(1, "check history.jsonl --html page.html");
    let told = "contender 3 entered 68 µs after its getChildren failed (connection loss), without listing again, while \
                contender 1 held the lock, 500 µs after the fault reset on server 2";
    let lines: Vec<&str> = out.lines().collect();
    let first = lines.iter().position(|line| line.starts_with("contender 3 entered")).unwrap();
    let last = lines.iter().position(|line| line.contains("◁ notification")).unwrap();
    assert!(last - first < 30 && lines[first..=last].iter().all(|line| line.chars().count() <= 80), "{out}");
    has(&out, &["✗ getChildren: connection loss", "▒ ■ leaves"]);
    has(&bench.text("page.html"), &["What happened", "class=\"together\""]);
    let json = bench.json(1, "check history.jsonl --json");
    let timeline = &json["timelines"][0];
    assert_eq!(timeline["summary"], told);
    assert_eq!(timeline["together_us"], 4_500);
    assert_eq!(timeline["steps"].as_array().unwrap().len(), 10);
    assert_eq!(json["events"], 8, "traces must not count as events");
}

#[test]
fn check_shows_the_lines_of_a_history_from_a_pipe() {
    let bench = Bench::new();
    for path in ["-", "/dev/stdin"] {
        let mut check = bench.typed(&format!("check {path}"));
        check.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut check = check.spawn().unwrap();
        check.stdin.take().unwrap().write_all(ENTERS_WHEN_ITS_LIST_FAILS.as_bytes()).unwrap();
        let told = bench.told(&check.wait_with_output().unwrap());
        assert!(told.starts_with("exit 1\n") && told.contains("line 10: {"), "{path}: {told}");
    }
}

#[test]
fn check_rejudges_runs_from_their_trials_and_histories() {
    let violated =
        HELD.replace("20 w1/1 release invoke", "13 w1/2 acquire ok token=2 zxid=3\n20 w1/1 release invoke");
    let violated = violated.replace("22 w1/2 acquire ok token=2 zxid=3", "");
    let [sound, mut alone, mut zombies] = [(); 3].map(|()| records::trial(0));
    alone.spec.contenders = 1;
    zombies.excused.zombies = 147;
    let mut said = String::new();
    for (what, trials, history) in [
        ("sound", vec![sound.clone()], None),
        ("with a violation", vec![sound.clone(), records::trial_with_a_violation(1)], None),
        ("with zombies", vec![zombies], None),
        ("recorded as held with a single contender", vec![alone], None),
        ("recorded as held with a history that held", vec![sound.clone()], Some(HELD)),
        ("recorded as held with matching digests, but a violated history", vec![sound], Some(&*violated)),
    ] {
        let bench = Bench::new();
        let run = run_dirs::publish(bench.dir.path(), &trials);
        if let Some(history) = history {
            std::fs::write(run.join("trials/000.history.jsonl"), story::lines(history)).unwrap();
        }
        for options in ["", "--strict", "--json"] {
            let output =
                bench.typed(&format!("check {} {LITTLE} {options}", run.display())).output().unwrap();
            said += &format!("## {what} {options}\n\n{}\n\n", bench.told(&output));
        }
    }
    insta::assert_snapshot!("runs", said);
}

/// To update the docs, run `ZKLOCKBENCH_UPDATE_DOCS=1 cargo test --test program history_check`.
#[test]
fn check_output_matches_the_example_in_the_docs() {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/results-format.md");
    let text = std::fs::read_to_string(&page).unwrap();
    let history = text.split("```json\n").nth(1).unwrap().split("```").next().unwrap();
    let bench = Bench::new();
    std::fs::write(bench.path("history.jsonl"), history).unwrap();
    let (out, _) = bench.ends(0, &format!("check history.jsonl {LITTLE}"));
    let (begin, end) = ("<!-- output: begin -->\n", "<!-- output: end -->");
    let (before, rest) = text.split_once(begin).unwrap();
    let fresh = format!("{before}{begin}```\n{out}```\n{end}{}", rest.split_once(end).unwrap().1);
    if std::env::var_os("ZKLOCKBENCH_UPDATE_DOCS").is_some() {
        std::fs::write(&page, &fresh).unwrap();
    }
    assert!(std::fs::read_to_string(&page).unwrap() == fresh, "docs/results-format.md is stale; see above");
}

/// Writes the events of one process whose contenders alternate this many times.
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
        let (lock, claim) = ("lock", LockClaim::WRITE.into());
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
    Header { locks: [("lock".to_owned(), LockKind::Mutex)].into(), ..Header::default() }
}

#[test]
fn history_is_written_in_order_if_events_arrive_out_of_order() {
    let bench = Bench::new();
    let path = bench.path("history.jsonl");
    let mut events: Vec<Event<'static>> = Vec::new();
    turns(500, |event| events.push(*event));
    let expected: Vec<String> = events.iter().map(|event| format!("{event:?}")).collect();

    // Reverse the events within each tenth of a second; simultaneous events keep their order.
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
fn history_is_marked_incomplete_when_its_writer_is_dropped() {
    let bench = Bench::new();
    let path = bench.path("history.jsonl");
    let mut writer = HistoryWriter::create(&path, &header()).unwrap();
    turns(50, |event| writer.write(event).unwrap());
    drop(writer);
    let (out, _) = bench.ends(4, &format!("check history.jsonl {LITTLE}"));
    assert!(out.contains("the history is marked incomplete"), "{out}");
    let taken = HistoryWriter::create(&path, &header()).unwrap_err();
    assert!(taken.to_string().contains("history.jsonl"), "{taken}");
}

#[test]
fn history_writer_rejects_events_that_arrive_far_too_late() {
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
    assert!(late.to_string().contains("is 1999401 µs older than the newest event"), "{late}");
}

/// Environment variable that is set in the process whose memory is measured.
const ALONE: &str = "ZKLOCKBENCH_TEST_ALONE";

/// Returns the peak resident memory of this process so far, in kilobytes.
fn peak_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// To print the rate with four million lines, run
/// `ZKLOCKBENCH_HISTORY_TURNS=1000000 cargo test --release --test program memory -- --nocapture`.
#[test]
#[cfg(target_os = "linux")]
#[ignore = "long: measures memory"]
fn memory_does_not_grow_with_the_length_of_a_history() {
    // Measure in a separate process, because other tests in this process also use memory.
    if std::env::var_os(ALONE).is_none() {
        let name = "history_check::memory_does_not_grow_with_the_length_of_a_history";
        let mut alone = Command::new(std::env::current_exe().unwrap());
        let output = alone.args([name, "--exact", "--nocapture"]).env(ALONE, "1").output().unwrap();
        println!("{}", stdout(&output));
        assert!(output.status.success(), "{}", stderr(&output));
        assert!(stdout(&output).contains(" lines/s, "), "the test did not run");
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
