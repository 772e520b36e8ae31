//! Controls the processes of a started ensemble, and checks their state.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures_util::future::join_all;
use rustix::process::Signal;
use sysinfo::{Pid, ProcessRefreshKind, ProcessStatus, ProcessesToUpdate, System};

use super::local::{Local, TAKEN, tail};
use super::network::inside;
use super::ports;
use super::state::{self, Done, Fact, Leader, Numbered, answers_nothing, eventually};
use super::{Links, Logs};
use zklockbench_zk::admin;

/// Servers that can be stopped, started, paused and checked, numbered from 1.
///
/// Failed actions return the reason. Each check takes at most three seconds; repeat it with
/// [`eventually`](super::eventually). `Ok` describes the observation. Only `Ok` is a proof: `Err` may also
/// mean that the check itself failed.
#[async_trait]
pub trait Processes: Send + Sync {
    /// Returns the number of servers, up or down.
    fn servers(&self) -> usize;

    /// Returns the numbers of the voting servers. Observers serve clients but do not count towards a majority.
    fn voters(&self) -> Vec<usize> {
        (1..=self.servers()).collect()
    }

    /// Returns the network links between servers; `None` if the links cannot be cut.
    fn links(&self) -> Option<&dyn Links> {
        None
    }

    /// Returns the servers' current transaction logs, copied to this host if necessary.
    async fn logs(&self) -> io::Result<Logs> {
        let elsewhere = || io::Error::other("the logs of servers on other hosts cannot be read");
        self.logs_at_hand().ok_or_else(elsewhere)
    }

    /// Returns the transaction logs if they are files on this host that can be read while servers write them.
    fn logs_at_hand(&self) -> Option<Logs> {
        None
    }

    fn has_logs(&self) -> bool {
        self.logs_at_hand().is_some()
    }

    /// Describes a server that exited unexpectedly, if known.
    fn ended_by_itself(&self) -> Option<String> {
        None
    }

    /// Returns a server's client address, `host:port`.
    fn address(&self, server: usize) -> Result<String, String>;

    /// Returns the servers that can answer: they are running and not paused.
    async fn awake(&self) -> Result<Vec<Numbered>, String>;

    /// Kills a server, as in a crash, and waits until its process has ended.
    async fn kill(&self, server: usize) -> Done;

    /// Stops a server cleanly, and waits until its process has ended. Kills the process after 10 s.
    async fn stop(&self, server: usize) -> Done;

    /// Starts a server that is down, with the same ports, data and log. Returns once the server is listening;
    /// it has joined the ensemble only when [`Processes::serves`] returns `Ok`.
    async fn start(&self, server: usize) -> Done;

    /// Pauses a server. Its connections stay open but get no answers. Returns once the server is paused.
    async fn pause(&self, server: usize) -> Done;

    async fn resume(&self, server: usize) -> Done;

    /// Deletes the data of a server that is down. When restarted, the server fetches everything from the
    /// leader. Wiping a majority loses data.
    async fn wipe(&self, server: usize) -> Done;

    /// Returns whether a server's process exists, paused or not.
    async fn is_running(&self, server: usize) -> bool;

    /// Checks that a server's process has ended and its client port refuses connections.
    async fn is_down(&self, server: usize) -> Fact;

    /// Checks that a server is paused: its port is open, but the server did not answer within 300 ms.
    async fn is_silent(&self, server: usize) -> Fact;

    /// Checks that a server serves, as leader, follower, observer or standalone.
    async fn serves(&self, server: usize) -> Fact {
        let answer = admin::srvr(&self.address(server)?, state::PATIENCE).await;
        match answer.map_err(|error| format!("server {server}: {error}"))? {
            Some(srvr) if SERVING.contains(&srvr.mode.as_str()) => {
                Ok(format!("server {server} serves ({})", srvr.mode))
            }
            Some(srvr) => Err(format!("server {server} is up, but not serving (mode {})", srvr.mode)),
            None => Err(format!("server {server} is up, but not serving (no quorum yet)")),
        }
    }

    /// Checks that no server serves: each is down, paused, or reports that it does not serve.
    async fn nobody_serves(&self) -> Fact {
        let awake = self.awake().await?;
        let looks = awake.iter().map(|Numbered { number, address }| async move {
            match admin::srvr(address, state::PATIENCE).await {
                Ok(None) => Ok(format!("server {number} reports that it does not serve")),
                Err(error) if state::is_gone(&error) => Ok(format!("server {number} is down ({error})")),
                Ok(Some(srvr)) => Err(format!("server {number} serves ({})", srvr.mode)),
                Err(error) => Err(format!("server {number} cannot be queried: {error}")),
            }
        });
        let mut seen = join_all(looks).await.into_iter().collect::<Result<Vec<_>, _>>()?;
        let others = self.servers() - awake.len();
        if others > 0 {
            seen.push(format!("{others} down or paused"));
        }
        Ok(seen.join("; "))
    }

    /// Checks that every server serves, one of them leads, and all others are synchronised with the leader.
    async fn whole(&self) -> Fact {
        self.whole_but_for(&[]).await
    }

