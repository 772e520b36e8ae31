//! Sessions outside a trial.

use std::cell::RefCell;
use std::fmt::Debug;
use std::rc::Rc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use zklockbench_core::{clock, measure::ThreadRecorder};
use zklockbench_locks::{DeadlineClock, Patience, WaitGauge};
use zklockbench_zk::{Access, Observed, Sent, Session, Target, runtime};
use zookeeper_client::{Acl, Acls, AuthId, Client, CreateMode, CreateOptions, Permission};

use crate::support::{ensemble::shared, proxy::Proxy};

const TIMEOUT: Duration = Duration::from_secs(10);

/// Options of a persistent node that every client may change.
pub const PERSISTENT: CreateOptions<'static> = CreateMode::Persistent.with_acls(Acls::anyone_all());

pub fn target(connect: &str) -> Target {
    Target { connect: connect.into(), access: Access::default() }
}

/// A client outside a trial.
pub async fn client(connect: &str) -> Client {
    target(connect).client(TIMEOUT).await.unwrap()
}

/// Runs `work` with a new client, outside any runtime.
pub fn with_client<T>(connect: &str, work: impl AsyncFnOnce(Client) -> T) -> T {
    runtime::block_on(async { work(client(connect).await).await })
}

/// Requests in the order of sending.
pub type Trace = Rc<RefCell<Vec<Sent>>>;

/// A new path for a lock, and a client that inspects the lock from outside.
pub struct Scene {
    pub lock: String,
    target: Target,
    outside: Client,
}

pub async fn scene(connect: &str) -> Scene {
    let target = target(connect);
    let outside = patiently(async || target.client(TIMEOUT).await).await;
    let options = CreateMode::PersistentSequential.with_acls(Acls::anyone_all());
    let (_, sequence) = outside.create("/scene-", &[], &options).await.unwrap();
    Scene { lock: format!("/scene-{sequence}"), target, outside }
}

impl Scene {
    /// The scene of an existing lock.
    pub async fn at(connect: &str, lock: &str) -> Self {
        let target = target(connect);
        let outside = patiently(async || target.client(TIMEOUT).await).await;
        Self { lock: lock.to_owned(), target, outside }
    }

    /// Paths of the lock's directory and of the directories below it.
    pub async fn directories(&self) -> Vec<String> {
        self.tree().await.into_iter().filter(|(_, owner)| *owner == 0).map(|(path, _)| path).collect()
    }
}

/// Runs a test on the shared servers, with a new [`Scene`].
pub fn on_scene<T>(play: impl AsyncFnOnce(Scene) -> T) -> T {
    runtime::block_on(async { play(scene(shared()).await).await })
}

/// Runs a test on the shared servers, with a [`Proxy`].
pub fn behind_wire<T>(play: impl AsyncFnOnce(Scene, Proxy) -> T) -> T {
    on_scene(async |scene| play(scene, Proxy::before(shared())).await)
}

/// Runs a test for each of these locks, on separate scenes.
pub fn each_on_scene(names: &[&'static str], play: impl AsyncFn(&'static str, Scene)) {
    for name in names.iter().copied() {
        on_scene(async |scene| play(name, scene).await);
    }
}

/// Like [`each_on_scene`], with a [`Proxy`] for each lock.
pub fn each_behind_wire(names: &[&'static str], play: impl AsyncFn(&'static str, Scene, Proxy)) {
    for name in names.iter().copied() {
        behind_wire(async |scene, proxy| play(name, scene, proxy).await);
    }
}

impl Scene {
    pub async fn session(&self) -> Session {
        open(&self.target, None).await
    }

    /// Opens a session whose requests are traced.
    pub async fn traced(&self) -> (Session, Trace) {
        let trace = Trace::default();
        (open(&self.target, Some(Rc::clone(&trace))).await, trace)
    }

    /// Like [`Scene::traced`], through another address of the same ensemble.
    pub async fn traced_by(&self, connect: &str) -> (Session, Trace) {
        let trace = Trace::default();
        (open(&target(connect), Some(Rc::clone(&trace))).await, trace)
    }

    /// Opens a session through another address. Returns the session and its recorder.
    pub async fn metered_by(&self, connect: &str) -> (Session, Rc<RefCell<ThreadRecorder>>) {
        let recorder = Rc::new(RefCell::new(ThreadRecorder::new(1)));
        let observed = Observed { recorder: Rc::clone(&recorder), ..observed(None) };
        (target(connect).open(TIMEOUT, TIMEOUT, observed).await.unwrap(), recorder)
    }

