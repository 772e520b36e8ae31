//! Ensembles with servers that tests may break. A test has exclusive use of an ensemble, and must leave it healthy
//! for the next test.

use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zklockbench_ensemble::{Local, Processes, eventually, links_capability};

use super::{ensemble, faults::WITHIN, skip::skipped};

/// A pool of idle ensembles.
#[derive(Debug)]
struct Free {
    ensembles: Mutex<Vec<Arc<Local>>>,
    /// Whether the servers can be partitioned.
    are_apart: bool,
}

static PLAIN: Free = Free { ensembles: Mutex::new(Vec::new()), are_apart: false };
static APART: Free = Free { ensembles: Mutex::new(Vec::new()), are_apart: true };

impl Free {
    fn all(&self) -> MutexGuard<'_, Vec<Arc<Local>>> {
        self.ensembles.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Exclusive use of an ensemble of three servers.
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
        // Ensembles are not reused after a failed test.
        if !std::thread::panicking() {
            self.home.all().push(Arc::clone(&self.local));
        }
    }
}

/// Takes an ensemble of three servers that cannot be partitioned.
pub async fn plain() -> Breakable {
    take(&PLAIN).await
}

/// Takes an ensemble of three servers that can be partitioned. Skips the test and returns `None` if that is
/// impossible on this host.
pub async fn apart() -> Option<Breakable> {
    if let Err(why) = links_capability() {
        skipped(format!("servers cannot be partitioned here: {why}"));
        return None;
    }
    Some(take(&APART).await)
}

/// Takes an ensemble of three servers, each in its own network namespace if possible.
pub async fn apart_if_possible() -> Breakable {
    if links_capability().is_err() {
        return plain().await;
    }
    take(&APART).await
}

/// Takes an idle ensemble, or starts one.
async fn take(home: &'static Free) -> Breakable {
    super::calm::wait();
    let free = home.all().pop();
    let local = match free {
        // All faults of the previous test must be healed.
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
