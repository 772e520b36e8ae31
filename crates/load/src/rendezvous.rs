//! Meetings of a run's workers: on joining, after the floor is measured, before and after each trial's load, and at
//! the end. No worker waits for a meeting during the load.
//!
//! Each worker has an ephemeral node while it takes part, and creates a node at each meeting. Once all workers
//! have done so, worker 0 releases them by creating another node, or states why it cannot. If a worker's node
//! disappears, the worker is lost and the run ends: a replacement would change the load halfway.
//!
//! A waiting worker sets its watch before it announces itself, and reads again after every event, because an
//! event does not contain the change (apache/curator#1290).

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use zookeeper_client::{
    Acls, Client, CreateMode, Error as ClientError, EventType, OneshotWatcher, WatchedEvent,
};

use super::workspace::{SHOWS_LIFE, WORKERS_TOP, is_there, open_for, refused, remove_root};
use zklockbench_core::error::Error;
use zklockbench_core::locked::locked;
use zklockbench_core::units::one_line;
use zklockbench_record::Beside;
use zklockbench_scenario::Slice;
use zklockbench_zk::{CaughtUp, Target};

/// Session timeout, during which a worker still counts as alive after its process has ended.
const SESSION: Duration = Duration::from_secs(6);
/// Time for which the last worker waits for the other workers to leave.
const LEFT_WITHIN: Duration = Duration::from_secs(20);
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(100);
/// Maximum wait for other workers within a run; longer than any work between two meetings.
const PATIENCE: Duration = Duration::from_secs(15 * 60);

const JOIN: &str = "join";

/// Properties that all workers of a run must share, the worker's host, and the limit that worker 0 sets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Credentials {
    pub version: String,
    /// SHA-256 of the executable.
    pub program: String,
    /// SHA-256 of the effective scenario, including its seed.
    pub scenario: String,
    pub of: usize,
    pub host: String,
    /// Maximum rate of all workers together, in requests per second; ignored unless this is worker 0.
    #[serde(default)]
    pub at_most: Option<f64>,
}

impl Credentials {
    /// Returns the difference from another worker; `None` if both can take part in the same run.
    fn difference(&self, other: &Self) -> Option<String> {
        let differs = |what: &str, own: &str, others: &str| {
            (own != others).then(|| format!("has a different {what} ({others}, not {own})"))
        };
        let short = |hash: &str| hash.chars().take(12).collect::<String>();
        differs("version", &self.version, &other.version)
            .or_else(|| differs("number of workers", &self.of.to_string(), &other.of.to_string()))
            .or_else(|| differs("scenario or seed", &short(&self.scenario), &short(&other.scenario)))
            .or_else(|| differs("build of the program", &short(&self.program), &short(&other.program)))
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum MeetingError {
    /// Workers whose nodes have disappeared.
    Lost(Vec<usize>),
    Late(Vec<usize>),
    /// Property in which a worker differs from the others.
    Unlike(String),
    /// The ensemble used for the meetings did not answer.
    Broken(String),
}

impl fmt::Display for MeetingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = |workers: &[usize]| {
            let numbers: Vec<String> = workers.iter().map(ToString::to_string).collect();
            format!("{} {}", if workers.len() == 1 { "worker" } else { "workers" }, numbers.join(", "))
        };
        match self {
            Self::Lost(workers) => write!(f, "lost {}", named(workers)),
            Self::Late(workers) => write!(f, "{} did not arrive in time", named(workers)),
            Self::Unlike(why) => f.write_str(why),
            Self::Broken(why) => write!(f, "the workers cannot meet: {why}"),
        }
    }
}

impl MeetingError {
    /// Returns the run's error: *unknown* after a lost worker, a usage error if a worker differs.
    pub fn error(&self) -> Error {
        match self {
            Self::Lost(_) => Error::Unknown(self.to_string()),
            Self::Unlike(_) => Error::usage(self.to_string()),
            Self::Late(_) | Self::Broken(_) => Error::environment(self.to_string()),
        }
    }
}

