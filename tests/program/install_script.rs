//! `scripts/install` on a machine with missing packages: the script announces what it will install, and the user
//! can refuse. These tests install nothing, because the commands that would install packages only record their
//! calls.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::support::program::{executable, says, stderr};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/install");
/// Commands that the script itself uses.
const TOOLS: &str = "bash dirname sed sort id env mktemp rm cat uname cargo rustc tar cut tr grep sha512sum shasum \
    mkdir mv ln readlink";

/// A Debian machine whose PATH contains only the commands used by the script.
struct Machine {
    dir: tempfile::TempDir,
}

impl Machine {
    fn bare() -> Self {
        let machine = Self { dir: tempfile::tempdir().unwrap() };
        let path = std::env::var_os("PATH").unwrap();
        for tool in TOOLS.split(' ') {
            let found =
                std::env::split_paths(&path).map(|place| place.join(tool)).find(|file| file.is_file());
            if let Some(found) = found {
                symlink(found, machine.path(tool)).unwrap();
            }
        }
        for installer in ["apt-get", "sudo"] {
            let text = format!("#!/bin/sh\necho \"$0 $*\" >> {}\n", machine.path("called").display());
            executable(&machine.path(installer), text);
        }
        machine
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn install(&self, arguments: &[&str], wanted: &str) -> Output {
        self.install_with(None, arguments, wanted)
    }

    fn install_with(&self, java_home: Option<&Path>, arguments: &[&str], wanted: &str) -> Output {
        let mut command = Command::new(self.path("bash"));
        command.arg(SCRIPT).args(arguments).env("PATH", self.dir.path());
        command.env_remove("JAVA_HOME").env_remove("ZOOKEEPER_HOME").env("ZKLOCKBENCH_INSTALL", wanted);
        command.env("ZKLOCKBENCH_STATE_DIR", self.path("state"));
        command.envs(java_home.map(|home| ("JAVA_HOME", home)));
        let output = command.output().unwrap();
        assert!(!Path::new(&self.path("called")).exists(), "{}", stderr(&output));
        output
    }
}

#[test]
fn install_lists_missing_packages_and_installs_none_if_refused() {
    let output = Machine::bare().install(&[], "no");
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(3), "{said}");
    for part in ["missing:", "Java 11 or newer", "default-jre-headless", "ZKLOCKBENCH_INSTALL=no"] {
        assert!(said.contains(part), "{part} is missing from:\n{said}");
    }
}

#[test]
fn install_names_java_home_if_its_java_is_too_old() {
    let machine = Machine::bare();
    let home = machine.path("jdk8");
    std::fs::create_dir_all(home.join("bin")).unwrap();
    executable(&home.join("bin/java"), "#!/bin/sh\necho 'openjdk version \"1.8.0_392\"' >&2\n");
    let said = stderr(&machine.install_with(Some(&home), &["--to-run"], "no"));
    let expected = format!("Java 11 or newer (correct or unset JAVA_HOME={}, which takes", home.display());
    assert!(said.contains(&expected), "{said}");
}

#[test]
fn install_selects_only_packages_for_the_requested_task() {
    let machine = Machine::bare();
    let of = |arguments: &[&str]| stderr(&machine.install(&[&["--dry-run"], arguments].concat(), ""));
    let (java, docker, python, compiler) = ("default-jre-headless", "docker.io", "python3", "gcc");
    for (arguments, expected) in [
        (&["--to-build"][..], [false, false, false, true]),
        (&["--to-run"], [true, false, false, false]),
        (&[], [true, false, false, true]),
        (&["--for-tests", "pure"], [false, false, true, true]),
        (&["--for-tests", "locks"], [true, false, true, true]),
        (&["--for-tests", "faults"], [true, false, false, true]),
        (&["--for-tests", "program"], [true, true, false, true]),
        (&["--for-tests"], [true, true, true, true]),
    ] {
        let said = of(arguments);
        let found = [java, docker, python, compiler].map(|package| said.contains(package));
        assert_eq!(found, expected, "{arguments:?}:\n{said}");
    }
}