    /// Like [`Processes::whole`], but for all servers except these, which are down.
    async fn whole_but_for(&self, down: &[usize]) -> Fact {
        let up = (1..=self.servers()).filter(|server| !down.contains(server));
        let addresses: Vec<String> = up.map(|server| self.address(server)).collect::<Result<_, _>>()?;
        let roles = state::roles(&addresses).await;
        let states = state::described(&roles);
        if state::is_whole(&roles) { Ok(states) } else { Err(format!("not healthy ({states})")) }
    }

    /// Returns the current leader and its epoch. Two servers may briefly both claim to lead; the leader of the
    /// later epoch counts, provided that a majority is synchronised with it.
    async fn leader_and_epoch(&self) -> Result<Leader, String> {
        let awake = self.awake().await?;
        let all: Vec<String> = awake.iter().map(|server| server.address.clone()).collect();
        let looks = awake.iter().map(|Numbered { number, address }| {
            Leader::elected_after(None, *number, address, &all, state::PATIENCE)
        });
        let told: Vec<Leader> = join_all(looks).await.into_iter().flatten().collect();
        state::choose(&told, self.voters().len())
    }

    async fn leader(&self) -> Result<usize, String> {
        Ok(self.leader_and_epoch().await?.server)
    }

    /// Returns the numbers of the current followers.
    async fn followers(&self) -> Result<Vec<usize>, String> {
        let awake = self.awake().await?;
        let looks = awake.iter().map(|Numbered { number, address }| async move {
            let srvr = admin::srvr(address, state::PATIENCE).await.ok()??;
            (srvr.mode == "follower").then_some(*number)
        });
        let followers: Vec<usize> = join_all(looks).await.into_iter().flatten().collect();
        if followers.is_empty() { Err("no server reports being a follower".into()) } else { Ok(followers) }
    }

    /// Returns the numbers of a majority of the voting servers, chosen by the seed. The others cannot serve alone.
    fn majority(&self, seed: u64) -> Vec<usize> {
        state::majority(self.voters(), seed)
    }
}

/// Modes in which a server accepts writes.
const SERVING: [&str; 4] = ["leader", "follower", "observer", "standalone"];

#[async_trait]
impl Processes for Local {
    fn servers(&self) -> usize {
        self.addresses().len()
    }

    fn links(&self) -> Option<&dyn Links> {
        Some(self)
    }

    fn logs_at_hand(&self) -> Option<Logs> {
        Some(Logs { directories: self.data(), _copies: None })
    }

    fn ended_by_itself(&self) -> Option<String> {
        self.ended()
    }

    fn address(&self, server: usize) -> Result<String, String> {
        Ok(self.server(server)?.address())
    }

    async fn awake(&self) -> Result<Vec<Numbered>, String> {
        let awake = self.each().map(|mut server| {
            let is_awake = server.is_awake();
            is_awake.then(|| Numbered { number: server.number, address: server.address() })
        });
        Ok(awake.flatten().collect())
    }

    async fn kill(&self, server: usize) -> Done {
        let _changing = self.changing(server).await;
        end(self, server, Signal::KILL).await
    }

    async fn stop(&self, server: usize) -> Done {
        let _changing = self.changing(server).await;
        end(self, server, Signal::TERM).await
    }

    async fn start(&self, server: usize) -> Done {
        let _changing = self.changing(server).await;
        start(self, server).await
    }

    async fn pause(&self, server: usize) -> Done {
        self.server(server)?.pause().map_err(|error| format!("cannot pause server {server}: {error}"))?;
        eventually(SEEN_WITHIN, || async { is_stopped(self, server) }).await.map(drop)
    }

    async fn resume(&self, server: usize) -> Done {
        self.server(server)?.resume().map_err(|error| format!("cannot resume server {server}: {error}"))?;
        let goes_on = || async {
            match is_stopped(self, server) {
                Ok(stopped) => Err(stopped),
                Err(_) => Ok(()),
            }
        };
        eventually(SEEN_WITHIN, goes_on).await
    }

    /// Keeps the file `myid`.
    async fn wipe(&self, number: usize) -> Done {
        let mut server = self.server(number)?;
        if server.is_running() {
            return Err(format!("cannot wipe server {number} while it is running"));
        }
        let data = server.data();
        let wipe = || -> std::io::Result<()> {
            for entry in std::fs::read_dir(&data)? {
                let entry = entry?;
                if entry.file_type()?.is_dir() {
                    std::fs::remove_dir_all(entry.path())?;
                } else if entry.file_name() != "myid" {
                    std::fs::remove_file(entry.path())?;
                }
            }
            Ok(())
        };
        wipe().map_err(|error| format!("cannot wipe server {number} in {}: {error}", data.display()))
    }

    async fn is_running(&self, server: usize) -> bool {
        self.server(server).is_ok_and(|mut server| server.is_running())
    }

    async fn is_down(&self, number: usize) -> Fact {
        let mut server = self.server(number)?;
        if server.is_running() {
            return Err(format!("the process of server {number} is still running"));
        }
        match accepts(&server) {
            Ok(()) => Err(format!(
                "server {number} has ended, but another program is listening on {}",
                server.address()
            )),
            Err(why) => Ok(format!("the process of server {number} is gone ({why})")),
        }
    }

