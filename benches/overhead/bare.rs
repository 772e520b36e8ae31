//! `predecessor-watch` straight on the client library: the same requests on the same kind of threads, and
//! nothing that is measured but how often the lock was acquired.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use sysinfo::{Pid, ProcessRefreshKind, ProcessesToUpdate, System};
use tokio::sync::watch;
use zklockbench::clock::{self, Stamp};
use zklockbench::error::Error;
use zklockbench::measure::Window;
use zklockbench::zk::{Target, nodelay, reactor, sequence_of};
use zookeeper_client::{Acls, Client, CreateMode, Error as ClientError};

use crate::WARM_UP;

const SESSION: Duration = Duration::from_secs(30);
/// As a trial announces its start.
const NOTICE: Duration = Duration::from_millis(20);
const LOOK_EVERY: Duration = Duration::from_millis(5);

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
    /// Length of the measured phase.
    pub measured: Duration,
}

/// What the contenders share with the conductor.
#[derive(Debug)]
struct Board {
    connected: AtomicUsize,
    acquired: AtomicU64,
    window: watch::Sender<Option<Window>>,
}

/// What one loop or trial came to.
#[derive(Debug, Clone, Copy)]
pub struct Side {
    /// Acquisitions per second.
    pub throughput: f64,
    /// Processor time of this process an acquisition, in microseconds.
    pub cpu_us: f64,
}

impl Side {
    /// So many acquisitions in that time, for that much processor time.
    #[allow(clippy::cast_precision_loss)] // Far below 2^52.
    pub fn new(acquired: u64, took_us: u64, cpu_us: u64) -> Self {
        let acquired = acquired as f64;
        Self { throughput: acquired / (took_us as f64 / 1e6), cpu_us: cpu_us as f64 / acquired }
    }
}

/// Runs the loop.
///
/// # Errors
/// The first failure of a session or a request, after which nothing can be compared.
pub async fn run(run: &Loop) -> Result<Side, Error> {
    let window = watch::Sender::new(None);
    let board = Arc::new(Board { connected: AtomicUsize::new(0), acquired: AtomicU64::new(0), window });
    let threads: Vec<_> = (0..run.threads.min(run.contenders))
        .map(|thread| spawn(run, thread, Arc::clone(&board)))
        .collect::<std::io::Result<_>>()
        .map_err(|error| Error::environment(format!("cannot start a thread: {error}")))?;
    while board.connected.load(Ordering::Acquire) < run.contenders {
        if threads.iter().any(JoinHandle::is_finished) {
            break;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    let _ = nodelay::apply(&ports(&run.servers));
    let start = clock::now() + clock::micros(NOTICE + WARM_UP);
    let end = start + clock::micros(run.measured);
    board.window.send_replace(Some(Window { start, end }));
    sleep_until(start).await;
    let cpu = cpu_us();
    sleep_until(end).await;
    let cpu = cpu_us() - cpu;
    while !threads.iter().all(JoinHandle::is_finished) {
        tokio::time::sleep(LOOK_EVERY).await;
    }
    for thread in threads {
        thread
            .join()
            .map_err(|_| Error::environment("a thread of the bare loop panicked"))?
            .map_err(|error| Error::environment(format!("the bare loop failed: {error}")))?;
    }
    Ok(Side::new(board.acquired.load(Ordering::Acquire), clock::micros(run.measured), cpu))
}

/// Processor time of this process so far, as a trial reads it.
fn cpu_us() -> u64 {
    let pid = Pid::from_u32(std::process::id());
    let mut system = System::new();
    let what = ProcessRefreshKind::nothing().with_cpu();
    system.refresh_processes_specifics(ProcessesToUpdate::Some(&[pid]), false, what);
    system.process(pid).map_or(0, |process| process.accumulated_cpu_time() * 1_000)
}

fn ports(servers: &[String]) -> Vec<u16> {
    servers.iter().filter_map(|address| address.rsplit_once(':')?.1.parse().ok()).collect()
}

type Ended = Result<(), String>;

fn spawn(run: &Loop, thread: usize, board: Arc<Board>) -> std::io::Result<JoinHandle<Ended>> {
    let run = run.clone();
    std::thread::Builder::new().spawn(move || reactor::block_on(work(run, thread, board)))
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
    let mut announced = board.window.subscribe();
    let window = *announced.wait_for(Option::is_some).await.map_err(|error| error.to_string())?;
    let Some(window) = window else { return Ok(()) };
    reactor::sleep_until(Some(window.start.saturating_sub(clock::micros(WARM_UP)))).await;
    let mut acquired = 0;
    while clock::now() < window.end {
        let node = acquire(&client, &run.lock).await.map_err(|error| error.to_string())?;
        acquired += u64::from(window.contains(clock::now()));
        client.delete(&node, None).await.map_err(|error| error.to_string())?;
    }
    board.acquired.fetch_add(acquired, Ordering::AcqRel);
    Ok(())
}

async fn sleep_until(at: Stamp) {
    tokio::time::sleep(Duration::from_micros(at.saturating_sub(clock::now()))).await;
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
