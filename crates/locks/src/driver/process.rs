//! A driver process: starting, requests, stopping, killing, and its possible failures.
//!
//! A dedicated thread reads the answers. Senders never block: bytes that do not fit into the pipe go into a
//! backlog. Every request has its own deadline. A late or unexpected answer is a permanent failure, because
//! later answers could no longer be matched to requests.

mod reading;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::Write;
use std::process::{Child, ChildStdin, ExitStatus};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use serde::Serialize;
use tokio::sync::{oneshot, watch};

use super::protocol::{Answer, Ready, Request, VERSION};
use super::{DriverCommand, LastLines, how};
use reading::{Unfinished, read_answers};
use zklockbench_core::clock::{self, Stamp};
use zklockbench_core::locked::locked;
use zklockbench_zk::SessionState;

/// Time limit for a driver's `ready`; generous, because the first start may compile the driver.
pub const READY_WITHIN: Duration = Duration::from_secs(60);
/// Interval between checks that a driver still answers, and the timeout of each check.
const ECHO_EVERY: Duration = Duration::from_secs(1);
const ECHO_WITHIN: Duration = Duration::from_secs(10);
/// Tolerance for comparing rounded stamps of two clocks, in microseconds.
const CLOCKS_ROUNDED_BY: u64 = 3;
const TICK: Duration = Duration::from_millis(20);
/// Time allowed to exit after the end of input, and then after SIGTERM. The process is killed after both.
const EXITS_WITHIN: Duration = Duration::from_secs(5);
const TERMINATES_WITHIN: Duration = Duration::from_secs(2);
/// Time for reading the last lines of a process that has exited, in microseconds.
const READ_AFTER_EXIT: u64 = 1_000_000;
/// Maximum backlog of a driver that does not read its input, in bytes.
const LONGEST_BACKLOG: usize = 4 << 20;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("driver `{driver}` {what}{stderr}")]
pub struct DriverError {
    pub driver: String,
    pub what: Mishap,
    /// Last lines of the process's standard error, as text to append.
    pub stderr: String,
}

