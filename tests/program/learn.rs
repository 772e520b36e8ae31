//! `learn`: loads run by the suite are learned from the servers' logs, and run again.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use zklockbench_core::txn;
use zklockbench_learn::{Bounded, Family, Learned, LearnedLoad, Recipe, Times};
use zklockbench_zk::admin;

use crate::support::ensemble;
use crate::support::faults::until;
use crate::support::json_schema::Schema;
use crate::support::program::{Bench, json, signal, went_through};

/// Times in a history, in µs.
#[derive(Default)]
struct Recorded {
    waits: Vec<u64>,
    holds: Vec<u64>,
    /// Times from a release, or from the call to acquire if the lock is free, until acquire returns.
    handoffs: Vec<u64>,
    acquired: u64,
}

impl Recorded {
    fn of(history: &Path) -> Self {
        let (mut recorded, mut called, mut held) = (Self::default(), HashMap::new(), HashMap::new());
        let mut released: HashMap<String, u64> = HashMap::new();
        for line in std::fs::read_to_string(history).unwrap().lines().skip(1) {
            let line: Value = serde_json::from_str(line).unwrap();
            let (contender, at) = (line["contender"].as_u64(), line["t_us"].as_u64().unwrap());
            let lock = line["lock"].as_str().unwrap_or_default().to_owned();
            match (line["op"].as_str().unwrap(), line["phase"].as_str().unwrap_or_default()) {
                ("acquire", "invoke") => drop(called.insert(contender, at)),
                ("acquire", "ok") => {
                    recorded.acquired += 1;
                    let from = called.remove(&contender).unwrap_or(at);
                    recorded.waits.push(at - from);
                    let before = released.get(&lock).copied().filter(|released| *released > from);
                    recorded.handoffs.push(at - before.unwrap_or(from));
                    held.insert(contender, at);
                }
                ("release", "invoke") => {
                    recorded.holds.extend(held.remove(&contender).map(|from| at - from));
                    released.insert(lock, at);
                }
                _ => {}
            }
        }
        recorded.waits.sort_unstable();
        recorded.holds.sort_unstable();
        recorded.handoffs.sort_unstable();
        recorded
    }
}

fn quantile(sorted: &[u64], share: f64) -> u64 {
    sorted[((share * sorted.len() as f64).ceil() as usize).clamp(1, sorted.len()) - 1]
}

/// A load and the expected findings of `learn`.
struct Load {
    name: &'static str,
    lines: &'static str,
    recipe: Recipe,
    locks: u64,
}

const LOADS: [Load; 4] = [
    Load {
        name: "closed",
        lines: "strategies = [\"curator-mutex\"]\ncontenders = 4\nhold = \"12ms\"\n",
        recipe: Recipe::CuratorMutex,
        locks: 1,
    },
    Load {
        name: "open",
        lines: "strategies = [\"kazoo\"]\ncontenders = 20\nload = \"open\"\nrate = 20\nlocks = 5\nhold = \"15ms\"\n\
                popularity = { zipf = 1.0 }\nwarm_up = \"0s\"\nwarm_up_at_most = \"0s\"\n",
        recipe: Recipe::Kazoo,
        locks: 5,
    },
    Load {
        name: "readers",
        lines: "strategies = [\"curator-read-write\"]\ncontenders = 6\nhold = \"10ms\"\nread_ratio = 0.7\n",
        recipe: Recipe::CuratorReadWrite,
        locks: 1,
    },
    Load {
        name: "leases",
        lines: "strategies = [{ name = \"curator-semaphore\", leases = 2 }]\ncontenders = 5\nhold = \"15ms\"\n",
        recipe: Recipe::CuratorSemaphore,
        locks: 1,
    },
];

