//! `driver check` on a correct driver and on drivers that each have one defect, and the results of trials with
//! these defects.

use std::path::Path;
use std::process::Output;
use std::time::Duration;

use serde_json::Value;
use zklockbench_record::Trial;

use crate::drivers::{documented, mine};
use crate::support::foreign::{self, KAZOO};
use crate::support::program::{Answers, Bench, Ended, has, json, measured_within, stderr, stdout};
use crate::support::{depth, ensemble};

const DRIVERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/drivers");
const LYING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/drivers/lying/run");

struct Checked {
    code: Option<i32>,
    answer: Value,
}

impl Checked {
    fn of(output: &Output) -> Self {
        Self { code: output.status.code(), answer: json(output) }
    }

    /// Returns the checks with this outcome.
    fn with(&self, outcome: &str) -> Vec<&str> {
        let checks = self.answer["checks"].as_array().unwrap().iter();
        let checks = checks.filter(|check| check["outcome"] == outcome);
        checks.map(|check| check["check"].as_str().unwrap()).collect()
    }

    fn finding(&self, name: &str) -> &Value {
        let checks = self.answer["checks"].as_array().unwrap();
        checks.iter().find(|check| check["check"] == name).unwrap()
    }

    fn seen(&self, name: &str) -> String {
        self.finding(name)["seen"].as_str().unwrap().to_owned()
    }
}

/// Checks a driver's lock on the shared ensemble: the checks in `only`, or all checks if `only` is empty.
fn check(bench: &Bench, driver: &str, lock: &str, only: &[&str]) -> Checked {
    let connect = ensemble::place_on_shared();
    let mut words = vec!["driver", "check", driver, "--lock", lock, "--connect", &connect, "--json"];
    words.push("--allow-saturation"); // clients of other tests are connected
    words.extend(only.iter().flat_map(|name| ["--only", name]));
    Checked::of(&bench.output(&words))
}

fn lying(python: &str, how: &str) -> String {
    format!("{python} '{LYING}' {how}")
}

/// Asserts that all eight checks pass, except checks of abilities that the lock does not declare.
fn passes(bench: &Bench, driver: &str, lock: &str, not_tried: &[&str]) {
    let checked = check(bench, driver, lock, &[]);
    assert_eq!((checked.code, checked.with("failed")), (Some(0), Vec::new()), "{driver}: {}", checked.answer);
    assert_eq!(checked.with("not-tried"), not_tried, "{driver}: {}", checked.answer);
    assert_eq!(checked.with("ok").len(), 8 - not_tried.len(), "{driver}: {}", checked.answer);
    assert_eq!(Answers::of(bench).complaints(&checked.answer), Vec::<String>::new());
    let headline = checked.answer["headline"].as_str().unwrap();
    assert!(headline.contains(&format!(": {lock} follows the protocol: ")), "{headline}");
}