impl DriverError {
    fn of(driver: String, what: Mishap) -> Self {
        Self { driver, what, stderr: String::new() }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Mishap {
    #[error("cannot be started: {0}")]
    NotStarted(String),
    #[error("was not ready within {} s{wrote}", READY_WITHIN.as_secs())]
    NotReady {
        /// Last line that the driver wrote instead, as text to append.
        wrote: String,
    },
    #[error("refused to start: {0}")]
    Refused(String),
    #[error("violated the protocol: {why}: {line}")]
    Garbage { why: String, line: String },
    #[error("did not answer {doing} in time{wrote}")]
    NoAnswer {
        doing: &'static str,
        /// The driver's unfinished last line, formatted to be appended to the message; empty if there is none.
        wrote: String,
    },
    #[error("does not read its input")]
    DoesNotRead,
    #[error("ended: {0}")]
    Exited(String),
    #[error("was killed by a fault")]
    Killed,
}

/// A request that has not been answered yet.
#[derive(Debug)]
pub struct OpenRequest {
    pub id: u64,
    /// Stamp taken just before the request was written.
    pub asked: Stamp,
    answer: oneshot::Receiver<Answer>,
}

struct Pending {
    to: oneshot::Sender<Answer>,
    doing: &'static str,
    due: Option<Stamp>,
}

#[derive(Debug, Clone, Copy)]
pub struct Echo {
    /// Round-trip time in microseconds, from just before the request was written.
    pub took_us: u64,
    /// Whether the driver's stamp lies between request and answer; `None` if the answer had no stamp.
    pub fits: Option<bool>,
}

/// A driver process. Dropping this value kills the process and all its children.
pub struct Process {
    inner: Arc<Inner>,
    pub ready: Ready,
}

struct Inner {
    name: String,
    group: Pid,
    child: Mutex<Child>,
    input: Mutex<Input>,
    pending: Mutex<HashMap<u64, Pending>>,
    contenders: Mutex<HashMap<usize, watch::Sender<SessionState>>>,
    next: AtomicU64,
    late: AtomicU64,
    /// Numbers of sessions that clients opened to replace lost sessions, with and without a reported ID.
    reopened: [AtomicU64; 2],
    /// Start of the current second, and number of events in it.
    events: Mutex<(Stamp, usize)>,
    /// Number of faults that keep the process stopped, and the time at which it last resumed.
    stopped: Mutex<Stopped>,
    last_errors: LastLines,
    /// Last line before `ready` that is not part of the protocol.
    foreign: Mutex<String>,
    unfinished: Unfinished,
    failed: OnceLock<DriverError>,
    /// Set once the process is ready. No request is sent before that.
    is_ready: OnceLock<()>,
    /// Set before the process's input is closed, because an exit after that is not a failure.
    closing: OnceLock<()>,
}

#[derive(Default)]
struct Stopped {
    times: usize,
    went_on: Option<Stamp>,
}

struct Input {
    pipe: Option<ChildStdin>,
    backlog: VecDeque<u8>,
}

impl Process {
    /// Starts the process on a separate thread and waits until it is ready.
    pub async fn start(command: DriverCommand) -> Result<Self, DriverError> {
        let name = command.name.clone();
        let started = tokio::task::spawn_blocking(move || Self::start_here(&command)).await;
        started.unwrap_or_else(|error| Err(DriverError::of(name, Mishap::NotStarted(error.to_string()))))
    }

    /// Like [`Self::start`], on the caller's thread.
    pub fn start_here(command: &DriverCommand) -> Result<Self, DriverError> {
        let not_started = |why: String| DriverError::of(command.name.clone(), Mishap::NotStarted(why));
        let (child, group, pipe, output, errors) = command.spawn().map_err(not_started)?;
        rustix::io::ioctl_fionbio(&pipe, true).map_err(|error| not_started(error.to_string()))?;
        let inner = Arc::new(Inner {
            name: command.name.clone(),
            group,
            child: Mutex::new(child),
            input: Mutex::new(Input { pipe: Some(pipe), backlog: VecDeque::new() }),
            pending: Mutex::default(),
            contenders: Mutex::default(),
            next: AtomicU64::new(1),
            late: AtomicU64::new(0),
            reopened: Default::default(),
            events: Mutex::default(),
            stopped: Mutex::default(),
            last_errors: LastLines::default(),
            foreign: Mutex::default(),
            unfinished: Unfinished::default(),
            failed: OnceLock::new(),
            is_ready: OnceLock::new(),
            closing: OnceLock::new(),
        });
        let (to, ready) = std::sync::mpsc::channel();
        let spawned =
            thread("driver-errors", Arc::clone(&inner), move |inner| inner.last_errors.read(errors))
                .and_then(|()| {
                    thread("driver-answers", Arc::clone(&inner), move |inner| read_answers(inner, output, to))
                })
                .and_then(|()| thread("driver-watch", Arc::clone(&inner), watch_over));
        if let Err(error) = spawned {
            return Err(inner.fails(Mishap::NotStarted(error.to_string())));
        }
        let suite = format!("zklockbench {}", env!("CARGO_PKG_VERSION"));
        inner.write(&Request::Hello { v: vec![VERSION], suite });
        match ready.recv_timeout(READY_WITHIN) {
            Ok(ready) => Ok(Self { inner, ready }),
            // The reading thread has ended and recorded the reason.
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => Err(inner.failure()),
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {
                let mut wrote = inner.unfinished.to_string();
                let last = locked(&inner.foreign).clone();
                if wrote.is_empty() && !last.is_empty() {
                    wrote = format!("; its last line: {last}");
                }
                Err(inner.fails(Mishap::NotReady { wrote }))
            }
        }
    }

    pub fn ask<R: Serialize>(
        &self,
        doing: &'static str,
        within: Option<Duration>,
        request: impl FnOnce(u64) -> R,
    ) -> OpenRequest {
        let asked = self.inner.awaits(doing, within);
        self.inner.write(&request(asked.id));
        asked
    }

    pub async fn answer(&self, asked: &mut OpenRequest) -> Result<Answer, DriverError> {
        (&mut asked.answer).await.map_err(|_| self.inner.failure())
    }

    /// Sends an echo to the driver, or to the thread of contender `c`; `None` if the driver has failed.
    pub async fn echo(&self, c: Option<usize>) -> Option<Echo> {
        let mut asked = self.ask("an echo", Some(ECHO_WITHIN), |id| Request::Echo { id, c });
        let answered = self.answer(&mut asked).await.ok()?;
        let took_us = answered.arrived.saturating_sub(asked.asked);
        let told = answered.ok.and_then(|done| done.now).map(clock::of_monotonic);
        let within = asked.asked.saturating_sub(CLOCKS_ROUNDED_BY)..=answered.arrived + CLOCKS_ROUNDED_BY;
        Some(Echo { took_us, fits: told.map(|told| within.contains(&told)) })
    }

    /// Sets the deadline of a pending request to `within` from now.
    pub fn expect(&self, id: u64, within: Duration) {
        if let Some(pending) = locked(&self.inner.pending).get_mut(&id) {
            pending.due = Some(clock::now().saturating_add(clock::micros(within)));
        }
    }

    /// Returns the states of a contender's session, according to the driver's events.
    pub fn follow(&self, contender: usize) -> watch::Receiver<SessionState> {
        let (to, states) = watch::channel(SessionState::SyncConnected);
        locked(&self.inner.contenders).insert(contender, to);
        if self.inner.failed.get().is_some() {
            self.inner.ends_all();
        }
        states
    }

    /// Returns the number of locks granted after their acquires had been answered with a timeout.
    pub fn late_grants(&self) -> u64 {
        self.inner.late.load(Ordering::Relaxed)
    }

    /// Returns the numbers of sessions that clients opened to replace lost ones, with and without a reported
    /// ID.
    pub fn reopened(&self) -> [u64; 2] {
        self.inner.reopened.each_ref().map(|count| count.load(Ordering::Relaxed))
    }

    pub fn failure(&self) -> Option<&DriverError> {
        self.inner.failed.get()
    }

    /// Returns the failure, unless a fault killed the process.
    pub fn own_failure(&self) -> Option<&DriverError> {
        self.failure().filter(|error| error.what != Mishap::Killed)
    }

    /// Stops the process group with SIGSTOP. Stops nest: the group resumes at the last matching
    /// [`Process::go_on`].
    pub fn stop(&self) {
        let mut stopped = locked(&self.inner.stopped);
        stopped.times += 1;
        if stopped.times == 1 {
            let _ = kill_process_group(self.inner.group, Signal::STOP);
        }
    }

    pub fn go_on(&self) {
        let mut stopped = locked(&self.inner.stopped);
        stopped.times = stopped.times.saturating_sub(1);
        if stopped.times == 0 {
            stopped.went_on = Some(clock::now());
            let _ = kill_process_group(self.inner.group, Signal::CONT);
        }
    }

    /// Kills the process and all its children without warning.
    pub fn kill(&self) {
        self.inner.fails(Mishap::Killed);
    }

    pub fn write_line(&self, line: &[u8]) {
        self.inner.write_line(line);
    }

    /// Returns the last lines of the process's standard error, as text to append.
    pub fn last_errors(&self) -> String {
        self.inner.last_errors.text()
    }

    /// Closes the process's input and returns the exit status, if the process exits within this time. Blocks
    /// the caller's thread.
    pub fn end_input(&self, within: Duration) -> Option<ExitStatus> {
        let _ = self.inner.closing.set(());
        locked(&self.inner.input).pipe = None;
        self.inner.has_exited(within)
    }

    /// Closes the process's input and waits until the process has exited; kills the process if that takes too long.
    /// Blocks the caller's thread.
    pub fn close(&self) {
        if self.end_input(EXITS_WITHIN).is_none() {
            let _ = kill_process_group(self.inner.group, Signal::TERM);
            let _ = self.inner.has_exited(TERMINATES_WITHIN);
        }
        self.inner.kill();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.inner.closing.set(());
        self.inner.kill();
    }
}

impl Inner {
    /// Registers a request before it is written, because its answer may arrive immediately.
    fn awaits(&self, doing: &'static str, within: Option<Duration>) -> OpenRequest {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (to, answer) = oneshot::channel();
        let asked = clock::now();
        let due = within.map(|within| asked.saturating_add(clock::micros(within)));
        locked(&self.pending).insert(id, Pending { to, doing, due });
        OpenRequest { id, asked, answer }
    }

    fn write(&self, request: &impl Serialize) {
        self.write_line(&serde_json::to_vec(request).unwrap_or_default());
    }

    fn write_line(&self, line: &[u8]) {
        let fits = locked(&self.input).put(&[line, b"\n"].concat());
        if !fits {
            self.fails(Mishap::DoesNotRead);
        }
        // Requests registered after the failure or the end of input get no answer.
        if self.failed.get().is_some() || self.closing.get().is_some() {
            locked(&self.pending).clear();
        }
    }

    fn failure(&self) -> DriverError {
        let unknown = || DriverError::of(self.name.clone(), Mishap::Exited("for an unknown reason".into()));
        self.failed.get().cloned().unwrap_or_else(unknown)
    }

    /// Records a permanent failure: ends all pending requests and kills the process.
    fn fails(&self, what: Mishap) -> DriverError {
        let stderr = if what == Mishap::Killed { String::new() } else { self.last_errors.text() };
        let _ = self.failed.set(DriverError { driver: self.name.clone(), what, stderr });
        self.kill();
        self.ends_all();
        self.failure()
    }

    fn ends_all(&self) {
        locked(&self.pending).clear();
        for states in locked(&self.contenders).values() {
            states.send_replace(SessionState::Expired);
        }
    }

    fn kill(&self) {
        let _ = kill_process_group(self.group, Signal::KILL);
        let _ = self.has_exited(Duration::from_secs(1));
    }

    fn has_exited(&self, within: Duration) -> Option<ExitStatus> {
        let until = clock::now() + clock::micros(within);
        loop {
            if let Ok(Some(status)) = locked(&self.child).try_wait() {
                return Some(status);
            }
            if clock::now() >= until {
                return None;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Input {
    /// Writes as much as fits into the pipe and keeps the rest; returns false if the backlog is full.
    fn put(&mut self, line: &[u8]) -> bool {
        self.backlog.extend(line);
        self.flush();
        self.backlog.len() <= LONGEST_BACKLOG
    }

    fn flush(&mut self) {
        let Some(pipe) = &mut self.pipe else { return self.backlog.clear() };
        while !self.backlog.is_empty() {
            match pipe.write(self.backlog.as_slices().0) {
                Ok(written) if written > 0 => drop(self.backlog.drain(..written)),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                // The pipe is full, or the process has ended, which the reading thread detects.
                _ => return,
            }
        }
    }
}

fn thread(name: &str, inner: Arc<Inner>, work: impl FnOnce(&Inner) + Send + 'static) -> std::io::Result<()> {
    std::thread::Builder::new().name(name.into()).spawn(move || work(&inner)).map(drop)
}

/// Periodically writes the backlog, sends echoes, and fails the driver if an answer is overdue, or if the process
/// has exited without closing its output.
fn watch_over(inner: &Inner) {
    let mut asked_at = clock::now();
    let mut exited_at = None;
    loop {
        std::thread::sleep(TICK);
        if inner.failed.get().is_some() || inner.closing.get().is_some() {
            return;
        }
        locked(&inner.input).flush();
        let stopped = locked(&inner.stopped);
        if stopped.times > 0 {
            continue;
        }
        let went_on = stopped.went_on;
        drop(stopped);
        let now = clock::now();
        if let Some(status) = inner.has_exited(Duration::ZERO)
            && now >= *exited_at.get_or_insert(now) + READ_AFTER_EXIT
        {
            let status = how(status);
            inner.fails(Mishap::Exited(format!("{status}, but a child process keeps its output open")));
            return;
        }
        // After a stop, the process gets `ECHO_WITHIN` to answer, even if a deadline has passed.
        let overdue = |pending: &Pending| {
            pending.due.is_some_and(|due| now >= due)
                && went_on.is_none_or(|at| now >= at + clock::micros(ECHO_WITHIN))
        };
        let late =
            locked(&inner.pending).values().find(|pending| overdue(pending)).map(|pending| pending.doing);
        if let Some(doing) = late {
            inner.fails(Mishap::NoAnswer { doing, wrote: inner.unfinished.to_string() });
            return;
        }
        if inner.is_ready.get().is_some() && now >= asked_at + clock::micros(ECHO_EVERY) {
            asked_at = now;
            let asked = inner.awaits("an echo", Some(ECHO_WITHIN));
            inner.write(&Request::Echo { id: asked.id, c: None });
        }
    }
}

pub type Parameters = BTreeMap<String, serde_json::Value>;

#[cfg(test)]
mod tests {
    use super::*;

    const READY: &str =
        r#"{"t":"ready","v":1,"driver":"test","locks":{"L":{"timeout":"native","cancel":"none"}}}"#;

    /// Returns a driver that sends `ready` and then runs `then`.
    fn driver(then: &str) -> DriverCommand {
        shell(&format!("read hello; echo '{READY}'; {then}"))
    }

    fn shell(script: &str) -> DriverCommand {
        let arguments = vec!["-c".to_owned(), script.to_owned()];
        DriverCommand { name: "my".into(), program: "sh".into(), arguments }
    }

    fn refused(script: &str) -> DriverError {
        Process::start_here(&shell(script)).err().unwrap()
    }

    /// Returns whether any process of this group is still running, except zombies.
    fn runs(group: Pid) -> bool {
        let group = group.as_raw_nonzero().to_string();
        std::fs::read_dir("/proc").unwrap().flatten().any(|process| {
            let stat = std::fs::read_to_string(process.path().join("stat")).unwrap_or_default();
            let mut fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
            let state = fields.next();
            fields.nth(1) == Some(group.as_str()) && state != Some("Z")
        })
    }

    /// Sends an echo with this deadline and returns its failure. The driver has one contender, 0.
    async fn failure(then: &str, within: Duration) -> DriverError {
        let process = Process::start_here(&driver(then)).unwrap();
        drop(process.follow(0));
        let mut asked = process.ask("an echo", Some(within), |id| Request::Echo { id, c: None });
        let began = clock::now();
        let ended = tokio::time::timeout(within + SOON, process.answer(&mut asked)).await.unwrap();
        while runs(process.inner.group) {
            assert!(clock::now() - began < clock::micros(within + SOON));
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        ended.unwrap_err()
    }

    /// Time limit for any step, generous enough for a busy host.
    const SOON: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn driver_answers_requests_and_exits_when_its_input_ends() {
        let echo = r#"while read line; do
            id=${line#*\"id\":}; id=${id%%[,\}]*}; echo "{\"id\":$id,\"ok\":{\"now\":7}}"; done"#;
        let process = Process::start_here(&driver(echo)).unwrap();
        assert_eq!((process.ready.driver.as_str(), process.ready.contenders), ("test", 4_096));
        let mut asked = process.ask("an echo", Some(SOON), |id| Request::Echo { id, c: None });
        let answered = process.answer(&mut asked).await.unwrap();
        assert_eq!((answered.id, answered.ok.unwrap().now), (asked.id, Some(7)));
        let began = clock::now();
        process.close();
        assert!(clock::now() - began < clock::micros(SOON) && process.failure().is_none());
        let mut late = process.ask("an echo", None, |id| Request::Echo { id, c: None });
        assert!(tokio::time::timeout(SOON, process.answer(&mut late)).await.unwrap().is_err());
    }

    #[test]
    fn process_that_never_becomes_ready_is_reported_with_its_last_output() {
        let ended = refused("echo no such module >&2; exit 3");
        assert_eq!(ended.what, Mishap::Exited("exit status 3".into()));
        assert!(ended.to_string().contains("driver `my` ended: exit status 3"));
        assert!(ended.stderr.contains("no such module"));
        let refuses = refused(r#"echo '{"t":"refused","why":"too old"}'; sleep 60"#);
        assert_eq!(refuses.what, Mishap::Refused("too old".into()));
        assert!(matches!(refused("yes banner").what, Mishap::Garbage { .. }));
        assert!(
            refused(r#"echo '{"t":"ready","v":2,"driver":"x","locks":{}}'; sleep 60"#)
                .to_string()
                .contains("version 2")
        );
        for broken in [r#"{"t":"ready","v":1,}"#, "{'t': 'ready', 'v': 1}", "ready"] {
            let began = clock::now();
            let garbage = refused(&format!("cat <<'END'\n{broken}\nEND\nsleep 60"));
            assert!(
                matches!(&garbage.what, Mishap::Garbage { why, line } if why.starts_with("not JSON") && line == broken),
                "{garbage}"
            );
            assert!(clock::now() - began < 5_000_000, "{broken}");
        }
        let left = refused("sleep 60 & exit 3").to_string();
        assert!(left.contains("exit status 3, but a child process keeps its output open"), "{left}");
        let mistakes = [
            ("/no/such/program", "(os error 2)"),
            ("Cargo.toml", "; write ./Cargo.toml"),
            ("./Cargo.toml", "; make it executable: chmod +x ./Cargo.toml"),
            ("/", "; name a program, not a directory"),
        ];
        for (program, advice) in mistakes {
            let why =
                Process::start_here(&DriverCommand { program: program.into(), ..shell("") }).err().unwrap();
            assert!(matches!(why.what, Mishap::NotStarted(why) if why.ends_with(advice)), "{program}");
        }
    }

    #[tokio::test]
    async fn process_that_breaks_the_protocol_fails_at_once() {
        let garbage = failure("read line; echo hello; sleep 60", SOON).await;
        assert!(matches!(&garbage.what, Mishap::Garbage { line, .. } if line == "hello"), "{garbage}");
        let unknown = failure(r#"read line; echo '{"id":77,"ok":{}}'; sleep 60"#, SOON).await;
        assert!(unknown.to_string().contains("no request with the id 77"), "{unknown}");
        let stranger =
            failure(r#"read line; echo '{"t":"event","c":9,"what":"expired"}'; sleep 60"#, SOON).await;
        assert!(stranger.to_string().contains("no contender 9"), "{stranger}");
        let nameless =
            r#"read line; echo '{"t":"event","c":0,"what":"connected","session":"seven"}'; sleep 60"#;
        let nameless = failure(nameless, SOON).await;
        assert!(nameless.to_string().contains("`session` must be `0x`"), "{nameless}");
        let long = failure("read line; head -c 100000 /dev/zero | tr '\\0' x; sleep 60", SOON).await;
        assert!(long.to_string().contains("a line of more than"), "{long}");
        let half = failure("read line; printf '{\"id\"'; exit 0", SOON).await;
        assert!(half.to_string().contains("in the middle of a line"), "{half}");
    }

    #[tokio::test]
    async fn ended_session_stays_ended() {
        let events = ["suspended", "connected", "expired", "connected"];
        let events =
            events.map(|what| format!(r#"echo '{{"t":"event","c":0,"what":"{what}","session":"0x7fe"}}'; "#));
        let then = format!(r#"read line; {} echo '{{"id":1,"ok":{{}}}}'; sleep 60"#, events.concat());
        let process = Process::start_here(&driver(&then)).unwrap();
        let states = process.follow(0);
        let mut asked = process.ask("an echo", Some(SOON), |id| Request::Echo { id, c: None });
        process.answer(&mut asked).await.unwrap();
        assert_eq!(*states.borrow(), SessionState::Expired);
        assert!(zklockbench_zk::is_own_session(0x7fe));
        assert_eq!(process.reopened(), [1, 0]);
    }

    #[tokio::test]
    async fn process_that_sends_endless_events_fails() {
        let flood = r#"read line; while :; do echo '{"t":"event","c":0,"what":"connected"}'; done"#;
        let process = Process::start_here(&driver(flood)).unwrap();
        let states = process.follow(0);
        drop(process.ask("an echo", Some(SOON), |id| Request::Echo { id, c: None }));
        tokio::time::timeout(SOON, states.clone().wait_for(|state| state.is_terminated()))
            .await
            .unwrap()
            .unwrap();
        assert!(process.failure().unwrap().to_string().contains("more than 1020 events in a second"));
    }

    #[tokio::test]
    async fn process_that_answers_twice_fails() {
        let twice = r#"read line; echo '{"id":1,"ok":{}}'; echo '{"id":1,"ok":{}}'; sleep 60"#;
        let process = Process::start_here(&driver(twice)).unwrap();
        let mut asked = process.ask("an echo", Some(SOON), |id| Request::Echo { id, c: None });
        assert_eq!(asked.id, 1);
        process.answer(&mut asked).await.unwrap();
        let states = process.follow(3);
        tokio::time::timeout(SOON, states.clone().wait_for(|state| state.is_terminated()))
            .await
            .unwrap()
            .unwrap();
        assert!(process.failure().unwrap().to_string().contains("the id 1"));
    }

    #[tokio::test]
    async fn process_that_dies_or_hangs_fails_within_the_deadline() {
        let dead = failure("read line; echo out of memory >&2; kill -9 $$", SOON).await;
        assert_eq!(dead.what, Mishap::Exited("killed by signal 9".into()));
        assert!(dead.stderr.contains("out of memory"));
        let hung = failure("sleep 60 & wait", Duration::from_millis(300)).await;
        assert_eq!(hung.what, Mishap::NoAnswer { doing: "an echo", wrote: String::new() });
        let left = failure("sleep 60 & exit 3", SOON).await.to_string();
        assert!(left.contains("exit status 3, but a child process keeps its output open"), "{left}");
    }

    #[tokio::test]
    async fn answer_without_a_line_break_is_reported_with_its_text() {
        // A single write, so that the text arrives together with `ready`.
        let process = Process::start_here(&shell(&format!(
            r#"read hello; printf '%s\n%s' '{READY}' '{{"id":1,"ok":{{}}}}'; sleep 60"#
        )));
        let process = process.unwrap();
        let within = Duration::from_millis(50);
        let mut asked = process.ask("an echo", Some(within), |id| Request::Echo { id, c: None });
        let ended = tokio::time::timeout(SOON, process.answer(&mut asked)).await.unwrap().unwrap_err();
        assert_eq!(
            ended.to_string(),
            r#"driver `my` did not answer an echo in time; its last line has no line break: {"id":1,"ok":{}}"#
        );
    }

    #[tokio::test]
    async fn stopped_process_is_not_overdue_but_a_process_that_reads_no_input_fails() {
        let process = Process::start_here(&driver("sleep 60")).unwrap();
        process.stop();
        let mut asked =
            process.ask("an echo", Some(Duration::from_millis(100)), |id| Request::Echo { id, c: None });
        let early = tokio::time::timeout(Duration::from_millis(500), process.answer(&mut asked)).await;
        assert!(early.is_err() && process.failure().is_none());
        process.go_on();
        let connect = "x".repeat(60_000);
        let began = clock::now();
        while process.failure().is_none() && clock::now() - began < clock::micros(SOON) {
            let open = |id| Request::Open {
                id,
                c: 0,
                connect: connect.clone(),
                auth: None,
                tls: None,
                sasl: None,
                session_ms: 1,
                lock: "L".into(),
                parameters: Parameters::new(),
            };
            drop(process.ask("`open`", Some(SOON), open));
        }
        assert_eq!(process.failure().unwrap().what, Mishap::DoesNotRead);
    }
}