/// Result of a meeting: all workers continue, or worker 0 states why not.
type Released = Result<(), MeetingError>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MeetingPlace {
    Elsewhere,
    SameServers,
    /// Below the locks' top-level node (a chroot), so servers count the requests of meetings and locks together.
    SameNamespace,
}

pub struct Rendezvous {
    pub slice: Slice,
    /// Maximum rate of all workers together, in requests per second, as set by worker 0.
    pub at_most: Option<f64>,
    place: MeetingPlace,
    target: Target,
    client: Client,
    root: String,
    /// Maximum wait for the other workers at the first meeting.
    patience: Duration,
    /// Requests and events of this worker's meetings since the last call to [`Rendezvous::take_beside`].
    beside: Mutex<Beside>,
    /// Reason why the workers no longer continue together; unset while they do.
    failed: OnceLock<MeetingError>,
}

pub struct Meeting<'a> {
    rendezvous: &'a Rendezvous,
    name: String,
    come: Come,
    patience: Duration,
}

enum Come {
    /// This worker leads: it releases all workers or states why it cannot.
    Leads(Released),
    /// This worker waits for the release, or for the loss of the leader.
    Waits { released: OneshotWatcher, lost: OneshotWatcher },
    /// The workers no longer continue together.
    Failed(MeetingError),
}

impl Rendezvous {
    /// Joins the first meeting of a run and waits for all workers.
    pub async fn join(
        target: &Target,
        run_id: &str,
        slice: Slice,
        credentials: &Credentials,
        place: MeetingPlace,
        patience: Duration,
    ) -> Result<Self, Error> {
        let client = open_for(target, SESSION).await?;
        let root = format!("{WORKERS_TOP}/{run_id}");
        let (beside, failed) = (Mutex::default(), OnceLock::new());
        let target = target.clone();
        let own = Self { slice, at_most: None, place, target, client, root, patience, beside, failed };
        own.register(credentials).await?;
        let joined = match own.come(JOIN, patience).await.release().await {
            Ok(()) => own.credentials_of(0).await,
            Err(failed) => Err(failed),
        };
        match joined {
            Ok(Credentials { at_most, .. }) => Ok(Self { at_most, ..own }),
            Err(failed) => {
                own.leave(false).await;
                Err(failed.error())
            }
        }
    }

    async fn register(&self, credentials: &Credentials) -> Result<(), Error> {
        let failed = |path: &str, error| refused(&self.target, "create", path, error);
        for path in [WORKERS_TOP.to_owned(), self.root.clone(), self.workers()] {
            let made = self.make(&path, SHOWS_LIFE, CreateMode::Persistent).await;
            made.map_err(|error| failed(&path, error))?;
        }
        let begun = self.released(JOIN);
        let is_begun = is_there(&self.client, &begun).await.map_err(|error| failed(&begun, error))?;
        if is_begun {
            return Err(Error::usage(format!(
                "the run {} started without this {}: workers cannot rejoin a run; restart all workers \
                 with another --run-id",
                self.name(),
                self.slice
            )));
        }
        let path = format!("{}/{}", self.workers(), self.slice.index);
        let data = serde_json::to_vec(credentials).map_err(Error::environment)?;
        let ephemeral = CreateMode::Ephemeral.with_acls(Acls::anyone_all());
        match self.client.create(&path, &data, &ephemeral).await {
            Ok(_) => Ok(()),
            Err(ClientError::NodeExists) => Err(Error::usage(format!(
                "worker {} has already joined the run {}: use a different --index for each worker, or wait {} s if \
                 the worker was just killed",
                self.slice.index,
                self.name(),
                SESSION.as_secs()
            ))),
            Err(error) => Err(failed(&path, error)),
        }
    }

    fn name(&self) -> &str {
        self.root.rsplit('/').next().unwrap_or_default()
    }

    fn leader(&self) -> String {
        format!("{}/0", self.workers())
    }

    fn workers(&self) -> String {
        format!("{}/workers", self.root)
    }

    fn released(&self, meeting: &str) -> String {
        format!("{}/{meeting}-released", self.root)
    }

