//! Servers that go down and are started again: what `kill`, `restart`, `wipe` and `lose-majority` have in common.

use std::time::Duration;

use super::active::Active;
use super::aim;
use super::site::Site;
use crate::catalog::fault::{Proof, Target};
use crate::clock;
use crate::ensemble::{Processes, eventually};

/// How long it may take until a server is seen down.
const GOES_DOWN: Duration = Duration::from_secs(20);
/// How long an election may take, and servers to be in step again. On a loaded host they are slow to start.
const COMES_BACK: Duration = Duration::from_secs(60);

/// How servers go down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// Killed.
    Killed,
    /// Asked to end.
    Stopped,
    /// Killed, and their data thrown away.
    Wiped,
}

/// Takes servers down until it is healed. Where the leader was among them and a majority is left, another one has
/// been elected when this returns.
pub async fn take_down<'a>(
    how: How,
    servers: Vec<usize>,
    target: &Target,
    site: &Site<'a>,
) -> Result<Active<'a>, String> {
    let processes = site.processes()?;
    let before = processes.leader_and_epoch().await.ok();
    for server in &servers {
        match how {
            How::Stopped => processes.stop(*server).await?,
            How::Killed | How::Wiped => processes.kill(*server).await?,
        }
    }
    let mut seen = Vec::new();
    for server in &servers {
        seen.push(eventually(GOES_DOWN, || processes.is_down(*server)).await?);
    }
    let seen_at = clock::now();
    if how == How::Wiped {
        for server in &servers {
            processes.wipe(*server).await?;
        }
        seen.push("its data are gone".into());
    }
    let leader_fell = before.filter(|leader| servers.contains(&leader.server));
    if let Some(before) = leader_fell.filter(|_| keeps_a_majority(processes, &servers)) {
        let later = eventually(COMES_BACK, || later_than(processes, before.epoch)).await?;
        seen.push(later);
    }
    let name = aim::server_name(&servers, target, before.map(|leader| leader.server));
    let healing = bring_back(processes, servers);
    Ok(Active { seen_at: Some(seen_at), ..Active::until(name, Proof::Proved(seen.join("; ")), healing) })
}

fn keeps_a_majority(processes: &dyn Processes, down: &[usize]) -> bool {
    2 * (processes.servers() - down.len()) > processes.servers()
}

/// A leader of a later election than that.
pub async fn later_than(processes: &dyn Processes, epoch: u64) -> Result<String, String> {
    let leader = processes.leader_and_epoch().await?;
    if leader.epoch > epoch {
        return Ok(format!("server {} leads since epoch {}", leader.server, leader.epoch));
    }
    Err(format!("server {} still leads since epoch {}", leader.server, leader.epoch))
}

/// Starts servers again and waits until the ensemble is whole.
async fn bring_back(processes: &dyn Processes, servers: Vec<usize>) -> Result<(), String> {
    for server in &servers {
        processes.start(*server).await?;
    }
    until_whole(processes).await
}

/// Waits until every server serves and is in step.
pub async fn until_whole(processes: &dyn Processes) -> Result<(), String> {
    eventually(COMES_BACK, || processes.whole()).await.map(drop)
}
