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
    let target = Target { connect: connect.into(), access: Access::default() };
    let outside = target.client(TIMEOUT).await.unwrap();
    let options = CreateMode::PersistentSequential.with_acls(Acls::anyone_all());
    let (_, sequence) = outside.create("/scene-", &[], &options).await.unwrap();
    Scene { lock: format!("/scene-{sequence}"), target, outside }
}

impl Scene {
    /// Opens a session.
    pub async fn session(&self) -> Session {
        self.open(None).await
    }

    /// Opens a session whose requests are written down.
    pub async fn traced(&self) -> (Session, Trace) {
        let trace = Trace::default();
        (self.open(Some(Rc::clone(&trace))).await, trace)
    }

    async fn open(&self, trace: Option<Trace>) -> Session {
        let observed = Observed {
            sheet: Rc::new(RefCell::new(Sheet::new(1))),
            pulse: Arc::default(),
            last_reply: Arc::default(),
            changes: Rc::from([]),
            trace,
        };
        self.target.open(TIMEOUT, TIMEOUT, observed).await.unwrap()
    }

    /// How many nodes there are below the lock's path, at any depth; directories, which belong to no session and
    /// have had children, are none.
    pub async fn nodes(&self) -> usize {
        // A follower may be a little behind.
        self.outside.sync(&self.lock).await.unwrap();
        let mut count = 0;
        let mut directories = vec![self.lock.clone()];
        while let Some(directory) = directories.pop() {
            for name in self.outside.list_children(&directory).await.unwrap() {
                let path = format!("{directory}/{name}");
                let Some(stat) = self.outside.check_stat(&path).await.unwrap() else { continue };
                let is_directory = stat.ephemeral_owner == 0 && stat.cversion > 0;
                count += usize::from(!is_directory);
                directories.extend(is_directory.then_some(path));
            }
        }
        count
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
