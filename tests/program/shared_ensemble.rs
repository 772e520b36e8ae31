//! An ensemble with other clients: the load is limited, and a run ends if the servers become slow.

use std::process::{Command, Output};
use std::time::Duration;

use rustix::process::Signal;
use tokio::task::JoinHandle;
use zklockbench_core::measure::RequestKind;

use crate::support::ensemble;
use crate::support::program::{Bench, json, says, signal, stderr, stdout, went_through};
use crate::support::sessions::client;

const CLOSED: &str = "name = \"x\"\nstrategies = [\"predecessor-watch\"]\ncontenders = 4\nhold = \"0ms\"\n\
                      duration = \"3s\"\nwarm_up = \"0s\"\nrepetitions = 1\n";
/// Rate in requests per second that only a run without the limit of 200 requests per second exceeds.
const LIMITED: f64 = 230.0;

/// Returns a command that may not saturate servers, although commands in other tests may.
fn polite(bench: &Bench, words: &[&str]) -> Command {
    let mut command = bench.command(words);
    command.env_remove("ZKLOCKBENCH_ALLOW_SATURATION");
    command
}

async fn left(connect: &str) -> Vec<String> {
    let mut left = client(connect).await.list_children("/").await.unwrap();
    left.retain(|name| name != "zookeeper");
    left
}

/// Runs the scenario on this ensemble in the background.
fn run(connect: &str, scenario: &str, more: &[&str]) -> JoinHandle<(Bench, Output)> {
    let bench = Bench::with(scenario);
    let words = [&["run", "scenario.toml", "--no-progress", "--connect", connect], more].concat();
    let mut command = polite(&bench, &words);
    tokio::task::spawn_blocking(move || {
        let output = command.output().unwrap();
        (bench, output)
    })
}

/// Returns the requests per second in the measured phase.
fn rate(bench: &Bench) -> f64 {
    let stored = bench.stored();
    let trial = &stored.trials[0];
    let requests: u64 = RequestKind::ALL.iter().map(|kind| trial.measured.requests.get(*kind)).sum();
    requests as f64 * 1e6 / trial.measured_us as f64
}

#[tokio::test(flavor = "multi_thread")]
async fn load_is_limited_only_while_other_clients_are_connected() {
    let local = ensemble::start(1).await;
    let connect = local.connect();
    // A slow host must not end the compared runs. Each contender has its own lock, so the rate depends on requests,
    // not on handoffs, and 16 of them exceed the limit on a slow host, too.
    let scenario = format!("{}locks = 16\n", CLOSED.replace("contenders = 4", "contenders = 16"));
    let run = |more: &[&str]| run(&connect, &scenario, &[&["--stop-if-latency", "1000x"], more].concat());
    // Given an ensemble without other clients
    let (bench, alone) = run(&[]).await.unwrap();
    went_through(&alone);
    assert!(stderr(&alone).contains("requests/s"), "{}", stderr(&alone));
    assert!(!stderr(&alone).contains("load limited"), "{}", stderr(&alone));
    let unlimited = rate(&bench);
    assert!(unlimited > LIMITED, "{unlimited} requests/s without a limit");
    // When another client is connected
    let other = client(&connect).await;
    let (bench, limited) = run(&[]).await.unwrap();
    assert!(matches!(limited.status.code(), Some(0 | 4)), "{}", stderr(&limited));
    let said = stderr(&limited);
    assert!(said.contains("load limited to 200 requests/s (1 connection of other clients)"), "{said}");
    let expected = "throughput reflects the limit, not the locks";
    assert!(stdout(&limited).contains(expected), "{}", stdout(&limited));
    let rate_when_limited = rate(&bench);
    assert!(rate_when_limited < LIMITED, "{rate_when_limited} requests/s, limited to 200");
    // Then options can set another limit, or remove the limit
    let degraded = format!("{connect},127.0.0.1:1");
    let (bench, more) =
        self::run(&degraded, &scenario, &["--at-most", "50/s", "--stop-if-latency", "1000x"]).await.unwrap();
    assert!(matches!(more.status.code(), Some(0 | 4)), "{}", stderr(&more));
    assert!(rate(&bench) < 70.0, "{} requests/s with a limit of 50", rate(&bench));
    // And an unreachable server does not prevent the run
    assert!(stderr(&more).contains("the latency of 127.0.0.1:1 is not watched"), "{}", stderr(&more));
    let (bench, all) = run(&["--allow-saturation"]).await.unwrap();
    went_through(&all);
    assert!(rate(&bench) > LIMITED, "{} requests/s", rate(&bench));
    drop(other);
    assert_eq!(left(&connect).await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn load_limit_rejects_higher_rates_and_restricts_calibration_to_single_requests() {
    let local = ensemble::start(1).await;
    let connect = local.connect();
    let _other = client(&connect).await;
    // Arrivals above the limit are rejected before anything is created
    let open = format!("{CLOSED}load = \"open\"\nrate = 100\n");
    let (_, refused) = run(&connect, &open, &["--no-floor"]).await.unwrap();
    says(&refused, 2, "the arrivals need about 500 requests/s");
    assert_eq!(left(&connect).await, [""; 0]);
    // And a calibration measures only single requests
    let of = connect.clone();
    let calibrated = tokio::task::spawn_blocking(move || {
        let calibrate = ["calibrate", "--budget", "3s", "--connect", &of, "--json"];
        // Other tests may slow down the servers.
        let words = [&calibrate[..], &["--stop-if-latency", "1000x"]].concat();
        polite(&Bench::new(), &words).output().unwrap()
    });
    let output = calibrated.await.unwrap();
    went_through(&output);
    let json = json(&output);
    let requests = json["calibration"]["servers"][0]["requests"].as_array().unwrap();
    assert!(!requests.is_empty());
    assert!(requests.iter().all(|one| one["saturated"].is_null()), "{requests:?}");
    assert!(requests.iter().any(|one| one["alone"]["count"].as_u64() > Some(0)), "{requests:?}");
    assert_eq!(left(&connect).await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn run_on_a_shared_ensemble_ends_when_servers_become_slow() {
    let local = ensemble::start(1).await;
    let connect = local.connect();
    let _other = client(&connect).await;
    let run = run(&connect, &CLOSED.replace("3s", "60s"), &["--no-floor"]);
    // Pause the server for most of the time, to simulate overload.
    tokio::time::sleep(Duration::from_secs(10)).await;
    let server = local.pids()[0];
    while !run.is_finished() {
        signal(server, Signal::STOP);
        tokio::time::sleep(Duration::from_secs(1)).await;
        signal(server, Signal::CONT);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let (bench, output) = run.await.unwrap();
    says(&output, 3, "latency rose to more than 3 times");
    let stored = bench.stored();
    let trial = stored.trials.last().unwrap();
    assert!(!trial.is_sound(), "{:?}", trial.cut_short);
    assert_eq!(left(&connect).await, [""; 0]);
}
