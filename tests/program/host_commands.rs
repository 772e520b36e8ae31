//! Servers of an existing ensemble, broken by the user's commands: each fault is verified, as on the suite's own
//! servers.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;

use crate::support::program::{Bench, signal, stderr};
use zklockbench_core::verdict::Verdict;
use zklockbench_ensemble::roles;
use zklockbench_record::FaultRecord;
use zklockbench_zk::runtime;

const SCENARIO: &str = "name = \"broken\"\nstrategies = [\"curator-mutex\"]\ncontenders = 4\nhold = \"20ms\"\n\
                        warm_up = \"0s\"\nduration = \"16s\"\nsession_timeout = \"10s\"\n[[fault]]\n\
                        kind = \"pause\"\ntarget = \"follower\"\nat = \"1s\"\nduration = \"1s\"\n[[fault]]\n\
                        kind = \"kill\"\ntarget = \"leader\"\nat = \"5s\"\nduration = \"2s\"\n";

/// A server of a kept ensemble from its administrator's point of view.
struct Server {
    address: String,
    pid: u32,
    config: PathBuf,
    /// Shell command that starts the server again.
    start: String,
}

/// Returns the servers in the order of the connect string.
fn servers(bench: &Bench, connect: &str) -> Vec<Server> {
    let read = |pid: u32| {
        let bytes = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap();
        let words: Vec<String> = bytes
            .split(|byte| *byte == 0)
            .filter(|word| !word.is_empty())
            .map(|word| String::from_utf8_lossy(word).into_owned())
            .collect();
        let config = words.iter().find(|word| word.ends_with("zoo.cfg")).map(PathBuf::from).unwrap();
        let text = std::fs::read_to_string(&config).unwrap();
        let port = text.lines().find_map(|line| line.strip_prefix("clientPort=")).unwrap().to_owned();
        let directory = std::fs::read_link(format!("/proc/{pid}/cwd")).unwrap();
        let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
        let start = format!("cd {} && {} >/dev/null 2>&1 &", directory.display(), quoted.join(" "));
        Server { address: format!("127.0.0.1:{port}"), pid, config, start }
    };
    let mut servers: Vec<Server> = bench.servers().into_iter().map(read).collect();
    servers.sort_by_key(|server| connect.find(&server.address).unwrap());
    servers
}

/// Restarts the servers with ZooKeeper's default configuration, which allows only the command `srvr`.
fn restart_with_defaults(bench: &Bench, connect: &str) {
    let servers = servers(bench, connect);
    for Server { pid, config, .. } in &servers {
        let text = std::fs::read_to_string(config).unwrap();
        let kept: Vec<&str> = text.lines().filter(|line| !line.starts_with("4lw.")).collect();
        assert!(kept.len() < text.lines().count(), "{text}");
        std::fs::write(config, kept.join("\n") + "\n").unwrap();
        signal(*pid, Signal::KILL);
    }
    while !bench.servers().is_empty() {
        std::thread::sleep(Duration::from_millis(50));
    }
    for Server { start, .. } in &servers {
        assert!(Command::new("sh").args(["-c", start]).status().unwrap().success());
    }
    let addresses: Vec<String> = servers.into_iter().map(|server| server.address).collect();
    while !runtime::block_on(roles(&addresses)).iter().all(|role| role.state.is_ok()) {
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
#[ignore = "long: three dedicated servers for half a minute"]
fn host_command_faults_are_proved_even_if_servers_allow_only_srvr() {
    let bench = Bench::with(SCENARIO);
    let told = bench.shows("ensemble up --servers 3 --data-dir data");
    let connect =
        told.split_whitespace().find(|word| word.contains(':') && word.contains(',')).unwrap().to_owned();
    restart_with_defaults(&bench, &connect);
    // Given commands as a user would write them
    let hosts: String = servers(&bench, &connect)
        .iter()
        .zip(1..)
        .map(|(Server { pid, start, .. }, number)| {
            format!(
                "[hosts.server-{number}]\nkill = \"kill -9 {pid}\"\nstart = \"{start}\"\npause = \"kill -STOP {pid}\"\nresume = \
                 \"kill -CONT {pid}\"\n"
            )
        })
        .collect();
    std::fs::write(bench.path("hosts.toml"), hosts).unwrap();
    // When a scenario breaks servers
    let run = format!("run scenario.toml --connect {connect} --no-progress --allow-faults");
    let refused = bench.refuses(&run);
    assert!(refused.contains("--hosts FILE"), "{refused}");
    let output = bench.typed(&format!("{run} --hosts hosts.toml")).output().unwrap();
    // Then both faults took effect and were healed, as reported by the servers, and the lock was judged
    let stored = bench.stored();
    let faults = &stored.trials[0].faults;
    assert_eq!(faults.len(), 2, "{}", stderr(&output));
    let is_healed = |fault: &FaultRecord| fault.proved && fault.left.is_none() && fault.ended_us.is_some();
    assert!(faults.iter().all(is_healed), "{faults:?}");
    assert!(faults[0].proof.contains("did not answer"), "{faults:?}");
    assert!(faults[1].target.contains("(leader)") && faults[1].elected_us.is_some(), "{faults:?}");
    assert!(!matches!(stored.run.judged.verdict, Verdict::Violated(_)), "{:?}", stored.run.judged);
    let overrides = &stored.run.overrides;
    assert!(overrides.iter().any(|option| option.starts_with("--hosts")), "{overrides:?}");
}
