//! Breaks containerised servers and their network, and checks the effects from inside the containers.
//!
//! To check whether one container can reach another, a process in the first container connects to a closed
//! port of the second. A refusal proves that packets pass in both directions, and no server is disturbed.

use std::io;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::try_join_all;

use super::docker::{docker, stderr_in};
use super::member::Member;
use super::running::Compose;
use crate::state::{self, Numbered};
use crate::{Done, Fact, Links, Logs, Processes, eventually};
use zklockbench_zk::admin;

/// Seconds after which Docker kills a server that does not stop.
const STOPPED_WITHIN: &str = "10";
const GONE_WITHIN: Duration = Duration::from_secs(30);
/// Timeout for a server to listen. On two otherwise idle cores, this takes a second.
const LISTENS_WITHIN: Duration = Duration::from_secs(60);

#[async_trait]
impl Processes for Compose {
    fn servers(&self) -> usize {
        self.members.len()
    }

    fn ended_by_itself(&self) -> Option<String> {
        self.ended()
    }

    fn address(&self, server: usize) -> Result<String, String> {
        Ok(self.member(server)?.address())
    }

    fn voters(&self) -> Vec<usize> {
        self.voters.get().cloned().unwrap_or_else(|| (1..=self.servers()).collect())
    }

    fn links(&self) -> Option<&dyn Links> {
        Some(self)
    }

    async fn logs(&self) -> io::Result<Logs> {
        // On other systems, containers run in a virtual machine with a different clock.
        if !cfg!(target_os = "linux") {
            return Err(io::Error::other("the servers do not share this machine's clock"));
        }
        let copies = tempfile::tempdir()?;
        let mut directories = Vec::new();
        for member in &self.members {
            let directory = copies.path().join(format!("server-{}", member.number));
            std::fs::create_dir(&directory)?;
            let from = format!("{}:{}/version-2", member.id(), member.log_dir());
            if let Err(why) = docker(&["cp", &from, &directory.to_string_lossy()]).await {
                // The data was wiped and the server has not started since, or the data is in memory, where
                // Docker cannot read it. Old versions of Docker also report a missing container as a missing path.
                if !is_missing_path(&why) || self.look_at(member.number).await.is_err() {
                    return Err(io::Error::other(why));
                }
            }
            directories.push(directory);
        }
        Ok(Logs { directories, _copies: Some(copies) })
    }

    fn has_logs(&self) -> bool {
        self.without_logs().is_none()
    }

    async fn awake(&self) -> Result<Vec<Numbered>, String> {
        let now = self.look().await?;
        let awake = self.members.iter().zip(now).filter(|(_, now)| now.state.running && !now.state.paused);
        let numbered = |member: &Member| Numbered { number: member.number, address: member.address() };
        Ok(awake.map(|(member, _)| numbered(member)).collect())
    }

    async fn kill(&self, server: usize) -> Done {
        self.end(server, &["kill", "--signal", "KILL"]).await
    }

    async fn stop(&self, server: usize) -> Done {
        self.end(server, &["stop", "--time", STOPPED_WITHIN]).await
    }

    async fn start(&self, server: usize) -> Done {
        let member = self.member(server)?;
        if self.look_at(server).await?.state.running {
            return Err(format!("cannot start server {server}: it is already running"));
        }
        docker(&["start", member.id()]).await?;
        if let Err(why) = self.listens(member).await {
            return Err(format!("server {server} did not restart: {why}\n{}", member.log_tail().await));
        }
        member.mean_down(false);
        Ok(())
    }

    async fn pause(&self, server: usize) -> Done {
        docker(&["pause", self.member(server)?.id()]).await.map(drop)
    }

    async fn resume(&self, server: usize) -> Done {
        let now = self.look_at(server).await?.state;
        if now.running {
            // An earlier `kill` or `stop` may have been cancelled before the server ended.
            self.member(server)?.mean_down(false);
        }
        // Docker refuses to unpause a container that is not paused.
        if !now.paused {
            return Ok(());
        }
        docker(&["unpause", self.member(server)?.id()]).await.map(drop)
    }

    async fn wipe(&self, server: usize) -> Done {
        let member = self.member(server)?;
        if self.look_at(server).await?.state.running {
            return Err(format!("cannot wipe server {server} while it is running"));
        }
        self.wipe_volumes(member).await.map_err(|why| format!("cannot wipe server {server}: {why}"))
    }

