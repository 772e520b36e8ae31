//! `scripts/test` and Docker: nothing is started as root unless requested. Commands that would start a daemon only
//! record their calls, and nothing is built.

use std::path::PathBuf;
use std::process::Command;

use crate::support::{program::executable, skip::skipped};

const ASK: &str = "ZKLOCKBENCH_START_DOCKER";

/// This machine with root as the user, no Docker daemon, a cargo that passes every lane immediately, and checks
/// that find nothing.
struct Machine {
    dir: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        let machine = Self { dir: tempfile::tempdir().unwrap() };
        let (called, lane) = (machine.path("called").display().to_string(), machine.path("lane"));
        let cargo = format!(
            "case $1 in --version) echo cargo 1.999.0;; \
             test) echo '  Executable tests/program/main.rs ({})';; esac",
            lane.display()
        );
        for (name, text) in [
            ("docker", "exit 1"),
            ("dockerd", &format!("echo called >>{called}; exit 1")),
            ("id", "echo 0"),
            ("cargo", &cargo),
            ("python3", "exit 0"),
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

    /// Runs a script. Returns its output, and whether the script started a daemon.
    fn run(&self, script: &str, arguments: &[&str], asked: Option<&str>) -> (String, bool) {
        let path = std::env::var("PATH").unwrap();
        let mut command = Command::new(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(script));
        command.args(arguments).env("PATH", format!("{}:{path}", self.dir.path().display()));
        command.env("ZKLOCKBENCH_JUNIT", self.path("junit")).env("RUST_BACKTRACE", "0");
        command.env("CARGO", self.path("cargo")).env("ZKLOCKBENCH_INSTALL", "no").env_remove(ASK);
        command.envs(asked.map(|value| (ASK, value)));
        let output = command.output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (String::from_utf8_lossy(&said).into_owned(), self.path("called").exists())
    }
}

#[test]
fn docker_daemon_is_not_started_unless_requested() {
    let (said, started) = Machine::new().run("scripts/test", &["program"], None);
    assert!(!started, "{said}");
    assert!(said.contains("no Docker daemon is running") && said.contains(ASK), "{said}");
}

#[test]
fn requested_docker_daemon_is_announced_and_started() {
    let (said, started) = Machine::new().run("scripts/test", &["program"], Some("1"));
    assert!(started && said.contains("starting a Docker daemon as root"), "{said}");
}

#[test]
fn ci_starts_a_docker_daemon_unless_disabled() {
    assert!(Machine::new().run(".ci/run", &[], None).1);
    assert!(!Machine::new().run(".ci/run", &[], Some("no")).1);
}

#[test]
fn test_results_are_streamed_and_written_as_junit() {
    let machine = Machine::new();
    let source = r#"
        #[test] fn passes() { std::thread::sleep(std::time::Duration::from_millis(100)) }
        #[test] #[ignore = "long: <why>"] fn takes_long() {}
        #[test] fn fails() { println!("test other ... ok\nfailures:\n\u{1b}[31mred]]>\u{1b}[0m & \u{2265}"); panic!() }
    "#;
    let name = machine.path("lane.rs");
    std::fs::write(&name, source).unwrap();
    let compiled =
        Command::new("rustc").arg("--test").arg(&name).arg("-o").arg(machine.path("lane")).status();
    assert!(compiled.unwrap().success());
    let (said, _) = machine.run("scripts/test", &["program"], None);
    assert!(said.contains("1 passed; 1 failed; 1 ignored"), "{said}");
    // Duration in the first line with this text, in seconds
    let seconds = |shown: &str| -> f64 {
        let (_, rest) = said.split_once(shown).unwrap_or_else(|| panic!("{shown}: {said}"));
        rest.split_once("s>").unwrap().0.parse().unwrap()
    };
    let passes = seconds("program: passes ... ok <");
    let fails = seconds("program: fails ... FAILED <");
    assert!(passes >= 0.1, "{said}");
    let file = machine.path("junit/program.xml");
    let xml = std::fs::read_to_string(&file).unwrap();
    let all = passes + fails;
    for expected in [
        r#"<skipped message="ignored, long: &lt;why&gt;"/>"#,
        &format!(
            r#"<testsuite name="program" tests="3" failures="1" errors="0" skipped="1" time="{all:.3}">"#
        ),
        &format!(r#"<testcase classname="program" name="passes" time="{passes:.3}">"#),
        "<failure>test other ... ok\n",
        "?[31mred]]&gt;?[0m &amp; \u{2265}",
    ] {
        assert!(xml.contains(expected), "{expected}: {xml}");
    }
    match Command::new("xmllint").arg("--noout").arg(&file).status() {
        Ok(status) => assert!(status.success(), "{xml}"),
        Err(_) => skipped("no xmllint (Debian: libxml2-utils)"),
    }
}

#[test]
fn lane_that_ends_early_is_reported_as_a_junit_error() {
    let machine = Machine::new();
    executable(
        &machine.path("lane"),
        "#!/bin/sh\necho; echo running 2 tests; echo 'test a ... ok <0.100s>'; kill -9 $$\n",
    );
    machine.run("scripts/test", &["program"], None);
    let xml = std::fs::read_to_string(machine.path("junit/program.xml")).unwrap();
    assert!(xml.contains(r#"tests="2" failures="0" errors="1""#) && xml.contains("ended early"), "{xml}");
}
