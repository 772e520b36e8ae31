//! `driver check` on an honest driver and on drivers that lie, each in one way; and what trials make of the same lies.

use std::process::Output;
use std::time::Duration;

use serde_json::Value;
use zklockbench_record::Trial;

use crate::support::foreign::{self, KAZOO};
use crate::support::program::{Answers, Bench, Ended, measured_within, stderr, stdout};

const LYING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/drivers/lying/run");

struct Checked {
    code: Option<i32>,
    answer: Value,
}

impl Checked {
    fn of(output: &Output) -> Self {
        let answer =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|why| panic!("{why}: {}", stderr(output)));
        Self { code: output.status.code(), answer }
    }

    /// The checks that came to this.
    fn with(&self, outcome: &str) -> Vec<&str> {
        let checks = self.answer["checks"].as_array().unwrap().iter();
        checks
            .filter(|check| check["outcome"] == outcome)
            .map(|check| check["check"].as_str().unwrap())
            .collect()
    }

    fn seen(&self, name: &str) -> String {
        let checks = self.answer["checks"].as_array().unwrap();
        checks.iter().find(|check| check["check"] == name).unwrap()["seen"].as_str().unwrap().to_owned()
    }
}

/// Checks a lock of a driver; all of it if nothing else is said.
fn check(bench: &Bench, driver: &str, lock: &str, only: &[&str]) -> Checked {
    let mut words = vec!["driver", "check", driver, "--lock", lock, "--data-dir", "data", "--json"];
    words.extend(only.iter().flat_map(|name| ["--only", name]));
    Checked::of(&bench.output(&words))
}

fn lying(python: &str, how: &str) -> String {
    format!("{python} '{LYING}' {how}")
}

fn check_lying(python: &str, how: &str, only: &[&str]) -> Checked {
    check(&Bench::new(), &lying(python, how), "Lock", only)
}

/// Checks that no lie below has anything to do with.
const UNTOUCHED: [&str; 4] = ["ready", "echoes", "sessions", "session timeout"];

/// A lie fails these checks, one of them for that reason; others pass, before and after them.
fn is_found(how: &str, by: &[&str], why: &str) {
    let Some(python) = foreign::python() else { return };
    let checked = check_lying(python, how, &[by, &UNTOUCHED].concat());
    assert_eq!(checked.code, Some(1), "{how}: {}", checked.answer);
    let mut failed = checked.with("failed");
    failed.sort_unstable();
    let mut expected = by.to_vec();
    expected.sort_unstable();
    assert_eq!(failed, expected, "{how}: {}", checked.answer);
    assert_eq!(checked.with("ok").len(), UNTOUCHED.len(), "{how}: {}", checked.answer);
    assert!(by.iter().any(|name| checked.seen(name).contains(why)), "{how}: {}", checked.answer);
}

#[test]
fn kazoos_driver_keeps_the_protocol() {
    let Some(python) = foreign::python() else { return };
    let bench = Bench::new();
    let checked = check(&bench, &format!("{python} '{KAZOO}'"), "Lock", &[]);
    assert_eq!((checked.code, checked.with("failed")), (Some(0), Vec::new()), "{}", checked.answer);
    assert_eq!(checked.with("warning"), Vec::<&str>::new(), "{}", checked.answer);
    assert!(checked.with("ok").len() > 21, "{}", checked.answer);
    assert_eq!(Answers::of(&bench).complaints(&checked.answer), Vec::<String>::new());
    let headline = checked.answer["headline"].as_str().unwrap();
    assert!(headline.starts_with("kazoo 1: Lock keeps the protocol: "), "{headline}");
}

#[test]
#[ignore = "long: one lie more"]
fn what_passes_honest_words_on_is_honest_and_so_is_much_on_standard_error() {
    let Some(python) = foreign::python() else { return };
    for how in ["honest", "chatters"] {
        let only = ["flush", "exclusion", "timeout", "late grants", "nothing left", "end of input"];
        let checked = check_lying(python, how, &only);
        assert_eq!(
            (checked.code, checked.with("failed")),
            (Some(0), Vec::new()),
            "{how}: {}",
            checked.answer
        );
    }
}

#[test]
fn a_grant_without_a_lock_is_found() {
    is_found("grants-without-a-lock", &["exclusion", "timeout", "cancel a hold"], "has no node in it");
}

#[test]
#[ignore = "long: one lie more"]
fn two_inside_where_one_may_be_are_found() {
    is_found("two-leases", &["exclusion"], "two inside at once");
}

#[test]
fn a_second_answer_is_found() {
    is_found("answers-twice", &["exclusion"], "answered twice");
}

#[test]
fn a_contender_that_gets_the_lock_of_another_is_found() {
    is_found("swaps-contenders", &["exclusion", "timeout"], "which belongs to the session");
}

#[test]
fn half_a_line_is_found() {
    is_found("half-a-line", &["exclusion"], "not JSON");
}

#[test]
fn two_gigabytes_in_one_line_are_not_read() {
    is_found("no-newline", &["exclusion"], "a line of more than 65536 bytes");
}

#[test]
fn a_process_that_stays_is_found_though_it_has_left_the_group_and_is_ended() {
    is_found("leaves-a-child", &["end of input", "SIGKILL", "end while holding"], "left behind: sleep");
}

#[test]
#[ignore = "long: one lie more"]
fn a_timeout_that_is_ignored_is_found() {
    is_found("ignores-timeouts", &["timeout", "timeout of 0"], "`timeout_ms` 400");
}

#[test]
#[ignore = "long: one lie more"]
fn a_late_grant_that_is_kept_is_found() {
    is_found("keeps-late-grants", &["late grants"], "its session has the lock: nobody else gets in");
}

