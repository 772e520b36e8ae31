//! `explore`: a correct lock ensures exclusion in every schedule, and defective locks are found with a case that
//! can be replayed.

use serde_json::Value;

use crate::drivers::{documented, mine};
use crate::support::foreign;
use crate::support::program::{Bench, json, says};

/// A queue lock with a defect, for the driver template.
const DEFECTIVE: &str = include_str!("explore/queue_lock.py");

/// The defective lock, with a function that reports a lost hold.
const LOCK: &str =
    r#"Queue(self.client, on, lambda: say({"t": "event", "c": self.number, "what": "lost", "at": now()}))"#;

fn explored(bench: &Bench, words: &[&str]) -> (Option<i32>, Value) {
    let words = [&["explore", "--json", "--data-dir", "data"], words].concat();
    let output = bench.output(&words);
    (output.status.code(), json(&output))
}

fn count(explored: &Value, class: &str, what: &str) -> u64 {
    explored["explored"][0]["classes"][class][what]
        .as_u64()
        .unwrap_or_else(|| panic!("no {class} {what}: {explored}"))
}

fn failures(explored: &Value, class: &str) -> u64 {
    let kinds = ["violated", "stuck", "refused", "out_of_order", "node_left"];
    kinds.map(|what| count(explored, class, what)).iter().sum()
}

#[test]
fn explore_finds_no_violation_of_a_correct_lock() {
    let bench = Bench::new();
    let (code, found) = explored(&bench, &["count", "--budget", "15m"]);
    assert_eq!(code, Some(0), "{found}");
    let cut = ["lost request", "lost reply", "cut connection", "expired session", "killed process"];
    for class in cut.into_iter().chain(["abandoned wait", "orders"]) {
        assert!(count(&found, class, "held") > 1, "{class}: {found}");
    }
    // A frozen holder continues while the next contender holds the lock.
    assert!(count(&found, "frozen process", "zombies") > 0, "{found}");
}

#[test]
fn explore_finds_a_lock_without_exclusion_and_replays_its_case() {
    let bench = Bench::new();
    let (code, found) = explored(&bench, &["no-lock", "--budget", "5m", "--out", "cases"]);
    assert_eq!(code, Some(1), "{found}");
    assert!(count(&found, "undisturbed", "violated") > 0, "{found}");
    let case = found["cases"][0].as_str().unwrap();
    assert!(bench.path(case).with_extension("svg").is_file());
    let (code, again) = explored(&bench, &["--replay", case]);
    assert_eq!(code, Some(1), "{again}");
    assert!(again["headline"].as_str().unwrap().starts_with("violated: "), "{again}");
}

