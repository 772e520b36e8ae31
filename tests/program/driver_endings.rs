//! Unusual ends of drivers' acquires and sessions: tries, expired sessions, nodes left next to the lock, and clients
//! that bypass their proxy.

use std::process::Command;

use serde_json::json;
use zklockbench_core::measure::Outcome;
use zklockbench_record::figures;
use zklockbench_zk::runtime;

use crate::drivers::{documented, mine};
use crate::support::ensemble;
use crate::support::foreign;
use crate::support::program::{Bench, stderr};

const LOAD: &str = "contenders = 4\nhold = \"20ms\"\nduration = \"2s\"\nrepetitions = 1\n";

#[test]
#[ignore = "long: tests the included drivers"]
fn try_locks_of_drivers_fail_on_a_held_lock_without_leaving_a_node() {
    let Some(kazoo) = foreign::kazoo() else { return };
    let bench = Bench::new();
    let scenario = format!(
        "name = \"tries\"\nstrategies = [\"kazoo:Lock\", \"my:MyLock\"]\nacquire_timeout = \"0s\"\nthink = \"10ms\"\n{LOAD}\
         [ensemble]\nservers = 1\n"
    );
    let output = bench.run_with(&[&kazoo, &mine(&bench, &documented())], &scenario, &["--counting", "never"]);
    for trial in bench.stored().trials {
        let (name, outcomes) = (trial.name(), trial.measured.outcomes);
        assert!(!trial.is_violated(), "{name}: {}", stderr(&output));
        let [won, failed] = [Outcome::Acquired, Outcome::TimedOut].map(|outcome| outcomes.get(outcome));
        assert!(won > 5 && failed > 5, "{name}: {outcomes:?}");
        assert_eq!(trial.orphans, Some(0), "{name}: {:?}", trial.orphan_nodes);
        // Only tries that are still in progress at the end are unserved
        assert!(trial.unserved() <= 4, "{name}: {}", trial.unserved());
    }
}

/// A client whose session expires and is replaced during each acquire.
const EXPIRES: &str = r#"
class KazooClient:
    client_id, connected = (7, b"x"), True
    def __init__(self, *_, **__): pass
    def add_listener(self, tell): self.tell = tell
    def start(self): pass
    def Lock(self, _): return self
    def acquire(self, **_): return [self.tell(state) for state in ("LOST", "CONNECTED")]
    def release(self): say("released")
"#;

#[test]
fn documented_driver_refuses_unknown_contenders_and_releases_a_lock_of_the_next_session() {
    let Some(python) = foreign::python() else { return };
    let bench = Bench::new();
    let program = documented().replace("from kazoo.client import KazooClient\n", EXPIRES);
    std::fs::write(bench.path("my-lock.py"), program).unwrap();
    let mut command = Command::new(python);
    command.arg(bench.path("my-lock.py"));
    let mut driver = foreign::Obedient::start(command);
    let acquire = |id: u64, c: u64| {
        json!({ "t": "acquire", "id": id, "c": c, "on": "/lock", "mode": "write" }).to_string()
    };
    let open = json!({ "t": "open", "id": 2, "c": 0, "connect": "127.0.0.1:1", "session_ms": 10_000 });
    runtime::block_on(async {
        driver.obeys(&acquire(1, 9), r#"{"id": 1, "err": "bad-request"}"#).await;
        driver.obeys(&open.to_string(), r#"{"id": 2, "ok": {"session": "0x7", "password": "78"}}"#).await;
        driver.obeys(&acquire(3, 0), r#""released""#).await;
        driver.says(r#"{"id": 3, "err": "session"}"#).await;
    });
}

#[test]
fn nodes_left_next_to_a_drivers_lock_are_counted_and_fail_a_gate() {
    if foreign::kazoo().is_none() {
        return;
    }
    let bench = Bench::new();
    // Given a driver that, in each acquire, creates an additional node next to the lock's directory
    let taking = "                lock = locks.setdefault(";
    let leak =
        "                client.create(request[\"on\"] + \"-probe-\", ephemeral=True, sequence=True)\n";
    let program = documented().replace(taking, &format!("{leak}{taking}"));
    assert!(program.contains("-probe-"), "{program}");
    // The run waits two session timeouts for the nodes to be deleted.
    let lines = format!("{LOAD}session_timeout = \"4s\"\n[ensemble]\nservers = 1\n");
    let scenario = format!("name = \"leak\"\nstrategies = [\"my:MyLock\"]\n{lines}");
    let more = ["--counting", "never", "--gate", "orphans < 1"];
    let output = bench.run_with(&[&mine(&bench, &program)], &scenario, &more);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let trial = bench.stored().trials.remove(0);
    let each = figures::ORPHANS_PER_ACQUISITION.of(&trial).unwrap();
    assert!((0.95..=1.5).contains(&each), "{each} {:?}", trial.orphans);
    assert!(trial.orphan_nodes[0].contains("/lock-0-probe-"), "{:?}", trial.orphan_nodes);
}

#[test]
fn connection_faults_are_unproved_when_a_driver_bypasses_its_proxy() {
    if foreign::kazoo().is_none() {
        return;
    }
    let bench = Bench::new();
    let connect = ensemble::place_on_shared();
    // Given a driver that connects to the servers' own addresses
    let program =
        documented().replace("KazooClient(request[\"connect\"]", &format!("KazooClient({connect:?}"));
    assert!(program.contains(&connect), "{program}");
    let driver = mine(&bench, &program);
    bench.scenario(&format!(
        "name = \"beside\"\nstrategies = [\"my:MyLock\"]\n{LOAD}[[fault]]\nkind = \"stall\"\ntarget = \"all\"\n\
         at = \"500ms\"\nduration = \"500ms\"\n"
    ));
    let mut words = vec!["run", "scenario.toml", "--connect", &connect, "--create-chroot", "--no-floor"];
    words.extend(["--allow-faults", "--counting", "never", "--driver", &driver]);
    let output = bench.output(&words);
    let trial = bench.stored().trials.remove(0);
    let fault = trial.faults.first().unwrap_or_else(|| panic!("{}", stderr(&output)));
    assert!(!fault.proved && fault.proof.contains("does not connect through its proxy"), "{fault:?}");
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
}