    /// Takes the meetings' requests and events since the last call, excluding those that the locks' servers
    /// do not count.
    pub fn take_beside(&self) -> Beside {
        let beside = std::mem::take(&mut *locked(&self.beside));
        match self.place {
            MeetingPlace::Elsewhere => Beside::default(),
            MeetingPlace::SameServers => Beside { reads: 0, writes: 0, ..beside },
            MeetingPlace::SameNamespace => beside,
        }
    }

    /// Joins a meeting within the run. Worker 0 returns once all have joined; other workers return at once.
    pub async fn meet(&self, name: &str) -> Meeting<'_> {
        self.come(name, PATIENCE.max(self.patience)).await
    }

    async fn come(&self, name: &str, patience: Duration) -> Meeting<'_> {
        let come = match self.failed.get() {
            Some(failed) => Come::Failed(failed.clone()),
            None => self.announce(name).await.unwrap_or_else(|error| Come::Failed(self.broken(&error))),
        };
        let come = match come {
            Come::Leads(Ok(())) => {
                let all = tokio::time::timeout(patience, self.all_are_at(name)).await;
                Come::Leads(match all {
                    Ok(here) => here,
                    Err(_) => Err(self.late(name).await),
                })
            }
            other => other,
        };
        Meeting { rendezvous: self, name: name.to_owned(), come, patience }
    }

    /// Sets the watches for the release, then announces this worker.
    async fn announce(&self, name: &str) -> Result<Come, ClientError> {
        let path = format!("{}/{name}", self.root);
        self.make(&path, &[], CreateMode::Persistent).await?;
        let come = if self.slice.leads() {
            Come::Leads(Ok(()))
        } else {
            let (_, released) = self.look(&self.released(name)).await?;
            let (lives, lost) = self.look(&self.leader()).await?;
            // At the first meeting, the leader may be the last to join.
            if !lives && name != JOIN {
                return Ok(Come::Failed(MeetingError::Lost(vec![0])));
            }
            Come::Waits { released, lost }
        };
        self.make(&format!("{path}/{}", self.slice.index), &[], CreateMode::Ephemeral).await?;
        Ok(come)
    }

    async fn all_are_at(&self, name: &str) -> Released {
        let path = format!("{}/{name}", self.root);
        let is_first = name == JOIN;
        // At the first meeting, a worker that has not joined yet is not lost.
        let mut expected: BTreeSet<usize> = if is_first { BTreeSet::new() } else { self.all().collect() };
        loop {
            let (there, came) = self.list(&path).await.map_err(|error| self.broken(&error))?;
            let (alive, went) = self.list(&self.workers()).await.map_err(|error| self.broken(&error))?;
            expected.extend(&alive);
            let lost: Vec<usize> = expected.difference(&alive).copied().collect();
            if !lost.is_empty() {
                return Err(MeetingError::Lost(lost));
            }
            if there.len() >= self.slice.of {
                return if is_first { self.all_are_alike().await } else { Ok(()) };
            }
            let event = tokio::select! {
                event = came.changed() => event,
                event = went.changed() => event,
            };
            self.heard(&event)?;
        }
    }

    fn all(&self) -> std::ops::Range<usize> {
        0..self.slice.of
    }

    async fn all_are_alike(&self) -> Released {
        let mut first: Option<Credentials> = None;
        for worker in self.all() {
            let own = self.credentials_of(worker).await?;
            if let Some(difference) = first.as_ref().and_then(|first| first.difference(&own)) {
                return Err(MeetingError::Unlike(format!("worker {worker} {}", one_line(&difference))));
            }
            first.get_or_insert(own);
        }
        Ok(())
    }

    async fn credentials_of(&self, worker: usize) -> Result<Credentials, MeetingError> {
        let node = format!("{}/{worker}", self.workers());
        let read = self.asked(|| self.client.get_data(&node)).await;
        let (data, _) = read.map_err(|error| match error {
            ClientError::NoNode => MeetingError::Lost(vec![worker]),
            error => self.broken(&error),
        })?;
        parsed(&data, worker)
    }

    async fn late(&self, name: &str) -> MeetingError {
        let there = self.list(&format!("{}/{name}", self.root)).await.map(|(there, _)| there);
        there.map_or_else(
            |error| self.broken(&error),
            |there| MeetingError::Late(self.all().filter(|one| !there.contains(one)).collect()),
        )
    }

    /// Returns the workers with a node below the path, and a watch for the next change.
    async fn list(&self, path: &str) -> Result<(BTreeSet<usize>, OneshotWatcher), ClientError> {
        let (names, watcher) = self.asked(|| self.client.list_and_watch_children(path)).await?;
        self.counts(|beside| beside.reads += 1);
        Ok((names.iter().filter_map(|name| name.parse().ok()).collect(), watcher))
    }

    /// Returns whether a node exists, and a watch for its next change. Servers do not count reads of missing nodes.
    async fn look(&self, path: &str) -> Result<(bool, OneshotWatcher), ClientError> {
        let (stat, watcher) = self.asked(|| self.client.check_and_watch_stat(path)).await?;
        self.counts(|beside| beside.reads += u64::from(stat.is_some()));
        Ok((stat.is_some(), watcher))
    }

    /// Repeats a request after each lost connection, while the session may be alive.
    async fn asked<T>(&self, ask: impl AsyncFn() -> Result<T, ClientError>) -> Result<T, ClientError> {
        loop {
            match ask().await {
                Err(ClientError::ConnectionLoss) if !self.client.state().is_terminated() => {
                    tokio::time::sleep(BETWEEN_ATTEMPTS).await;
                }
                other => return other,
            }
        }
    }

    fn broken(&self, error: &ClientError) -> MeetingError {
        match error {
            ClientError::SessionExpired => MeetingError::Lost(vec![self.slice.index]),
            other => MeetingError::Broken(other.to_string()),
        }
    }

    fn counts(&self, count: impl FnOnce(&mut Beside)) {
        count(&mut locked(&self.beside));
    }

    /// Counts an event. Fails if the session is over.
    fn heard(&self, event: &WatchedEvent) -> Result<(), MeetingError> {
        self.counts(|beside| match event.event_type {
            EventType::NodeCreated => beside.node_created += 1,
            EventType::NodeDeleted => beside.node_deleted += 1,
            EventType::NodeDataChanged => beside.data_changed += 1,
            EventType::NodeChildrenChanged => beside.children_changed += 1,
            _ => {}
        });
        let is_over = event.event_type == EventType::Session && event.session_state.is_terminated();
        if is_over { Err(MeetingError::Lost(vec![self.slice.index])) } else { Ok(()) }
    }

    /// Creates a node unless it already exists.
    async fn make(&self, path: &str, data: &[u8], mode: CreateMode) -> Result<(), ClientError> {
        let options = mode.with_acls(Acls::anyone_all());
        match self.asked(|| self.client.create(path, data, &options)).await {
            Ok(_) => {
                self.counts(|beside| beside.writes += 1);
                Ok(())
            }
            Err(ClientError::NodeExists) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Records this moment on the leading server's clock by creating a node.
    pub async fn stamp(&self, name: &str) {
        let path = format!("{}/{name}", self.root);
        // A missing timestamp is reported when all timestamps are read.
        let _ = self.make(&path, &[], CreateMode::Persistent).await;
        let _ = self.make(&format!("{path}/{}", self.slice.index), &[], CreateMode::Persistent).await;
    }

    /// Returns the time between the workers' first and last timestamps on the leading server's clock.
    pub async fn spread(&self, name: &str) -> Result<Duration, String> {
        let mut stamps = Vec::new();
        for worker in self.all() {
            let path = format!("{}/{name}/{worker}", self.root);
            let read = async || CaughtUp::with(&self.client).await?.stat(&path).await;
            let stat = self.asked(read).await.map_err(|error| error.to_string())?;
            self.counts(|beside| beside.reads += u64::from(stat.is_some()));
            stamps.push(stat.ok_or_else(|| format!("worker {worker} wrote no timestamp"))?.ctime);
        }
        let (first, last) = (stamps.iter().min().copied(), stamps.iter().max().copied());
        let spread = last.zip(first).map_or(0, |(last, first)| last - first);
        Ok(Duration::from_millis(u64::try_from(spread).unwrap_or(0)))
    }

    /// Leaves the run. If the run has ended, waits until all workers have reached the end; the last worker
    /// removes the meetings' nodes. If the run was aborted here, the other workers count this worker as lost.
    pub async fn leave(self, has_ended: bool) {
        if has_ended {
            let last = self.meet("end").await;
            let _ = last.release().await;
        }
        let cleared = tokio::time::timeout(LEFT_WITHIN, self.clear());
        // At worst, a few empty nodes remain.
        let _ = cleared.await;
    }

    /// Removes the run's nodes after the other workers have left, if this worker has the lowest number of all
    /// remaining workers. Otherwise, removes only its own node.
    async fn clear(&self) -> Result<(), ClientError> {
        loop {
            let (alive, went) = self.list(&self.workers()).await?;
            if alive.first() != Some(&self.slice.index) {
                // Delete the node before the session ends, so that other workers need not wait for the session's end.
                let own = format!("{}/{}", self.workers(), self.slice.index);
                return self.client.delete(&own, None).await;
            }
            if alive.len() == 1 {
                break;
            }
            let _ = went.changed().await;
        }
        remove_root(&self.client, &self.root).await
    }
}

impl Meeting<'_> {
    /// Waits until worker 0 has released all workers.
    pub async fn release(self) -> Released {
        let Self { rendezvous, name, come, patience } = self;
        let released = match come {
            Come::Leads(here) => match rendezvous.tell(&name, &here).await {
                Ok(()) => here,
                Err(error) => here.and(Err(rendezvous.broken(&error))),
            },
            Come::Waits { released, lost } => {
                // Worker 0 may have arrived late and then waited for late workers, so wait twice as long.
                let waiting = rendezvous.wait_for(&name, released, lost);
                tokio::time::timeout(2 * patience, waiting)
                    .await
                    .unwrap_or_else(|_| Err(MeetingError::Late(vec![0])))
            }
            Come::Failed(failed) => Err(failed),
        };
        released.inspect_err(|error| drop(rendezvous.failed.set(error.clone())))
    }
}

