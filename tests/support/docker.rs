//! Docker for tests: availability, a ZooKeeper image, and leftovers of runs.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::skip::skipped;

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

/// Every run starts by removing leftovers of killed runs, so a test of leftovers needs exclusive use of Docker.
static TURN: RwLock<()> = RwLock::new(());

/// Access to Docker, shared with other tests or exclusive.
pub struct Docker {
    pub zookeeper: String,
    turn: Turn,
}

enum Turn {
    Shared { _turn: RwLockReadGuard<'static, ()> },
    Alone { _turn: RwLockWriteGuard<'static, ()> },
}

impl Turn {
    fn shared() -> Self {
        Self::Shared { _turn: TURN.read().unwrap_or_else(PoisonError::into_inner) }
    }

    fn alone() -> Self {
        Self::Alone { _turn: TURN.write().unwrap_or_else(PoisonError::into_inner) }
    }
}

impl Docker {
    /// Lets other tests use Docker as well.
    pub fn share(self) -> Self {
        let Self { zookeeper, turn } = self;
        drop(turn);
        Self { zookeeper, turn: Turn::shared() }
    }
}

/// Docker with a ZooKeeper image. Skips the test and returns `None` if Docker or the image is missing.
pub fn available() -> Option<Docker> {
    image().map(|zookeeper| Docker { zookeeper, turn: Turn::shared() })
}

/// Like [`available`], with exclusive use.
pub fn available_alone() -> Option<Docker> {
    image().map(|zookeeper| Docker { zookeeper, turn: Turn::alone() })
}

fn image() -> Option<String> {
    if !works(&["version"]) {
        skipped("no Docker daemon is running; as root, ZKLOCKBENCH_START_DOCKER=1 scripts/test starts one");
        return None;
    }
    let made = || {
        let images =
            docker(&["image", "ls", "--format", "{{.Repository}}:{{.Tag}}", "zklockbench-zookeeper"]);
        images.lines().next().map(str::to_owned)
    };
    let official = || works(&["image", "inspect", "zookeeper:3.9"]).then(|| "zookeeper:3.9".to_owned());
    let image = std::env::var("ZOOKEEPER_IMAGE").ok().or_else(official).or_else(made);
    if image.is_none() {
        skipped("no ZooKeeper image found; build one with scripts/base-image");
    }
    image
}

/// Containers, networks and volumes of a Compose project.
pub fn of_project(project: &str) -> Vec<String> {
    let filter = format!("label=com.docker.compose.project={project}");
    let lists: [&[&str]; 3] = [&["ps", "--all"], &["network", "ls"], &["volume", "ls"]];
    let told = lists.map(|list| docker(&[list, &["--quiet", "--filter", &filter]].concat()));
    told.iter().flat_map(|told| told.lines().map(str::to_owned)).collect()
}

/// All unused volumes, because unnamed volumes have no project label. Some may belong to another run that is about
/// to remove them.
pub fn unused_volumes() -> BTreeSet<String> {
    let told = docker(&["volume", "ls", "--quiet", "--filter", "dangling=true"]);
    told.lines().map(str::to_owned).collect()
}

pub fn project_in(said: &str) -> String {
    let (_, rest) = said.split_once("(project ").unwrap_or_else(|| panic!("no project in: {said}"));
    rest.split(')').next().unwrap().to_owned()
}
