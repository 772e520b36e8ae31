//! Where trials run: the ensemble, and the run's place on it.

use std::io;
use std::sync::Arc;
use std::time::SystemTime;

use super::workspace::Workspace;
use crate::ensemble::Started;
use crate::ensemble::transactions::Lives;
use crate::proxy::Proxy;
use crate::zk::Target;

/// Where trials run.
pub struct Environment {
    /// How to open sessions.
    pub target: Target,
    /// The run's root on the ensemble.
    pub workspace: Workspace,
    /// The servers' client addresses.
    pub servers: Vec<String>,
    /// The top-level node under which the servers keep their metrics of this run, without the slash.
    pub namespace: String,
    /// Generator threads.
    pub threads: usize,
    /// Whether the servers are ours and of a version that has to be kept awake.
    pub keep_awake: bool,
    /// The servers themselves, where they were started for this run.
    pub local: Option<Arc<dyn Started>>,
    /// Whether it is kept what each contender does.
    pub keeps_history: bool,
    /// What stands between contenders and servers, where something does.
    pub proxy: Option<Arc<Proxy>>,
}

impl Environment {
    /// How contenders open their sessions: through what stands before the servers, if anything does.
    pub(super) fn for_contenders(&self) -> Target {
        let Some(proxy) = &self.proxy else { return self.target.clone() };
        let chroot = self.target.connect.find('/').map_or("", |at| &self.target.connect[at..]);
        Target { connect: format!("{}{chroot}", proxy.connect()), access: self.target.access.clone() }
    }

    /// What the servers' logs tell of the nodes below a path that was made since; nothing where they are not ours.
    ///
    /// # Errors
    /// When they cannot be read.
    pub(super) async fn lives(&self, below: &str, since: SystemTime) -> io::Result<Lives> {
        match &self.local {
            Some(local) => local.lives(below, since).await,
            None => Ok(Lives::new()),
        }
    }

    /// Each server by itself.
    pub(super) fn single_servers(&self) -> impl Iterator<Item = Target> {
        let access = &self.target.access;
        self.servers.iter().map(|server| Target { connect: server.clone(), access: access.clone() })
    }
}