    async fn is_running(&self, server: usize) -> bool {
        self.look_at(server).await.is_ok_and(|now| now.state.running)
    }

    async fn is_down(&self, server: usize) -> Fact {
        let state = self.look_at(server).await?.state;
        if state.running {
            return Err(format!("the container of server {server} is running"));
        }
        let address = self.address(server)?;
        match admin::ruok(&address, state::PATIENCE).await {
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => Ok(format!(
                "the container of server {server} has ended (exit code {}), and {address} refuses connections",
                state.exit_code
            )),
            _ => Err(format!("{address} does not refuse connections, although server {server} has ended")),
        }
    }

    async fn is_silent(&self, server: usize) -> Fact {
        if !self.look_at(server).await?.state.paused {
            return Err(format!("the container of server {server} is not paused"));
        }
        let silent = state::answers_nothing(server, &self.address(server)?).await?;
        Ok(format!("the container of server {server} is paused; {silent}"))
    }
}

/// Returns whether `docker cp` failed because the container has no such path. Docker's versions differ in the message.
fn is_missing_path(why: &str) -> bool {
    let stderr = stderr_in(why);
    stderr.contains("Could not find the file") || stderr.contains("No such container:path:")
}

impl Compose {
    async fn end(&self, server: usize, how: &[&str]) -> Done {
        let member = self.member(server)?;
        // Set the flag first, so that a concurrent check does not report the exit.
        member.mean_down(true);
        let ended = async {
            docker(&[how, &[member.id()]].concat()).await?;
            eventually(GONE_WITHIN, || async {
                if self.look_at(server).await?.state.running {
                    return Err(format!("the container of server {server} is still running"));
                }
                Ok(())
            })
            .await
        };
        let ended = ended.await;
        // If the server may still be running, a later exit would be unexpected.
        if ended.is_err() && !self.look_at(server).await.is_ok_and(|now| !now.state.running) {
            member.mean_down(false);
        }
        ended
    }

    async fn listens(&self, member: &Member) -> Done {
        let address = member.address();
        let seen = eventually(LISTENS_WITHIN, || async {
            if let Err(error) = admin::ruok(&address, state::PATIENCE).await {
                let state = self.look_at(member.number).await?.state;
                // The server has ended, so waiting longer is pointless.
                return if state.running {
                    Err(format!("{address}: {error}"))
                } else {
                    Ok(Err(format!("the server ended (exit code {})", state.exit_code)))
                };
            }
            Ok(Ok(()))
        });
        seen.await?
    }

    /// Removes snapshots and transaction logs by running `rm` in another container that mounts the same volumes.
    async fn wipe_volumes(&self, member: &Member) -> Done {
        let directories = [member.data_dir(), member.log_dir()];
        if let Some(path) = directories.iter().find(|path| member.made.mount_of(path).is_none()) {
            return Err(format!("{path} of the service `{}` is not in a volume", member.made.service()));
        }
        let [data, log] = directories.map(|directory| format!("{directory}/version-2"));
        let label = self.project.label();
        let container = [
            &["run", "--rm", "--network", "none", "--user", "0", "--entrypoint", "rm", "--label", &label],
            &["--volumes-from", member.id(), &member.made.image, "-rf", &data, &log][..],
        ];
        docker(&container.concat()).await.map(drop)
    }

    /// Returns whether a packet passes from one container to the other and back.
    async fn connects(&self, from: usize, to: usize) -> Result<bool, String> {
        let (from, to): (&Member, &Member) = (self.member(from)?, self.member(to)?);
        let connect = format!("exec 3<>/dev/tcp/{}/{DISCARD}", to.place()?.address);
        let asked = ["exec", from.id(), "timeout", PATIENCE, "bash", "-c", &connect];
        match docker(&asked).await {
            Ok(_) => Ok(true),
            Err(why) if why.contains("Connection refused") => Ok(true),
            Err(why) if is_lost(&why) => Ok(false),
            Err(why) => Err(format!("cannot check what {} can reach: {why}", from.name())),
        }
    }
}

/// Port that is closed in every container: discard (RFC 863).
const DISCARD: u16 = 9;
/// Connection timeout in seconds; a connection usually takes a millisecond.
const PATIENCE: &str = "1";
const NO_CUTS: &str =
    "Docker can disconnect a server from its network, but cannot drop packets between two servers";

