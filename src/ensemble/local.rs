//! An ensemble of real servers on this machine, for one run.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::directory::EnsembleDir;
use super::install::Installation;
use super::ports::Claim;
use super::server::{Life, Server};
use super::{config, placement, ready};
use crate::error::Error;

/// How long the servers may take until they are ready. Alone on two cores they take 1 to 2 s.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// How many blocks of ports are tried when a port turns out to be taken.
const ATTEMPTS: usize = 5;
/// What Java says then.
const TAKEN: &str = "Address already in use";
/// How much of a log an error shows.
const LOG_LINES: usize = 8;

/// What to start.
#[derive(Debug, Clone)]
pub struct LocalSpec {
    /// 1, 3 or 5.
    pub servers: usize,
    /// Below which directory the data go; `None` for the system's directory for temporary files.
    pub data_dir: Option<PathBuf>,
    /// Where the servers' logs go; `None` to keep them with the data.
    pub logs: Option<PathBuf>,
}

/// A running local ensemble. Closed or dropped, it is gone, its data included.
#[derive(Debug)]
pub struct Local {
    // Before the directory: the servers end before their data are removed.
    pub(super) servers: Vec<Server>,
    pub(super) directory: EnsembleDir,
    placement: String,
    origin: String,
    _ports: Claim,
}

impl Local {
    /// Starts the servers and waits until the ensemble is whole.
    ///
    /// # Errors
    /// When they don't start or don't become ready; shows the end of the log that says why.
    pub async fn start(spec: &LocalSpec, installation: &Installation) -> Result<Self, Error> {
        Self::start_for(spec, installation, Life::WithUs).await
    }

    pub(super) async fn start_for(
        spec: &LocalSpec,
        installation: &Installation,
        life: Life,
    ) -> Result<Self, Error> {
        let mut skip = 0;
        loop {
            let mut local = Self::spawn(spec, installation, life, skip)?;
            let Err(why) = local.become_ready().await else { return Ok(local) };
            let tail = local.log_tail();
            if skip + 1 < ATTEMPTS && tail.contains(TAKEN) {
                skip += 1;
                continue;
            }
            return Err(Error::environment(format!("the local ensemble did not start: {why}\n{tail}")));
        }
    }

    fn spawn(spec: &LocalSpec, installation: &Installation, life: Life, skip: usize) -> Result<Self, Error> {
        let ports = Claim::new(spec.servers, skip)?;
        let directory = EnsembleDir::create(spec.data_dir.as_deref())?;
        let logs = spec.logs.clone().unwrap_or_else(|| directory.path().join("logs"));
        let start = |number| {
            let places = (directory.path(), logs.as_path());
            Server::start(installation, number, &ports.servers, places, life).map_err(|error| {
                Error::environment(format!(
                    "cannot start server {number} with {}: {error}",
                    installation.java.display()
                ))
            })
        };
        let servers = (1..=spec.servers).map(start).collect::<Result<Vec<_>, _>>()?;
        let placement = placement::describe(directory.path().parent().unwrap_or(directory.path()));
        Ok(Self { servers, directory, placement, origin: installation.origin.clone(), _ports: ports })
    }

    async fn become_ready(&mut self) -> Result<(), String> {
        let addresses = self.addresses();
        let servers = &mut self.servers;
        let broken = || servers.iter_mut().find_map(Server::ended);
        ready::wait(&addresses, Instant::now() + READY_WITHIN, broken).await
    }

    /// The last lines of the log of a server that ended, else of the first.
    fn log_tail(&mut self) -> String {
        let ended = self.servers.iter_mut().position(|server| server.ended().is_some());
        let Some(server) = self.servers.get(ended.unwrap_or(0)) else { return String::new() };
        let text = std::fs::read_to_string(&server.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let tail = &lines[lines.len().saturating_sub(LOG_LINES)..];
        format!("the end of {}:\n  {}", server.log.display(), tail.join("\n  "))
    }

    /// The servers' client addresses.
    #[must_use]
    pub fn addresses(&self) -> Vec<String> {
        self.servers.iter().map(|server| server.address.clone()).collect()
    }

    /// The connect string.
    #[must_use]
    pub fn connect(&self) -> String {
        self.addresses().join(",")
    }

    /// The servers' process ids.
    #[must_use]
    pub fn pids(&self) -> Vec<u32> {
        self.servers.iter().filter_map(Server::pid).collect()
    }

    /// The directory of the servers' data.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// On what the data lie, and what that means.
    #[must_use]
    pub fn placement(&self) -> &str {
        &self.placement
    }

    /// The configuration that every server has, and where its ZooKeeper came from.
    #[must_use]
    pub fn config(&self) -> Vec<(String, String)> {
        let origin = ("zookeeper".to_owned(), self.origin.clone());
        let heap = ("heap".to_owned(), config::HEAP.to_owned());
        let keys = config::KEYS.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let containers = (config::CONTAINER_CHECK.0.to_owned(), config::CONTAINER_CHECK.1.to_owned());
        [origin, heap, containers].into_iter().chain(keys).collect()
    }

    /// Which server has ended by itself, if one has.
    pub fn ended(&mut self) -> Option<String> {
        self.servers.iter_mut().find_map(Server::ended)
    }

    /// Leaves the servers and their data to live on without this process.
    pub(super) fn leave(self) -> std::io::Result<()> {
        self.directory.leave()?;
        for server in self.servers {
            let _ = server.let_go();
        }
        Ok(())
    }

    /// Ends the servers and removes their data.
    pub fn close(self) {
        drop(self);
    }
}