/// Runs a load with a history, and learns the load from the server's logs.
fn learned(bench: &Bench, load: &Load, connect: &str, data: &Path) -> (Recorded, Learned) {
    let head = format!("name = \"{}\"\nduration = \"4s\"\nrepetitions = 1\n", load.name);
    bench.scenario(&(head + load.lines));
    let run = format!("run scenario.toml --connect {connect} --run-id {} --history --no-floor", load.name);
    bench.completes(&run);
    let recorded = Recorded::of(&bench.path(&format!("results/{}/trials/000.history.jsonl", load.name)));
    let out = bench.path(&format!("learned-{}", load.name));
    let learn = format!("learn {} --path /zklockbench/{}/t000 --strict", data.display(), load.name);
    bench.shows(&format!("{learn} --out {}", out.display()));
    (recorded, Learned::read(&out).unwrap())
}

/// Asserts that the bounds of a learned time contain the recorded time, and that the estimate is within the
/// tolerance.
#[track_caller]
fn agree(what: &str, learned: Bounded, recorded: u64, handoff_us: u64) {
    let tolerance = (recorded / 20).max(handoff_us);
    assert!(learned.estimate_us.abs_diff(recorded) <= tolerance, "{what}: {learned:?} for {recorded}");
    assert!((learned.low_us..=learned.high_us).contains(&recorded), "{what}: {learned:?} for {recorded}");
}

#[tokio::test(flavor = "multi_thread")]
async fn learned_loads_match_the_recorded_histories() {
    let (bench, local) = (Bench::new(), ensemble::start(1).await);
    let (connect, data) = (local.connect(), local.data().remove(0));
    for load in &LOADS {
        let (recorded, learned) = learned(&bench, load, &connect, &data);
        let family = only(&learned);
        let name = load.name;
        assert_eq!((family.recipe, family.locks), (load.recipe, load.locks), "{name}");
        assert_eq!(family.acquisitions, recorded.acquired, "{name}: {:?}", family.endings);
        // Tolerate the 90th percentile of handoffs, which includes delays of a busy host.
        let handoff_us = quantile(&recorded.handoffs, 0.9);
        let [wait, hold] = [&family.wait, &family.hold].map(|times| times.as_ref().unwrap());
        let p50 = |times: &Times| times.p50;
        agree(&format!("{name}, hold"), p50(hold), quantile(&recorded.holds, 0.5), handoff_us);
        agree(&format!("{name}, wait"), p50(wait), quantile(&recorded.waits, 0.5), handoff_us);
    }
}

