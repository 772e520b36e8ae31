//! A series of runs in one directory. Each run is a child process, and is listed in `series.json` when it
//! ends. Children get SIGTERM when the user stops the series, and are killed if this process dies.
//!
//! A resumed series requests the same runs in the same order, and skips runs that are already listed.

#![expect(
    clippy::disallowed_methods,
    reason = "the start time is only a label, the duration is only shown, and deadlines are not measurements"
)]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tracing::info;

use zklockbench_core::clock::micros;
use zklockbench_core::disk::{self, MIB};
use zklockbench_core::error::Error;
use zklockbench_core::units::as_utc;
use zklockbench_ensemble::spawn_mortal;
use zklockbench_results::{VersionedFile, layout};

/// Directories of a series, with the name of the directory for the runs' results.
#[derive(Debug, Clone, Copy)]
pub enum Layout {
    /// Output and scenarios are in separate directories. Run names are unique across series, because nodes on a shared
    /// ensemble have these names.
    Separate(&'static str),
    /// Output and scenarios are next to the results.
    Together(&'static str),
}

/// Interval for polling whether a run has ended, long enough not to disturb the run.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Time limit for a run to end after SIGTERM.
const ENDS_WITHIN: Duration = Duration::from_secs(60);

const FILE: VersionedFile = VersionedFile {
    of: "series of runs",
    name: "series.json",
    version: 1,
    remedy: "the file is incomplete or damaged: start over without --resume",
};

/// Name of a new series' directory.
#[derive(Debug, Clone, Copy)]
pub enum Name<'a> {
    /// A name to which the time is appended.
    Dated(&'a str),
    Exactly(&'a str),
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct SeriesFile {
    schema_version: u32,
    tool_version: String,
    command: String,
    asked: Value,
    #[serde(with = "as_utc")]
    started_at: SystemTime,
    /// Time spent so far, in microseconds, including all parts of a resumed series.
    spent_us: u64,
    resumed_after: Vec<usize>,
    runs: BTreeMap<String, ListedRun>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct ListedRun {
    directory: String,
    exit_code: Option<i32>,
    took_us: u64,
    /// Information about the run that the command needs when the series is resumed.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    note: Value,
}

pub struct Series {
    path: PathBuf,
    runs: &'static str,
    /// Names of the directories for the runs' output and scenarios.
    logs: &'static str,
    scenarios: &'static str,
    /// Lock held while the series runs; `None` on file systems without locks.
    _lock: Option<File>,
    file: SeriesFile,
    spent_before: u64,
    began: Instant,
    /// Prefix of run names.
    prefix: String,
    /// Whether no run has started. If so, dropping the series removes its directory.
    is_new: bool,
}

/// A finished run of this or an earlier part of the series.
pub struct DoneRun {
    /// Directory of the results; missing if the run left none.
    pub directory: PathBuf,
    /// Exit code; `None` if a signal ended the run.
    pub code: Option<i32>,
    pub took: Duration,
    pub said: PathBuf,
}
impl DoneRun {
    pub fn how(&self) -> String {
        self.code.map_or_else(|| "killed by a signal".to_owned(), |code| format!("exit code {code}"))
    }
    pub fn results(&self, run: &str, server: Option<String>) -> Result<&Path, Error> {
        match self.directory.is_dir() {
            true => Ok(&self.directory),
            false => Err(self.without_results(run, server)),
        }
    }

    pub fn without_results(&self, run: &str, server: Option<String>) -> Error {
        let server = server.map_or_else(String::new, |server| format!("; {server}"));
        let (how, file, last) = (self.how(), self.said.display(), self.last_words());
        Error::environment(format!("{run} left no results ({how}){server}; last lines of {file}:\n  {last}"))
    }

    pub fn last_words(&self) -> String {
        let text = fs::read_to_string(&self.said).unwrap_or_default();
        let lines = text.lines().filter(|line| !line.trim().is_empty());
        // The lines become part of an error message that already starts with `error: `.
        let lines: Vec<&str> = lines.map(|line| line.strip_prefix("error: ").unwrap_or(line)).collect();
        lines[lines.len().saturating_sub(3)..].join("\n  ")
    }
}

impl Series {
    /// Creates a series of `command` in `parent`, or opens the series in `resume`. `asked` must be the same when the
    /// series is resumed.
    pub fn open(
        command: &'static str,
        directories: Layout,
        parent: &Path,
        name: Name<'_>,
        resume: Option<&Path>,
        asked: Value,
    ) -> Result<Self, Error> {
        let (runs, logs, scenarios, prefix) = match directories {
            Layout::Separate(runs) => {
                (runs, "logs", "scenarios", format!("{command}-{:08x}-", rand::random::<u32>()))
            }
            Layout::Together(runs) => (runs, runs, runs, String::new()),
        };
        let (path, file) = match resume {
            Some(path) => {
                let mut file = listed(path, command, &asked)?;
                file.resumed_after.push(file.runs.len());
                (path.to_owned(), file)
            }
            None => {
                let file = begun(command, asked, SystemTime::now());
                let path = match name {
                    Name::Dated(name) => zklockbench_results::create_dated(parent, name, file.started_at)?,
                    Name::Exactly(name) => created(parent, name)?,
                };
                (path, file)
            }
        };
        let mut series = Self {
            is_new: resume.is_none(),
            _lock: lock(&path)?,
            path,
            runs,
            logs,
            scenarios,
            spent_before: file.spent_us,
            began: Instant::now(),
            file,
            prefix,
        };
        [runs, logs, scenarios, layout::SERVER_LOGS].iter().try_for_each(|name| series.check(name))?;
        // Write the list before anything runs, so a killed series can be resumed.
        series.write()?;
        Ok(series)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Rejects a path that is not a directory, such as a symbolic link. Accepts a missing path.
    fn check(&self, folder: &str) -> Result<(), Error> {
        let path = self.path.join(folder);
        match path.symlink_metadata() {
            Ok(found) if !found.is_dir() => Err(Error::usage(format!(
                "{} is not a directory (symbolic links are not followed): restore the directory from a copy, \
                 or start over without --resume",
                path.display()
            ))),
            _ => Ok(()),
        }
    }

    fn folder(&self, name: &str) -> Result<PathBuf, Error> {
        let path = self.path.join(name);
        fs::create_dir_all(&path).map_err(Error::cannot("create", &path))?;
        Ok(path)
    }

    fn said(&self, name: &str) -> Result<PathBuf, Error> {
        Ok(self.folder(self.logs)?.join(format!("{name}.txt")))
    }

    pub fn started_at(&self) -> SystemTime {
        self.file.started_at
    }

    /// Returns the time spent so far, including earlier parts of the series.
    pub fn spent(&self) -> Duration {
        Duration::from_micros(self.spent_before).saturating_add(self.began.elapsed())
    }

    pub fn count(&self) -> usize {
        self.file.runs.len()
    }

    pub fn resumed_after(&self) -> &[usize] {
        &self.file.resumed_after
    }

    pub fn has(&self, key: &str) -> bool {
        self.file.runs.contains_key(key)
    }

    /// Returns the keys of the listed runs.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.file.runs.keys().map(String::as_str)
    }

    /// Returns the note of a listed run.
    pub fn note<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, Error> {
        let note = self.file.runs.get(key).map(|run| T::deserialize(&run.note)).transpose();
        note.map_err(|why| FILE.broken(&self.path.join(FILE.name), &format!("the note of run {key}: {why}")))
    }

    /// Removes runs from the list, but not their directories, so the runs are repeated. Must be called before
    /// any run.
    pub fn forget(&mut self, is: impl Fn(&str) -> bool) {
        self.file.runs.retain(|key, _| !is(key));
        let count = self.count();
        self.file.resumed_after.last_mut().into_iter().for_each(|after| *after = count);
    }

    pub fn keep(&mut self) {
        self.is_new = false;
    }

    /// Writes a run's scenario and returns the file's path. Fails if the run has already ended with another
    /// scenario.
    pub fn scenario(&self, key: &str, text: &str) -> Result<PathBuf, Error> {
        let name = format!("{key}.toml");
        if !self.has(key) {
            let file = self.folder(self.scenarios)?.join(name);
            return zklockbench_results::replace(&file, text.as_bytes()).map(|()| file);
        }
        let folder = self.path.join(self.scenarios);
        let file = folder.join(&name);
        match disk::read(&folder, &name, MIB) {
            Ok(before) if before == text.as_bytes() => Ok(file),
            _ => Err(Error::usage(format!(
                "{} differs from the scenario of the run: the file was modified, or \
                 written by another version of zklockbench",
                file.display()
            ))),
        }
    }

    /// Returns an unused path for a directory of server logs.
    pub fn server_logs(&self, of: &str) -> PathBuf {
        free(&self.path.join(layout::SERVER_LOGS), of)
    }

    /// Runs the command with this key, unless its run is already listed, and lists the run with a note for
    /// [`Series::note`]. `command` takes the directory for the results. The child gets SIGTERM when `stop` is
    /// cancelled.
    pub async fn run(
        &mut self,
        key: &str,
        note: &impl Serialize,
        command: impl FnOnce(&Path) -> Result<Command, Error>,
        stop: &CancellationToken,
    ) -> Result<DoneRun, Error> {
        let runs = self.folder(self.runs)?;
        if let Some(ListedRun { directory, exit_code, took_us, .. }) = self.file.runs.get(key) {
            let (code, took) = (*exit_code, Duration::from_micros(*took_us));
            return Ok(DoneRun { directory: runs.join(directory), said: self.said(directory)?, code, took });
        }
        if stop.is_cancelled() {
            return Err(Error::Interrupted);
        }
        self.is_new = false;
        let directory = free(&runs, &format!("{}{key}", self.prefix));
        let name = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let said = self.said(&name)?;
        let ended = run_child(command(&directory)?, &said, stop).await;
        // Do not list a run that was stopped or left no results, so it is repeated.
        if let Ok((code, took)) = &ended
            && directory.is_dir()
            && !stop.is_cancelled()
        {
            let note = serde_json::to_value(note).map_err(Error::environment)?;
            let listed = ListedRun { directory: name, exit_code: *code, took_us: micros(*took), note };
            self.file.runs.insert(key.to_owned(), listed);
        }
        self.write()?;
        if stop.is_cancelled() {
            return Err(Error::Interrupted);
        }
        let (code, took) = ended?;
        Ok(DoneRun { directory, code, took, said })
    }

    fn write(&mut self) -> Result<(), Error> {
        self.file.spent_us = micros(self.spent());
        zklockbench_results::replace_json(&self.path().join(FILE.name), &self.file)
    }
}

impl Drop for Series {
    fn drop(&mut self) {
        if self.is_new {
            let _ = fs::remove_dir_all(self.path());
        }
    }
}

fn begun(command: &str, asked: Value, started_at: SystemTime) -> SeriesFile {
    SeriesFile {
        schema_version: FILE.version,
        tool_version: env!("CARGO_PKG_VERSION").into(),
        command: command.into(),
        asked,
        started_at,
        spent_us: 0,
        resumed_after: Vec::new(),
        runs: BTreeMap::new(),
    }
}

/// Creates a directory with exactly this name.
fn created(parent: &Path, name: &str) -> Result<PathBuf, Error> {
    let path = parent.join(name);
    let created = fs::create_dir_all(parent).and_then(|()| fs::create_dir(&path));
    created.map(|()| path.clone()).map_err(Error::cannot("create", &path))
}

/// Reads the list of runs in the series to resume.
fn listed(path: &Path, command: &str, asked: &Value) -> Result<SeriesFile, Error> {
    let file: SeriesFile = FILE.read(path)?;
    let refuse = |why: &str| Err(Error::usage(format!("{}: {why}", path.join(FILE.name).display())));
    if file.command != command {
        return refuse(&format!(
            "the series belongs to another command: resume it with `zklockbench {}`",
            file.command
        ));
    }
    // The recorded options have been through JSON, so convert the new options in the same way.
    let asked = serde_json::to_vec(asked).and_then(|json| disk::from_json::<Value>(&json));
    if !asked.is_ok_and(|asked| asked == file.asked) {
        return refuse(
            "the series was started with other options: pass the original options, and do not change the scenario",
        );
    }
    let is_name = |name: &str| layout::check_name(name).is_ok();
    match file.runs.values().find(|run| !is_name(&run.directory)) {
        Some(_) => Err(FILE.broken(&path.join(FILE.name), "the directory of a run is outside the series")),
        None => Ok(file),
    }
}

/// Locks a series for this process, if the file system supports locks.
fn lock(path: &Path) -> Result<Option<File>, Error> {
    let lock = File::open(path).map_err(Error::cannot("open", path))?;
    match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(lock)),
        Err(rustix::io::Errno::WOULDBLOCK) => {
            Err(Error::usage(format!("{} is in use: the series is still in progress", path.display())))
        }
        Err(_) => Ok(None),
    }
}

/// Returns an unused path in a directory: this name, with a number appended if necessary.
fn free(folder: &Path, name: &str) -> PathBuf {
    let names = std::iter::once(name.to_owned()).chain((2_u32..).map(|again| format!("{name}-{again}")));
    names.map(|name| folder.join(name)).find(|path| path.symlink_metadata().is_err()).unwrap_or_default()
}

/// Runs a command with its stderr written to `said`; sends SIGTERM when `stop` is cancelled. Returns the exit
/// code and the duration.
async fn run_child(
    mut command: Command,
    said: &Path,
    stop: &CancellationToken,
) -> Result<(Option<i32>, Duration), Error> {
    let program = command.get_program().to_owned();
    let cannot =
        |error: std::io::Error| Error::environment(format!("cannot run {}: {error}", program.display()));
    let arguments: Vec<_> = command.get_args().collect();
    info!("running {} {arguments:?}; its output is in {}", program.display(), said.display());
    let said = disk::create_anew(said).map_err(Error::cannot("write", said))?;
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said);
    let began = Instant::now();
    let mut running = Running(spawn_mortal(command).map_err(cannot)?);
    let mut asked_at: Option<Instant> = None;
    loop {
        if let Some(status) = running.0.try_wait().map_err(cannot)? {
            return Ok((status.code(), began.elapsed()));
        }
        match asked_at {
            None if stop.is_cancelled() => {
                running.ask_to_end();
                asked_at = Some(Instant::now());
            }
            None => drop(tokio::time::timeout(LOOK_EVERY, stop.cancelled()).await),
            Some(asked) => {
                if asked.elapsed() > ENDS_WITHIN {
                    let _ = running.0.kill();
                }
                // A killed process may take a while to end, e.g. because of a disk that does not respond.
                tokio::time::sleep(LOOK_EVERY).await;
            }
        }
    }
}

/// A child process that is killed when this handle is dropped.
struct Running(Child);

impl Running {
    fn ask_to_end(&self) {
        if let Some(pid) = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw) {
            // Sending fails if the process has just ended.
            let _ = kill_process(pid, Signal::TERM);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Ok(None) = self.0.try_wait() {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(parent: &Path, resume: Option<&Path>, asked: &str) -> Result<Series, Error> {
        Series::open("ab", Layout::Separate("runs"), parent, Name::Dated("test"), resume, asked.into())
    }

    /// Returns a command that creates the directory, as a run does.
    fn leaves(directory: &Path) -> Result<Command, Error> {
        let mut command = Command::new("mkdir");
        command.arg(directory);
        Ok(command)
    }

    fn must_not_run(_: &Path) -> Result<Command, Error> {
        panic!("a listed run ran again")
    }

    #[tokio::test]
    async fn resumed_series_does_not_repeat_listed_runs() {
        // Given a series in which one run ended and another left no results
        let (parent, stop) = (tempfile::tempdir().unwrap(), CancellationToken::new());
        let mut series = open(parent.path(), None, "x\ny").unwrap();
        let first = series.run("001", &(), leaves, &stop).await.unwrap();
        series.run("002", &(), |_| Ok(Command::new("false")), &stop).await.unwrap();
        let path = series.path().to_owned();
        drop(series);
        // When the series is resumed
        let mut series = open(parent.path(), Some(&path), "x\ny").unwrap();
        // Then the first run is reused, and the second run is repeated under a new name
        let again = series.run("001", &(), must_not_run, &stop).await.unwrap();
        assert_eq!((again.directory, again.code), (first.directory, Some(0)));
        assert!(!series.has("002"));
        let second = series.run("002", &(), leaves, &stop).await.unwrap();
        assert!(second.results("it", None).is_ok());
        assert_eq!((series.count(), series.resumed_after()), (2, &[1][..]));
    }

    #[tokio::test]
    async fn series_can_be_resumed_only_by_one_process_with_the_same_options() {
        let (parent, stop) = (tempfile::tempdir().unwrap(), CancellationToken::new());
        let mut series = open(parent.path(), None, "x").unwrap();
        series.run("001", &(), leaves, &stop).await.unwrap();
        let path = series.path().to_owned();
        let told = |asked| open(parent.path(), Some(&path), asked).err().unwrap().to_string();
        assert!(told("x").contains("is in use"), "{}", told("x"));
        drop(series);
        assert!(told("y").contains("other options"), "{}", told("y"));
    }

    #[test]
    fn series_without_runs_removes_its_directory() {
        let parent = tempfile::tempdir().unwrap();
        drop(open(parent.path(), None, "x").unwrap());
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }

    #[test]
    fn run_directories_outside_the_series_are_rejected() {
        let parent = tempfile::tempdir().unwrap();
        let run = ListedRun { directory: "../x".into(), exit_code: Some(0), took_us: 1, note: Value::Null };
        let file = SeriesFile {
            runs: [("001".to_owned(), run)].into(),
            ..begun("ab", "x".into(), SystemTime::UNIX_EPOCH)
        };
        fs::write(parent.path().join(FILE.name), serde_json::to_vec(&file).unwrap()).unwrap();
        let told = listed(parent.path(), "ab", &"x".into()).unwrap_err().to_string();
        assert!(told.contains("the directory of a run is outside the series"), "{told}");
    }

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[tokio::test]
    async fn child_exit_code_and_stderr_are_recorded() {
        let said = tempfile::NamedTempFile::new().unwrap();
        let ended =
            run_child(shell("echo why >&2; exit 4"), said.path(), &CancellationToken::new()).await.unwrap();
        assert_eq!(ended.0, Some(4));
        assert_eq!(fs::read_to_string(said.path()).unwrap(), "why\n");
    }

    #[tokio::test]
    async fn stopped_child_gets_sigterm_and_can_clean_up() {
        let (said, stop) = (tempfile::NamedTempFile::new().unwrap(), CancellationToken::new());
        let script = "trap 'echo tidied >&2; exit 130' TERM; echo ready >&2; while :; do sleep 0.05; done";
        let running = run_child(shell(script), said.path(), &stop);
        let path = said.path().to_owned();
        let stopping = async {
            while !fs::read_to_string(&path).unwrap().contains("ready") {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            stop.cancel();
        };
        let (ended, ()) = tokio::join!(running, stopping);
        assert_eq!(ended.unwrap().0, Some(130));
        assert!(fs::read_to_string(said.path()).unwrap().ends_with("tidied\n"));
    }

    #[tokio::test]
    async fn child_is_killed_when_its_future_is_dropped() {
        let said = tempfile::NamedTempFile::new().unwrap();
        let stop = CancellationToken::new();
        let running = run_child(shell("echo $$ >&2; exec sleep 60"), said.path(), &stop);
        let has_begun = async {
            loop {
                let pid = fs::read_to_string(said.path()).unwrap();
                if pid.ends_with('\n') {
                    return pid;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let pid = tokio::select! {
            _ = running => panic!("the child ended without a signal"),
            pid = has_begun => pid,
        };
        let pid = Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
        assert!(rustix::process::test_kill_process(pid).is_err(), "the child is still running");
    }
}
