//! Real ensembles for tests: shared by all tests of a lane, reserved for one test at a time, or new.
//!
//! The kernel kills the servers when the test process ends.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use zklockbench_ensemble::{ClaimedPorts, Installation, Local, LocalSpec, Places};

use super::sessions::{PERSISTENT, with_client};

/// Environment variable with the addresses of a running ensemble (`host:port,host:port`) for tests that can share
/// an ensemble.
const SHARED: &str = "ZKLOCKBENCH_TEST_CONNECT";

/// Number of servers of a reused ensemble: one, or three in long tests. Three servers need three times the
/// processor time, and locks send the same requests to a single server.
fn servers() -> usize {
    super::depth::of(1, 3)
}

/// Maximum number of concurrent tests with exclusive use of an ensemble.
const ALONE_AT_ONCE: usize = 12;

/// In-memory directory, if there is one. Tests do not depend on fsync.
pub fn fast_dir() -> Option<PathBuf> {
    let memory = Path::new("/dev/shm");
    tempfile::tempfile_in(memory).is_ok().then(|| memory.to_path_buf())
}

/// Returns consecutive ports for servers that a test starts itself. Neither other runs nor outgoing connections use
/// these ports, which stay claimed until the test binary ends.
pub fn free_ports(count: usize) -> Vec<u16> {
    static CLAIMED: Mutex<Vec<ClaimedPorts>> = Mutex::new(Vec::new());
    let claimed = ClaimedPorts::new(count.div_ceil(3), 0).unwrap();
    let ports = claimed.servers.iter().flat_map(|one| [one.client, one.quorum, one.election]);
    let ports = ports.take(count).collect();
    CLAIMED.lock().unwrap().push(claimed);
    ports
}

pub async fn start(servers: usize) -> Local {
    start_as(LocalSpec { servers, data_dir: fast_dir(), logs: None, apart: false, nicer_by: 0 }).await
}

/// Starts servers that can be partitioned.
pub async fn start_apart(servers: usize) -> Local {
    start_as(LocalSpec { servers, data_dir: fast_dir(), logs: None, apart: true, nicer_by: 0 }).await
}

async fn start_as(spec: LocalSpec) -> Local {
    super::calm::wait();
    let installation = Installation::find(&Places::of_this_machine(None)).unwrap();
    Local::start(&spec, &installation).await.unwrap()
}

/// Connect string of the ensemble that all tests of a binary share. The ensemble comes from the environment or is
/// started by the first test.
pub fn shared() -> &'static str {
    static ENSEMBLE: OnceLock<Shared> = OnceLock::new();
    shared_of(servers(), &ENSEMBLE)
}

/// Like [`shared`], with three servers.
pub fn shared_of_three() -> &'static str {
    static ENSEMBLE: OnceLock<Shared> = OnceLock::new();
    shared_of(3, &ENSEMBLE)
}

struct Shared {
    connect: String,
    /// Keeps the started servers running.
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

/// Starts an ensemble on a separate runtime, because a test's runtime ends with the test.
fn start_to_share(servers: usize) -> Arc<Local> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    Arc::new(runtime.block_on(start(servers)))
}

/// Exclusive use of an ensemble, so that its counters cover only one test.
pub struct Alone {
    local: Arc<Local>,
    _permit: OwnedSemaphorePermit,
}

static IDLE: Mutex<Vec<Arc<Local>>> = Mutex::new(Vec::new());

/// Waits for exclusive use of an ensemble of the default size.
pub async fn alone() -> Alone {
    alone_of(servers()).await
}

/// Like [`alone`], with this many servers.
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
        // Returns the ensemble before the permit is dropped, so that the next test finds it.
        IDLE.lock().unwrap().push(Arc::clone(&self.local));
    }
}

/// Connect string of the shared ensemble with a new, empty directory as its chroot.
pub fn place_on_shared() -> String {
    place_on(shared())
}

/// Like [`place_on_shared`], on another ensemble.
pub fn place_on(shared: &str) -> String {
    let path = format!("/{}", super::trials::unique("place"));
    let make = || with_client(shared, async |client| client.create(&path, &[], &PERSISTENT).await.map(drop));
    std::thread::scope(|scope| scope.spawn(make).join().unwrap().unwrap());
    format!("{shared}{path}")
}