/// Asserts that each defect makes only the specified check fail, for the specified reason.
fn are_found(lies: &[(&str, &str, &str)]) {
    let Some(python) = foreign::python() else { return };
    let is_found = |(how, name, why): &(&str, &str, &str)| {
        let checked = check(&Bench::new(), &lying(python, how), "Lock", &[]);
        assert_eq!(checked.code, Some(1), "{how}: {}", checked.answer);
        assert_eq!(checked.with("failed"), [*name], "{how}: {}", checked.answer);
        assert!(checked.seen(name).contains(why), "{how}: {}", checked.answer);
    };
    // Checks run concurrently, because each spends most of its time waiting.
    for some in lies.chunks(4) {
        std::thread::scope(|scope| {
            let threads: Vec<_> = some.iter().map(|lie| scope.spawn(|| is_found(lie))).collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
    }
}

#[test]
fn correct_driver_passes_all_eight_checks() {
    let Some(python) = foreign::python() else { return };
    passes(&Bench::new(), &format!("{python} '{KAZOO}'"), "Lock", &[]);
}

/// Creates a driver in this language; returns the command that starts it with these settings.
fn written(bench: &Bench, language: &str, settings: &str) -> String {
    let name = format!("new-{language}");
    has(&bench.shows(&format!("driver new {name} --language {language}")), &["driver check ./run"]);
    format!("env {settings} '{}/run'", bench.path(&name).display())
}

#[test]
fn new_python_driver_passes_and_is_never_overwritten() {
    let Some(python) = foreign::python() else { return };
    let bench = Bench::new();
    passes(&bench, &written(&bench, "python", &format!("PYTHON={python}")), "MyLock", &["cancel"]);
    let said = bench.refuses("driver new new-python --language go");
    has(&said, &["new-python already exists; choose a new directory"]);
    assert!(!bench.path("new-python/go.mod").exists());
}

#[test]
#[ignore = "long: compiles the drivers"]
fn new_java_go_and_node_drivers_pass() {
    let bench = Bench::new();
    if foreign::curator(&bench.path("cache")).is_some() {
        passes(&bench, &written(&bench, "java", ""), "MyLock", &["cancel"]);
    }
    if Path::new("/usr/share/gocode/src/github.com/samuel/go-zookeeper").exists() {
        let go = written(&bench, "go", &format!("GOCACHE={}", bench.path("cache").display()));
        passes(&bench, &go, "MyLock", &["acquire timeout", "cancel", "lost session"]);
    }
    let node = written(&bench, "node", "");
    if foreign::has_node_client() {
        passes(&bench, &node, "MyLock", &["cancel"]);
    }
}

#[test]
#[ignore = "long: one driver after the other"]
fn included_drivers_pass_the_checks_of_their_declared_abilities() {
    let Some(python) = foreign::python() else { return };
    let bench = Bench::new();
    for lock in ["Semaphore", "ReadWrite"] {
        passes(&bench, &format!("{python} '{KAZOO}'"), lock, &[]);
    }
    for how in ["honest", "chatters", "one-contender"] {
        passes(&bench, &lying(python, how), "Lock", &[]);
    }
    let mine = mine(&bench, &documented());
    passes(&bench, mine.strip_prefix("my=").unwrap(), "MyLock", &["cancel", "lost session"]);
    let driver = |name: &str| {
        let cache = bench.path("cache");
        format!("env XDG_CACHE_HOME={} '{DRIVERS}/{name}/run'", cache.display())
    };
    if foreign::curator(&bench.path("cache")).is_some() {
        for lock in
            ["InterProcessMutex", "InterProcessSemaphoreMutex", "InterProcessSemaphoreV2", "Baton", "Count"]
        {
            passes(&bench, &driver("curator"), lock, &[]);
        }
        passes(&bench, &driver("zookeeper-recipes"), "WriteLock", &["lost session"]);
    }
    if Path::new("/usr/lib/zookeeper/bin/cli_mt").exists() {
        passes(&bench, &driver("shell"), "Lock", &["acquire timeout", "cancel", "lost session"]);
    }
}

#[test]
fn broken_drivers_fail_the_matching_check() {
    are_found(&[
        ("has-no-modes", "ready", "`Lock` declares no mode"),
        ("answers-anything", "messages", "an unknown request was answered with `ok`"),
        ("grants-without-a-lock", "exclusion", "two contenders held the lock at once"),
        ("hides-expiry", "lost session", "neither `expired` nor `lost` was reported"),
    ]);
}

#[test]
fn failed_exclusion_check_shows_a_timeline_of_the_overlap() {
    let Some(python) = foreign::python() else { return };
    let checked = check(&Bench::new(), &lying(python, "grants-without-a-lock"), "Lock", &["exclusion"]);
    let timeline = &checked.finding("exclusion")["timeline"];
    assert!(checked.seen("exclusion").contains(timeline["summary"].as_str().unwrap()), "{}", checked.answer);
    let steps: Vec<&str> =
        timeline["steps"].as_array().unwrap().iter().map(|step| step["what"].as_str().unwrap()).collect();
    assert!(steps.contains(&"asks for the lock") && steps.contains(&"enters"), "{steps:?}");
    assert_eq!(steps.last(), Some(&"leaves"));
}

#[test]
#[ignore = "long: every other defect, through every check"]
fn every_remaining_driver_defect_fails_the_expected_check() {
    are_found(&[
        ("ignores-timeouts", "acquire timeout", "was not answered within"),
        ("stays", "end of input", "still running 5s after its input ended"),
        ("ignores-cancel", "cancel", "the acquire was not answered"),
        ("does-not-close", "close", "although `close` was answered, its session still has"),
        ("does-not-flush", "messages", "did not answer"),
        ("two-leases", "exclusion", "two contenders held the lock at once"),
        ("answers-twice", "exclusion", "is pending"),
        ("swaps-contenders", "exclusion", "belongs to session"),
        ("half-a-line", "exclusion", "not JSON"),
        ("no-newline", "exclusion", "a line of more than 65536 bytes"),
        ("hangs", "exclusion", "answer"),
        ("dies", "exclusion", "exit status 7; its last output: out of memory"),
        ("floods", "exclusion", "events in a second"),
        ("keeps-late-grants", "acquire timeout", "although its wait had ended, its session still has"),
        ("hides-its-new-session", "lost session", "without a new `session`"),
        ("tells-another-password", "lost session", "or the password is wrong"),
    ]);
}

#[test]
fn driver_check_reports_missing_drivers_and_unknown_locks() {
    let bench = Bench::new();
    let run = |driver: &str, lock: &str| {
        let output = bench.output(&["driver", "check", driver, "--lock", lock, "--data-dir", "data"]);
        (output.status.code(), stdout(&output), stderr(&output))
    };
    let (code, said, why) = run("sh -c 'echo no such module >&2; exit 3'", "Lock");
    assert!(code == Some(3) && said.is_empty(), "{said}");
    assert!(why.contains("exit status 3") && why.contains("no such module"), "{why}");
    let (code, _, why) = run("'no end", "Lock");
    assert!(code == Some(2) && why.contains("an unclosed quote"), "{why}");
    let said = bench.refuses("driver check true --only everything");
    assert!(said.contains("no check `everything`; available checks: ready, messages"), "{said}");
    let Some(python) = foreign::python() else { return };
    let (code, _, why) = run(&format!("{python} '{KAZOO}'"), "Lokc");
    assert!(code == Some(2) && why.contains("did you mean `Lock`?"), "{why}");
}

/// A run with a defective driver's lock and one of the suite's locks.
struct Run {
    ended: Ended,
    trials: Vec<Trial>,
}

impl Run {
    fn of(python: &str, how: &str, more: &[&str]) -> Self {
        let bench = Bench::with(
            "name = \"lies\"\nstrategies = [\"liar:Lock\", \"kazoo\"]\ncontenders = 4\nhold = \"15ms\"\nduration = \"2s\"\n\
             warm_up = \"100ms\"\nrepetitions = 1\n[ensemble]\nservers = 1\n",
        );
        let driver = format!("liar={}", lying(python, how));
        let words = ["run", "scenario.toml", "--driver", &driver, "--data-dir", "data", "--no-floor"];
        let words = [&words[..], more].concat();
        let ended = measured_within(bench.command(&words), Duration::from_secs(180));
        assert!(ended.code.is_some(), "{how}: the run did not finish: {}", ended.said);
        Self { ended, trials: bench.stored().trials }
    }

    fn trial(&self, strategy: &str) -> &Trial {
        self.trials.iter().find(|trial| trial.spec.strategy.label == strategy).unwrap()
    }
}

const MOST_KIB: u64 = 100 << 10;

#[test]
fn driver_without_exclusion_is_reported_as_violated() {
    let Some(python) = foreign::python() else { return };
    let all = ["grants-without-a-lock", "two-leases"];
    for how in &all[..depth::of(1, all.len())] {
        let run = Run::of(python, how, &["--counting", "never"]);
        assert_eq!(run.ended.code, Some(1), "{how}: {}", run.ended.said);
        assert!(run.trial("liar:Lock").is_violated() && !run.trial("kazoo").is_violated(), "{how}");
    }
}

#[test]
#[ignore = "long: waits for the deadline of each defect"]
fn run_with_a_broken_driver_continues_and_reports_the_defect() {
    let Some(python) = foreign::python() else { return };
    for (how, why) in [
        ("floods", "events"),
        ("no-newline", "a line of more than 65536 bytes"),
        ("hangs", "did not answer"),
        ("dies", "exit status 7"),
        ("half-a-line", "not JSON"),
        ("answers-twice", "is pending"),
    ] {
        let run = Run::of(python, how, &[]);
        let Ended { said, resident_kb, .. } = &run.ended;
        assert!(said.contains(why), "{how}: {said}");
        let own = run.trial("kazoo");
        assert!(own.measured.acquired() > 10 && own.errors.is_empty(), "{how}: {:?}", own.errors);
        assert!(!run.trial("liar:Lock").is_violated(), "{how}");
        assert!((1..MOST_KIB).contains(resident_kb), "{how}: {resident_kb} KiB");
    }
}
