//! Locks of other programs as contenders: the repository's drivers, the complete driver from the documentation,
//! and a defective driver.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::json;
use zklockbench_core::{units::as_a_word, verdict::Verdict};
use zklockbench_record::Trial;
use zklockbench_zk::runtime;

use crate::ab;
use crate::support::ensemble;
use crate::support::foreign::{self, Bounded, CURATOR, KAZOO};
use crate::support::program::{Bench, held_unless_the_host_was_busy, says, stderr, stdout};
use crate::support::skip;

const GO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/drivers/go/run");
const SHELL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/drivers/shell/run");
const DEFECTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/drivers/defects/show");
const ONE_SERVER: &str = "contenders = 5\nhold = \"15ms\"\nduration = \"2s\"\nwarm_up = \"100ms\"\nrepetitions = 1\n\
                          [ensemble]\nservers = 1\n";

const NOT_COUNTED: [&str; 2] = ["--counting", "never"];

const LIAR: &str = include_str!("../data/drivers/liar.py");

/// Returns the driver in drivers/README.md.
pub fn documented() -> String {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/drivers/README.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, program) = page.split_once("```python\n").unwrap();
    program.split("```\n").next().unwrap().to_owned()
}

/// Writes a driver with this Python program; returns the value for `--driver`.
pub fn mine(bench: &Bench, program: &str) -> String {
    std::fs::write(bench.path("my-lock.py"), program).unwrap();
    format!("my={} my-lock.py", foreign::python().unwrap())
}

/// Like [`mine`], but for a defective driver.
fn liar(bench: &Bench, program: &str) -> &'static str {
    std::fs::write(bench.path("liar.py"), program).unwrap();
    "liar=python3 liar.py"
}

fn trial_of<'a>(trials: &'a [Trial], strategy: &str) -> &'a Trial {
    trials.iter().find(|trial| trial.spec.strategy.label == strategy).unwrap()
}

/// Runs a scenario with a queue lock that has this bug. Returns the trial, the exit code and the output.
fn of_queue(python: &str, scenario: &str, bug: &str) -> (Trial, Option<i32>, String) {
    let bench = Bench::new();
    let root = env!("CARGO_MANIFEST_DIR");
    let driver = format!(
        "queue=env PYTHONPATH={root}/drivers/python {python} {root}/tests/data/drivers/queue_lock.py {bug}"
    );
    let words = ["--strategies", "queue:Lock", "--servers", "1", "--repetitions", "1", "--no-floor"];
    let mut all = vec!["run", scenario, "--driver", &driver, "--no-progress", "--counting", "never"];
    all.extend(words);
    let output = bench.output(&all);
    let trial = bench.stored().trials.remove(0);
    (trial, output.status.code(), stdout(&output) + &stderr(&output))
}

#[test]
#[ignore = "long: six runs"]
fn lost_replies_reveal_locks_that_enter_without_listing_the_queue() {
    let Some(python) = foreign::python() else { return };
    for (scenario, bug) in [
        ("faults/list-reply-lost", "list"),
        ("faults/watch-reply-lost", "watch"),
        ("middle-waiter-leaves", "watch"),
    ] {
        let (trial, code, told) = of_queue(python, scenario, bug);
        // On a busy host, the lock may happen to be free whenever a reply is lost.
        let is_violated = |trial: &Trial| matches!(trial.judged.verdict, Verdict::Violated(_));
        assert!(matches!(trial.judged.verdict, Verdict::Unknown(_)) || is_violated(&trial), "{bug}: {told}");
        assert!(!is_violated(&trial) || code == Some(1) && told.contains("both inside"), "{bug}: {told}");
        let (trial, _, told) = of_queue(python, scenario, "none");
        assert!(!is_violated(&trial), "{told}");
    }
}

