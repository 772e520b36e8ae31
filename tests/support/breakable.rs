//! Ensembles whose servers tests break. One test at a time has each; it leaves it whole for the next one.

use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zklockbench_ensemble::{Local, Processes, eventually, links_capability};

use super::ensemble;
use super::faults::WITHIN;
use super::skip::skipped;

/// Those that nobody has at the moment.
#[derive(Debug)]
struct Free {
    ensembles: Mutex<Vec<Arc<Local>>>,
    /// Whether their servers can be cut off from each other.
    are_apart: bool,
}

static PLAIN: Free = Free { ensembles: Mutex::new(Vec::new()), are_apart: false };
static APART: Free = Free { ensembles: Mutex::new(Vec::new()), are_apart: true };

impl Free {
    fn all(&self) -> MutexGuard<'_, Vec<Arc<Local>>> {
        self.ensembles.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Three servers for one test.
#[derive(Debug)]
pub struct Breakable {
    local: Arc<Local>,
    home: &'static Free,
}

impl Deref for Breakable {
    type Target = Arc<Local>;

    fn deref(&self) -> &Arc<Local> {
        &self.local
    }
}

impl Drop for Breakable {
    fn drop(&mut self) {
        // What a test has left that failed is of no use to another.
        if !std::thread::panicking() {
            self.home.all().push(Arc::clone(&self.local));
        }
    }
}

/// Three servers in one network.
pub async fn plain() -> Breakable {
    take(&PLAIN).await
}

/// Three servers that can be cut off from each other; `None`, and the test is skipped, where that is not possible.
pub async fn apart() -> Option<Breakable> {
    if let Err(why) = links_capability() {
        skipped(format!("servers cannot be partitioned here: {why}"));
        return None;
    }
    Some(take(&APART).await)
}

/// Three servers, apart where that is possible: for what concerns servers wherever they are.
pub async fn apart_if_possible() -> Breakable {
    if links_capability().is_err() {
        return plain().await;
    }
    take(&APART).await
}

/// One that is free, or else a new one.
async fn take(home: &'static Free) -> Breakable {
    super::calm::wait();
    let free = home.all().pop();
    let local = match free {
        // What the test before has done to it must be over.
        Some(local) => {
            eventually(WITHIN, || local.whole()).await.unwrap();
            assert_eq!(local.ended(), None);
            local
        }
        None if home.are_apart => Arc::new(ensemble::start_apart(3).await),
        None => Arc::new(ensemble::start(3).await),
    };
    Breakable { local, home }
}
