//! Sessions of the suite without a trial around them.

#![allow(dead_code)] // each test binary uses a part

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use zklockbench::clock;
use zklockbench::lock::{Patience, WaitGauge};
use zklockbench::measure::Sheet;
use zklockbench::zk::{Access, Observed, Sent, Session, Target};
use zookeeper_client::{Acls, Client, CreateMode};

const TIMEOUT: Duration = Duration::from_secs(10);

/// Requests in the order of sending.
pub type Trace = Rc<RefCell<Vec<Sent>>>;

/// A lock path of its own, and whoever looks at it from outside.
pub struct Scene {
    pub lock: String,
    target: Target,
    outside: Client,
}

/// Makes a new lock path.
pub async fn scene(connect: &str) -> Scene {
    let target = target(connect);
    let outside = target.client(TIMEOUT).await.unwrap();
    let options = CreateMode::PersistentSequential.with_acls(Acls::anyone_all());
    let (_, sequence) = outside.create("/scene-", &[], &options).await.unwrap();
    Scene { lock: format!("/scene-{sequence}"), target, outside }
}

impl Scene {
    /// Opens a session.
    pub async fn session(&self) -> Session {
        open(&self.target, None).await
    }

    /// Opens a session whose requests are written down.
    pub async fn traced(&self) -> (Session, Trace) {
        let trace = Trace::default();
        (open(&self.target, Some(Rc::clone(&trace))).await, trace)
    }

    /// As [`Scene::traced`], by another address of the same ensemble.
    pub async fn traced_by(&self, connect: &str) -> (Session, Trace) {
        let trace = Trace::default();
        (open(&target(connect), Some(Rc::clone(&trace))).await, trace)
    }

    /// Opens a session by another address, and its books.
    pub async fn metered_by(&self, connect: &str) -> (Session, Rc<RefCell<Sheet>>) {
        let observed = observed(None);
        let sheet = Rc::clone(&observed.sheet);
        (target(connect).open(TIMEOUT, TIMEOUT, observed).await.unwrap(), sheet)
    }

    /// How many nodes the contenders have below the lock, at any depth; directories do not count.
    pub async fn nodes(&self) -> usize {
        // A follower may be a little behind.
        self.outside.sync(&self.lock).await.unwrap();
        let mut nodes = 0;
        let mut paths = vec![self.lock.clone()];
        while let Some(path) = paths.pop() {
            let Some(stat) = self.outside.check_stat(&path).await.unwrap() else { continue };
            nodes += usize::from(stat.ephemeral_owner != 0);
            if stat.num_children > 0 {
                let names = self.outside.list_children(&path).await.unwrap();
                paths.extend(names.into_iter().map(|name| format!("{path}/{name}")));
            }
        }
        nodes
    }
}

fn target(connect: &str) -> Target {
    Target { connect: connect.into(), access: Access::default() }
}

async fn open(target: &Target, trace: Option<Trace>) -> Session {
    target.open(TIMEOUT, TIMEOUT, observed(trace)).await.unwrap()
}

fn observed(trace: Option<Trace>) -> Observed {
    Observed {
        sheet: Rc::new(RefCell::new(Sheet::new(1))),
        pulse: Arc::default(),
        last_reply: Arc::default(),
        changes: Rc::from([]),
        trace,
    }
}

/// Waits for so long at most, or for ever.
pub fn patience(limit: Option<Duration>) -> Patience {
    Patience {
        deadline: limit.map(|limit| clock::now() + clock::micros(limit)),
        cancel: CancellationToken::new(),
        gauge: WaitGauge::default(),
    }
}