#[test]
fn driver_locks_are_measured_with_requests_counted_on_the_wire() {
    let Some(kazoo) = foreign::kazoo() else { return };
    let bench = Bench::new();
    let scenario = format!(
        "name = \"driven\"\nstrategies = [{{ driver = \"kazoo\", lock = \"Lock\" }}, \"my:MyLock\", \"kazoo\"]\n{ONE_SERVER}"
    );
    let my = mine(&bench, &documented());
    let output = bench.run_with(&[&kazoo, &my], &scenario, &["--all", "--explain"]);
    let trials = bench.stored().trials;
    held_unless_the_host_was_busy(&output, &trials);
    for strategy in ["kazoo:Lock", "my:MyLock"] {
        let trial = trial_of(&trials, strategy);
        assert!(trial.measured.acquired() > 10 && trial.errors.is_empty(), "{strategy}: {:?}", trial.errors);
        let derived = serde_json::to_value(trial.derived()).unwrap();
        for figure in ["requests_per_acquisition", "notifications_per_acquisition", "fan_out"] {
            let value = derived[figure].as_f64();
            assert!(value.is_some_and(|value| value > 0.0), "{strategy}: {figure}: {derived}");
        }
        assert!(trial.accounting.is_empty() && trial.counting.as_ref().unwrap().client.is_none());
    }
    // Sessions do not count a driver's requests, so these are counted on the wire, as are requests of the
    // suite's own lock.
    let shown = stdout(&output);
    assert!(shown.contains("Requests per acquisition: counted on the wire"), "{shown}");
    let found = trial_of(&trials, "kazoo:Lock").driver.as_ref().map(|driver| driver.program.as_str());
    assert_eq!(found, Some("kazoo 1"));
    let own = trial_of(&trials, "kazoo");
    assert!(own.driver.is_none() && !serde_json::to_value(own.derived()).unwrap()["fan_out"].is_null());
    assert_eq!(own.counting.as_ref().unwrap().disagreements(), []);
}

