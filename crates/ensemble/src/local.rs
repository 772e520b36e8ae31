//! An ensemble of real servers on this machine, for one run.

use std::fs::File;
use std::io::{ErrorKind, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracing::info;

use super::directory::{EnsembleDir, describe_placement};
use super::install::Installation;
use super::network::Network;
use super::ports::ClaimedPorts;
use super::server::{self, Lifetime, Server, ServerSite};
use super::state;
use zklockbench_core::error::Error;
use zklockbench_core::locked::locked;

/// Timeout for the servers to become ready. On two otherwise idle cores, this takes 1 to 2 s.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// Maximum number of port blocks to try if a port is in use.
const ATTEMPTS: usize = 5;
pub(super) const TAKEN: &str = "Address already in use";
const LOG_LINES: usize = 8;
/// Number of bytes at the end of a server's log that are searched for signs of a full disk.
const LOG_READ: u64 = 1 << 16;
const NO_SPACE: &str = "No space left on device";
/// Minimum free space in bytes that servers need to create their next log.
const LEAST_SPACE: u64 = 1 << 16;

fn no_space(directory: &Path) -> String {
    format!(
        "no space is left for the servers' data in {}; free some space, or choose another --data-dir",
        directory.display()
    )
}

/// Returns whether the server has reported a full disk since it was last started.
fn lacks_space(server: &Server) -> bool {
    let read = || {
        let mut log = File::open(&server.log)?;
        let length = log.metadata()?.len();
        log.seek(SeekFrom::Start(length.saturating_sub(LOG_READ).max(server.log_began)))?;
        let mut end = Vec::new();
        log.take(LOG_READ).read_to_end(&mut end)?;
        Ok::<_, std::io::Error>(end)
    };
    String::from_utf8_lossy(&read().unwrap_or_default()).contains(NO_SPACE)
}

#[derive(Debug, Clone)]
pub struct LocalSpec {
    /// Number of servers: 1, 3 or 5.
    pub servers: usize,
    /// Parent of the data directory; `None` for the system's temporary directory.
    pub data_dir: Option<PathBuf>,
    /// Directory of the servers' logs; `None` to keep the logs with the data.
    pub logs: Option<PathBuf>,
    /// Whether each server gets its own network namespace, which allows cutting servers off from each other.
    /// Needs Linux and either root or user namespaces; see [`links_capability`](super::links_capability).
    pub apart: bool,
    /// Niceness of the servers relative to this process; [`NICER_BY`] for a run's own servers.
    pub nicer_by: u8,
}

/// Niceness of a run's servers relative to the generator. Without it, on a host with two busy processors, the
/// generator's timers would wait behind the servers, and the metrics would include that wait.
pub const NICER_BY: u8 = 5;

/// A running local ensemble, removed with its data when closed or dropped. May be shared with faults.
#[derive(Debug)]
pub struct Local {
    // Declared before `network` and `directory`, so that the servers end before their network and data are removed.
    servers: Vec<Mutex<Server>>,
    /// Locks held while a server is being started or stopped, by server number minus 1.
    changes: Vec<tokio::sync::Mutex<()>>,
    network: Option<Network>,
    directory: EnsembleDir,
    addresses: Vec<String>,
    placement: String,
    origin: String,
    _claim: Option<ClaimedPorts>,
    nicer_by: u8,
}

impl Local {
    pub async fn start(spec: &LocalSpec, installation: &Installation) -> Result<Self, Error> {
        Self::start_for(spec, installation, Lifetime::WithUs).await
    }

    pub(super) async fn start_for(
        spec: &LocalSpec,
        installation: &Installation,
        life: Lifetime,
    ) -> Result<Self, Error> {
        if spec.apart && life == Lifetime::Lasting {
            return Err(Error::usage(
                "servers in their own network namespaces end with the run and cannot be kept",
            ));
        }
        let mut skip = 0;
        loop {
            let local = Self::spawn(spec, installation, life, skip)?;
            let deadline = Instant::now() + READY_WITHIN;
            let ready = state::become_whole(&local.addresses, deadline, |_| local.ended()).await;
            let Err(why) = ready else {
                info!("the ensemble serves at {}", local.connect());
                return Ok(local);
            };
            let tail = local.log_tail();
            if skip + 1 < ATTEMPTS && tail.contains(TAKEN) {
                info!("another process has taken a port; retrying with other ports");
                skip += 1;
                continue;
            }
            let is_logged = local.each().any(|server| lacks_space(&server));
            let why = local.full(is_logged).unwrap_or(why);
            return Err(Error::environment(format!("the local ensemble did not start: {why}\n{tail}")));
        }
    }

    fn spawn(
        spec: &LocalSpec,
        installation: &Installation,
        life: Lifetime,
        skip: usize,
    ) -> Result<Self, Error> {
        let network = spec.apart.then(|| Network::create(spec.servers)).transpose().map_err(|why| {
            Error::environment(format!("cannot put servers into network namespaces: {why}"))
        })?;
        let claim = (!spec.apart).then(|| ClaimedPorts::new(spec.servers, skip)).transpose()?;
        let claimed = claim.as_ref().map(|claim| claim.servers.clone());
        let ports = network.as_ref().map(Network::ports).or(claimed).unwrap_or_default();
        let directory = EnsembleDir::create(spec.data_dir.as_deref())?;
        let placement = describe_placement(directory.path().parent().unwrap_or(directory.path()));
        let mut local = Self {
            servers: Vec::new(),
            changes: (0..spec.servers).map(|_| tokio::sync::Mutex::default()).collect(),
            network,
            directory,
            addresses: ports.iter().map(|ports| format!("{}:{}", ports.host, ports.client)).collect(),
            placement,
            origin: installation.origin.clone(),
            _claim: claim,
            nicer_by: spec.nicer_by,
        };
        let logs = spec.logs.clone().unwrap_or_else(|| local.directory().join("logs"));
        for number in 1..=spec.servers {
            let namespace = local.network.as_ref().map(|network| network.namespace(number));
            let (directory, nicer_by) = (local.directory.path(), spec.nicer_by);
            let site = ServerSite { directory, logs: &logs, namespace, nicer_by };
            let server = Server::start(installation, number, &ports, &site, life).map_err(|error| {
                let java = installation.java.display();
                Error::environment(match error.kind() {
                    ErrorKind::StorageFull => {
                        format!("cannot start server {number}: {}", no_space(directory))
                    }
                    _ => format!("cannot start server {number} with {java}: {error}"),
                })
            })?;
            local.servers.push(Mutex::new(server));
        }
        Ok(local)
    }

    /// Returns the last log lines of a server that exited, or else of the first server.
    fn log_tail(&self) -> String {
        let ended = self.each().position(|mut server| server.has_ended().is_some());
        self.each().nth(ended.unwrap_or(0)).map(|server| tail(&server.log, 0)).unwrap_or_default()
    }

    /// Iterates over the servers. Each server is locked by its guard, so don't hold guards across an await.
    pub(super) fn each(&self) -> impl Iterator<Item = MutexGuard<'_, Server>> {
        self.servers.iter().map(locked)
    }

    /// Locks the server with this number (from 1). Don't hold the guard across an await.
    pub(super) fn server(&self, number: usize) -> Result<MutexGuard<'_, Server>, String> {
        state::numbered(&self.servers, number).map(locked)
    }

    pub(super) fn network(&self) -> Result<&Network, String> {
        self.network.as_ref().ok_or_else(|| "the servers share one network and cannot be cut off".into())
    }

    pub fn addresses(&self) -> Vec<String> {
        self.addresses.clone()
    }

    pub fn connect(&self) -> String {
        self.addresses().join(",")
    }

    /// Returns the process IDs of the servers that are up.
    pub fn pids(&self) -> Vec<u32> {
        self.each().filter_map(|mut server| if server.is_running() { server.pid() } else { None }).collect()
    }

    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub fn data(&self) -> Vec<PathBuf> {
        let of = |number: usize| self.directory().join(format!("server-{number}")).join("data");
        (1..=self.servers.len()).map(of).collect()
    }

    pub fn placement(&self) -> &str {
        &self.placement
    }

    /// Returns the configuration shared by all servers, and the location of their ZooKeeper.
    pub fn config(&self) -> Vec<(String, String)> {
        let origin = ("zookeeper".to_owned(), self.origin.clone());
        let heap = ("heap".to_owned(), server::HEAP.to_owned());
        let niceness = ("niceness".to_owned(), format!("{} above the generator's", self.nicer_by));
        let keys = server::KEYS.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let containers = (server::CONTAINER_CHECK.0.to_owned(), server::CONTAINER_CHECK.1.to_owned());
        [origin, heap, niceness, containers].into_iter().chain(keys).collect()
    }

    /// Describes a server that exited unexpectedly, if any.
    pub fn ended(&self) -> Option<String> {
        let ended = self.each().find_map(|mut server| Some((server.ended()?, lacks_space(&server))));
        let (ended, is_logged) = ended?;
        Some(match self.full(is_logged) {
            Some(full) => format!("{full}: {ended}"),
            None => ended,
        })
    }

    /// Returns a message about a full disk if the file system or a server's log reports one.
    fn full(&self, is_logged: bool) -> Option<String> {
        let directory = self.directory();
        let available = rustix::fs::statvfs(directory).ok().map(|disk| disk.f_bavail * disk.f_frsize);
        let is_full = is_logged || available.is_some_and(|available| available < LEAST_SPACE);
        is_full.then(|| no_space(directory))
    }

    /// Leaves the servers running and their data in place after this process ends.
    pub(super) fn leave(self) -> std::io::Result<()> {
        let Self { servers, directory, .. } = self;
        directory.leave()?;
        for server in servers {
            let _ = server.into_inner().unwrap_or_else(PoisonError::into_inner).let_go();
        }
        Ok(())
    }

    /// Waits until no other fault is starting or stopping this server. Without this wait, a fault could stop
    /// a server that an overlapping fault is still starting.
    pub(super) async fn changing(&self, number: usize) -> Option<tokio::sync::MutexGuard<'_, ()>> {
        let change = self.changes.get(number.checked_sub(1)?)?;
        Some(change.lock().await)
    }

    /// Kills the servers and removes their data and network, even if the ensemble is still shared.
    pub fn close(&self) {
        self.each().for_each(|mut server| server.kill());
        if let Some(network) = &self.network {
            network.remove();
        }
        self.directory.remove();
    }
}

