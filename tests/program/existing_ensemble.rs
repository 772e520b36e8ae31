//! Existing ensembles: a run changes only its own root, and errors report the cause.

use crate::support::ensemble;
use std::process::Output;
use std::time::{Duration, Instant};

use crate::support::program::{Bench, says, stderr, stdout, went_through};
use crate::support::sessions::{PERSISTENT, with_client};

const SCENARIO: &str = "name = \"x\"\nstrategies = [\"predecessor-watch\"]\ncontenders = 3\nhold = \"50ms\"\n\
                        acquisitions = 6\nrepetitions = 1\n";

fn run(bench: &Bench, connect: &str, more: &[&str]) -> Output {
    bench.scenario(SCENARIO);
    let mut arguments = vec!["run", "scenario.toml", "--connect", connect, "--no-progress"];
    arguments.extend(more);
    bench.output(&arguments)
}

fn make(connect: &str, path: &str) {
    with_client(connect, async |client| client.create(path, &[], &PERSISTENT).await.unwrap());
}

fn exists(connect: &str, path: &str) -> bool {
    with_client(connect, async |client| client.check_stat(path).await.unwrap().is_some())
}

#[tokio::test]
async fn run_stays_below_its_chroot_and_leaves_no_nodes() {
    // Given a server that no other test uses
    let local = ensemble::start(1).await;
    let connect = local.connect();
    let below = move || {
        let bench = Bench::new();
        make(&connect, "/team");
        make(&connect, "/team/locks");
        went_through(&run(&bench, &format!("{connect}/team/locks"), &[]));
        let left = with_client(&connect, async |client| client.list_children("/team/locks").await.unwrap());
        assert_eq!(left, [""; 0]);
        let trial = &bench.stored().trials[0];
        assert_eq!(trial.servers_agree(), Some(true), "{:?}", trial.accounting);
    };
    tokio::task::spawn_blocking(below).await.unwrap();
}

#[test]
fn server_whose_name_resolves_to_this_host_is_reported_as_local() {
    // Given a name of this host other than `localhost`
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let connect = ensemble::place_on_shared().replace("127.0.0.1", name.trim());
    if !std::net::ToSocketAddrs::to_socket_addrs(&(name.trim(), 1))
        .is_ok_and(|mut found| found.any(|address| address.ip().is_loopback()))
    {
        return;
    }
    let bench = Bench::new();
    went_through(&run(&bench, &connect, &["--no-floor"]));
    let ensemble = &bench.stored().run.ensemble;
    assert!(ensemble.shares_host, "{ensemble:?}");
    assert!(ensemble.servers.iter().all(|server| server.shares_host == Some(true)), "{ensemble:?}");
}

#[test]
fn missing_chroot_is_reported_by_its_path() {
    let bench = Bench::new();
    let connect = format!("{}/no/such", ensemble::shared());
    for output in [run(&bench, &connect, &[]), bench.output(&["clean", "--connect", &connect])] {
        says(&output, 3, "chroot /no/such does not exist");
    }
    assert!(bench.results().is_empty());
}

#[test]
fn missing_chroot_is_created_on_request_and_kept_after_the_run() {
    let bench = Bench::new();
    // Given a chroot of which only the first node exists
    let connect = ensemble::place_on_shared();
    let chroot = format!("{connect}/team/locks");
    let output = run(&bench, &chroot, &[]);
    assert!(stderr(&output).contains("--create-chroot"), "{}", stderr(&output));
    // When a run creates the rest of the chroot
    went_through(&run(&bench, &chroot, &["--create-chroot"]));
    // Then the run uses the chroot, and leaves nothing else behind
    assert!(exists(&connect, "/team/locks") && !exists(&connect, "/team/locks/zklockbench"));
    // And an existing chroot is not an error
    went_through(&run(&bench, &chroot, &["--create-chroot", "--run-id", "again"]));
}

#[test]
fn run_with_an_existing_root_is_rejected_without_changing_the_root() {
    let bench = Bench::new();
    let connect = ensemble::place_on_shared();
    make(&connect, "/zklockbench");
    make(&connect, "/zklockbench/mine");
    make(&connect, "/zklockbench/mine/precious");
    says(&run(&bench, &connect, &["--run-id", "mine"]), 3, "/zklockbench/mine exists");
    assert!(exists(&connect, "/zklockbench/mine/precious"));
    assert!(bench.results().is_empty());
}

#[test]
fn run_with_credentials_removes_its_nodes_without_storing_the_password() {
    let bench = Bench::new();
    std::fs::write(bench.path("identity"), "bench:secret\n").unwrap();
    let arguments = ["--auth-file", "identity", "--run-id", "identified"];
    went_through(&run(&bench, ensemble::shared(), &arguments));
    assert!(!exists(ensemble::shared(), "/zklockbench/identified"));
    let text = std::fs::read_to_string(bench.results()[0].join("run.json")).unwrap();
    assert!(!text.contains("secret"), "a password was written to the results");
}

#[test]
fn unreachable_ensemble_is_reported_quickly() {
    let bench = Bench::new();
    let begin = Instant::now();
    let clean = bench.output(&["clean", "--connect", "127.0.0.1:1"]);
    for output in [run(&bench, "127.0.0.1:1", &[]), clean] {
        assert_eq!(output.status.code(), Some(3));
        let expected =
            "cannot connect to 127.0.0.1:1: nothing is listening on 127.0.0.1:1 (connection refused)";
        assert!(stderr(&output).contains(expected), "{}", stderr(&output));
    }
    // Each command tries for six seconds.
    assert!(begin.elapsed() < Duration::from_secs(28));
}

#[test]
fn clean_lists_foreign_nodes_but_never_removes_them() {
    let connect = ensemble::place_on_shared();
    with_client(&connect, async |client| {
        for (path, data) in [("/zklockbench", ""), ("/zklockbench/notes", "x"), ("/zklockbench/old", "")] {
            client.create(path, data.as_bytes(), &PERSISTENT).await.unwrap();
        }
        client.create("/zklockbench/old/t000", &[], &PERSISTENT).await.unwrap();
    });
    let listed = stdout(&Bench::new().completes(&format!("clean --connect {connect} --all")));
    let line = |name: &str| listed.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned();
    assert!(line("notes ").ends_with("not created by zklockbench; kept"), "{listed}");
    // A root created by an earlier version contains no data, but is recognised by its trials
    assert!(line("old ").contains("may be in progress until"), "{listed}");
    assert!(exists(&connect, "/zklockbench/notes"));
}