    /// Number of contenders' nodes below the lock, at any depth.
    pub async fn nodes(&self) -> usize {
        self.tree().await.iter().filter(|(_, owner)| *owner != 0).count()
    }

    /// Paths of a session's nodes below the lock.
    pub async fn nodes_of(&self, session: i64) -> Vec<String> {
        let own = self.tree().await.into_iter().filter(|(_, owner)| *owner == session);
        own.map(|(path, _)| path).collect()
    }

    /// Deletes nodes in one transaction.
    pub async fn delete(&self, paths: impl IntoIterator<Item = String>) {
        let mut paths = paths.into_iter().peekable();
        if paths.peek().is_none() {
            return;
        }
        let mut all = self.outside.new_multi_writer();
        for path in paths {
            all.add_delete(&path, None).unwrap();
        }
        all.commit().await.unwrap();
    }

    /// Deletes the lock's directory with everything below it.
    pub async fn delete_all(&self) {
        self.delete(self.tree().await.into_iter().rev().map(|(path, _)| path)).await;
    }

    /// Creates the lock's directory unless it exists.
    pub async fn restore(&self) {
        let made = self.outside.create(&self.lock, &[], &PERSISTENT).await;
        assert!(matches!(made, Ok(_) | Err(zookeeper_client::Error::NodeExists)), "{made:?}");
    }

    /// Forbids writes to the data of the lock's directory. Clients can still create and delete nodes there.
    pub async fn forbid_writing(&self) {
        self.permit(Permission::CREATE | Permission::READ | Permission::DELETE | Permission::ADMIN).await;
    }

    /// Forbids listing the lock's directory, until [`Scene::allow_everything`].
    pub async fn forbid_listing(&self) {
        self.permit(Permission::CREATE | Permission::WRITE | Permission::DELETE | Permission::ADMIN).await;
    }

    pub async fn allow_everything(&self) {
        self.permit(Permission::ALL).await;
    }

    async fn permit(&self, permission: Permission) {
        let acl = [Acl::new(permission, AuthId::anyone())];
        self.outside.set_acl(&self.lock, &acl, None).await.unwrap();
    }

    /// Creates a node in the lock's directory that does not belong to the queue.
    pub async fn add_foreign_child(&self) {
        self.outside.create(&format!("{}/config", self.lock), &[], &PERSISTENT).await.unwrap();
    }

    /// The lock's directory and all nodes below it, with the sessions that own them. Parents precede children.
    async fn tree(&self) -> Vec<(String, i64)> {
        // A follower may lag.
        self.outside.sync(&self.lock).await.unwrap();
        let mut tree = Vec::new();
        let mut paths = vec![self.lock.clone()];
        while let Some(path) = paths.pop() {
            let Some(stat) = self.outside.check_stat(&path).await.unwrap() else { continue };
            if stat.num_children > 0 {
                // The directory may have been deleted meanwhile.
                let names = self.outside.list_children(&path).await.unwrap_or_default();
                paths.extend(names.into_iter().map(|name| format!("{path}/{name}")));
            }
            tree.push((path, stat.ephemeral_owner));
        }
        tree
    }

    /// Waits until there are `expected` nodes of contenders below the lock.
    pub async fn has_nodes(&self, expected: usize) {
        let come = runtime::timeout(Duration::from_secs(60), async {
            while self.nodes().await != expected {
                runtime::sleep(Duration::from_millis(10)).await;
            }
        });
        assert!(come.await.is_some(), "{} nodes, not {expected}", self.nodes().await);
    }
}

async fn open(target: &Target, trace: Option<Trace>) -> Session {
    patiently(async || target.open(TIMEOUT, TIMEOUT, observed(trace.clone())).await).await
}

/// Retries an attempt, because servers on a busy host may answer too late just after they start.
async fn patiently<T, E: Debug>(attempt: impl AsyncFn() -> Result<T, E>) -> T {
    for _ in 0..3 {
        if let Ok(made) = attempt().await {
            return made;
        }
    }
    attempt().await.unwrap()
}

fn observed(trace: Option<Trace>) -> Observed {
    Observed { trace, ..Observed::by_nobody() }
}

/// Patience of an acquire with this timeout, or with no timeout.
pub fn patience(limit: Option<Duration>) -> Patience {
    Patience {
        deadline: limit.map(|limit| clock::now() + clock::micros(limit)),
        tries_once: false,
        clock: DeadlineClock::default(),
        cancel: CancellationToken::new(),
        gauge: WaitGauge::default(),
    }
}
