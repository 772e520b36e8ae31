//! Contenders in other languages: Curator (Java) and kazoo (Python), from Debian's packages.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use tempfile::TempDir;
use zklockbench_zk::runtime;

use crate::support::skip;

const JARS: &str = "/usr/share/java";
const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/interop");
/// Time limit for any step of a foreign contender.
const LONG: Duration = Duration::from_secs(60);

/// Command that runs a class of `tests/interop`. All classes are compiled on the first call.
pub fn java(class: &str) -> Command {
    static CLASSES: OnceLock<TempDir> = OnceLock::new();
    let class_path =
        |classes: &Path| format!("{JARS}/curator-recipes.jar:{JARS}/slf4j-nop.jar:{}", classes.display());
    let classes = CLASSES.get_or_init(|| {
        let classes = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let sources = std::fs::read_dir(PROGRAMS).unwrap().map(|entry| entry.unwrap().path());
        let mut compiler = Command::new("javac");
        compiler.args(["-cp", &class_path(classes.path()), "-d"]).arg(classes.path());
        compiler.args(sources.filter(|path| path.extension().is_some_and(|extension| extension == "java")));
        let compiled = compiler.status().expect("no javac; run scripts/install --for-tests");
        assert!(compiled.success(), "tests/interop does not compile");
        classes
    });
    let mut command = Command::new("java");
    command.args(["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp"]);
    command.arg(class_path(classes.path())).arg(class);
    command
}

/// Curator's major and minor version.
pub fn curators_version() -> (u32, u32) {
    let names = std::fs::read_dir(JARS).unwrap().map(|entry| entry.unwrap().file_name());
    let version = names.filter_map(|name| {
        let name = name.into_string().ok()?;
        numbers(name.strip_prefix("curator-recipes-")?)
    });
    version.max().expect("no Curator; run scripts/install --for-tests")
}

pub fn python() -> Option<&'static str> {
    let has_kazoo = |python: &&str| {
        let mut command = Command::new(python);
        command.args(["-c", "import kazoo"]).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    let found = ["python3", "/usr/bin/python3"].into_iter().find(has_kazoo);
    let can_be_installed = Path::new("/usr/bin/apt-get").exists();
    assert!(found.is_some() || !can_be_installed, "no kazoo; run scripts/install --for-tests");
    if found.is_none() {
        skip::skipped("kazoo is not installed for this machine's Python");
    }
    found
}

/// Driver for kazoo's locks.
pub const KAZOO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/drivers/kazoo/run");
/// Driver for Curator's locks. It compiles itself into `XDG_CACHE_HOME`.
pub const CURATOR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/drivers/curator/run");

/// Value of `--driver` for kazoo. Skips the test and returns `None` if kazoo is missing.
pub fn kazoo() -> Option<String> {
    python().map(|python| format!("kazoo={python} '{KAZOO}'"))
}

/// Value of `--driver` for Curator, with this cache. Skips the test and returns `None` if Curator is missing.
pub fn curator(cache: &Path) -> Option<String> {
    if !Path::new(JARS).join("curator-recipes.jar").exists() {
        skip::skipped(format!("Curator not found in {JARS}"));
        return None;
    }
    Some(format!("curator=env XDG_CACHE_HOME={} '{CURATOR}'", cache.display()))
}

/// Returns whether Node.js finds its ZooKeeper client, e.g. in `NODE_PATH`.
pub fn has_node_client() -> bool {
    let mut node = Command::new("node");
    node.args(["-p", "require.resolve('node-zookeeper-client')"]).stdout(Stdio::null()).stderr(Stdio::null());
    node.status().is_ok_and(|status| status.success())
}

/// Command that runs a script of `tests/interop`.
pub fn script(python: &str, name: &str) -> Command {
    let mut command = Command::new(python);
    command.arg(format!("{PROGRAMS}/{name}"));
    command
}

/// kazoo's major and minor version.
pub fn kazoos_version(python: &str) -> (u32, u32) {
    let print = "import kazoo.version; print(kazoo.version.__version__)";
    let output = Command::new(python).args(["-c", print]).output().unwrap();
    numbers(std::str::from_utf8(&output.stdout).unwrap()).unwrap()
}

fn numbers(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split('.').map(str::parse);
    Some((parts.next()?.ok()?, parts.next()?.ok()?))
}

/// A process that is killed when dropped.
pub struct Bounded(pub Child);

impl Drop for Bounded {
    fn drop(&mut self) {
        // Fails only if the process has already exited.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A process that reads commands and prints results, line by line.
pub struct Obedient {
    process: Bounded,
    told: ChildStdin,
    said: Arc<Mutex<Vec<String>>>,
    listener: JoinHandle<()>,
}

impl Obedient {
    /// Starts a process and collects its output.
    pub fn start(mut command: Command) -> Self {
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let told = process.stdin.take().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let said = Arc::<Mutex<Vec<String>>>::default();
        let heard = Arc::clone(&said);
        let listener = std::thread::spawn(move || {
            lines.map_while(Result::ok).for_each(|line| heard.lock().unwrap().push(line));
        });
        Self { process: Bounded(process), told, said, listener }
    }

    /// Closes the process's input, waits until the process succeeds, and returns its output.
    pub fn end(self) -> String {
        let Self { mut process, told, said, listener } = self;
        drop(told);
        assert!(process.0.wait().unwrap().success());
        listener.join().unwrap();
        let said = said.lock().unwrap();
        said.join("\n")
    }

    pub async fn ready(command: Command) -> Self {
        let process = Self::start(command);
        process.says("ready").await;
        process
    }

    pub fn tell(&mut self, line: &str) {
        writeln!(self.told, "{line}").unwrap();
    }

    pub fn has_said(&self, line: &str) -> bool {
        self.said.lock().unwrap().iter().any(|said| said == line)
    }

    pub async fn says(&self, line: &str) {
        let said = runtime::timeout(LONG, async {
            while !self.has_said(line) {
                runtime::sleep(Duration::from_millis(2)).await;
            }
        });
        assert!(said.await.is_some(), "expected output {line:?}, found {:?}", self.said.lock().unwrap());
    }

    /// Sends a command, and waits for this line of output.
    pub async fn obeys(&mut self, line: &str, answer: &str) {
        self.tell(line);
        self.says(answer).await;
    }
}
