//! Local ensembles become healthy after they start, and leave nothing behind when they stop.

use crate::support::ensemble;
use std::time::Duration;

use crate::support::program::{Bench, eventually, executable, has, says, signal, stderr};
use crate::support::sessions::target;
use rustix::process::Signal;
use zklockbench_ensemble::{NICER_BY, roles};

fn niceness(process: u32) -> Vec<i64> {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let of = |thread: std::io::Result<std::fs::DirEntry>| {
        let stat = std::fs::read_to_string(thread.ok()?.path().join("stat")).ok()?;
        // The nice value is the 17th field after the name, which may contain spaces.
        stat.rsplit_once(')')?.1.split_whitespace().nth(16)?.parse().ok()
    };
    threads.filter_map(of).collect()
}

#[tokio::test]
async fn standalone_server_grants_a_session_timeout_of_one_second() {
    let local = ensemble::start(1).await;
    assert_eq!(roles(&local.addresses()).await[0].describe(), "standalone");
    let target = target(&local.connect());
    // On a new server, opening the first session may take longer than this session timeout.
    let opened = async {
        loop {
            if let Ok(client) = target.client(Duration::from_secs(1)).await {
                return client;
            }
        }
    };
    let client = tokio::time::timeout(Duration::from_secs(60), opened).await.unwrap();
    assert_eq!(client.session_timeout(), Duration::from_secs(1));
}

#[test]
fn ctrl_c_also_ends_paused_servers() {
    // Given a run with one paused server
    let bench = Bench::with(
        "name = \"long\"\nstrategies = [\"polling\"]\ncontenders = [2]\nduration = \"10m\"\nwarm_up = \"0s\"\n",
    );
    let run = bench.listen(bench.typed("run scenario.toml --data-dir data"));
    eventually("three servers were started", Duration::from_secs(30), || bench.servers().len() == 3);
    signal(bench.servers()[0], Signal::STOP);
    // When the run is interrupted
    signal(run.pid(), Signal::INT);
    // Then no server is left
    assert_eq!(run.end().0, Some(130));
    eventually("no server is left", Duration::from_secs(20), || bench.servers().is_empty());
}

#[test]
fn missing_zookeeper_error_lists_the_searched_path_and_ways_to_install() {
    let bench = Bench::new();
    let (_, said) = bench.ends(3, "run quick --zookeeper-home /nowhere");
    has(&said, &["--zookeeper-home = /nowhere", "apt-get install", "brew install"]);
    has(&said, &["--compose docker/compose.3.yaml"]);
    assert!(bench.results().is_empty());
}

#[test]
fn servers_run_the_unpacked_release_in_zookeeper_home() {
    let bench = Bench::new();
    let release = bench.release();
    // When an ensemble is started from the release
    let mut up = bench.command(&["ensemble", "up", "--servers", "1", "--data-dir", "data"]);
    let output = up.env("ZOOKEEPER_HOME", release).output().unwrap();
    // Then the servers run this release
    assert!(output.status.success(), "{}", stderr(&output));
    let command = std::fs::read(format!("/proc/{}/cmdline", bench.servers()[0])).unwrap();
    assert!(String::from_utf8_lossy(&command).contains("release/lib/*"));
    bench.shows("ensemble down");
}

#[test]
fn failing_java_is_reported_with_its_output() {
    let bench = Bench::new();
    let java = bench.path("java-home/bin/java");
    std::fs::create_dir_all(java.parent().unwrap()).unwrap();
    executable(&java, "#!/bin/sh\necho this Java is broken\nexit 7\n");
    let mut up = bench.command(&["ensemble", "up", "--data-dir", "data"]);
    let output = up.env("JAVA_HOME", bench.path("java-home")).output().unwrap();
    says(&output, 3, "this Java is broken");
    assert_eq!(std::fs::read_dir(bench.path("data")).unwrap().count(), 0, "data was left behind");
}

#[test]
fn kept_ensemble_runs_until_it_is_stopped() {
    let bench = Bench::new();
    bench.ends(3, "ensemble status");
    // Given a kept ensemble
    let up = bench.shows("ensemble up --servers 3 --data-dir data");
    assert_eq!(bench.servers().len(), 3);
    // Then all threads of its servers have a lower priority than the generator
    let ours = niceness(std::process::id());
    for server in bench.servers() {
        let nicest = (ours[0] + i64::from(NICER_BY)).min(19);
        let theirs = niceness(server);
        assert!(!theirs.is_empty() && theirs.iter().all(|nice| *nice == nicest), "{theirs:?} of {ours:?}");
    }
    // And the ensemble has a leader, and a second `up` reuses the ensemble
    let status = bench.shows("ensemble status");
    assert!(status.contains("leader") && status.contains("follower"), "{status}");
    assert_eq!(bench.shows("ensemble up --servers 3"), up);
    bench.ends(3, "ensemble up --servers 1");
    // And a request for a different ensemble is rejected with a reason
    bench.shows("ensemble up --data-dir data");
    let (_, elsewhere) = bench.ends(3, "ensemble up --data-dir /");
    assert!(elsewhere.contains("not below /; stop it first"), "{elsewhere}");
    // And a run with the same number of servers uses the ensemble and leaves no nodes on it
    bench.scenario(
        "name = \"kept\"\nstrategies = [\"predecessor-watch\"]\ncontenders = [2]\nhold = \"200ms\"\nacquisitions = 8\n\
         repetitions = 1\n",
    );
    bench.completes("run scenario.toml --no-progress");
    assert_eq!(bench.stored().run.ensemble.kind, "kept");
    let (_, cleaned) = bench.ends(0, &format!("clean --connect '{}'", up.trim()));
    assert!(cleaned.contains("no leftovers found"), "{cleaned}");
    // When the ensemble is stopped, nothing is left behind
    bench.shows("ensemble down");
    eventually("no server is left", Duration::from_secs(5), || bench.servers().is_empty());
    assert_eq!(std::fs::read_dir(bench.path("data")).unwrap().count(), 0);
    // And stopping the ensemble again is not an error
    bench.shows("ensemble down");
}
