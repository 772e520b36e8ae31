//! `predecessor-watch` straight on the client library: the same requests on the same kind of threads, and
//! nothing that is counted but how often the lock was acquired.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use zklockbench::clock;
use zklockbench::error::Error;
use zklockbench::zk::{Target, nodelay, reactor, sequence_of};
use zookeeper_client::{Acls, Client, CreateMode, Error as ClientError};

const SESSION: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// What the loop's threads are called, so that their processor time can be told from a trial's.
pub const THREAD: &str = "bare";

/// What to run.
#[derive(Clone)]
pub struct Loop {
    /// Where sessions are opened.
    pub target: Target,
    /// The servers' client addresses.
    pub servers: Vec<String>,
    /// The lock's directory.
    pub lock: String,
    /// Contenders, one session each.
    pub contenders: usize,
    /// Threads that share them.
    pub threads: usize,
    /// Time wasted before each release.
    pub handicap: Duration,
}

/// What the contenders share with whoever started them.
#[derive(Debug, Default)]
struct Board {
    connected: AtomicUsize,
    acquired: AtomicU64,
    stopped: AtomicBool,
}

type Ended = Result<(), String>;

/// A loop that goes on until it is stopped.
pub struct Running {
    board: Arc<Board>,
    threads: Vec<JoinHandle<Ended>>,
}

impl Running {
    /// Starts the loop; returns once all its sessions are open.
    ///
    /// # Errors
    /// When a session cannot be opened.
    pub async fn start(run: &Loop) -> Result<Self, Error> {
        let board = Arc::<Board>::default();
        let threads: Vec<_> = (0..run.threads.min(run.contenders))
            .map(|thread| spawn(run, thread, Arc::clone(&board)))
            .collect::<std::io::Result<_>>()
            .map_err(|error| Error::environment(format!("cannot start a thread: {error}")))?;
        while board.connected.load(Ordering::Acquire) < run.contenders
            && !threads.iter().any(JoinHandle::is_finished)
        {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        let _ = nodelay::apply(&run.servers);
        Ok(Self { board, threads })
    }

    /// Acquisitions so far.
    pub fn acquired(&self) -> u64 {
        self.board.acquired.load(Ordering::Relaxed)
    }

    /// Ends the loop.
    ///
    /// # Errors
    /// The first failure of a session or a request, after which nothing can be compared.
    pub async fn stop(self) -> Result<(), Error> {
        self.board.stopped.store(true, Ordering::Release);
        while !self.threads.iter().all(JoinHandle::is_finished) {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        for thread in self.threads {
            thread
                .join()
                .map_err(|_| Error::environment("a thread of the bare loop panicked"))?
                .map_err(|error| Error::environment(format!("the bare loop failed: {error}")))?;
        }
        Ok(())
    }
}

fn spawn(run: &Loop, thread: usize, board: Arc<Board>) -> std::io::Result<JoinHandle<Ended>> {
    let run = run.clone();
    let name = std::thread::Builder::new().name(THREAD.into());
    name.spawn(move || reactor::block_on(work(run, thread, board)))
}

async fn work(run: Loop, thread: usize, board: Arc<Board>) -> Ended {
    let own = (thread..run.contenders).step_by(run.threads);
    let tasks = own.map(|_| reactor::spawn_local(contender(run.clone(), Arc::clone(&board))));
    for task in tasks.collect::<Vec<_>>() {
        task.await?;
    }
    Ok(())
}

async fn contender(run: Loop, board: Arc<Board>) -> Ended {
    let client = run.target.client(SESSION).await.map_err(|failure| failure.to_string())?;
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

/// Queues up and waits behind one predecessor after the other; returns the own node.
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

/// The name with the highest number below the own.
fn predecessor(names: &[String], own: i64) -> Option<&String> {
    let numbered = names.iter().filter_map(|name| Some((sequence_of(name)?, name)));
    numbered.filter(|(number, _)| *number < own).max_by_key(|(number, _)| *number).map(|(_, name)| name)
}
