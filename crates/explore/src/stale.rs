//! A stale server: the only follower that the leader reaches. It confirms sessions that move to it, but the leader and one of five
//! servers are no majority, so a contender that moves there does not find the write that it has just sent.
//!
//! Three servers have no stale one. There, the leader and any follower are a majority, and a follower confirms a session over
//! the link that brings commits. The leader itself answers a session only after that session's own writes.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use zklockbench_ensemble::{Done, Links, Processes, eventually};
use zklockbench_zk::admin;

/// Longest hold of the links; the leader gives its followers up after 5 s.
pub const HELD_FOR: Duration = Duration::from_secs(3);
/// Time after which an unanswered request is taken to need the links.
pub const NEEDS_LINKS_AFTER: Duration = Duration::from_millis(300);
const HEALTHY_WITHIN: Duration = Duration::from_secs(10);
const PROPOSED_WITHIN: Duration = Duration::from_secs(1);
const LOOKS_EVERY: Duration = Duration::from_millis(5);

/// Servers of an exploration.
#[derive(Debug, Clone)]
pub struct Servers {
    /// `host:port` of the server that contenders reach first.
    pub home: String,
    /// Server that a moved session reaches; `None` with one server.
    pub other: Option<String>,
    /// Links that can be held, or why none can.
    pub held: Result<Held, String>,
}

impl Servers {
    /// The first server, and the second for moves. With links that can be held, both follow, and the second can become
    /// stale.
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

/// Servers whose links can be held.
#[derive(Clone)]
pub struct Held {
    servers: Arc<dyn Processes>,
    leader: usize,
    home: usize,
    stale: usize,
    /// Followers that the leader does not reach while the links are held.
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
    /// Number of servers of which the leader and one follower are no majority.
    pub const LEAST: usize = 5;

    /// # Errors
    /// If there are too few servers, if their links cannot be cut, or if no server leads.
    pub async fn of(servers: Arc<dyn Processes>) -> Result<Self, String> {
        let count = servers.servers();
        if count < Self::LEAST {
            return Err(format!("needs {} servers", Self::LEAST));
        }
        servers.links().ok_or("the servers share one network")?;
        let (leader, followers) = (servers.leader().await?, servers.followers().await?);
        let [home, stale, ..] = followers[..] else { return Err("too few servers follow".into()) };
        let cut_off = (1..=count).filter(|server| ![leader, stale].contains(server)).collect();
        let addresses = (1..=count).map(|server| servers.address(server)).collect::<Result<_, _>>()?;
        Ok(Self { servers, leader, home, stale, cut_off, addresses })
    }

    fn address(&self, server: usize) -> String {
        self.addresses[server - 1].clone()
    }

    /// `host:port` of the server that becomes stale.
    pub fn stale(&self) -> String {
        self.address(self.stale)
    }

    fn links(&self) -> Result<&dyn Links, String> {
        self.servers.links().ok_or_else(|| "the servers share one network".into())
    }

    /// Stops everything from the leader to all followers but one.
    pub async fn begin(&self) -> Done {
        let leads = self.servers.leader().await?;
        if leads != self.leader {
            return Err(format!("server {} led at the start, but now server {leads} does", self.leader));
        }
        for follower in &self.cut_off {
            self.links()?.cut(self.leader, *follower).await?;
        }
        Ok(())
    }

    /// Verifies that nothing gets from the leader to these followers.
    pub async fn has_begun(&self) -> Done {
        let links = self.links()?;
        let each = self.cut_off.iter().map(|follower| links.is_cut(self.leader, *follower));
        futures_util::future::try_join_all(each).await.map(drop)
    }

    pub async fn end(&self) -> Done {
        self.links()?.heal_all().await?;
        eventually(HEALTHY_WITHIN, || self.servers.whole()).await.map(drop)
    }

    /// Number of writes that the leader has begun.
    pub async fn proposals(&self) -> Result<i64, String> {
        let mntr = admin::mntr(&self.address(self.leader)).await.map_err(|error| error.to_string())?;
        mntr.number("zk_proposal_count").ok_or_else(|| "the leader does not count proposals".into())
    }

    /// Waits until the leader has begun another write.
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
