//! Ends of drivers' acquires and sessions: tries, nodes left next to the lock, and clients that avoid their
//! proxy.

use zklockbench_core::measure::Outcome;
use zklockbench_record::figures;

use crate::drivers::{documented, mine};
use crate::support::ensemble;
use crate::support::foreign;
use crate::support::program::{Bench, stderr};

const LOAD: &str = "contenders = 4\nhold = \"20ms\"\nduration = \"2s\"\nrepetitions = 1\n";

#[test]
fn tries_of_drivers_get_a_free_lock_and_leave_a_held_one_without_a_node() {
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
        // Only tries that were still in progress at the end are unserved
        assert!(trial.unserved() <= 4, "{name}: {}", trial.unserved());
    }
}

#[test]
fn nodes_that_a_driver_leaves_next_to_its_lock_are_counted_per_acquisition_and_gated() {
    if foreign::kazoo().is_none() {
        return;
    }
    let bench = Bench::new();
    // Given a driver that creates another node next to the lock's directory in each acquire
    let taking = "                lock = locks.setdefault(";
    let leak =
        "                client.create(request[\"on\"] + \"-probe-\", ephemeral=True, sequence=True)\n";
    let program = documented().replace(taking, &format!("{leak}{taking}"));
    assert!(program.contains("-probe-"), "{program}");
    let scenario = format!("name = \"leak\"\nstrategies = [\"my:MyLock\"]\n{LOAD}[ensemble]\nservers = 1\n");
    let more = ["--counting", "never", "--gate", "orphans < 1"];
    let output = bench.run_with(&[&mine(&bench, &program)], &scenario, &more);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let trial = bench.stored().trials.remove(0);
    let each = figures::ORPHANS_PER_ACQUISITION.of(&trial).unwrap();
    assert!((0.95..=1.5).contains(&each), "{each} {:?}", trial.orphans);
    assert!(trial.orphan_nodes[0].contains("/lock-0-probe-"), "{:?}", trial.orphan_nodes);
}

#[test]
fn connection_faults_are_not_proved_if_a_drivers_client_avoids_its_proxy() {
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
