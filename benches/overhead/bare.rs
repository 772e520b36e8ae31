//! `predecessor-watch` directly on the client library, with the same requests on the same kind of threads. The loop
//! counts only acquisitions.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use zklockbench_core::clock;
use zklockbench_core::error::Error;
use zklockbench_zk::{Access, Target, runtime, sequence_of};
use zookeeper_client::{Acls, Client, CreateMode, Error as ClientError};

use crate::side::{Moment, ticks_of};

const SESSION: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(5);
const THREAD: &str = "bare";

/// The loop to run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Loop {
    /// Connect string of the sessions.
    pub connect: String,
    pub lock: String,
    /// Number of contenders, each with its own session.
    pub contenders: usize,
    /// Number of threads that share the contenders.
    pub threads: usize,
    /// Busy-wait before each release.
    pub handicap: Duration,
}

/// State shared by the contenders and the thread that starts them.
#[derive(Debug, Default)]
struct Board {
    connected: AtomicUsize,
    acquired: AtomicU64,
    stopped: AtomicBool,
}

type Ended = Result<(), String>;

/// A loop in another process that runs until it is stopped.
pub struct Running {
    process: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Running {
    /// Starts the loop, and returns once all of its sessions are open.
    ///
    /// # Errors
    /// The process cannot be started, or a session cannot be opened.
    pub fn start(run: &Loop) -> Result<Self, Error> {
        let json = serde_json::to_string(run).map_err(|error| failed(&error))?;
        let program = std::env::current_exe().map_err(|error| failed(&error))?;
        let mut process = Command::new(program)
            .args(["--bare-loop", &json])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| failed(&error))?;
        let (Some(questions), Some(answers)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(failed(&"the process has no pipes"));
        };
        let mut running = Self { process, questions, answers: BufReader::new(answers) };
        running.answer()?;
        Ok(running)
    }

    /// Returns the number of acquisitions so far, and their processor time.
    ///
    /// # Errors
    ///
    /// The loop has ended.
    pub fn moment(&mut self) -> Result<Moment, Error> {
        self.questions.write_all(b"\n").map_err(|error| failed(&error))?;
        let answer = self.answer()?;
        let (acquired, ticks) =
            serde_json::from_str(&answer).map_err(|error| failed(&format!("{answer:?}: {error}")))?;
        Ok(Moment { at: clock::now(), acquired, ticks })
    }

    fn answer(&mut self) -> Result<String, Error> {
        let mut line = String::new();
        match self.answers.read_line(&mut line) {
            Ok(1..) => Ok(line),
            Ok(0) => Err(failed(&"the process has exited")),
            Err(error) => Err(failed(&error)),
        }
    }

    /// Ends the loop.
    ///
    /// # Errors
    ///
    /// A session or a request failed, so the comparison is invalid.
    pub fn stop(mut self) -> Result<(), Error> {
        drop(self.questions);
        let status = self.process.wait().map_err(|error| failed(&error))?;
        if status.success() { Ok(()) } else { Err(failed(&status)) }
    }
}

fn failed(why: &dyn std::fmt::Display) -> Error {
    Error::environment(format!("the bare loop failed: {why}"))
}

/// Runs a loop in this process until the end of stdin, and answers every line with the data for
/// [`Running::moment`].
///
/// # Errors
/// The first failure of a session or a request.
pub fn serve(json: &str) -> Result<(), Error> {
    let run: Loop = serde_json::from_str(json).map_err(|error| failed(&error))?;
    let board = Arc::<Board>::default();
    let threads: Vec<_> = (0..run.threads.min(run.contenders))
        .map(|thread| spawn(&run, thread, Arc::clone(&board)))
        .collect::<std::io::Result<_>>()
        .map_err(|error| failed(&error))?;
    while board.connected.load(Ordering::Acquire) < run.contenders
        && !threads.iter().any(JoinHandle::is_finished)
    {
        std::thread::sleep(LOOK_EVERY);
    }
    println!("ready");
    for line in std::io::stdin().lines() {
        line.map_err(|error| failed(&error))?;
        if threads.iter().any(JoinHandle::is_finished) {
            break;
        }
        println!("{}", serde_json::json!([board.acquired.load(Ordering::Relaxed), ticks_of(THREAD)]));
    }
    board.stopped.store(true, Ordering::Release);
    for thread in threads {
        thread.join().map_err(|_| failed(&"a thread panicked"))?.map_err(|error| failed(&error))?;
    }
    Ok(())
}

fn spawn(run: &Loop, thread: usize, board: Arc<Board>) -> std::io::Result<JoinHandle<Ended>> {
    let run = run.clone();
    let name = std::thread::Builder::new().name(THREAD.into());
    name.spawn(move || runtime::block_on(work(run, thread, board)))
}

async fn work(run: Loop, thread: usize, board: Arc<Board>) -> Ended {
    let own = (thread..run.contenders).step_by(run.threads);
    let tasks = own.map(|_| runtime::spawn_local(contender(run.clone(), Arc::clone(&board))));
    for task in tasks.collect::<Vec<_>>() {
        task.await?;
    }
    Ok(())
}

async fn contender(run: Loop, board: Arc<Board>) -> Ended {
    let target = Target { connect: run.connect.clone(), access: Access::default() };
    let client = target.client(SESSION).await.map_err(|failure| failure.to_string())?;
    board.connected.fetch_add(1, Ordering::AcqRel);
    while !board.stopped.load(Ordering::Relaxed) {
        let node = acquire(&client, &run.lock).await.map_err(|error| error.to_string())?;
        board.acquired.fetch_add(1, Ordering::Relaxed);
        waste(run.handicap);
        client.delete(&node, None).await.map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn waste(time: Duration) {
    let until = clock::now() + clock::micros(time);
    while !time.is_zero() && clock::now() < until {
        std::hint::spin_loop();
    }
}

/// Joins the queue, waits until no node is ahead, and returns the contender's node.
async fn acquire(client: &Client, lock: &str) -> Result<String, ClientError> {
    let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
    let prefix = format!("{lock}/n-");
    let (_, number) = client.create(&prefix, &[], &options).await?;
    let (node, own) = (format!("{prefix}{number}"), number.into_i64());
    while let Some(predecessor) = predecessor(&client.list_children(lock).await?, own) {
        match client.get_and_watch_data(&format!("{lock}/{predecessor}")).await {
            Ok((_, _, watcher)) => {
                watcher.changed().await;
            }
            Err(ClientError::NoNode) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(node)
}

/// Returns the name with the highest number below `own`.
fn predecessor(names: &[String], own: i64) -> Option<&String> {
    let numbered = names.iter().filter_map(|name| Some((sequence_of(name)?, name)));
    numbered.filter(|(number, _)| *number < own).max_by_key(|(number, _)| *number).map(|(_, name)| name)
}