/// Returns the last lines of a log, reading no further back than byte `after`.
pub(super) fn tail(log: &Path, after: u64) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let fresh = text.get(usize::try_from(after).unwrap_or(usize::MAX)..).unwrap_or_default();
    let text = String::from_utf8_lossy(fresh);
    let lines: Vec<&str> = text.lines().collect();
    let last = &lines[lines.len().saturating_sub(LOG_LINES)..];
    format!("the end of {}:\n  {}", log.display(), last.join("\n  "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait_for_end(local: &Local) {
        while local.server(1).unwrap().has_ended().is_none() {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn server_exit_is_blamed_on_a_full_disk_only_if_that_server_just_reported_one() {
        // Given servers that exit at once
        let place = tempfile::tempdir().unwrap();
        let installation =
            Installation { java: "false".into(), class_path: String::new(), origin: String::new() };
        let data_dir = Some(place.path().to_owned());
        let spec = LocalSpec { servers: 3, data_dir, logs: None, apart: false, nicer_by: 0 };
        let local = Local::spawn(&spec, &installation, Lifetime::WithUs, 0).unwrap();
        let log = |number: usize| local.server(number).unwrap().log.clone();
        let is_blamed = || local.ended().unwrap().contains("no space is left");
        // When another server reported a full disk
        std::fs::write(log(2), NO_SPACE).unwrap();
        wait_for_end(&local);
        assert!(!is_blamed());
        std::fs::write(log(1), NO_SPACE).unwrap();
        assert!(is_blamed());
        // When the server reported a full disk before it was restarted
        local.server(1).unwrap().launch().unwrap();
        local.server(1).unwrap().is_up();
        wait_for_end(&local);
        assert!(!is_blamed());
    }
}
