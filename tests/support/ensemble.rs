//! Real ensembles for tests: one that the tests of a lane share, some that a test has to itself for a while, and ones
//! that it starts for itself.
//!
//! Their servers end with the test process, because they ask the system to be killed with it.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use zklockbench_ensemble::{Installation, Local, LocalSpec, Places};
use zklockbench_zk::{Access, Target};
use zookeeper_client::{Acls, CreateMode};

/// Names a running ensemble (`host:port,host:port`) for the tests that may share one.
const SHARED: &str = "ZKLOCKBENCH_TEST_CONNECT";

/// How many servers the ensembles have that tests share or use in turn. What locks ask and what is counted of it is the same
/// on one; three take three times the processor time, so that is for tests in depth, and for those about servers.
fn servers() -> usize {
    super::depth::of(1, 3)
}

/// So many ensembles are started, at most, for tests that want one to themselves.
const ALONE_AT_ONCE: usize = 12;

/// In memory where there is such a place: what these tests check does not depend on fsync.
pub fn fast_dir() -> Option<PathBuf> {
    let memory = Path::new("/dev/shm");
    tempfile::tempfile_in(memory).is_ok().then(|| memory.to_path_buf())
}

pub async fn start(servers: usize) -> Local {
    start_as(LocalSpec { servers, data_dir: fast_dir(), logs: None, apart: false, nicer_by: 0 }).await
}

/// Starts one whose servers can be cut off from each other.
pub async fn start_apart(servers: usize) -> Local {
    start_as(LocalSpec { servers, data_dir: fast_dir(), logs: None, apart: true, nicer_by: 0 }).await
}

async fn start_as(spec: LocalSpec) -> Local {
    super::calm::wait();
    let installation = Installation::find(&Places::of_this_machine(None)).unwrap();
    Local::start(&spec, &installation).await.unwrap()
}

/// The connect string of the ensemble that all tests of a binary share: the one that the environment names, or one
/// that the first test starts.
pub fn shared() -> &'static str {
    static ENSEMBLE: OnceLock<Shared> = OnceLock::new();
    shared_of(servers(), &ENSEMBLE)
}

/// The same with three servers, for what is about several.
pub fn shared_of_three() -> &'static str {
    static ENSEMBLE: OnceLock<Shared> = OnceLock::new();
    shared_of(3, &ENSEMBLE)
}

struct Shared {
    connect: String,
    /// Runs for as long as it is here.
    _local: Option<Arc<Local>>,
}

fn shared_of(servers: usize, ensemble: &'static OnceLock<Shared>) -> &'static str {
    super::calm::wait();
    let shared = ensemble.get_or_init(|| {
        if let Ok(connect) = std::env::var(SHARED) {
            return Shared { connect, _local: None };
        }
        let local = std::thread::spawn(move || start_to_share(servers)).join().unwrap();
        Shared { connect: local.connect(), _local: Some(local) }
    });
    &shared.connect
}

/// The tests' runtimes come and go, so the start has one of its own.
fn start_to_share(servers: usize) -> Arc<Local> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    Arc::new(runtime.block_on(start(servers)))
}

/// An ensemble that nobody else uses until this is dropped, so that their counters count for one alone.
pub struct Alone {
    local: Arc<Local>,
    _permit: OwnedSemaphorePermit,
}

static IDLE: Mutex<Vec<Arc<Local>>> = Mutex::new(Vec::new());

/// Waits for one of a few ensembles that tests use in turn.
pub async fn alone() -> Alone {
    alone_of(servers()).await
}

/// The same with so many servers, for tests about several.
pub async fn alone_of(servers: usize) -> Alone {
    static PERMITS: OnceLock<Arc<Semaphore>> = OnceLock::new();
    let permits = PERMITS.get_or_init(|| Arc::new(Semaphore::new(ALONE_AT_ONCE)));
    let permit = Arc::clone(permits).acquire_owned().await.unwrap();
    super::calm::wait();
    let idle = {
        let mut idle = IDLE.lock().unwrap();
        let place = idle.iter().position(|local| local.addresses().len() == servers);
        place.map(|place| idle.swap_remove(place))
    };
    let local = match idle {
        Some(local) => local,
        None => tokio::task::spawn_blocking(move || start_to_share(servers)).await.unwrap(),
    };
    Alone { local, _permit: permit }
}

impl Deref for Alone {
    type Target = Arc<Local>;

    fn deref(&self) -> &Arc<Local> {
        &self.local
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        // Before the permit, so that whoever gets that finds it.
        IDLE.lock().unwrap().push(Arc::clone(&self.local));
    }
}

/// A place of its own on the ensemble that all share, as a connect string with a chroot: all that a test finds there is its
/// own.
pub fn place_on_shared() -> String {
    place_on(shared())
}

/// The same on another one.
pub fn place_on(shared: &str) -> String {
    let path = format!("/{}", super::trials::unique("place"));
    let make = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let target = Target { connect: shared.into(), access: Access::default() };
        runtime.block_on(async {
            let client = target.client(Duration::from_secs(10)).await.unwrap();
            let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
            client.create(&path, &[], &options).await.unwrap();
        });
    };
    std::thread::scope(|scope| scope.spawn(make).join().unwrap());
    format!("{shared}{path}")
}
