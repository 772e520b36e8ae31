//! A stale server is the only follower that the leader still reaches. It confirms sessions that move to it. The
//! leader and one follower of five servers are not a majority, so the contender's last write is not committed and is
//! missing there.
//!
//! An ensemble of three servers cannot have a stale server. The leader and any follower are a majority, and a
//! follower confirms a session over the link that also carries commits. The leader answers a session only after that
//! session's own writes.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use zklockbench_ensemble::{Done, Links, Processes, eventually};
use zklockbench_zk::admin;

/// Maximum time for which the links are blocked. The leader drops its followers after 5 s.
pub const HELD_FOR: Duration = Duration::from_secs(3);
/// Time after which an unanswered request is assumed to need the links.
pub const NEEDS_LINKS_AFTER: Duration = Duration::from_millis(300);
const HEALTHY_WITHIN: Duration = Duration::from_secs(10);
const PROPOSED_WITHIN: Duration = Duration::from_secs(1);
const LOOKS_EVERY: Duration = Duration::from_millis(5);

/// Servers of an exploration.
#[derive(Debug, Clone)]
pub struct Servers {
    /// `host:port` of the server to which contenders connect first.
    pub home: String,
    /// Server that a moved session reaches; `None` if there is only one server.
    pub other: Option<String>,
    /// Servers with links that can be blocked, or the reason why there are none.
    pub held: Result<Held, String>,
}

impl Servers {
    /// Chooses a first server and a second server for moves. If links can be blocked, both are followers, and the
    /// second can become stale.
    ///
    /// # Errors
    /// If there is no server.
    pub fn of(addresses: &[String], held: Result<Held, String>) -> Result<Self, String> {
        if let Ok(links) = &held {
            let (home, other) = (links.address(links.home), Some(links.stale()));
            return Ok(Self { home, other, held });
        }
        let mut usable = addresses.iter().cloned();
        let home = usable.next().ok_or("the ensemble has no server")?;
        Ok(Self { home, other: usable.next(), held })
    }
}

/// Servers with links that can be blocked.
#[derive(Clone)]
pub struct Held {
    servers: Arc<dyn Processes>,
    leader: usize,
    home: usize,
    stale: usize,
    /// Followers that the leader does not reach while the links are blocked.
    cut_off: Vec<usize>,
    addresses: Vec<String>,
}

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Held")
            .field("leader", &self.leader)
            .field("stale", &self.stale)
            .finish_non_exhaustive()
    }
}

impl Held {
    /// Size of the smallest ensemble in which the leader and one follower are not a majority.
    pub const LEAST: usize = 5;

    /// # Errors
    /// If there are too few servers, if their links cannot be cut, or if there is no leader.
    pub async fn of(servers: Arc<dyn Processes>) -> Result<Self, String> {
        let count = servers.servers();
        if count < Self::LEAST {
            return Err(format!("needs {} servers", Self::LEAST));
        }
        servers.links().ok_or("the servers share one network")?;
        let (leader, followers) = (servers.leader().await?, servers.followers().await?);
        let [home, stale, ..] = followers[..] else { return Err("found fewer than two followers".into()) };
        let cut_off = (1..=count).filter(|server| ![leader, stale].contains(server)).collect();
        let addresses = (1..=count).map(|server| servers.address(server)).collect::<Result<_, _>>()?;
        Ok(Self { servers, leader, home, stale, cut_off, addresses })
    }

    fn address(&self, server: usize) -> String {
        self.addresses[server - 1].clone()
    }

    /// Returns the `host:port` of the server that becomes stale.
    pub fn stale(&self) -> String {
        self.address(self.stale)
    }

    fn links(&self) -> Result<&dyn Links, String> {
        self.servers.links().ok_or_else(|| "the servers share one network".into())
    }

    /// Blocks all traffic from the leader to every follower except one.
    pub async fn begin(&self) -> Done {
        let leads = self.servers.leader().await?;
        if leads != self.leader {
            return Err(format!("the leader changed from server {} to server {leads}", self.leader));
        }
        for follower in &self.cut_off {
            self.links()?.cut(self.leader, *follower).await?;
        }
        Ok(())
    }

    /// Verifies that no traffic from the leader reaches the other followers.
    pub async fn has_begun(&self) -> Done {
        let links = self.links()?;
        let each = self.cut_off.iter().map(|follower| links.is_cut(self.leader, *follower));
        futures_util::future::try_join_all(each).await.map(drop)
    }

    pub async fn end(&self) -> Done {
        self.links()?.heal_all().await?;
        eventually(HEALTHY_WITHIN, || self.servers.whole()).await.map(drop)
    }

    /// Returns the number of writes that the leader has proposed.
    pub async fn proposals(&self) -> Result<i64, String> {
        let mntr = admin::mntr(&self.address(self.leader)).await.map_err(|error| error.to_string())?;
        mntr.number("zk_proposal_count").ok_or_else(|| "the leader reports no proposal count".into())
    }

    /// Waits until the leader has proposed another write.
    pub async fn proposed_since(&self, before: i64) -> Done {
        let until = Instant::now() + PROPOSED_WITHIN;
        while self.proposals().await? <= before {
            if Instant::now() >= until {
                return Err("the write did not reach the leader".into());
            }
            tokio::time::sleep(LOOKS_EVERY).await;
        }
        Ok(())
    }
}