impl Rendezvous {
    async fn tell(&self, name: &str, released: &Released) -> Result<(), ClientError> {
        let data = serde_json::to_vec(released).unwrap_or_default();
        self.make(&self.released(name), &data, CreateMode::Persistent).await
    }

    /// Waits for worker 0's release. Worker 0 leaves without a release only if it is lost.
    async fn wait_for(&self, name: &str, mut released: OneshotWatcher, mut lost: OneshotWatcher) -> Released {
        // Read before waiting for events: if worker 0 has already released the meeting, the watch does not fire.
        let mut is_alive = true;
        loop {
            if let Some(released) = self.read(name).await? {
                return released;
            }
            if !is_alive && name != JOIN {
                return Err(MeetingError::Lost(vec![0]));
            }
            let event = tokio::select! {
                event = released.changed() => event,
                event = lost.changed() => event,
            };
            self.heard(&event)?;
            (_, released) = self.look(&self.released(name)).await.map_err(|error| self.broken(&error))?;
            let was_alive = is_alive;
            (is_alive, lost) = self.look(&self.leader()).await.map_err(|error| self.broken(&error))?;
            // At the first meeting, the leader may not have joined yet, but once it has joined, it does not leave.
            if name == JOIN && was_alive && !is_alive && event.event_type == EventType::NodeDeleted {
                return Err(MeetingError::Lost(vec![0]));
            }
        }
    }

    async fn read(&self, name: &str) -> Result<Option<Released>, MeetingError> {
        let path = self.released(name);
        match self.asked(|| self.client.get_data(&path)).await {
            Ok((data, _)) => {
                self.counts(|beside| beside.reads += 1);
                parsed(&data, 0).map(Some)
            }
            Err(ClientError::NoNode) => Ok(None),
            Err(error) => Err(self.broken(&error)),
        }
    }
}

/// Parses a node's data, written by a worker.
fn parsed<T: DeserializeOwned>(data: &[u8], worker: usize) -> Result<T, MeetingError> {
    let unlike = |error| MeetingError::Unlike(format!("worker {worker} has a different version: {error}"));
    serde_json::from_slice(data).map_err(unlike)
}
