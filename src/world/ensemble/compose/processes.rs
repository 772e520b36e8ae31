//! What is done to servers in containers, and what is seen of them.

use std::time::Duration;

use async_trait::async_trait;

use super::command::docker;
use super::member::Member;
use super::running::Compose;
use crate::world::ensemble::state::Numbered;
use crate::world::ensemble::{Done, Fact, Processes, eventually, state};
use crate::world::zk::admin;

/// How long a server may take to end when asked, before Docker kills it; in seconds.
const STOPPED_WITHIN: &str = "10";
/// How long Docker may take to see an end.
const GONE_WITHIN: Duration = Duration::from_secs(30);
/// How long a server may take until it listens. Alone on two cores it takes a second.
const LISTENS_WITHIN: Duration = Duration::from_secs(60);

#[async_trait]
impl Processes for Compose {
    fn servers(&self) -> usize {
        self.members.len()
    }

    fn address(&self, server: usize) -> Result<String, String> {
        Ok(self.member(server)?.address())
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
            return Err(format!("cannot start server {server}: it runs already"));
        }
        docker(&["start", member.id()]).await?;
        if let Err(why) = self.listens(member).await {
            return Err(format!("server {server} did not start again: {why}\n{}", member.log_tail().await));
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
            // Its end was asked for, and cut short before it came.
            self.member(server)?.mean_down(false);
        }
        // Docker refuses to wake what is awake.
        if !now.paused {
            return Ok(());
        }
        docker(&["unpause", self.member(server)?.id()]).await.map(drop)
    }

    async fn wipe(&self, server: usize) -> Done {
        let member = self.member(server)?;
        if self.look_at(server).await?.state.running {
            return Err(format!("cannot wipe server {server} while it runs"));
        }
        self.wipe_volumes(member).await.map_err(|why| format!("cannot wipe server {server}: {why}"))
    }

    async fn is_running(&self, server: usize) -> bool {
        self.look_at(server).await.is_ok_and(|now| now.state.running)
    }

    async fn is_down(&self, server: usize) -> Fact {
        let state = self.look_at(server).await?.state;
        if state.running {
            return Err(format!("the container of server {server} runs"));
        }
        let address = self.address(server)?;
        match admin::ruok(&address, state::PATIENCE).await {
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => Ok(format!(
                "the container of server {server} has ended (exit code {}), and {address} refuses",
                state.exit_code
            )),
            _ => Err(format!("{address} is open though server {server} is gone")),
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

impl Compose {
    /// Ends a server with that command of Docker's, and waits until Docker sees that it is gone.
    async fn end(&self, server: usize, how: &[&str]) -> Done {
        let member = self.member(server)?;
        // Said before, so that its end is no news to a look in between.
        member.mean_down(true);
        let ended = async {
            docker(&[how, &[member.id()]].concat()).await?;
            eventually(GONE_WITHIN, || async {
                if self.look_at(server).await?.state.running {
                    return Err(format!("the container of server {server} still runs"));
                }
                Ok(())
            })
            .await
        };
        let ended = ended.await;
        // It goes on, as far as Docker tells: if it ends later, that was not intended.
        if ended.is_err() && !self.look_at(server).await.is_ok_and(|now| !now.state.running) {
            member.mean_down(false);
        }
        ended
    }

    /// Waits until a server that was started says that it is alive, unless it ends before.
    async fn listens(&self, member: &Member) -> Done {
        let address = member.address();
        let seen = eventually(LISTENS_WITHIN, || async {
            if let Err(error) = admin::ruok(&address, state::PATIENCE).await {
                let state = self.look_at(member.number).await?.state;
                // Of one that has ended nothing more is to come.
                return if state.running {
                    Err(format!("{address}: {error}"))
                } else {
                    Ok(Err(format!("it ended (exit code {})", state.exit_code)))
                };
            }
            Ok(Ok(()))
        });
        seen.await?
    }

    /// Removes snapshots and transaction logs by another container, which has the same volumes.
    async fn wipe_volumes(&self, member: &Member) -> Done {
        let directories = [member.data_dir(), member.log_dir()];
        if let Some(path) = directories.iter().find(|path| member.made.mount_of(path).is_none()) {
            return Err(format!("{path} of the service `{}` is in no volume", member.made.service()));
        }
        let [data, log] = directories.map(|directory| format!("{directory}/version-2"));
        let label = self.project.label();
        let container = [
            &["run", "--rm", "--network", "none", "--user", "0", "--entrypoint", "rm", "--label", &label],
            &["--volumes-from", member.id(), &member.made.image, "-rf", &data, &log][..],
        ];
        docker(&container.concat()).await.map(drop)
    }
}