/// Returns a member of a tarball with this name and type (`0` for a file, `2` for a link).
fn member(name: &str, kind: u8) -> Vec<u8> {
    let mut header = vec![0; 512];
    let mut put = |at: usize, text: &str| header[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, name);
    put(100, "0000644");
    put(108, "0000000");
    put(116, "0000000");
    put(124, "00000000000");
    put(136, "00000000000");
    put(148, "        ");
    put(257, "ustar");
    put(263, "00");
    if kind == b'2' {
        put(157, "/etc");
    }
    header[156] = kind;
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    header
}

const JAR: (&str, u8) = ("release/lib/zookeeper-3.9.4.jar", b'0');

fn tarball(machine: &Machine, members: &[(&str, u8)]) -> PathBuf {
    let path = machine.path("release.tar");
    let mut bytes: Vec<u8> = members.iter().flat_map(|(name, kind)| member(name, *kind)).collect();
    bytes.resize(bytes.len() + 1024, 0);
    std::fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn install_uses_a_release_from_a_tarball_or_directory() {
    let machine = Machine::bare();
    let release = tarball(&machine, &[JAR]);
    let said = stderr(&machine.install(&["--zookeeper", release.to_str().unwrap()], "no"));
    let link = machine.path("state/zookeeper");
    assert!(said.contains("local servers now use ZooKeeper 3.9.4") && said.contains("digest"), "{said}");
    assert!(link.join("lib/zookeeper-3.9.4.jar").is_file(), "{said}");
    // Then ZooKeeper is no longer missing
    assert!(!said.contains("ZooKeeper's jars"), "{said}");
    // And another release replaces the first one
    let other = machine.path("other");
    std::fs::create_dir_all(other.join("lib")).unwrap();
    std::fs::write(other.join("lib/zookeeper-3.8.4.jar"), "").unwrap();
    machine.install(&["--zookeeper", other.to_str().unwrap()], "no");
    assert_eq!(link.canonicalize().unwrap(), other.canonicalize().unwrap());
    // And when this release is gone, no other release is used instead
    std::fs::remove_dir_all(&other).unwrap();
    says(&machine.install(&[], "no"), 3, "the installed release is gone");
}

#[test]
fn install_rejects_invalid_or_modified_tarballs() {
    let refused = |machine: &Machine, release: &Path, why: &str| {
        let output = machine.install(&["--zookeeper", release.to_str().unwrap()], "no");
        let said = stderr(&output);
        assert!(output.status.code() == Some(2) && said.contains(why), "{why}: {said}");
        assert!(!machine.path("state").exists() && !machine.path("evil").exists(), "{why}: {said}");
    };
    for (member, why) in [
        (("release/../../evil", b'0'), "outside its own directory"),
        (("/evil", b'0'), "outside its own directory"),
        (("release/conf", b'2'), "links or devices"),
        (("elsewhere/evil", b'0'), "not in one directory"),
    ] {
        let machine = Machine::bare();
        refused(&machine, &tarball(&machine, &[JAR, member]), why);
    }
    let machine = Machine::bare();
    refused(&machine, &tarball(&machine, &[("release/pom.xml", b'0')]), "-bin");
    let release = tarball(&machine, &[JAR]);
    for (digest, why) in
        [("0".repeat(128), "digest does not match"), ("none".into(), "does not contain its SHA-512 digest")]
    {
        std::fs::write(machine.path("release.tar.sha512"), format!("{digest}  release.tar\n")).unwrap();
        refused(&machine, &release, why);
    }
    std::fs::write(machine.path("release.tar"), "not one").unwrap();
    std::fs::remove_file(machine.path("release.tar.sha512")).unwrap();
    refused(&machine, &release, "not a valid tarball");
}