#[test]
fn a_session_timeout_of_its_own_is_a_warning_and_a_wrong_one_is_found() {
    let Some(python) = foreign::python() else { return };
    let checked = |how: &str| check_lying(python, how, &["sessions", "session timeout"]);
    let own = checked("own-timeout");
    assert_eq!((own.code, own.with("warning")), (Some(0), vec!["session timeout"]), "{}", own.answer);
    assert!(own.seen("session timeout").contains("its client asks for 7000 ms"), "{}", own.answer);
    let wrong = checked("tells-another-timeout");
    assert_eq!((wrong.code, wrong.with("failed")), (Some(1), vec!["session timeout"]), "{}", wrong.answer);
    assert!(wrong.seen("session timeout").contains("they granted 7000 ms"), "{}", wrong.answer);
}

#[test]
#[ignore = "long: one lie more"]
fn a_password_that_is_not_the_sessions_is_found() {
    is_found("tells-another-password", &["session expired"], "or its password is another");
}

#[test]
#[ignore = "long: one lie more"]
fn answers_that_stay_in_a_buffer_are_found() {
    let Some(python) = foreign::python() else { return };
    let checked = check_lying(python, "does-not-flush", &["by hand", "ready", "flush"]);
    assert_eq!((checked.code, checked.with("failed")), (Some(1), vec!["flush"]), "{}", checked.answer);
    assert!(checked.seen("flush").contains("it was not flushed"), "{}", checked.answer);
}

#[test]
#[ignore = "long: one lie more"]
fn one_that_dies_is_told_with_its_last_words() {
    is_found("dies", &["exclusion"], "exit status 7; it wrote last: out of memory");
}

#[test]
#[ignore = "long: one lie more"]
fn one_that_hangs_is_given_up() {
    is_found("hangs", &["exclusion"], "was not answered within");
}

#[test]
#[ignore = "long: one lie more"]
fn more_valid_lines_than_anybody_wants_are_found() {
    is_found("floods", &["exclusion"], "more than 10000 events");
}

#[test]
fn what_is_no_driver_is_the_environments_fault_and_a_wrong_lock_the_users() {
    let bench = Bench::new();
    let run = |driver: &str, lock: &str| {
        let output = bench.output(&["driver", "check", driver, "--lock", lock, "--data-dir", "data"]);
        (output.status.code(), stdout(&output), stderr(&output))
    };
    let (code, said, why) = run("sh -c 'echo no such module >&2; exit 3'", "Lock");
    assert!(code == Some(3) && said.is_empty(), "{said}");
    assert!(why.contains("exit status 3") && why.contains("no such module"), "{why}");
    let (code, _, why) = run("'no end", "Lock");
    assert!(code == Some(2) && why.contains("a quote without its end"), "{why}");
    let output = bench.output(&["driver", "check", "true", "--only", "everything"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("no check `everything`; there are: by hand, ready"),
        "{}",
        stderr(&output)
    );
    let Some(python) = foreign::python() else { return };
    let (code, _, why) = run(&format!("{python} '{KAZOO}'"), "Lokc");
    assert!(code == Some(2) && why.contains("did you mean `Lock`?"), "{why}");
}

/// A run of a lying driver's lock and one of our own.
struct Run {
    ended: Ended,
    trials: Vec<Trial>,
}

impl Run {
    fn of(python: &str, how: &str) -> Self {
        let bench = Bench::with(
            "name = \"lies\"\nstrategies = [\"liar:Lock\", \"kazoo\"]\ncontenders = 4\nhold = \"3ms\"\nduration = \"2s\"\n\
             warm_up = \"100ms\"\nrepetitions = 1\n[ensemble]\nservers = 1\n",
        );
        let driver = format!("liar={}", lying(python, how));
        let words = ["run", "scenario.toml", "--driver", &driver, "--data-dir", "data", "--no-floor"];
        let ended = measured_within(bench.command(&words), Duration::from_secs(180));
        assert!(ended.code.is_some(), "{how}: the run does not end: {}", ended.said);
        Self { ended, trials: bench.stored().trials }
    }

    fn trial(&self, strategy: &str) -> &Trial {
        self.trials.iter().find(|trial| trial.spec.strategy.label == strategy).unwrap()
    }
}

const MOST_KIB: u64 = 100 << 10;

#[test]
fn a_run_of_a_lock_that_is_none_is_violated() {
    let Some(python) = foreign::python() else { return };
    for how in ["grants-without-a-lock", "two-leases"] {
        let run = Run::of(python, how);
        assert_eq!(run.ended.code, Some(1), "{how}: {}", run.ended.said);
        assert!(run.trial("liar:Lock").is_violated() && !run.trial("kazoo").is_violated(), "{how}");
    }
}

#[test]
#[ignore = "long: six ways to break, until each deadline"]
fn a_run_with_a_driver_that_breaks_goes_on_says_why_and_stays_small() {
    let Some(python) = foreign::python() else { return };
    for (how, why) in [
        ("floods", "events"),
        ("no-newline", "a line of more than 65536 bytes"),
        ("hangs", "did not answer"),
        ("dies", "exit status 7"),
        ("half-a-line", "not JSON"),
        ("answers-twice", "is unanswered"),
    ] {
        let run = Run::of(python, how);
        let Ended { said, resident_kb, .. } = &run.ended;
        assert!(said.contains(why), "{how}: {said}");
        let own = run.trial("kazoo");
        assert!(own.measured.acquired() > 10 && own.errors.is_empty(), "{how}: {:?}", own.errors);
        assert!(!run.trial("liar:Lock").is_violated(), "{how}");
        assert!((1..MOST_KIB).contains(resident_kb), "{how}: {resident_kb} KiB");
    }
}
