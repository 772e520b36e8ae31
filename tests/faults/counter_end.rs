//! Behaviour of locks on real servers when their directory's sequence counter is used up, so that numbers are no
//! longer unique.

use std::sync::Mutex;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::runtime::Builder;
use zklockbench_core::catalog::{Mode, ParamValue, Params};
use zklockbench_core::verdict::Verdict;
use zklockbench_ensemble::{Local, Processes, raise_counters};
use zklockbench_load::EnvironmentEvent;
use zklockbench_locks::{AcquireError, STRATEGIES};
use zklockbench_record::Trial;
use zklockbench_zk::{Failure, runtime};

use crate::support::breakable;
use crate::support::contender::{Contender, words};
use crate::support::faults::{until, whole};
use crate::support::oracle::Oracle;
use crate::support::sessions::{Scene, scene};
use crate::support::trials::{self, Course};

/// Locks that are not ordered by sequence numbers.
const WITHOUT_NUMBERS: [&str; 2] = ["ephemeral-node", "ephemeral-child"];
const CONTENDERS: usize = 4;
/// Number of creates in each directory before its counter is used up.
const LEFT: i32 = 12;
/// Number of failed acquires after which a contender stops.
const FAILURES: usize = 3;

/// Every lock with sequential nodes, once for each way to join.
fn locks() -> Vec<(&'static str, Params)> {
    let exclusive = STRATEGIES.iter().map(|entry| entry.card).filter(|card| card.guarantees.exclusive);
    let numbered = exclusive.filter(|card| !WITHOUT_NUMBERS.contains(&card.name));
    let plain = numbered.map(|card| match card.name {
        "polling" => {
            let often = ParamValue::Duration(Duration::from_millis(20));
            ("polling", Params::from([("poll_interval".to_owned(), often)]))
        }
        name => (name, Params::new()),
    });
    let count = ["curator-mutex", "curator-read-write", "predecessor-watch", "ahead", "baton"];
    let by_count = count.map(|name| (name, words(&[("join", "count")])));
    let others = [
        ("count", words(&[("join", "create")])),
        ("count-semaphore", words(&[("join", "create")])),
        ("predecessor-watch", words(&[("class", "article")])),
        ("parent-watch", words(&[("class", "article")])),
    ];
    plain.chain(by_count).chain(others).collect()
}

/// Stops all servers, raises the counters of these directories, and restarts the servers.
async fn take_near_the_end(local: &Local, directories: &[String]) {
    for server in 1..=local.servers() {
        local.stop(server).await.unwrap();
    }
    let newest = raise_counters(&Local::data(local), directories, i32::MAX - LEFT).unwrap();
    let others = (1..=local.servers()).filter(|server| *server != newest);
    for server in [newest].into_iter().chain(others) {
        local.start(server).await.unwrap();
    }
    whole(local).await;
}

async fn contend(
    number: usize,
    (name, params): &(&'static str, Params),
    on: &Scene,
    oracle: &Oracle,
    connect: &str,
) {
    let mut contender = Contender::numbered(connect, (name, number), params, on).await;
    let reads = zklockbench_locks::find(name).unwrap().card.guarantees.has_read_side();
    let mut failures = 0;
    for turn in number.. {
        let mode = if reads && turn % 2 == 1 { Mode::Read } else { Mode::Write };
        match contender.acquire(mode).await {
            Ok(held) => {
                oracle.enter(mode);
                runtime::sleep(Duration::from_millis(2)).await;
                oracle.exit(mode);
                contender
                    .release(held)
                    .await
                    .unwrap_or_else(|why| panic!("{name} {params:?}: release: {why}"));
            }
            Err(AcquireError::Failed(Failure::CounterUsedUp(directory)))
                if directory.starts_with(&on.lock) =>
            {
                failures += 1;
                if failures == FAILURES {
                    return;
                }
            }
            Err(why) => panic!("{name} {params:?}: {why:?}"),
        }
    }
}

#[test]
fn locks_report_a_used_up_counter_and_still_ensure_exclusion() {
    let servers = Builder::new_current_thread().enable_all().build().unwrap();
    let local = servers.block_on(breakable::plain());
    let (connect, locks) = (local.connect(), locks());
    // Given a directory for each lock, with the lock's own nodes
    let paths: Vec<(String, Vec<String>)> = runtime::block_on(async {
        join_all(locks.iter().map(async |(name, params)| {
            let scene = scene(&connect).await;
            let mut first = Contender::numbered(&connect, (name, 0), params, &scene).await;
            first.cycle().await;
            scene.has_nodes(0).await;
            (scene.lock.clone(), scene.directories().await)
        }))
        .await
    });
    let directories: Vec<String> = paths.iter().flat_map(|(_, directories)| directories.clone()).collect();
    // When the directories' counters are near the end, and each contender continues until it has failed a few times
    servers.block_on(take_near_the_end(&local, &directories));
    runtime::block_on(async {
        join_all(locks.iter().zip(&paths).map(async |(lock, (path, _))| {
            let scene = Scene::at(&connect, path).await;
            let oracle = Oracle::of(1);
            join_all((0..CONTENDERS).map(|number| contend(number, lock, &scene, &oracle, &connect))).await;
            // Then no two contenders were inside together, and no node is left
            let (name, params) = lock;
            println!("{name} {params:?}: {} acquisitions before the counter's end", oracle.acquired.get());
            assert_eq!(oracle.violations.get(), 0, "{name} {params:?}: entered beside another contender");
            assert!(oracle.acquired.get() > 0, "{name} {params:?}: no acquisition before the counter's end");
            assert_eq!(scene.nodes().await, 0, "{name} {params:?}");
        }))
        .await;
    });
    servers.block_on(until("the ensemble is healthy", || local.whole()));
}

#[tokio::test]
async fn used_up_counter_causes_a_warning_but_no_violation() {
    const USED_UP: &str = "acquire: the directory's counter is used up";
    let (mut trial, mut warnings) = near_end(4).await;
    // Slow servers need a longer load to use up the counter after the fault.
    if !trial.errors.contains_key(USED_UP) {
        (trial, warnings) = near_end(40).await;
    }
    trials::assert_kept(&trial);
    assert_eq!(trial.faults.len(), 1);
    assert!(trial.errors.contains_key(USED_UP), "{:?}", trial.errors);
    assert!(!matches!(trial.judged.verdict, Verdict::Violated(_)), "{:?}", trial.judged.verdict);
    let warns =
        |text: &String| text.contains("lock-0 is used up") && text.ends_with("use a fresh lock directory");
    assert!(warnings.iter().any(warns), "{warnings:?}");
}

/// Runs a trial with a counter near its end, and returns the trial and its warnings.
async fn near_end(seconds: u32) -> (Trial, Vec<String>) {
    let local = breakable::plain().await;
    let plan = trials::plan(&format!(
        "strategies = [\"count\"]\ncontenders = 4\nhold = \"5ms\"\nduration = \"{seconds}s\"\n\
         session_timeout = \"20s\"\nacquire_timeout = \"60s\"\n[[fault]]\nkind = \"counter-near-end\"\nat = \"500ms\"\n"
    ));
    let warnings = Mutex::new(Vec::new());
    let sink = |event: EnvironmentEvent<'_>| {
        if let EnvironmentEvent::Warning(text) = event {
            warnings.lock().unwrap().push(text.to_owned());
        }
    };
    let course = Course { sink: &sink, ..trials::uninterrupted() };
    let trial = trials::run_beside(&local, &plan[0], trials::known(&plan[0]), course).await;
    (trial, warnings.into_inner().unwrap())
}
