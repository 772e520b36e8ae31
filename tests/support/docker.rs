//! Docker as tests use it: whether it is there, with which image of ZooKeeper, and what a run leaves on it.

#![allow(dead_code)] // each test binary uses a part
#![allow(clippy::print_stderr)] // who reads the output must learn what was not tested

use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Runs `docker` and returns what it said.
pub fn docker(arguments: &[&str]) -> String {
    let output = Command::new("docker").args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn works(arguments: &[&str]) -> bool {
    let mut command = Command::new("docker");
    command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Docker's containers share this machine, so tests with containers take turns.
static ALONE: Mutex<()> = Mutex::new(());

/// Docker, for one test at a time.
pub struct Docker {
    /// An image of a ZooKeeper server.
    pub zookeeper: String,
    _alone: MutexGuard<'static, ()>,
}

/// Docker with an image of ZooKeeper; `None`, and a word about it, where there is none.
pub fn available() -> Option<Docker> {
    if !works(&["version"]) {
        eprintln!("NOT TESTED: there is no Docker here, or its daemon does not run");
        return None;
    }
    let made = || {
        let images =
            docker(&["image", "ls", "--format", "{{.Repository}}:{{.Tag}}", "zklockbench-zookeeper"]);
        images.lines().next().map(str::to_owned)
    };
    let official = || works(&["image", "inspect", "zookeeper:3.9"]).then(|| "zookeeper:3.9".to_owned());
    let Some(zookeeper) = std::env::var("ZOOKEEPER_IMAGE").ok().or_else(official).or_else(made) else {
        eprintln!("NOT TESTED: there is no image of ZooKeeper here; scripts/base-image makes one");
        return None;
    };
    Some(Docker { zookeeper, _alone: ALONE.lock().unwrap_or_else(PoisonError::into_inner) })
}

/// All that Docker has of a Compose project: containers, networks, volumes.
pub fn of_project(project: &str) -> Vec<String> {
    let filter = format!("label=com.docker.compose.project={project}");
    let lists: [&[&str]; 3] = [&["ps", "--all"], &["network", "ls"], &["volume", "ls"]];
    let told = lists.map(|list| docker(&[list, &["--quiet", "--filter", &filter]].concat()));
    told.iter().flat_map(|told| told.lines().map(str::to_owned)).collect()
}

/// How many volumes there are, of whomever: those without a name bear no project's.
pub fn volumes() -> usize {
    docker(&["volume", "ls", "--quiet"]).lines().count()
}

/// The project of a run, by what it said.
pub fn project_in(said: &str) -> String {
    let (_, rest) = said.split_once("(project ").unwrap_or_else(|| panic!("no project in: {said}"));
    rest.split(')').next().unwrap().to_owned()
}