    /// Also checks that the process is stopped, because a missing answer alone may mean that the machine is busy.
    async fn is_silent(&self, server: usize) -> Fact {
        let stopped = is_stopped(self, server)?;
        Ok(format!("{stopped}; {}", answers_nothing(server, &self.address(server)?).await?))
    }
}

/// Time after which a server that ignores SIGTERM is killed.
const STOPPED_WITHIN: Duration = Duration::from_secs(10);
/// Timeout for a killed process to end.
const KILLED_WITHIN: Duration = Duration::from_secs(30);

async fn end(local: &Local, number: usize, signal: Signal) -> Done {
    ask(local, number, signal)?;
    if signal != Signal::KILL {
        if gone(local, number, STOPPED_WITHIN).await.is_ok() {
            return Ok(());
        }
        ask(local, number, Signal::KILL)?;
    }
    gone(local, number, KILLED_WITHIN).await
}

fn ask(local: &Local, number: usize, signal: Signal) -> Done {
    let mut server = local.server(number)?;
    server.end(signal).map_err(|error| format!("cannot stop server {number}: {error}"))
}

async fn gone(local: &Local, number: usize, within: Duration) -> Done {
    eventually(within, || async {
        if local.server(number)?.is_running() {
            return Err(format!("the process of server {number} is still running"));
        }
        Ok(())
    })
    .await
}

/// Timeout for a signal to reach every thread of a JVM.
const SEEN_WITHIN: Duration = Duration::from_secs(10);

fn is_stopped(local: &Local, number: usize) -> Fact {
    let pid = local.server(number)?.pid().ok_or_else(|| format!("server {number} is not running"))?;
    let pid = Pid::from_u32(pid);
    let mut system = System::new();
    let what = ProcessRefreshKind::nothing().without_tasks();
    system.refresh_processes_specifics(ProcessesToUpdate::Some(&[pid]), true, what);
    match system.process(pid).map(sysinfo::Process::status) {
        Some(ProcessStatus::Stop) => Ok(format!("process {pid} of server {number} is stopped")),
        Some(other) => Err(format!("process {pid} of server {number} is not stopped: {other}")),
        None => Err(format!("process {pid} of server {number} is gone")),
    }
}

/// Timeout for a server to listen. On two otherwise idle cores, this takes half a second.
const LISTENS_WITHIN: Duration = Duration::from_secs(60);
/// Time to wait for ports that are still in use.
const FREE_WITHIN: Duration = Duration::from_secs(10);
/// Timeout for connecting to a port of this machine.
const PATIENCE: Duration = Duration::from_millis(500);

async fn start(local: &Local, number: usize) -> Done {
    let deadline = Instant::now() + FREE_WITHIN;
    loop {
        eventually(deadline - Instant::now(), || async { is_free(local, number) }).await?;
        let launched = local.server(number)?.launch();
        launched.map_err(|error| format!("cannot start server {number}: {error}"))?;
        let Err(why) = listens(local, number).await else { return Ok(()) };
        // A server that does not listen in time is useless and would get in the way of the next attempt.
        let _ = end(local, number, Signal::KILL).await;
        let tail = {
            let server = local.server(number)?;
            tail(&server.log, server.log_began)
        };
        // Retry only if another process took a port between the check and the bind.
        if !tail.contains(TAKEN) || Instant::now() >= deadline {
            return Err(format!("server {number} did not restart: {why}\n{tail}"));
        }
    }
}

fn is_free(local: &Local, number: usize) -> Done {
    let mut server = local.server(number)?;
    // Do not wait for ports that the server itself uses; `launch` reports a running server.
    if server.is_running() {
        return Ok(());
    }
    let is_free = inside(server.namespace.as_deref(), || ports::is_free(server.ports));
    match is_free {
        Ok(true) => Ok(()),
        Ok(false) => Err(format!("a port of server {number} is in use: {:?}", server.ports)),
        Err(error) => Err(format!("cannot check the ports of server {number}: {error}")),
    }
}

async fn listens(local: &Local, number: usize) -> Done {
    let seen = eventually(LISTENS_WITHIN, || async {
        let mut server = local.server(number)?;
        if !server.is_running() {
            // The server has ended, so waiting longer is pointless.
            return Ok(Err(server.has_ended().unwrap_or_else(|| "another fault stopped it".into())));
        }
        accepts(&server)?;
        server.is_up();
        Ok(Ok(()))
    });
    seen.await?
}

/// Checks that a server listens for clients. Connects from inside the server's namespace, so cuts don't matter.
fn accepts(server: &super::server::Server) -> Done {
    let address = SocketAddr::from((server.ports.host, server.ports.client));
    let connect = || TcpStream::connect_timeout(&address, PATIENCE).map(drop);
    inside(server.namespace.as_deref(), connect)
        .and_then(|connected| connected)
        .map_err(|error| format!("{address}: {error}"))
}
