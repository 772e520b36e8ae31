//! Where trials run: the ensemble and the run's place on it; and who is told what happens meanwhile.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::net::TcpStream;

use super::rendezvous::Rendezvous;
use super::workspace::Workspace;
use crate::scenario::Slice;
use crate::words::error::Error;
use crate::world::ensemble::Started;
use crate::world::proxy::Proxy;
use crate::world::zk::Target;

pub struct Environment {
    pub target: Target,
    pub workspace: Workspace,
    pub servers: Vec<String>,
    /// The top-level node under which the servers keep their metrics of this run, without the slash.
    pub namespace: String,
    pub threads: usize,
    /// How often the servers get a read, where they are ours and of a version that has to be kept awake.
    pub keep_awake: Option<Duration>,
    /// The servers themselves, where they were started for this run.
    pub local: Option<Arc<dyn Started>>,
    /// Whether it is kept what each contender does.
    pub keeps_history: bool,
    /// Where what does not fit into memory may go until a trial is judged.
    pub scratch: PathBuf,
    /// What stands between contenders and servers, where something does.
    pub proxy: Option<Arc<Proxy>>,
    /// Where this worker meets the others that make the rest of the load, if it is one of several.
    pub rendezvous: Option<Rendezvous>,
}

impl Environment {
    /// How contenders open their sessions: all in the same way; or each by what stands before the servers for it alone, so
    /// that what a fault does to a contender's connections outlasts its session.
    pub(super) fn for_contenders(&self, contenders: usize) -> Result<Vec<Target>, Error> {
        let Some(proxy) = &self.proxy else { return Ok(vec![self.target.clone()]) };
        let chroot = self.target.connect.find('/').map_or("", |at| &self.target.connect[at..]);
        let target = |contender| {
            let connect = format!("{}{chroot}", proxy.connect_for(contender)?);
            Ok(Target { connect, access: self.target.access.clone() })
        };
        (0..contenders).map(target).collect()
    }

    pub fn slice(&self) -> Slice {
        self.rendezvous.as_ref().map_or(Slice::WHOLE, |rendezvous| rendezvous.slice)
    }

    /// The servers whose counters and elections are looked at here: by one of several workers, so that nothing counts twice.
    pub(super) fn observed_servers(&self) -> &[String] {
        if self.slice().leads() { &self.servers } else { &[] }
    }

    pub(super) async fn any_reachable(&self) -> bool {
        let attempts = self.servers.iter().map(|address| async move {
            matches!(
                tokio::time::timeout(Duration::from_millis(500), TcpStream::connect(address)).await,
                Ok(Ok(_))
            )
        });
        join_all(attempts).await.into_iter().any(|reached| reached)
    }

    pub(super) fn single_servers(&self) -> impl Iterator<Item = Target> {
        let access = &self.target.access;
        self.servers.iter().map(|server| Target { connect: server.clone(), access: access.clone() })
    }
}

/// Something that a progress display may want to show.
#[derive(Debug, Clone)]
pub enum EnvironmentEvent<'a> {
    Phase {
        name: &'static str,
        /// How long it is meant to take, where that is known.
        expected: Option<Duration>,
    },
    Tick {
        acquired: u64,
        /// How many there will be, where the scenario says so.
        of: Option<u64>,
    },
    /// Something that has happened and that a user who watches may like to know.
    Note(&'a str),
    /// Something the user should know; it is repeated at the end.
    Warning(&'a str),
}

pub type Sink<'a> = &'a (dyn Fn(EnvironmentEvent<'_>) + Sync);