#[async_trait]
impl Links for Compose {
    async fn isolate(&self, server: usize) -> Done {
        let member = self.member(server)?;
        docker(&["network", "disconnect", &member.place()?.network, member.id()]).await.map(drop)
    }

    async fn rejoin(&self, server: usize) -> Done {
        let member = self.member(server)?;
        let place = member.place()?;
        if self.look_at(server).await?.network_settings.networks.contains_key(&place.network) {
            return Ok(());
        }
        let address = place.address.to_string();
        let aliases: Vec<&str> = place.aliases.iter().flat_map(|alias| ["--alias", alias]).collect();
        let connect =
            [&["network", "connect", "--ip", &address], &aliases[..], &[&place.network, member.id()]];
        docker(&connect.concat()).await.map(drop)
    }

    async fn cut(&self, _: usize, _: usize) -> Done {
        Err(NO_CUTS.into())
    }

    async fn heal(&self, _: usize, _: usize) -> Done {
        // There are no cuts to heal.
        Ok(())
    }

    async fn heal_all(&self) -> Done {
        let mut healed = Ok(());
        for member in &self.members {
            healed = healed.and(self.rejoin(member.number).await);
        }
        healed
    }

    async fn reaches(&self, from: usize, to: usize) -> Fact {
        if self.connects(from, to).await? {
            return Ok(format!("a packet passed from server {from} to {to} and back"));
        }
        Err(format!("server {from} got no answer from server {to} within {PATIENCE} s"))
    }

    async fn is_cut(&self, from: usize, to: usize) -> Fact {
        if self.connects(from, to).await? {
            return Err(format!("a packet passed from server {from} to {to} and back"));
        }
        Ok(format!("server {from} got no answer from server {to} within {PATIENCE} s"))
    }

    async fn is_isolated(&self, server: usize) -> Fact {
        let networks = self.look_at(server).await?.network_settings.networks;
        if !networks.is_empty() {
            return Err(format!("server {server} is still connected to a network"));
        }
        let others =
            self.awake().await?.into_iter().map(|other| other.number).filter(|other| *other != server);
        let ways = others.flat_map(|other| [(server, other), (other, server)]);
        try_join_all(ways.map(|(from, to)| self.is_cut(from, to))).await?;
        let address = self.address(server)?;
        match admin::ruok(&address, state::PATIENCE).await {
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => Ok(format!(
                "server {server} and the other servers cannot connect to each other, and {address} refuses connections"
            )),
            _ => Err(format!("{address} does not refuse connections, although server {server} is isolated")),
        }
    }

    async fn all_reach(&self) -> Fact {
        // Skip servers that other faults have taken down or paused.
        let awake = self.awake().await?;
        let pairs = awake.iter().flat_map(|from| awake.iter().map(|to| (from.number, to.number)));
        let pairs = pairs.filter(|(from, to)| from != to);
        try_join_all(pairs.map(|(from, to)| self.reaches(from, to))).await?;
        try_join_all(awake.iter().map(|Numbered { number, address }| async move {
            let answer = admin::ruok(address, state::PATIENCE).await;
            answer.map_err(|error| format!("cannot reach server {number} from here: {address}: {error}"))
        }))
        .await?;
        Ok("every server can be reached from every other and from the suite".into())
    }
}

/// Returns whether an error contains bash's message for an unreachable address or the exit code of `timeout`.
fn is_lost(why: &str) -> bool {
    ["Network is unreachable", "No route to host", "exit status: 124"].iter().any(|said| why.contains(said))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_container_is_not_mistaken_for_missing_data() {
        let failed = |stderr: &str| {
            let command = "`docker cp 84:/No such container:path: /tmp/x` failed (exit status: 1): ";
            is_missing_path(&format!("{command}{stderr}"))
        };
        assert!(failed(
            "Error response from daemon: Could not find the file /data/version-2 in container 84"
        ));
        assert!(failed("Error: No such container:path: 84:/data/version-2"));
        assert!(!failed("Error response from daemon: No such container: 84"));
        assert!(!failed("Error: No such container: 84"));
        assert!(!is_missing_path("cannot run `docker cp`: No such file or directory (os error 2)"));
    }
}
