//! The program as a user runs it.

#![allow(dead_code)] // each test binary uses a part

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A place of its own for one test: results, data of local servers, state.
pub struct Bench {
    pub dir: tempfile::TempDir,
}

impl Bench {
    pub fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a scenario file.
    pub fn scenario(&self, text: &str) -> PathBuf {
        let path = self.path("scenario.toml");
        std::fs::write(&path, text).unwrap();
        path
    }

    /// The program with this bench's state, in this bench's directory.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zklockbench"));
        command.args(arguments).current_dir(self.dir.path());
        command.env("ZKLOCKBENCH_STATE_DIR", self.path("state"));
        command.env_remove("ZOOKEEPER_HOME").env_remove("ZKLOCKBENCH_AUTH").env("NO_COLOR", "1");
        command
    }

    pub fn output(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    pub fn spawn(&self, arguments: &[&str]) -> Child {
        self.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// The run directories that look whole.
    pub fn results(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.path("results")).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| !hidden(path)).collect()
    }

    /// The only run directory, read back.
    pub fn stored(&self) -> zklockbench::results::StoredRun {
        let results = self.results();
        assert_eq!(results.len(), 1, "{results:?}");
        zklockbench::results::read(&results[0]).unwrap()
    }

    /// Process ids of servers whose data lie in this bench.
    pub fn servers(&self) -> Vec<u32> {
        let own = self.dir.path().canonicalize().unwrap().display().to_string();
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter(|pid: &u32| {
            let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let command = String::from_utf8_lossy(&command);
            command.contains("QuorumPeerMain") && command.contains(&own)
        })
        .collect()
    }

    /// The client ports of servers whose data lie in this bench.
    pub fn client_ports(&self) -> Vec<u16> {
        let servers = walk(self.dir.path()).into_iter().filter(|path| path.ends_with("zoo.cfg"));
        let text = servers.filter_map(|path| std::fs::read_to_string(path).ok());
        text.filter_map(|text| text.lines().find_map(|line| line.strip_prefix("clientPort=")?.parse().ok()))
            .collect()
    }
}

/// Every file below a directory.
fn walk(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}

fn hidden(path: &Path) -> bool {
    path.file_name().unwrap().to_string_lossy().starts_with('.')
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Waits until something is true; fails with its name when it takes too long.
pub fn eventually(what: &str, within: Duration, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + within;
    while !is_so() {
        assert!(Instant::now() < deadline, "not within {within:?}: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Sends a signal to a process.
pub fn signal(pid: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}