/// Explores session moves between this many servers. Returns the findings, and whether a server could be stale.
fn moved(bench: &Bench, lock: &str, servers: &str) -> (Value, bool) {
    let (_, found) = explored(bench, &[lock, "--servers", servers, "--budget", "2m", "--out", lock]);
    let left_out: Vec<&str> =
        found["explored"][0]["not_tried"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(!left_out.contains(&"moves between servers"), "{left_out:?}");
    assert!(count(&found, "moved session", "held") > 10, "{found}");
    for broken in ["violated", "stuck", "node_left", "flaky", "unexplored"] {
        assert_eq!(count(&found, "moved session", broken), 0, "{broken}: {found}");
    }
    let may_be_stale = !left_out.iter().any(|what| what.starts_with("moves to a stale server"));
    (found, may_be_stale)
}

#[test]
#[ignore = "long: explores on three servers"]
fn curator_mutex_ensures_exclusion_when_its_session_moves_between_servers() {
    let (_, may_be_stale) = moved(&Bench::new(), "curator-mutex", "3");
    assert!(!may_be_stale, "of three servers, the leader and any other server form a majority");
}

#[test]
#[ignore = "long: explores on five servers"]
fn locks_that_sync_or_give_up_ensure_exclusion_when_sessions_move_to_a_stale_server() {
    let bench = Bench::new();
    for lock in ["ahead", "count"] {
        let (found, may_be_stale) = moved(&bench, lock, "5");
        if may_be_stale {
            assert!(count(&found, "stale server", "held") > 1, "{lock}: {found}");
            for broken in ["violated", "stuck", "node_left", "flaky"] {
                assert_eq!(count(&found, "stale server", broken), 0, "{lock}, {broken}: {found}");
            }
        }
    }
}

#[test]
#[ignore = "long: explores on five servers"]
fn explore_finds_a_lock_that_trusts_a_stale_server_and_replays_its_case() {
    let bench = Bench::new();
    let (found, may_be_stale) = moved(&bench, "curator-mutex", "5");
    if !may_be_stale {
        return;
    }
    assert!(count(&found, "stale server", "stuck") > 0, "{found}");
    let findings = found["explored"][0]["findings"].as_array().unwrap();
    let is_stale = |finding: &Value| finding["schedule"]["decisions"][0]["moves"] == "stale";
    let at = findings.iter().position(is_stale).unwrap();
    // The number of servers comes from the case
    let (code, again) = explored(&bench, &["--replay", found["cases"][at].as_str().unwrap()]);
    assert_eq!(code, Some(1), "{again}");
    let headline = again["headline"].as_str().unwrap();
    assert!(headline.starts_with("stuck: ") && headline.contains("had not yet applied"), "{headline}");
}

#[test]
#[ignore = "long: explores a driver sixteen times"]
fn explore_finds_each_defect_of_a_queue_lock() {
    let Some(python) = foreign::python() else { return };
    let bench = Bench::new();
    bench.shows("driver new queue --language python");
    std::fs::write(bench.path("queue/queue_lock.py"), DEFECTIVE).unwrap();
    let mine = bench.text("queue/my_lock.py").replace("self.client.Lock(on)", LOCK);
    let mine = mine.replace("import time\n", "import time\nfrom queue_lock import Queue\n");
    std::fs::write(bench.path("queue/my_lock.py"), mine).unwrap();
    let protocol = bench.text("queue/contenders.py");
    let driver = |defect: &str| {
        format!("q=env PYTHON={python} DEFECT={defect} '{}/run'", bench.path("queue").display())
    };
    let explored = |defect: &str| {
        explored(&bench, &["q:MyLock", "--driver", &driver(defect), "--budget", "4m", "--out", defect]).1
    };
    let sound = explored("none");
    assert_eq!(sound["explored"][0]["classes"]["killed process"]["violated"], 0, "{sound}");
    assert!(count(&sound, "abandoned wait", "held") > 0, "{sound}");
    for (defect, class, kind) in [
        ("enters-if-the-node-ahead-is-gone", "killed process", "violated"),
        ("enters-after-any-event", "killed process", "violated"),
        ("cleans-up-after-a-reconnect", "cut connection", "violated"),
        ("still-holds-after-a-retried-release", "lost reply", "violated"),
        ("deletes-the-first-node", "lost reply", "violated"),
        ("keeps-its-node-after-a-timeout", "abandoned wait", "stuck"),
        ("refuses-if-not-first", "undisturbed", "refused"),
        ("fails-its-release", "undisturbed", "refused"),
        ("leaves-a-node-in-each-acquire", "undisturbed", "node left"),
    ] {
        let found = explored(defect);
        let headline = found["headline"].as_str().unwrap();
        assert!(headline.starts_with(&format!("q:MyLock: {kind}: ")), "{headline}");
        assert!(count(&found, class, &kind.replace(' ', "_")) > 0, "{defect}: {found}");
        // No fault is the cause of nodes that every acquire leaves.
        let left_after_a_fault = count(&found, "lost reply", "node_left");
        assert!(kind != "node left" || left_after_a_fault == 0, "{defect}: {found}");
    }
    let late = explored("none-but-deletes-in-the-background");
    for class in ["cut connection", "abandoned wait", "orders"] {
        assert!(count(&late, class, "held") > 1 && count(&late, class, "node_left") == 0, "{class}: {late}");
    }
    let reports = explored("none-but-gives-up-after-a-reconnect");
    assert_eq!(count(&reports, "cut connection", "violated"), 0, "{reports}");
    assert!(count(&reports, "cut connection", "zombies") > 0, "{reports}");
    // The template declares `fifo`. Without a delay, the first waiter is notified and served first.
    let races = explored("serves-in-any-order");
    assert!(count(&races, "delayed message", "out_of_order") > 0, "{races}");
    assert_eq!(count(&races, "undisturbed", "out_of_order"), 0, "{races}");
    // A driver that exits when its connection breaks counts as killed.
    let exits = explored("exits-when-suspended");
    for class in ["cut connection", "lost request", "expired session"] {
        assert!(count(&exits, class, "held") > 1 && failures(&exits, class) == 0, "{class}: {exits}");
    }
    // A lock that no contender gets is an error.
    let words = ["explore", "q:MyLock", "--driver", &driver("never-grants"), "--data-dir", "data"];
    says(&bench.output(&words), 3, "no contender got the lock");
    // An answer that violates the protocol ends the exploration.
    let wrong = protocol
        .replace("return self.release(request[\"on\"])", "return self.release(request[\"on\"]) or True");
    std::fs::write(bench.path("queue/contenders.py"), wrong).unwrap();
    let output = bench.output(&["explore", "q:MyLock", "--driver", &driver("none"), "--data-dir", "data"]);
    says(&output, 3, r#""ok":true"#);
}

#[test]
#[ignore = "long: explores a lock that polls"]
fn lock_that_polls_is_not_reported_as_stuck() {
    let bench = Bench::new();
    let (code, found) =
        explored(&bench, &["polling poll_interval=20ms", "--budget", "4m", "--out", "polling"]);
    assert_ne!(code, Some(1), "{found}");
    for class in ["cut connection", "delayed message", "abandoned wait", "orders"] {
        assert!(count(&found, class, "held") > 1, "{class}: {found}");
        assert_eq!(failures(&found, class), 0, "{class}: {found}");
    }
}

#[test]
fn explore_reports_a_driver_that_violates_the_protocol_when_it_closes() {
    if foreign::python().is_none() {
        return;
    }
    let bench = Bench::new();
    let stop = "                client.stop()\n";
    let program = documented().replace(stop, &format!("{stop}                answer = {{\"ok\": True}}\n"));
    let driver = mine(&bench, &program);
    let output = bench.output(&["explore", "my:MyLock", "--driver", &driver, "--data-dir", "data"]);
    says(&output, 3, "violated the protocol");
}

#[test]
fn explore_rejects_invalid_strategies_and_cases_before_anything_starts() {
    let bench = Bench::new();
    for (typed, part) in [
        ("explore curator-mutexx", "did you mean `curator-mutex`"),
        ("explore 'curator-mutex fast'", "`fast` is not a parameter"),
        ("explore", "specify a strategy"),
        ("explore q:MyLock", "add --driver q=COMMAND"),
        ("explore --replay missing.json", "missing.json"),
    ] {
        let said = bench.refuses(typed);
        assert!(said.contains(part), "{typed}: {said}");
    }
}
