//! `scripts/install` on a machine that lacks things: it says what it is going to install, and can be refused. Nothing is
//! installed by these tests: what would do it only writes down that it was called.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::support::program::stderr;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/install");
/// What the script itself uses.
const TOOLS: [&str; 12] =
    ["bash", "dirname", "sed", "sort", "id", "env", "mktemp", "rm", "cat", "uname", "cargo", "rustc"];

/// A machine of Debian's kind with nothing on its path but what the script uses.
struct Machine {
    dir: tempfile::TempDir,
}

impl Machine {
    fn bare() -> Self {
        let machine = Self { dir: tempfile::tempdir().unwrap() };
        let path = std::env::var_os("PATH").unwrap();
        for tool in TOOLS {
            let found =
                std::env::split_paths(&path).map(|place| place.join(tool)).find(|file| file.is_file());
            if let Some(found) = found {
                symlink(found, machine.path(tool)).unwrap();
            }
        }
        for installer in ["apt-get", "sudo"] {
            let text = format!("#!/bin/sh\necho \"$0 $*\" >> {}\n", machine.path("called").display());
            std::fs::write(machine.path(installer), text).unwrap();
            let executable = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(machine.path(installer), executable).unwrap();
        }
        machine
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn install(&self, arguments: &[&str], wanted: &str) -> Output {
        let mut command = Command::new(self.path("bash"));
        command.arg(SCRIPT).args(arguments).env("PATH", self.dir.path());
        command.env_remove("JAVA_HOME").env_remove("ZOOKEEPER_HOME").env("ZKLOCKBENCH_INSTALL", wanted);
        let output = command.output().unwrap();
        assert!(!Path::new(&self.path("called")).exists(), "{}", stderr(&output));
        output
    }
}

#[test]
fn what_is_missing_is_named_and_not_installed_where_that_is_refused() {
    let output = Machine::bare().install(&[], "no");
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(3), "{said}");
    for part in ["missing:", "Java 11 or newer", "default-jre-headless", "ZKLOCKBENCH_INSTALL=no"] {
        assert!(said.contains(part), "{part} is missing in:\n{said}");
    }
}

#[test]
fn only_what_is_to_be_done_is_installed_for() {
    let machine = Machine::bare();
    let of = |arguments: &[&str]| stderr(&machine.install(&[&["--dry-run"], arguments].concat(), ""));
    let (java, docker, python) = ("default-jre-headless", "docker.io", "python3");
    for (arguments, expected) in [
        (&["--to-build"][..], [false, false, false]),
        (&[], [true, false, false]),
        (&["--for-tests", "pure"], [false, false, true]),
        (&["--for-tests", "locks"], [true, false, true]),
        (&["--for-tests", "faults"], [true, false, false]),
        (&["--for-tests", "program"], [true, true, false]),
        (&["--for-tests"], [true, true, true]),
    ] {
        let said = of(arguments);
        assert_eq!(
            [java, docker, python].map(|package| said.contains(package)),
            expected,
            "{arguments:?}:\n{said}"
        );
    }
}
