//! Runs the program as a user would.

use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use zklockbench_load::{Leftover, leftovers};
use zklockbench_record::Trial;
use zklockbench_zk::runtime;

use super::{json_schema::Schema, sessions::target, skip::skipped};

/// A working directory for one test, with directories for results, state, and local servers' data.
pub struct Bench {
    pub dir: tempfile::TempDir,
}

impl Bench {
    pub fn new() -> Self {
        super::calm::wait();
        let bench = Self { dir: tempfile::tempdir().unwrap() };
        std::fs::create_dir(bench.path("data")).unwrap();
        bench
    }

    /// A bench with this `scenario.toml`.
    pub fn with(scenario: &str) -> Self {
        let bench = Self::new();
        bench.scenario(scenario);
        bench
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn scenario(&self, text: &str) -> PathBuf {
        let path = self.path("scenario.toml");
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Runs a scenario with a driver that can cache files in the bench.
    pub fn run_driven(&self, name: &str, driver: &str, scenario: &str) -> Output {
        let driver = format!("{name}=env XDG_CACHE_HOME={} '{driver}'", self.path("cache").display());
        self.run_with(&[&driver], scenario, &[])
    }

    /// Runs a scenario on local servers with these drivers and additional arguments.
    pub fn run_with(&self, drivers: &[&str], scenario: &str, more: &[&str]) -> Output {
        self.scenario(scenario);
        let mut words = vec!["run", "scenario.toml", "--data-dir", "data", "--no-floor"];
        words.extend(drivers.iter().flat_map(|driver| ["--driver", driver]));
        words.extend(more);
        self.output(&words)
    }

    /// Command with this bench's directory and state. To save time, the command skips the servers' warm-up and the
    /// charts.
    pub fn command(&self, arguments: &[&str]) -> Command {
        self.command_of(env!("CARGO_BIN_EXE_zklockbench"), arguments)
    }

    pub fn command_of(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(self.dir.path());
        command.env("ZKLOCKBENCH_STATE_DIR", self.path("state")).env("ZKLOCKBENCH_COLD", "1");
        // Tests share ensembles, so other tests may saturate the servers.
        command.env("ZKLOCKBENCH_ALLOW_SATURATION", "1");
        command.env("ZKLOCKBENCH_NO_CHARTS", "1");
        command.env_remove("ZOOKEEPER_HOME").env_remove("ZKLOCKBENCH_AUTH").env("NO_COLOR", "1");
        command.env_remove("ZKLOCKBENCH_SASL_PASSWORD").env_remove("ZKLOCKBENCH_CONNECT");
        command
    }

    /// Command in a mount namespace with this text in a file such as /etc/hosts. Requires root.
    pub fn command_with_file(&self, file: &str, text: &str, arguments: &[&str]) -> Command {
        std::fs::write(self.path("mounted"), text).unwrap();
        let mount = format!("mount --bind \"$PWD/mounted\" {file} && exec \"$@\"");
        let program = env!("CARGO_BIN_EXE_zklockbench");
        self.command_of("unshare", &[&["-m", "sh", "-c", &mount, "sh", program][..], arguments].concat())
    }

    pub fn output(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Command for a line of arguments, as typed in a shell.
    pub fn typed(&self, line: &str) -> Command {
        let words = shlex::split(line).unwrap();
        self.command(&words.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// Runs a command line and asserts its exit code. Returns stdout and stderr.
    #[track_caller]
    pub fn ends(&self, code: i32, typed: &str) -> (String, String) {
        let output = self.typed(typed).output().unwrap();
        let (shown, said) = (stdout(&output), stderr(&output));
        assert_eq!(output.status.code(), Some(code), "{typed}: {said}{shown}");
        (shown, said)
    }

    /// Stdout of a command line that must succeed.
    #[track_caller]
    pub fn shows(&self, typed: &str) -> String {
        self.ends(0, typed).0
    }

    /// Stderr of a command line that must fail with a usage error.
    #[track_caller]
    pub fn refuses(&self, typed: &str) -> String {
        self.ends(2, typed).1
    }

    /// Runs a command line that must complete without a violation, like [`went_through`].
    pub fn completes(&self, typed: &str) -> Output {
        let output = self.typed(typed).output().unwrap();
        went_through(&output);
        output
    }

    /// Runs a command line that prints JSON, and asserts its exit code.
    #[track_caller]
    pub fn json(&self, code: i32, typed: &str) -> Value {
        serde_json::from_str(&self.ends(code, typed).0).unwrap()
    }

    pub fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// Exit code, stderr and stdout. `BENCH` and `ROOT` replace the paths of this bench and of the repository.
    pub fn told(&self, output: &Output) -> String {
        let told = format!("exit {}\n{}{}", output.status.code().unwrap(), stderr(output), stdout(output));
        let here = self.dir.path();
        let told = told.replace(&here.canonicalize().unwrap().display().to_string(), "BENCH");
        let told = told.replace(&here.display().to_string(), "BENCH");
        let told = told.replace(env!("CARGO_MANIFEST_DIR"), "ROOT");
        told.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
    }

    pub fn drawn(&self, arguments: &[&str]) -> Output {
        self.command(arguments).env_remove("ZKLOCKBENCH_NO_CHARTS").output().unwrap()
    }

    pub fn spawn(&self, arguments: &[&str]) -> Child {
        self.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Starts the program and collects its stderr.
    pub fn watch(&self, arguments: &[&str]) -> Watched {
        self.listen(self.command(arguments))
    }

    /// Like [`Bench::watch`], for a command built elsewhere.
    pub fn listen(&self, mut command: Command) -> Watched {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let said = Arc::new(Mutex::new(String::new()));
        let heard = Arc::clone(&said);
        let listener = std::thread::spawn(move || {
            let mut line = String::new();
            while stderr.read_line(&mut line).is_ok_and(|read| read > 0) {
                heard.lock().unwrap().push_str(&line);
                line.clear();
            }
        });
        Watched { child, said, listener }
    }

    pub fn log(&self) -> std::fs::File {
        std::fs::File::create(self.path("said.log")).unwrap()
    }

    pub fn logged(&self) -> String {
        std::fs::read_to_string(self.path("said.log")).unwrap_or_default()
    }

    /// Complete run directories, that is, directories that are not hidden.
    pub fn results(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.path("results")).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| !hidden(path)).collect()
    }

    /// The stored run in the only run directory.
    pub fn stored(&self) -> zklockbench_results::StoredRun {
        let results = self.results();
        assert_eq!(results.len(), 1, "{results:?}");
        zklockbench_results::read(&results[0]).unwrap()
    }

    /// Process ids of servers with data in this bench.
    pub fn servers(&self) -> Vec<u32> {
        let own = self.dir.path().canonicalize().unwrap().display().to_string();
        processes("cmdline", |command| command.contains("QuorumPeerMain") && command.contains(&own))
    }

    /// Process ids of everything that was started in this bench, recognised by the environment.
    pub fn family(&self) -> Vec<u32> {
        let own = format!("ZKLOCKBENCH_STATE_DIR={}", self.path("state").display());
        processes("environ", |variables| variables.split('\0').any(|variable| variable == own))
    }

    /// A directory like an unpacked ZooKeeper release, with links to this system's jars.
    pub fn release(&self) -> PathBuf {
        let release = self.path("release");
        std::fs::create_dir_all(release.join("lib")).unwrap();
        for (jar, name) in
            [("zookeeper.jar", "zookeeper-3.8.0.jar"), ("slf4j-simple.jar", "slf4j-simple.jar")]
        {
            symlink(Path::new("/usr/share/java").join(jar), release.join("lib").join(name)).unwrap();
        }
        release
    }
}

/// Process ids whose file in `/proc` matches `is`.
fn processes(file: &str, is: impl Fn(&str) -> bool) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid: &u32| {
        let bytes = std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        is(&String::from_utf8_lossy(&bytes))
    })
    .collect()
}

/// Kills servers that a failed test left behind.
impl Drop for Bench {
    fn drop(&mut self) {
        let pids = self.servers().into_iter().filter_map(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
        for pid in pids {
            // The server may have just exited.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// Validates the output of `--json` against the published schema.
pub struct Answers(Schema);

impl Answers {
    pub fn of(bench: &Bench) -> Self {
        Self(Schema::new(&bench.json(0, "schema answer")))
    }

    pub fn complaints(&self, answer: &Value) -> Vec<String> {
        self.0.complaints(answer)
    }
}

/// A running program with its collected stderr.
pub struct Watched {
    child: Child,
    said: Arc<Mutex<String>>,
    listener: JoinHandle<()>,
}

impl Watched {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn has_said(&self, what: &str) -> bool {
        self.said.lock().unwrap().contains(what)
    }

    /// Text after `what` in the first complete line that contains `what`.
    pub fn says_after(&self, what: &str) -> Option<String> {
        let said = self.said.lock().unwrap();
        let (_, rest) = said.split_once(what)?;
        rest.split_once('\n').map(|(line, _)| line.trim().to_owned())
    }

    /// Waits until the program exits, and returns its exit code and stderr.
    pub fn end(mut self) -> (Option<i32>, String) {
        let status = self.child.wait().unwrap();
        self.listener.join().unwrap();
        (status.code(), Arc::into_inner(self.said).unwrap().into_inner().unwrap())
    }
}

pub fn walk(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}

fn hidden(path: &Path) -> bool {
    path.file_name().unwrap().to_string_lossy().starts_with('.')
}

/// Writes an executable file in another process. Otherwise, another thread's child could inherit the open file, and
/// running the file would fail with "text file busy".
pub fn executable(path: &Path, content: impl AsRef<[u8]>) {
    let mut command = Command::new("install");
    command.args(["-m", "755", "/dev/stdin"]).arg(path).stdin(Stdio::piped());
    let mut install = command.spawn().unwrap();
    install.stdin.take().unwrap().write_all(content.as_ref()).unwrap();
    assert!(install.wait().unwrap().success(), "{}", path.display());
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|why| panic!("{why}: {}", stderr(output)))
}

/// Asserts that a text contains all of these parts.
#[track_caller]
pub fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "`{part}` is missing from:\n{text}");
    }
}

/// Asserts a program's exit code and a part of its stderr.
#[track_caller]
pub fn says(output: &Output, code: i32, part: &str) {
    let said = stderr(output);
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert!(said.contains(part), "`{part}` is missing from: {said}");
}

/// Asserts that a run exited with 0, or with 4 because the host was too busy for a trial.
pub fn held_unless_the_host_was_busy(output: &Output, trials: &[Trial]) {
    let is_spoiled = |trial: &Trial| {
        let reasons = trial.judged.verdict.reasons();
        trial.health.invalid.is_some() || reasons.iter().any(|why| why.contains("too little evidence"))
    };
    match output.status.code() {
        Some(0) => {}
        Some(4) if trials.iter().any(is_spoiled) => {}
        _ => panic!("{}", stderr(output)),
    }
}

/// Asserts that a run completed without a violation, for tests that do not require a verdict. On a slow host,
/// the verdict may be unknown.
pub fn went_through(output: &Output) {
    assert!(matches!(output.status.code(), Some(0 | 4)), "{}", stderr(output));
}

/// Maximum factor by which a busy host is slower than an idle host.
const BUSY_HOST: u32 = 10;

/// Waits until a condition holds. Panics after ten times `within`, the expected delay on an idle host.
pub fn eventually(what: &str, within: Duration, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + BUSY_HOST * within;
    while !is_so() {
        assert!(Instant::now() < deadline, "not within {BUSY_HOST} * {within:?}: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub fn signal(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

pub struct Ended {
    pub code: Option<i32>,
    pub said: String,
    /// Processor time, which is independent of other programs on the host.
    pub worked: Duration,
    /// Peak resident memory in KiB.
    pub resident_kb: u64,
}

/// Runs a command; kills it after five minutes.
pub fn measured(command: Command) -> Ended {
    measured_within(command, Duration::from_secs(300))
}

/// Runs a command; kills it after `limit`.
pub fn measured_within(mut command: Command, limit: Duration) -> Ended {
    let began = Instant::now();
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    // Read the pipe while the process runs, because a full pipe would block the process.
    let mut stderr = child.stderr.take().unwrap();
    let listener = std::thread::spawn(move || {
        let mut said = Vec::new();
        stderr.read_to_end(&mut said).map(|_| said)
    });
    let (mut resident_kb, mut worked) = (0, Duration::ZERO);
    let (status, stat) = (format!("/proc/{}/status", child.id()), format!("/proc/{}/stat", child.id()));
    while child.try_wait().unwrap().is_none() {
        worked = worked.max(processor_time(&std::fs::read_to_string(&stat).unwrap_or_default()));
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let peak = text
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next()?.parse().ok());
        resident_kb = resident_kb.max(peak.unwrap_or(0));
        if began.elapsed() > limit {
            child.kill().unwrap();
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let code = child.wait().unwrap().code();
    let said = String::from_utf8_lossy(&listener.join().unwrap().unwrap()).into_owned();
    Ended { code, said, worked, resident_kb }
}

/// User and system time from a process's `stat`, in ticks of 10 ms.
fn processor_time(stat: &str) -> Duration {
    let after_name = stat.rsplit_once(')').map_or("", |(_, after)| after);
    let ticks = after_name.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok());
    Duration::from_millis(10 * ticks.sum::<u64>())
}

/// Leftovers of runs on an ensemble.
pub fn left_on(connect: &str) -> Vec<Leftover> {
    runtime::block_on(leftovers(&target(connect))).unwrap()
}

/// A small in-memory file system, unmounted when dropped.
pub struct SmallDisk(pub PathBuf);

impl SmallDisk {
    /// Mounts the disk. Skips the test and returns `None` if mounting fails, as it does without root.
    pub fn mount(at: PathBuf, size: &str) -> Option<Self> {
        std::fs::create_dir_all(&at).unwrap();
        if !mounted(&format!("size={size}"), &at) {
            skipped("cannot mount a tmpfs without root");
            return None;
        }
        Some(Self(at))
    }

    pub fn grow(&self, size: &str) {
        assert!(mounted(&format!("remount,size={size}"), &self.0));
    }
}

fn mounted(options: &str, at: &Path) -> bool {
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(at);
    mount.output().is_ok_and(|output| output.status.success())
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
