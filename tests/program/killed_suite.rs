//! `kill -9` of the suite during every kind of fault: no process of the suite survives, and the next run or `clean`
//! removes the leftovers (data, unfinished results, and nodes on a kept ensemble).
//!
//! The kinds of faults come from the registry, so new kinds are tested automatically. Faults of contenders and
//! connections share one kept ensemble; each server fault runs on its own servers.

#![cfg(target_os = "linux")] // uses /proc; on other systems, servers outlive a killed suite

use crate::support::faults::{self, lasting, needs_links};
use crate::support::{depth, ensemble};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::support::program::{Bench, Watched, eventually, left_on, signal};
use crate::support::skip::skipped;
use rustix::process::Signal;
use zklockbench_core::catalog::fault::{Capability, FaultCard};
use zklockbench_ensemble::links_capability;

/// Time limit for servers to start and warm up on a busy host.
const STARTS_WITHIN: Duration = Duration::from_secs(120);
const GONE_WITHIN: Duration = Duration::from_secs(60);

const QUICK: &str = "name = \"quick\"\nstrategies = [\"predecessor-watch\"]\ncontenders = [3]\nhold = \"50ms\"\n\
                     duration = \"1s\"\nrepetitions = 1\n";

/// Everything that the suite has created on this machine so far.
struct Made {
    processes: Vec<u32>,
    sockets: BTreeSet<u64>,
    interface: Option<(String, String)>,
}

impl Made {
    fn by(suite: &Watched, bench: &Bench) -> Self {
        let processes = bench.family();
        assert!(processes.contains(&suite.pid()));
        let sockets = processes.iter().flat_map(|pid| sockets_of(*pid)).collect();
        let sockets = &listening() & &sockets;
        Self { processes, sockets, interface: interface(bench) }
    }

    /// Returns the names of everything that still exists.
    fn left(&self, bench: &Bench) -> Vec<String> {
        let processes = bench.family().into_iter().map(|pid| format!("process {pid}"));
        let sockets = (&listening() & &self.sockets).into_iter().map(|socket| format!("socket {socket}"));
        let interface =
            self.interface.as_ref().filter(|(name, index)| index_of(name).as_ref() == Some(index));
        let interface = interface.map(|(name, _)| format!("interface {name}"));
        processes.chain(sockets).chain(interface).collect()
    }
}

fn sockets_of(pid: u32) -> Vec<u64> {
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let targets = files.filter_map(|file| std::fs::read_link(file.path()).ok());
    let inode = |target: PathBuf| target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok();
    targets.filter_map(inode).collect()
}

/// Returns the inodes of all listening sockets in this network namespace.
fn listening() -> BTreeSet<u64> {
    let lines =
        ["/proc/net/tcp", "/proc/net/tcp6"].map(|file| std::fs::read_to_string(file).unwrap_or_default());
    let fields =
        lines.iter().flat_map(|text| text.lines()).map(|line| line.split_whitespace().collect::<Vec<_>>());
    fields.filter(|fields| fields.get(3) == Some(&"0A")).filter_map(|fields| fields[9].parse().ok()).collect()
}

/// Returns the interface to a bench's servers and its index, which is never reused, if the servers have their own
/// network. The network's number is part of the servers' addresses.
fn interface(bench: &Bench) -> Option<(String, String)> {
    let data = std::fs::read_dir(bench.path("data")).ok()?.flatten();
    let configurations = data.map(|entry| std::fs::read_to_string(entry.path().join("server-1/zoo.cfg")));
    let text: String = configurations.flatten().collect();
    let address = text.lines().find_map(|line| line.strip_prefix("server.1="))?;
    if address.starts_with("127.") {
        return None;
    }
    let name = format!("zklb{}", address.split('.').nth(2)?);
    index_of(&name).map(|index| (name, index))
}

fn index_of(interface: &str) -> Option<String> {
    std::fs::read_to_string(Path::new("/sys/class/net").join(interface).join("ifindex")).ok()
}