fn only(learned: &Learned) -> &Family {
    assert_eq!(learned.families.len(), 1, "{:?}", learned.families);
    &learned.families[0]
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: a run and a plan"]
async fn learned_scenario_can_be_run_and_planned_unchanged() {
    let (bench, local) = (Bench::new(), ensemble::start(1).await);
    let (connect, data) = (local.connect(), local.data().remove(0));
    let (_, learned) = learned(&bench, &LOADS[1], &connect, &data);
    let family = only(&learned);
    assert_eq!(family.load, LearnedLoad::Open);
    let run = format!("run learned-open/scenario.toml --connect {connect} --run-id again --no-floor");
    bench.completes(&run);
    bench.shows(&format!("learn {} --path /zklockbench/again/t000 --out learned-again", data.display()));
    let again = Learned::read(&bench.path("learned-again")).unwrap();
    let again = only(&again);
    assert_eq!((again.arrivals, again.locks), (family.arrivals, family.locks));
    assert!((again.keys[0].share - family.keys[0].share).abs() < 1e-9);
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/results/example");
    let question = "--from-scenario learned-open/scenario.toml --slo 'wait.p99 < 30s' --simulate 1000";
    bench.completes(&format!("plan {question} --from {example}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn learn_finds_the_same_load_by_watching_nodes_as_by_reading_logs() {
    let (bench, local) = (Bench::new(), ensemble::start(1).await);
    let (connect, data) = (local.connect(), local.data().remove(0));
    let watch = ["learn", "--connect", &connect, "--path", "/", "--for", "10m", "--out", "watched", "--json"];
    let watching = bench.spawn(&watch);
    let server = local.addresses().remove(0);
    until("the watch is set", || async {
        let told = admin::mntr(&server).await.map_err(|why| format!("{why:?}"))?;
        if told.number("zk_watch_count") > Some(0) { Ok(()) } else { Err("no watch".to_owned()) }
    })
    .await;
    let (_, learned) = learned(&bench, &LOADS[0], &connect, &data);
    // The last notifications may still be in flight.
    std::thread::sleep(Duration::from_secs(1));
    signal(watching.id(), Signal::INT);
    let output = watching.wait_with_output().unwrap();
    went_through(&output);
    let watched = Learned::read(&bench.path("watched")).unwrap();
    let watched = watched.families.iter().find(|family| family.recipe == Recipe::CuratorMutex).unwrap();
    let logged = only(&learned);
    assert_eq!(watched.acquisitions, logged.acquisitions + logged.endings.gave_up_at_grant.unwrap_or(0));
    assert_eq!(watched.endings.gave_up, logged.endings.gave_up);
    let [watched, logged] = [watched, logged].map(|family| family.hold.as_ref().unwrap().p50.logged_us);
    assert!(watched.abs_diff(logged) <= 2_000, "{watched} {logged}");
    let wrong = Schema::new(&bench.json(0, "schema learned")).complaints(&json(&output)["learned"]);
    assert!(wrong.is_empty(), "{wrong:?}");
    // And a watch that is not interrupted ends after its time
    let short = ["learn", "--connect", &connect, "--path", "/", "--for", "1s", "--out", "short"];
    assert!(bench.output(&short).status.code().is_some());
}

#[test]
fn learn_reports_the_covered_period_and_anonymous_results_name_no_directory() {
    let bench = Bench::new();
    let opened = txn::header(7, 0, 1, 1_700_000_000_000, txn::CREATE_SESSION);
    let log = [&b"ZKLG\0\0\0\x02\0\0\0\0\0\0\0\0"[..], &txn::written(opened, &[0, 0, 39, 16])].concat();
    std::fs::create_dir_all(bench.path("secret-host")).unwrap();
    std::fs::write(bench.path("secret-host/log.1"), log).unwrap();
    let refused = bench.refuses("learn secret-host --since 2030-01-01T00:00:00Z");
    let covered = "the logs cover 2023-11-14T22:13:20Z to 2023-11-14T22:13:20Z";
    assert!(refused.contains(covered), "{refused}");
    bench.shows("learn secret-host --anonymous --out anonymous");
    let json = bench.text("anonymous/learned.json");
    assert!(json.contains("server 1") && !json.contains("secret-host"), "{json}");
}

#[test]
fn learn_rejects_invalid_directories_and_options_with_a_suggestion() {
    let bench = Bench::new();
    let empty: PathBuf = bench.path("data");
    for (typed, says) in [
        (format!("learn {}", empty.display()), "not a ZooKeeper transaction log; specify a server's dataDir"),
        ("learn /nowhere".to_owned(), "/nowhere"),
        ("learn".to_owned(), "<DIR>"),
        ("learn data --path locks".to_owned(), "write, for example, /locks"),
        ("learn data --since yesterday".to_owned(), "write, for example, 2026"),
        ("learn data --at-most 5".to_owned(), "cannot be used with"),
        ("learn data --connect zk1:2181".to_owned(), "cannot be used with"),
        ("learn --connect zk1:port --path / --dry-run".to_owned(), "--connect"),
    ] {
        let refused = bench.refuses(&typed);
        assert!(refused.contains(says), "{typed}: {refused}");
    }
    let shown = bench.shows("learn --connect zk1:2181, --path /locks --dry-run");
    assert!(shown.starts_with("Requests to zk1:2181, in one session"), "{shown}");
    assert!(shown.contains("addWatch /locks"), "{shown}");
}
