//! Without root, servers are cut off from each other in the suite's own user namespace. If the system does not
//! allow user namespaces, both `validate` and `run` report that.

#![cfg(target_os = "linux")] // namespaces

use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output};
use std::time::Duration;

use crate::support::program::{Bench, Watched, eventually, says, signal, stderr, stdout, walk, went_through};
use crate::support::skip::skipped;
use rustix::process::Signal;

/// ID of the user and group without privileges, which exist on every system.
const NOBODY: u32 = 65_534;
const PARTITION: &str = "name = \"partition\"\nstrategies = [\"curator-mutex\"]\ncontenders = [3]\nhold = \"50ms\"\n\
                         duration = \"8s\"\nwarm_up = \"0s\"\nrepetitions = 1\nsession_timeout = \"4s\"\n[[fault]]\n\
                         kind = \"partition\"\nshape = \"minority\"\nat = \"500ms\"\nduration = \"5s\"\n";

/// A program and a bench that an unprivileged user can access.
struct Ordinary {
    bench: Bench,
    program: PathBuf,
    user: u32,
}

impl Ordinary {
    fn new() -> Self {
        let bench = Bench::new();
        let program = bench.path("zklockbench");
        // Copy the file in a separate process: otherwise, a process started by another test could keep the file
        // open for writing, so the file could not be executed.
        let copied =
            Command::new("cp").arg(env!("CARGO_BIN_EXE_zklockbench")).arg(&program).status().unwrap();
        assert!(copied.success(), "{copied}");
        let (scenario, own) = (bench.scenario(PARTITION), rustix::process::geteuid());
        let user = if own.is_root() { NOBODY } else { own.as_raw() };
        if own.is_root() {
            for path in [bench.dir.path(), &bench.path("data"), &program, &scenario] {
                std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
            }
        }
        Self { bench, program, user }
    }

    /// Returns a command that runs the program as the unprivileged user, preceded by these arguments.
    fn command(&self, before: &[&str], arguments: &[&str]) -> Command {
        let words = [before, &[self.program.to_str().unwrap()], arguments].concat();
        self.bench.command_of(words[0], &words[1..])
    }

    fn run(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(&[], arguments);
        if rustix::process::geteuid().is_root() {
            command.uid(self.user).gid(self.user);
        }
        command
    }

    fn watch(&self) -> Watched {
        self.bench.listen(self.run(&["run", "scenario.toml", "--data-dir", "data"]))
    }

    /// Returns whether the user can enter a user namespace on this host. If not, reports the test as skipped.
    fn is_let(&self) -> bool {
        let output = self.run(&["validate", "scenario.toml"]).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let said = stderr(&output);
        if said.contains("but cannot run here") {
            skipped(&said);
        }
        !said.contains("but cannot run here")
    }
}

#[test]
fn ordinary_user_can_partition_servers_and_owns_the_results() {
    let ordinary = Ordinary::new();
    if !ordinary.is_let() {
        return;
    }
    let output = ordinary.run(&["run", "scenario.toml", "--data-dir", "data", "--json"]).output().unwrap();
    went_through(&output);
    assert!(stderr(&output).contains("fault `partition shape=minority` took effect"), "{}", stderr(&output));
    assert!(stdout(&output).starts_with('{'), "{}", stdout(&output));
    let results = walk(&ordinary.bench.results()[0]);
    assert!(results.iter().any(|file| file.ends_with("run.json")), "{results:?}");
    for file in results {
        assert_eq!(file.metadata().unwrap().uid(), ordinary.user, "{}", file.display());
    }
    assert_eq!(std::fs::read_dir(ordinary.bench.path("data")).unwrap().count(), 0, "data was left behind");
}

#[test]
#[ignore = "long: two partitioned ensembles"]
fn stopped_or_killed_rootless_run_leaves_no_server() {
    let ordinary = Ordinary::new();
    if !ordinary.is_let() {
        return;
    }
    for (sent, code) in [(Signal::TERM, Some(130)), (Signal::KILL, None)] {
        let suite = ordinary.watch();
        eventually("the fault takes effect", Duration::from_secs(120), || suite.has_said("took effect on"));
        assert_eq!(ordinary.bench.servers().len(), 3);
        signal(suite.pid(), sent);
        let (ended, said) = suite.end();
        assert_eq!(ended, code, "{said}");
        eventually("no server is left", Duration::from_secs(20), || ordinary.bench.servers().is_empty());
    }
    // Only the first run, which was stopped by SIGTERM, has results.
    assert_eq!(ordinary.bench.results().len(), 1);
}

/// A user namespace in which no further namespaces can be created. It exists until its process ends.
struct Forbidden(Child);

impl Forbidden {
    fn make() -> Self {
        let here = std::fs::read_link("/proc/self/ns/user").unwrap();
        let made = Self(Command::new("unshare").args(["--user", "sleep", "600"]).spawn().unwrap());
        let there = || std::fs::read_link(format!("/proc/{}/ns/user", made.0.id())).unwrap();
        eventually("the namespace exists", Duration::from_secs(10), || there() != here);
        for map in ["uid_map", "gid_map"] {
            std::fs::write(format!("/proc/{}/{map}", made.0.id()), "0 0 65536").unwrap();
        }
        made
    }

    /// Runs the program as the user `nobody` in the namespace.
    fn run(&self, ordinary: &Ordinary, arguments: &[&str]) -> Output {
        let forbid = "echo 0 > /proc/sys/user/max_user_namespaces && \
                      exec setpriv --reuid 65534 --regid 65534 --clear-groups \"$@\"";
        let pid = self.0.id().to_string();
        let enter =
            ["nsenter", "--user", "-t", &pid, "--setuid", "0", "--setgid", "0", "sh", "-c", forbid, "sh"];
        ordinary.command(&enter, arguments).output().unwrap()
    }
}

impl Drop for Forbidden {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn partition_without_user_namespaces_warns_in_validate_and_fails_in_run() {
    if !rustix::process::geteuid().is_root() {
        skipped("only root can forbid user namespaces");
        return;
    }
    let (ordinary, forbidden) = (Ordinary::new(), Forbidden::make());
    let why = "servers cannot be partitioned here: this needs root or a user namespace, but neither is available: \
               user namespaces are exhausted (sysctl user.max_user_namespaces)";
    // Given a scenario that is valid but cannot run here
    let valid = format!("the scenario is valid, but cannot run here: {why}");
    says(&forbidden.run(&ordinary, &["validate", "scenario.toml"]), 0, &valid);
    let validated = forbidden.run(&ordinary, &["validate", "scenario.toml", "--json"]);
    let shown: serde_json::Value = serde_json::from_str(&stdout(&validated)).unwrap();
    assert!(shown["not_here"].as_str().unwrap().starts_with(why), "{shown}");
    // When the scenario is run anyway
    says(&forbidden.run(&ordinary, &["run", "scenario.toml", "--data-dir", "data"]), 3, why);
    // Then nothing is started
    assert_eq!(std::fs::read_dir(ordinary.bench.path("data")).unwrap().count(), 0);
    assert!(!ordinary.bench.path("results").exists());
}