/// Starts a run with this fault, and kills the run when the fault is in effect (or in progress, if momentary).
/// Checks that no process survives. Returns everything that the run created.
fn killed_during(card: &FaultCard, bench: &Bench, arguments: &[&str]) -> Made {
    bench.scenario(&format!("name = \"broken\"\n{}", lasting(card)));
    let suite = bench.watch(&[&["run", "scenario.toml"], arguments].concat());
    let servers = || bench.servers().len();
    let mut most = 0;
    eventually(&format!("{} takes effect", card.name), STARTS_WITHIN, || {
        most = most.max(servers());
        suite.has_said("took effect on") || (suite.has_said("starting the first trial") && servers() < most)
    });
    let made = Made::by(&suite, bench);
    signal(suite.pid(), Signal::KILL);
    let (code, said) = suite.end();
    assert_eq!(code, None, "{}: the run ended before it was killed: {said}", card.name);
    let deadline = Instant::now() + GONE_WITHIN;
    while !made.left(bench).is_empty() {
        let left = made.left(bench);
        assert!(Instant::now() < deadline, "leftovers of a run killed during {}: {left:?}", card.name);
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(bench.results().is_empty(), "{}: {:?}", card.name, bench.results());
    made
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

#[test]
#[ignore = "long: interrupted faults and leftovers of killed runs are always tested separately"]
fn next_run_removes_leftovers_of_a_run_killed_during_a_fault() {
    let links = links_capability();
    let mut kinds = faults::kinds(Capability::reaches_servers);
    if !depth::is_long() {
        kinds.retain(|card| ["wipe", "partition"].contains(&card.name));
        // A fault that removes a server's data, and a fault that isolates servers
        assert_eq!(kinds.len(), 2);
    }
    if let Err(why) = &links {
        kinds.retain(|card| !needs_links(card.needs));
        skipped(format!("cannot isolate servers: {why}"));
    }
    // Given two concurrent series of runs
    let kill_each = |kinds: &[FaultCard]| {
        let bench = Bench::new();
        for card in kinds {
            let made = killed_during(card, &bench, &["--servers", "3", "--data-dir", "data"]);
            assert_eq!(made.interface.is_some(), needs_links(card.needs), "{}", card.name);
            assert!(made.processes.len() > 1, "{}: {:?}", card.name, made.processes);
            // The run's data remains, but the data and results of the previous run are gone.
            assert_eq!(entries(&bench.path("data")).len(), 1, "{}", card.name);
            assert_eq!(entries(&bench.path("results")).len(), 1, "{}", card.name);
        }
        // When another run is not killed
        bench.scenario(QUICK);
        bench.completes("run scenario.toml --data-dir data");
        // Then the run passes, and only its results exist
        assert!(entries(&bench.path("data")).is_empty() && bench.family().is_empty());
        assert_eq!(entries(&bench.path("results")), bench.results());
        assert_eq!(bench.results().len(), 1);
    };
    let (first, second) = kinds.split_at(kinds.len() / 2);
    std::thread::scope(|scope| {
        scope.spawn(|| kill_each(first));
        kill_each(second);
    });
}

#[test]
fn clean_removes_the_roots_of_killed_runs_after_their_sessions_expire() {
    let connect = ensemble::place_on_shared();
    let kinds = faults::kinds(|needs| !needs.reaches_servers());
    let kinds = &kinds[..depth::of(4, kinds.len())];
    // Given concurrent runs that were killed, each during a different fault
    let kill = |card: &FaultCard| {
        let bench = Bench::new();
        let more = ["--connect", &connect, "--allow-faults", "--run-id", card.name];
        let made = killed_during(card, &bench, &more);
        let found = !made.sockets.is_empty();
        assert_eq!(found, card.needs == Capability::Proxies, "{}: the proxy's ports", card.name);
    };
    std::thread::scope(|scope| kinds.iter().for_each(|card| drop(scope.spawn(move || kill(card)))));
    // And each run has left its root and, until their sessions end, the nodes of some contenders
    let roots: BTreeSet<String> = left_on(&connect).into_iter().map(|run| run.run_id).collect();
    assert_eq!(roots, kinds.iter().map(|card| card.name.to_owned()).collect());
    eventually("the nodes end with their sessions", Duration::from_secs(60), || {
        left_on(&connect).iter().all(|run| run.ephemeral == 0)
    });
    // When `clean` removes the roots
    let bench = Bench::new();
    for root in &roots {
        bench.shows(&format!("clean --connect {connect} --run-id {root}"));
    }
    // Then nothing is left, and a new run passes
    assert_eq!(left_on(&connect), []);
    bench.scenario(QUICK);
    bench.completes(&format!("run scenario.toml --connect {connect}"));
    assert_eq!(left_on(&connect), []);
    assert_eq!(entries(&bench.path("results")), bench.results());
}
