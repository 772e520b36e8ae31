//! Ensembles whose servers tests break. One test at a time uses each, and leaves it healthy for the next.

use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zklockbench_ensemble::{Local, Processes, eventually, links_capability};

use super::ensemble;
use super::faults::WITHIN;
use super::skip::skipped;

/// Ensembles that no test uses at the moment.
#[derive(Debug)]
struct Free {
    ensembles: Mutex<Vec<Arc<Local>>>,
    /// Whether the servers can be cut off from each other.
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
        // An ensemble left by a failed test cannot be used by another test.
        if !std::thread::panicking() {
            self.home.all().push(Arc::clone(&self.local));
        }
    }
}

/// Takes three servers in one network.
pub async fn plain() -> Breakable {
    take(&PLAIN).await
}

/// Takes three servers that can be cut off from each other; `None`, skipping the test, where that is not
/// possible.
pub async fn apart() -> Option<Breakable> {
    if let Err(why) = links_capability() {
        skipped(format!("servers cannot be partitioned here: {why}"));
        return None;
    }
    Some(take(&APART).await)
}

/// Takes three servers, in their own namespaces where possible, for tests about servers wherever they are.
pub async fn apart_if_possible() -> Breakable {
    if links_capability().is_err() {
        return plain().await;
    }
    take(&APART).await
}

/// Takes a free ensemble, or starts one.
async fn take(home: &'static Free) -> Breakable {
    super::calm::wait();
    let free = home.all().pop();
    let local = match free {
        // The previous test's faults must be over.
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
