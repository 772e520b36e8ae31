//! One real ensemble for a whole test binary, started by the first test that asks for it.
//!
//! Its servers end with the test process, because they ask the system to be killed with it.

#![allow(dead_code)] // each test binary uses a part

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use zklockbench::ensemble::{Installation, Local, LocalSpec, Places};

/// In memory where there is such a place: what these tests check does not depend on fsync.
pub fn fast_dir() -> Option<PathBuf> {
    let memory = Path::new("/dev/shm");
    tempfile::tempfile_in(memory).is_ok().then(|| memory.to_path_buf())
}

/// Starts an ensemble of its own for one test.
pub async fn start(servers: usize) -> Local {
    start_as(LocalSpec { servers, data_dir: fast_dir(), logs: None, apart: false }).await
}

/// Starts one whose servers can be cut off from each other.
pub async fn start_apart(servers: usize) -> Local {
    start_as(LocalSpec { servers, data_dir: fast_dir(), logs: None, apart: true }).await
}

async fn start_as(spec: LocalSpec) -> Local {
    let installation = Installation::find(&Places::of_this_machine(None)).unwrap();
    Local::start(&spec, &installation).await.unwrap()
}

/// The connect string of the ensemble that all tests of a binary share.
pub fn shared() -> &'static str {
    &shared_ensemble().1
}

/// That ensemble itself.
pub fn shared_local() -> Arc<Local> {
    Arc::clone(&shared_ensemble().0)
}

fn shared_ensemble() -> &'static (Arc<Local>, String) {
    static SHARED: OnceLock<(Arc<Local>, String)> = OnceLock::new();
    SHARED.get_or_init(|| {
        // The tests' runtimes come and go, so the start has one of its own.
        let start = || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let local = runtime.block_on(start(3));
            let connect = local.connect();
            (Arc::new(local), connect)
        };
        std::thread::spawn(start).join().unwrap()
    })
}
