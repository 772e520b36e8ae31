//! `scripts/test` and Docker: nothing is started as root unless requested. The commands that would start it only record
//! their calls, and nothing is built.

use std::path::PathBuf;
use std::process::Command;

use crate::support::program::executable;

const ASK: &str = "ZKLOCKBENCH_START_DOCKER";

/// This machine with no Docker daemon, root as its user, and a cargo whose lane passes at once.
struct Machine {
    dir: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        let machine = Self { dir: tempfile::tempdir().unwrap() };
        let (called, lane) = (machine.path("called").display().to_string(), machine.path("lane"));
        let cargo = format!(
            "case $1 in --version) echo cargo 1.999.0;; \
             metadata) PATH=${{PATH#*:}}; exec cargo \"$@\";; \
             test) echo '  Executable tests/program/main.rs ({})';; esac",
            lane.display()
        );
        for (name, text) in [
            ("docker", "exit 1"),
            ("dockerd", &format!("echo called >>{called}; exit 1")),
            ("id", "echo 0"),
            ("cargo", &cargo),
            ("shellcheck", "exit 0"),
            ("lane", "echo 'test result: ok. 0 passed'"),
        ] {
            executable(&machine.path(name), format!("#!/bin/sh\n{text}\n"));
        }
        machine
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Output of a script, and whether a daemon was to be started.
    fn run(&self, script: &str, arguments: &[&str], asked: Option<&str>) -> (String, bool) {
        let path = std::env::var("PATH").unwrap();
        let mut command = Command::new(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(script));
        command.args(arguments).env("PATH", format!("{}:{path}", self.dir.path().display()));
        command.env("CARGO", self.path("cargo")).env("ZKLOCKBENCH_INSTALL", "no").env_remove(ASK);
        command.envs(asked.map(|value| (ASK, value)));
        let output = command.output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (String::from_utf8_lossy(&said).into_owned(), self.path("called").exists())
    }
}

#[test]
fn no_docker_daemon_is_started_unasked_and_the_variable_is_named() {
    let (said, started) = Machine::new().run("scripts/test", &["program"], None);
    assert!(!started, "{said}");
    assert!(said.contains("no Docker daemon runs") && said.contains(ASK), "{said}");
}

#[test]
fn a_requested_docker_daemon_is_announced_and_started() {
    let (said, started) = Machine::new().run("scripts/test", &["program"], Some("1"));
    assert!(started && said.contains("starting a Docker daemon as root"), "{said}");
}

#[test]
fn ci_requests_a_docker_daemon_unless_refused() {
    assert!(Machine::new().run(".ci/run", &[], None).1);
    assert!(!Machine::new().run(".ci/run", &[], Some("no")).1);
}