#[test]
fn documented_driver_closes_while_it_is_disconnected() {
    let Some(python) = foreign::python() else { return };
    let bench = Bench::new();
    // The driver waits for a connection before it closes its session.
    std::fs::write(bench.path("my-lock.py"), documented().replace("monotonic() + 10", "monotonic() + 1"))
        .unwrap();
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut command = Command::new(python);
    command.arg(bench.path("my-lock.py")).stderr(Stdio::null());
    let mut driver = foreign::Obedient::start(command);
    let connect = server.local_addr().unwrap();
    let open = json!({ "t": "open", "id": 1, "c": 0, "connect": connect.to_string(), "session_ms": 10_000 });
    driver.tell(&open.to_string());
    let (mut client, _) = server.accept().unwrap();
    // The handshake's reply: length, version, timeout, session, password, and not read-only
    let _ = client.read(&mut [0; 256]).unwrap();
    let parts = [&37_i32.to_be_bytes()[..], &[0; 4], &10_000_i32.to_be_bytes(), &7_i64.to_be_bytes()];
    client.write_all(&[&parts.concat()[..], &16_i32.to_be_bytes(), &[1; 16], &[0]].concat()).unwrap();
    let opened = format!(r#"{{"id": 1, "ok": {{"session": "0x7", "password": "{}"}}}}"#, "01".repeat(16));
    runtime::block_on(async {
        driver.says(&opened).await;
        drop((client, server));
        driver.says(r#"{"t": "event", "c": 0, "what": "suspended"}"#).await;
        // Then the driver answers `close` although it is disconnected
        driver.obeys(&json!({ "t": "close", "id": 2, "c": 0 }).to_string(), r#"{"id": 2, "ok": {}}"#).await;
    });
}

#[test]
fn requests_of_drivers_are_counted_in_each_repetition_and_decide_gates() {
    if foreign::python().is_none() {
        return;
    }
    let bench = Bench::new();
    let gates =
        "[[gate]]\nrequire = \"fan_out <= 1\"\n[[gate]]\nrequire = \"requests_per_acquisition < 10\"\n";
    let scenario = "name = \"driven\"\nstrategies = [\"my:MyLock\"]\ncontenders = 3\nduration = \"300ms\"\n\
                    warm_up = \"0s\"\nwarm_up_at_most = \"0s\"\nrepetitions = 2\n[ensemble]\nservers = 1\n";
    let my = mine(&bench, &documented());
    let run = |more: &[&str]| bench.run_with(&[&my], &format!("{scenario}{gates}"), more);
    let output = run(&NOT_COUNTED);
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    let trials = bench.stored().trials;
    assert!(trials[0].counting.is_none());
    assert!(serde_json::to_value(trials[0].derived()).unwrap()["fan_out"].is_null());
    std::fs::remove_dir_all(ab::only(bench.results())).unwrap();
    let shown = stdout(&run(&["--all"]));
    for gate in ["fan_out <= 1", "requests_per_acquisition < 10"] {
        assert!(shown.lines().any(|line| line.contains("passed") && line.contains(gate)), "{shown}");
    }
    let trials = bench.stored().trials;
    let counted = trials.iter().map(|trial| trial.counting.is_some());
    assert_eq!(counted.collect::<Vec<_>>(), [true, true]);
}

#[test]
#[ignore = "long: each of Curator's locks in its own JVM"]
fn curators_own_locks_ensure_exclusion_through_a_driver() {
    let bench = Bench::new();
    let Some(curator) = foreign::curator(&bench.path("cache")) else { return };
    let locks = "{ driver = \"curator\", lock = \"InterProcessMutex\", token = true }, \
                 \"curator:InterProcessSemaphoreMutex\", \"curator:InterProcessReadWriteLock\"";
    let scenario = format!(
        "name = \"driven\"\nstrategies = [{locks}]\nread_ratio = 0.5\nacquire_timeout = \"2s\"\n{ONE_SERVER}"
    );
    // When run by hand, the driver compiles, prints its description and exits.
    let by_hand = Command::new(CURATOR).env("XDG_CACHE_HOME", bench.path("cache")).output().unwrap();
    assert_eq!(by_hand.status.code(), Some(2), "{}", stderr(&by_hand));
    let output = bench.run_with(&[&curator], &scenario, &[]);
    let trials = bench.stored().trials;
    for trial in &trials {
        let strategy = &trial.spec.strategy.label;
        assert!(trial.measured.acquired() > 10, "{strategy}: {}", stderr(&output));
        assert!(trial.errors.is_empty() && !trial.is_violated(), "{strategy}: {:?}", trial.errors);
    }
    assert!(trials.len() == 3 && matches!(output.status.code(), Some(0 | 4)), "{}", stderr(&output));
}

fn has_held(bench: &Bench, output: &Output) {
    // On a busy host, the verdict may be unknown.
    assert!(matches!(output.status.code(), Some(0 | 4)), "{}", stderr(output));
    let trials = bench.stored().trials;
    let held = |trial: &Trial| trial.measured.acquired() > 10 && !trial.is_violated();
    assert!(trials.iter().all(held), "{}", stderr(output));
}

/// Scenario lines in which a holder loses its session.
const EXPIRED: &str = "hold = \"20ms\"\ncontenders = 5\nduration = \"4s\"\nwarm_up = \"100ms\"\nrepetitions = 1\n\
                       session_timeout = \"4s\"\n[ensemble]\nservers = 1\n\
                       [[fault]]\nkind = \"expire\"\ntarget = \"holder\"\nat = \"500ms\"\n";

#[test]
#[ignore = "long: a driver in bash"]
fn shell_queue_lock_ensures_exclusion_when_a_holder_loses_its_session() {
    if !Path::new("/usr/lib/zookeeper/bin/cli_mt").exists() {
        return skip::skipped("this machine has no /usr/lib/zookeeper/bin/cli_mt");
    }
    let bench = Bench::new();
    let scenario = format!("name = \"shell\"\nstrategies = [\"shell:Lock\"]\n{EXPIRED}");
    let output = bench.run_driven("shell", SHELL, &scenario);
    has_held(&bench, &output);
    assert!(bench.stored().trials[0].longest_recovery_us().is_some(), "{}", stderr(&output));
}

const SLOW_TO_NOTICE: &str = include_str!("../data/drivers/slow_to_notice.py");

#[test]
#[ignore = "long: waits 17 s for a reply"]
fn trial_waits_a_session_timeout_for_a_driver_to_notice_a_lost_reply() {
    let bench = Bench::new();
    let scenario = "name = \"slow\"\nstrategies = [\"slow:Lock\"]\ncontenders = 1\nhold = \"20ms\"\nduration = \"2s\"\n\
                    repetitions = 1\n[ensemble]\nservers = 1\n";
    std::fs::write(bench.path("slow.py"), SLOW_TO_NOTICE).unwrap();
    let output = bench.run_with(&["slow=python3 slow.py"], scenario, &NOT_COUNTED);
    let trial = bench.stored().trials.remove(0);
    assert!(trial.cut_short.is_none(), "{:?}: {}", trial.cut_short, stderr(&output));
    assert_eq!(trial.measured.acquired(), 3, "{}", stderr(&output));
}

#[test]
fn driver_session_is_expired_only_if_its_password_is_known() {
    if foreign::python().is_none() {
        return;
    }
    let told = documented();
    let untold = told.replace(", \"password\": password.hex()", "");
    assert_ne!(told, untold);
    for (driver, is_expired) in [(told, true), (untold, false)] {
        let bench = Bench::new();
        let scenario = format!("name = \"mine\"\nstrategies = [\"my:MyLock\"]\n{EXPIRED}");
        let said = stderr(&bench.run_with(&[&mine(&bench, &driver)], &scenario, &NOT_COUNTED));
        let trial = bench.stored().trials.remove(0);
        assert_eq!(trial.longest_recovery_us().is_some(), is_expired, "{said}");
        assert_eq!(said.contains("the driver's `open` returned no password"), !is_expired, "{said}");
        assert!(!trial.is_violated() && trial.measured.acquired() > 10, "{said}");
    }
}

#[test]
#[ignore = "long: compiles the Go driver"]
fn go_lock_ensures_exclusion_through_a_driver_and_late_grants_are_reported() {
    if !Path::new("/usr/share/gocode/src/github.com/samuel/go-zookeeper").exists() {
        return skip::skipped("this machine has no samuel/go-zookeeper in /usr/share/gocode");
    }
    let bench = Bench::new();
    let held = bench.run_driven("go", GO, &format!("name = \"go\"\nstrategies = [\"go:Lock\"]\n{EXPIRED}"));
    has_held(&bench, &held);
    // The library keeps waiting after the timeout, so the driver enforces the timeout itself.
    let impatient = "name = \"go\"\nstrategies = [\"go:Lock\"]\nacquire_timeout = \"50ms\"\ncontenders = 3\n\
                     hold = \"100ms\"\nduration = \"2s\"\nrepetitions = 1\n[ensemble]\nservers = 1\n";
    says(&bench.run_driven("go", GO, impatient), 0, "granted to `go:Lock` after");
}

#[test]
#[ignore = "long: repeatedly starts servers and JVMs"]
fn defect_scripts_reproduce_documented_client_defects() {
    if foreign::python().is_none() {
        return;
    }
    if !Path::new("/usr/share/java/zookeeper-recipes-lock.jar").exists() {
        return skip::skipped("this machine has no zookeeper-recipes-lock.jar in /usr/share/java");
    }
    let bench = Bench::new();
    let mut show = Command::new(DEFECTS);
    show.args(["kazoo-760", "kazoo-xid", "write-lock-26"]).env("XDG_CACHE_HOME", bench.path("cache"));
    let output = show.stderr(Stdio::inherit()).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    for defect in ["kazoo-760", "kazoo-xid", "write-lock-26"] {
        assert!(said.contains(&format!("{defect}: seen")), "{said}");
    }
}

const LEAVES_NODES: &str = include_str!("../data/drivers/leaves_nodes.py");

#[test]
#[ignore = "long: waits half a minute for stuck contenders, which are always tested without drivers"]
fn lock_that_serves_no_contender_is_reported_as_stuck_even_if_acquires_time_out() {
    if foreign::kazoo().is_none() {
        return;
    }
    let bench = Bench::new();
    let drivers = concat!(env!("CARGO_MANIFEST_DIR"), "/drivers");
    let text = "name = \"stuck\"\nstrategies = [\"my:Lock\"]\ncontenders = 3\nhold = \"10ms\"\nduration = \"4s\"\n\
                acquire_timeout = \"1s\"\nsession_timeout = \"2s\"\nrepetitions = 1\n[ensemble]\nservers = 1\n";
    let driver = mine(&bench, &LEAVES_NODES.replace("DRIVERS", drivers));
    let output = bench.run_with(&[&driver], text, &NOT_COUNTED);
    let trial = bench.stored().trials.remove(0);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(trial.checked() >= 1 && trial.judged.is_only_stuck(), "{:?}", trial.judged);
    let first = trial.stuck.first().unwrap();
    let blocker = first.blocked_by.as_deref().unwrap();
    let is_named = blocker.contains("/lock-0/n-") && blocker.contains("(session 0x");
    assert!(is_named && blocker.contains("contender 0"), "{blocker}");
    assert!(trial.orphans.is_some_and(|left| left >= 3), "{:?}", trial.orphans);
    assert!(trial.orphan_nodes.iter().all(|node| node.contains("/lock-0/n-")), "{:?}", trial.orphan_nodes);
}

#[test]
fn combined_locks_share_a_queue_and_exclude_each_other() {
    let Some(kazoo) = foreign::kazoo() else { return };
    let bench = Bench::new();
    let scenario = format!("name = \"mixed\"\nstrategies = [\"kazoo:Lock+kazoo\"]\n{ONE_SERVER}");
    let output = bench.run_with(&[&kazoo], &scenario, &NOT_COUNTED);
    let trial = bench.stored().trials.remove(0);
    assert!(!trial.is_violated() && trial.measured.acquired() > 10, "{}", stderr(&output));
    // Contenders of both locks acquired the lock.
    assert!(trial.tallies.iter().all(|tally| tally.acquired > 1), "{:?}", trial.tallies);
    assert_eq!(trial.driver.unwrap().contenders_each, 3);
}

#[test]
#[ignore = "long: Java and Python"]
fn curator_does_not_wait_for_kazoo_in_a_shared_queue() {
    let Some(kazoo) = foreign::kazoo() else { return };
    let bench = Bench::new();
    let Some(curator) = foreign::curator(&bench.path("cache")) else { return };
    let mixed = |other: &str| {
        format!("{{ name = \"kazoo:Lock+{other}\", \"kazoo:Lock.extra_patterns\" = \"lock-\" }}")
    };
    let strategies = [mixed("curator:InterProcessMutex"), mixed("curator-mutex")].join(", ");
    let scenario = format!("name = \"mixed\"\nstrategies = [{strategies}]\n{ONE_SERVER}");
    let output = bench.run_with(&[&kazoo, &curator], &scenario, &[]);
    let trials = bench.stored().trials;
    let is_violated = |other: &str| {
        let of = |trial: &&Trial| trial.spec.strategy.label.starts_with(&format!("kazoo:Lock+{other} "));
        let trial = trials.iter().find(of).unwrap_or_else(|| panic!("{other}: {}", stderr(&output)));
        assert!(trial.measured.acquired() > 10, "{other}: {}", stderr(&output));
        trial.is_violated()
    };
    assert!(is_violated("curator:InterProcessMutex"), "{}", stderr(&output));
    assert!(!is_violated("curator-mutex"), "{}", stderr(&output));
}

#[test]
fn driver_errors_are_reported_before_anything_starts() {
    let bench = Bench::new();
    let validate = |strategy: &str, driver: Option<&str>| {
        bench.scenario(&format!("name = \"x\"\nstrategies = [{strategy}]\n{ONE_SERVER}"));
        let mut words = vec!["validate", "scenario.toml"];
        words.extend(driver.iter().flat_map(|driver| ["--driver", driver]));
        let output = bench.output(&words);
        (output.status.code(), stderr(&output))
    };
    let liar = Some(liar(&bench, LIAR));
    let lock = "{ driver = \"liar\", lock = \"Lock\" }";
    let broken = Some("liar=sh -c 'echo no such module >&2; exit 3'");
    let cases: [(&str, Option<&str>, i32, &[&str]); 5] = [
        (lock, None, 2, &["unknown driver `liar`", "scenario.toml:2:", "--driver liar=COMMAND"]),
        ("{ driver = \"liar\", lock = \"Lokc\" }", liar, 2, &["driver `liar` has no lock `Lokc`"]),
        (
            "{ driver = \"liar\", lock = \"Lock\", tries = 3 }",
            liar,
            2,
            &["`liar:Lock` has no parameter `tries`"],
        ),
        (lock, liar, 0, &[]),
        ("\"liar:Lock\"", broken, 3, &["exit status 3", "no such module"]),
    ];
    for (strategy, driver, expected, parts) in cases {
        let (code, said) = validate(strategy, driver);
        assert_eq!(code, Some(expected), "{strategy}: {said}");
        assert!(parts.iter().all(|part| said.contains(part)), "{strategy}: {said}");
    }
    assert!(bench.results().is_empty() && Path::new(KAZOO).is_file());
}

#[test]
fn trial_with_a_failed_driver_is_invalid_and_other_trials_continue() {
    let Some(python) = foreign::python() else { return };
    let bench = Bench::new();
    let kazoo = std::fs::read_to_string(KAZOO).unwrap();
    let acquires = "    def acquire(self, request):\n";
    assert!(kazoo.contains(acquires));
    let failing = |name: &str, how: &str| {
        let fails = format!("{acquires}        if request[\"id\"] > 40:\n            {how}\n");
        std::fs::write(bench.path(&format!("{name}.py")), kazoo.replace(acquires, &fails)).unwrap();
        format!("{name}={python} {name}.py")
    };
    let (dies, babbles) = (failing("dies", "os._exit(3)"), failing("babbles", "print(\"oops\", flush=True)"));
    let locked = kazoo.replace("self.client.start(", "raise KazooException(\"no\")  # (");
    std::fs::write(bench.path("locked.py"), locked).unwrap();
    let locked = format!("locked={python} locked.py");
    let text = "name = \"fails\"\nstrategies = [\"dies:Lock\", \"babbles:Lock\", \"locked:Lock\", \"kazoo\"]\nsession_timeout = \"2s\"\n";
    let output = bench.run_with(&[&dies, &babbles, &locked], &format!("{text}{ONE_SERVER}"), &NOT_COUNTED);
    // The metrics of an invalid trial are unknown.
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    let trials = bench.stored().trials;
    for (strategy, how) in
        [("dies:Lock", "the driver `dies` ended: exit status 3"), ("babbles:Lock", "violated the protocol")]
    {
        let trial = trial_of(&trials, strategy);
        let why = trial.health.invalid.as_deref().unwrap_or_default();
        assert!(why.contains(how) && why.contains("no fault caused"), "{strategy}: {why}");
        assert!(trial.measured.acquired() > 0 && !trial.is_violated(), "{strategy}");
        assert!(trial.evidence.entries > 0, "{strategy}");
    }
    let locked = trial_of(&trials, "locked:Lock").cut_short.as_ref().unwrap();
    assert!(locked.why.contains("none of 5 contenders could open a session"), "{}", locked.why);
    let own = trial_of(&trials, "kazoo");
    assert!(own.measured.acquired() > 0 && own.cut_short.is_none(), "{}", stderr(&output));
}

#[test]
#[ignore = "long: kills drivers"]
fn driver_killed_by_a_fault_does_not_invalidate_the_trial() {
    let Some(kazoo) = foreign::kazoo() else { return };
    let bench = Bench::new();
    let fault = "[[fault]]\nkind = \"crash\"\ntarget = \"holder\"\nat = \"500ms\"\n";
    // Long enough for the fault to take effect on a slow host.
    let load = ONE_SERVER.replace("duration = \"2s\"", "duration = \"8s\"");
    let scenario =
        format!("name = \"crash\"\nstrategies = [\"kazoo:Lock\"]\nsession_timeout = \"2s\"\n{load}{fault}");
    let output = bench.run_with(&[&kazoo], &scenario, &[]);
    let trials = bench.stored().trials;
    assert!(trials[0].faults[0].proved, "{}", stderr(&output));
    held_unless_the_host_was_busy(&output, &trials);
}

const FILES: &str = include_str!("../data/drivers/files.py");

#[test]
fn non_zookeeper_lock_is_marked_everywhere_and_judged_by_observed_holds() {
    const MARKED: &str = "files:Flock (not ZooKeeper)";
    let bench = Bench::new();
    std::fs::write(bench.path("files.py"), FILES).unwrap();
    let files = format!("files=python3 files.py {}", bench.path(".").display());
    bench.scenario(&format!(
        "name = \"others\"\nstrategies = [\"files:Flock\", \"baton\"]\n\
         gate = [\"throughput of 'files:Flock' > 1/s\"]\n{ONE_SERVER}"
    ));
    let path = "scenario.toml";
    let words = ["run", path, "--driver", &files, "--data-dir", "data", "--no-floor", "--history"];
    let output = bench.drawn(&[&words[..], &NOT_COUNTED].concat());
    // Given two locks, one of which sends nothing to the servers
    let stored = bench.stored();
    held_unless_the_host_was_busy(&output, &stored.trials);
    let trial = trial_of(&stored.trials, MARKED);
    assert_eq!(trial.spec.strategy.system.as_deref(), Some("files"));
    assert!(trial.measured.acquired() > 10 && trial.judged.verdict == Verdict::Held, "{:?}", trial.judged);
    assert!(trial.ensemble_order.is_none() && trial.evidence.entries > 10 && trial.unchecked.is_empty());
    let own = trial_of(&stored.trials, "baton");
    assert!(own.spec.strategy.system.is_none() && own.ensemble_order.is_some());
    // Then every output shows the system of each lock
    let directory = bench.results().pop().unwrap();
    let read = |file: &str| std::fs::read_to_string(directory.join(file)).unwrap();
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    let page = read("report.html");
    for text in [&shown, &stderr(&output), &read("summary.md"), &read("summary.json"), &page] {
        assert!(text.contains(MARKED), "{}", text.lines().take(40).collect::<Vec<_>>().join("\n"));
    }
    // The page also contains the original scenario. In the table, a label may be wrapped.
    assert_eq!(shown.matches("files:Flock").count(), shown.matches("files:Flock (not").count(), "{shown}");
    let summary = read("summary.md");
    assert_eq!(summary.matches("files:Flock").count(), summary.matches(MARKED).count(), "{summary}");
    assert!(read("summary.md").contains("a lock based on files, not on ZooKeeper"), "{}", read("summary.md"));
    assert!(read("summary.json").contains("\"system\": \"files\""));
    let table = read("summary.csv");
    let mut rows = table.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let column = rows.next().unwrap().iter().position(|name| *name == "system").unwrap();
    let systems: Vec<_> = rows.map(|row| row[column].to_owned()).collect();
    assert!(systems.contains(&"files".to_owned()) && systems.contains(&"zookeeper".to_owned()), "{table}");
    for words in [&["strategies"][..], &["strategies", "files:Flock"]] {
        let listed = bench.output(&[words, &["--driver", &files]].concat());
        assert!(String::from_utf8_lossy(&listed.stdout).contains(MARKED), "{words:?}");
    }
}

#[test]
fn faults_that_cannot_affect_a_non_zookeeper_lock_are_rejected() {
    let bench = Bench::new();
    std::fs::write(bench.path("files.py"), FILES).unwrap();
    let files = format!("files=python3 files.py {}", bench.path(".").display());
    // Long enough for both faults of the run to take effect on a slow host.
    let load = ONE_SERVER.replace("duration = \"2s\"", "duration = \"4s\"");
    let with = |command: &str, faults: &str| {
        let text = "name = \"others\"\nstrategies = [\"files:Flock\"]\n";
        bench.scenario(&format!("{text}{load}{faults}"));
        let mut words = vec![command, "scenario.toml", "--driver", &files];
        if command == "run" {
            words.extend(["--data-dir", "data", "--no-floor"].iter().chain(&NOT_COUNTED));
        }
        let output = bench.output(&words);
        (output.status.code(), stderr(&output))
    };
    let fault = |kind: &str, more: &str| format!("[[fault]]\nkind = \"{kind}\"\nat = \"300ms\"\n{more}");
    let lasting = "duration = \"200ms\"\n";
    for (kind, more, what) in [
        ("kill", lasting, "ZooKeeper servers"),
        ("stall", lasting, "connections to ZooKeeper servers"),
        ("expire", "", "a ZooKeeper session"),
    ] {
        let (code, said) = with("validate", &fault(kind, more));
        assert!(code == Some(2) && said.contains("`files:Flock` is not a ZooKeeper lock"), "{said}");
        assert!(said.contains(&format!("does not use {what}, which the fault breaks")), "{said}");
        assert!(said.contains(&format!("remove the fault `{kind}` or")), "{said}");
    }
    let both =
        fault("crash", "") + &fault("freeze", "duration = \"300ms\"\n").replace("300ms\"\nd", "900ms\"\nd");
    let (code, said) = with("run", &both);
    let trials = bench.stored().trials;
    assert!(trials[0].faults.len() == 2 && trials[0].faults.iter().all(|fault| fault.proved), "{said}");
    assert_eq!(trials[0].judged.verdict, Verdict::Held, "{said}");
    assert!(code == Some(0) || trials[0].health.invalid.is_some(), "{said}");
}

#[test]
#[ignore = "long: semaphores are always tested without drivers"]
fn driver_semaphore_never_exceeds_its_leases() {
    let Some(kazoo) = foreign::kazoo() else { return };
    let bench = Bench::new();
    let lies = LIAR.replace(
        "\"cancel\": \"none\"",
        "\"cancel\": \"none\", \"leases\": \"n\", \"parameters\": {\"n\": {\"default\": 2}}",
    );
    let scenario = format!(
        "name = \"leases\"\nstrategies = [{{ driver = \"kazoo\", lock = \"Semaphore\", max_leases = 2 }}, \"liar:Lock\"]\n\
         {}",
        ONE_SERVER.replace("15ms", "100ms").replace("2s", "4s")
    );
    let output = bench.run_with(&[&kazoo, liar(&bench, &lies)], &scenario, &[]);
    let trials = bench.stored().trials;
    let kazoo = trial_of(&trials, "kazoo:Semaphore max_leases=2");
    assert_eq!((kazoo.most_inside, &kazoo.judged.verdict), (2, &Verdict::Held), "{}", stderr(&output));
    assert!(kazoo.measured.acquired() > 10 && kazoo.errors.is_empty(), "{:?}", kazoo.errors);
    // A lock that admits every contender exceeds its leases.
    let liar = trial_of(&trials, "liar:Lock");
    assert!(liar.is_violated() && liar.most_inside > 2, "{:?}", liar.judged);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
}

#[test]
#[ignore = "long: many processes"]
fn contenders_are_spread_over_the_requested_number_of_processes() {
    let Some(python) = foreign::python() else { return };
    let bench = Bench::new();
    let started = format!("kazoo=sh -c 'echo started >> started; exec {python} {KAZOO}'");
    let run = |strategy: &str| {
        let scenario = format!("name = \"shared\"\nstrategies = [{strategy}]\n{ONE_SERVER}");
        // Counting requests would start the same number of processes again.
        let output = bench.run_with(&[&started], &scenario, &NOT_COUNTED);
        // On a busy host, the verdict may be unknown.
        assert!(matches!(output.status.code(), Some(0 | 4)), "{}", stderr(&output));
        let trial = bench.stored().trials.remove(0);
        let count = std::fs::read_to_string(bench.path("started")).unwrap().lines().count();
        std::fs::remove_file(bench.path("started")).unwrap();
        std::fs::remove_dir_all(bench.results().pop().unwrap()).unwrap();
        let shared = trial.driver.unwrap();
        // One additional process was started to read the description. Rerunning an invalid trial starts the same
        // number of processes again.
        let started = count - 1;
        assert!(started > 0 && started.is_multiple_of(shared.processes), "{started}: {}", stderr(&output));
        (trial.spec.strategy.label, shared.processes, shared.contenders_each)
    };
    assert_eq!(run("\"kazoo:Lock\""), ("kazoo:Lock".to_owned(), 1, 5));
    let two = run("{ driver = \"kazoo\", lock = \"Lock\", processes = 2 }");
    assert_eq!(two, ("kazoo:Lock processes=2".to_owned(), 2, 3));
    let each = run("{ driver = \"kazoo\", lock = \"Lock\", processes = \"per-contender\" }");
    assert_eq!(each, ("kazoo:Lock processes=per-contender".to_owned(), 5, 1));
    let scenario = bench.scenario(&format!(
        "name = \"x\"\nstrategies = [{{ driver = \"kazoo\", lock = \"Lock\", processes = \"many\" }}]\n{ONE_SERVER}"
    ));
    let refused = bench.output(&["validate", scenario.to_str().unwrap(), "--driver", &started]);
    says(&refused, 2, "`many` is not a number of processes");
}

const ENCRYPTS: &str = include_str!("../data/drivers/encrypts.py");

#[test]
#[ignore = "long: repeatedly starts servers and JVMs"]
fn drivers_use_tls_if_the_run_does() {
    let Some(python) = foreign::python() else { return };
    let bench = Bench::new();
    let files = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/tls");
    let place = ensemble::place_on_shared();
    let (server, chroot) =
        place.split_once('/').map_or((place.as_str(), ""), |(server, chroot)| (server, chroot));
    let (host, port) = server.split_once(':').unwrap();
    let mut encrypts = Command::new(python);
    encrypts.args(["-c", ENCRYPTS, host, port]).args([files.join("server.pem"), files.join("server.key")]);
    let mut encrypts = Bounded(encrypts.stdout(Stdio::piped()).spawn().unwrap());
    let mut told = String::new();
    BufReader::new(encrypts.0.stdout.take().unwrap()).read_line(&mut told).unwrap();
    let connect = format!("127.0.0.1:{}/{chroot}", told.trim());
    let connect = connect.trim_end_matches('/');
    let kazoo = format!("kazoo={python} '{KAZOO}'");
    let curator = format!("curator=env XDG_CACHE_HOME={} '{CURATOR}'", bench.path("cache").display());
    let has_curator = Path::new("/usr/share/java/curator-recipes.jar").exists();
    let strategies =
        if has_curator { "\"kazoo:Lock\", \"curator:InterProcessMutex\"" } else { "\"kazoo:Lock\"" };
    let load = ONE_SERVER.replace("[ensemble]\nservers = 1\n", "");
    let scenario = bench.scenario(&format!("name = \"tls\"\nstrategies = [{strategies}]\n{load}"));
    let ca = files.join("ca.pem");
    let mut words =
        vec!["run", scenario.to_str().unwrap(), "--connect", connect, "--no-floor", "--create-chroot"];
    words.extend(["--tls-ca", ca.to_str().unwrap(), "--driver", &kazoo]);
    words.extend(["--driver", &curator].iter().filter(|_| has_curator));
    let output = bench.output(&words);
    // And a driver without TLS support is rejected.
    let liar = liar(&bench, LIAR);
    let plain = bench.scenario(&format!("name = \"tls\"\nstrategies = [\"liar:Lock\"]\n{load}"));
    let mut words = vec!["run", plain.to_str().unwrap(), "--connect", connect, "--no-floor"];
    words.extend(["--tls-ca", ca.to_str().unwrap(), "--driver", liar]);
    let refused = bench.output(&words);
    let directories = bench.results();
    let stored = zklockbench_results::read(&directories[0]).unwrap();
    held_unless_the_host_was_busy(&output, &stored.trials);
    assert_eq!(stored.trials.len(), if has_curator { 2 } else { 1 });
    for trial in &stored.trials {
        assert!(trial.measured.acquired() > 10 && trial.errors.is_empty(), "{:?}", trial.errors);
    }
    assert!(stderr(&refused).contains("cannot encrypt connections"), "{}", stderr(&refused));
}

#[test]
fn drivers_do_not_inherit_the_suites_credentials() {
    let bench = Bench::with("name = \"x\"\nstrategies = [\"spy.L\"]\ncontenders = 2\nduration = \"1s\"\n");
    let spy = format!("spy=sh -c 'env > {}; exit 1'", bench.path("environment").display());
    for (typed, code) in [
        (format!("run scenario.toml --connect {} --driver {}", ensemble::shared(), as_a_word(&spy)), 2),
        (format!("strategies --driver {}", as_a_word(&spy)), 2),
    ] {
        let mut command = bench.typed(&typed);
        command.env("ZKLOCKBENCH_AUTH", "bench:hunter2").env("ZKLOCKBENCH_SASL_PASSWORD", "hunter2");
        let output = command.output().unwrap();
        let environment = bench.text("environment");
        assert!(environment.contains("ZKLOCKBENCH_DRIVER=1"), "{environment}");
        assert!(!environment.contains("hunter2"), "{environment}");
        assert!([Some(code), Some(3)].contains(&output.status.code()), "{}", stderr(&output));
        std::fs::remove_file(bench.path("environment")).unwrap();
    }
}
