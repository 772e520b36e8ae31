//! Shared code for faults in servers and their links, which last until they are healed and the ensemble is
//! healthy. This module takes servers down and restarts them (`kill`, `restart`, `wipe`, `lose-majority`),
//! and heals interrupted faults.

use std::time::Duration;

use super::aim::{self, all_still, do_and_see, do_each, proof};
use super::reach::{Effect, FaultReach, How};
use super::{Active, Firing};
use crate::{Leader, Processes, eventually};
use zklockbench_core::catalog::fault::{Capability, Target};
use zklockbench_core::clock;

const GOES_DOWN: Duration = Duration::from_secs(20);
/// Timeout for cutting or healing links.
pub const LINKS_CHANGE: Duration = Duration::from_secs(30);
/// Timeout for an election and for servers to synchronise. On a loaded host, servers start slowly.
pub const COMES_BACK: Duration = Duration::from_secs(60);

/// Applies an effect to the targeted servers until the fault is healed.
pub async fn break_targets(
    effect: fn(usize) -> Effect,
    within: Duration,
    firing: Firing<'_>,
) -> Result<Active<'_>, String> {
    let Firing { choice, reach, mut draw } = firing;
    let processes = reach.processes()?;
    let servers = aim::servers(&choice.target, reach, &mut draw).await?;
    let leader = processes.leader().await.ok();
    let name = aim::server_name(&servers, &choice.target, leader);
    let effects: Vec<Effect> = servers.into_iter().map(effect).collect();
    let seen = begin(&effects, within, reach).await;
    Ok(until_lifted(name, seen, effects, reach))
}

/// Starts these effects, and waits until each has been observed.
pub async fn begin(effects: &[Effect], within: Duration, reach: &FaultReach<'_>) -> Result<String, String> {
    do_and_see(
        effects,
        |effect| reach.begin(effect, How::Killed),
        within,
        |effect| reach.is_in_effect(effect),
    )
    .await
}

/// Creates a fault that lasts until its effects are healed. Each effect is checked again just before healing.
pub fn until_lifted<'a>(
    target: String,
    seen: Result<String, String>,
    effects: Vec<Effect>,
    reach: &'a FaultReach<'_>,
) -> Active<'a> {
    let looked_at = effects.clone();
    let still = async move { all_still(&looked_at, |effect| reach.is_in_effect(effect)).await };
    Active::until(target, proof(seen), lift(reach, effects)).still_if(still)
}

/// Takes the targeted servers down until the fault is healed.
pub async fn take_targets_down(how: How, firing: Firing<'_>) -> Result<Active<'_>, String> {
    let Firing { choice, reach, mut draw } = firing;
    let servers = aim::servers(&choice.target, reach, &mut draw).await?;
    take_down(how, servers, &choice.target, reach).await
}

/// Takes a server down and deletes its data; healing restarts the server empty.
///
/// Acknowledged data may exist only on a bare majority that includes this server. All other servers must
/// therefore serve first: a server that is down or still synchronising may lack data.
pub async fn wipe_target(firing: Firing<'_>) -> Result<Active<'_>, String> {
    let Firing { choice, reach, mut draw } = firing;
    let processes = reach.processes()?;
    let _alone = reach.while_loaded(async { Ok(reach.in_effect.wipes_alone().await) }).await?;
    let servers = aim::servers(&choice.target, reach, &mut draw).await?;
    let others: Vec<usize> = (1..=processes.servers()).filter(|server| !servers.contains(server)).collect();
    let all_serve = eventually(aim::PATIENCE, || all_still(&others, |server| processes.serves(server)));
    reach
        .while_loaded(all_serve)
        .await
        .map_err(|why| format!("nothing was wiped, because acknowledged data might have been lost: {why}"))?;
    take_down(How::Wiped, servers, &choice.target, reach).await
}

/// Takes servers down until the fault is healed. If the leader is among them and a majority remains, waits
/// until another leader is elected.
pub async fn take_down<'a>(
    how: How,
    servers: Vec<usize>,
    target: &Target,
    reach: &'a FaultReach<'_>,
) -> Result<Active<'a>, String> {
    let processes = reach.processes()?;
    let before = processes.leader_and_epoch().await.ok();
    let name = aim::server_name(&servers, target, before.map(|leader| leader.server));
    let take_down = |server| reach.begin(Effect::Down(server), how);
    let fallen = do_and_see(&servers, take_down, GOES_DOWN, |server| processes.is_down(server)).await;
    let seen_at = fallen.is_ok().then(clock::now);
    let seen = match fallen {
        Ok(seen) => see_consequences(seen, how, &servers, before, reach).await,
        why => why,
    };
    let effects = servers.into_iter().map(Effect::Down).collect();
    Ok(Active { seen_at, ..until_lifted(name, seen, effects, reach) })
}

/// Deletes the data if the fault is a wipe. Waits for another leader if the leader went down.
async fn see_consequences(
    mut seen: String,
    how: How,
    servers: &[usize],
    before: Option<Leader>,
    reach: &FaultReach<'_>,
) -> Result<String, String> {
    let processes = reach.processes()?;
    if how == How::Wiped {
        // Another server may have failed while the target was going down.
        eventually(COMES_BACK, || processes.whole_but_for(servers)).await?;
        reach.is_loaded()?;
        do_each(servers, |server| processes.wipe(server)).await?;
        seen += "; its data was deleted";
    }
    let fell = before.filter(|leader| servers.contains(&leader.server));
    if let Some(before) = fell.filter(|_| reach.in_effect.leaves_a_majority_of(&processes.voters())) {
        seen += "; ";
        seen += &eventually(COMES_BACK, || later_than(processes, before.epoch)).await?;
    }
    Ok(seen)
}

async fn later_than(processes: &dyn Processes, epoch: u64) -> Result<String, String> {
    let leader = processes.leader_and_epoch().await?;
    if leader.epoch > epoch {
        return Ok(format!("server {} is the leader in epoch {}", leader.server, leader.epoch));
    }
    Err(format!("server {} is still the leader in epoch {}", leader.server, leader.epoch))
}

/// Ends these effects, and waits until all links work and every server serves and is synchronised. Does not
/// wait if other faults still prevent this; healing the last of those faults then waits.
pub async fn lift(reach: &FaultReach<'_>, effects: Vec<Effect>) -> Result<(), String> {
    do_each(&effects, |effect| reach.end(effect)).await?;
    if effects.iter().any(Effect::breaks_a_link) {
        let links = reach.links()?;
        let joined = || async {
            if reach.in_effect.links_are_whole() { links.all_reach().await.map(drop) } else { Ok(()) }
        };
        eventually(LINKS_CHANGE, joined).await?;
    }
    let processes = reach.processes()?;
    let whole =
        || async { if reach.in_effect.is_any() { Ok(()) } else { processes.whole().await.map(drop) } };
    eventually(COMES_BACK, whole).await
}

/// Restores all servers and links that a fault with this required capability may have changed, and waits until
/// the ensemble is healthy. Needed after an interrupted fault: effects on contenders and connections end when
/// dropped, but servers must be started, resumed and reconnected.
pub async fn undo_all(needs: Capability, reach: &FaultReach<'_>) -> Result<(), String> {
    if !needs.reaches_servers() {
        return Ok(());
    }
    let processes = reach.processes()?;
    reach.in_effect.forget().await;
    let servers: Vec<usize> = (1..=processes.servers()).collect();
    let joined = if needs == Capability::Processes { Ok(()) } else { reach.links()?.heal_all().await };
    // A server that was being stopped during the interrupt may still exist in one check and be gone in the next.
    let whole = eventually(COMES_BACK, || wake_and_start(&servers, processes));
    joined.and(whole.await.map(drop))
}

async fn wake_and_start(servers: &[usize], processes: &dyn Processes) -> Result<String, String> {
    let (mut there, mut down) = (Vec::new(), Vec::new());
    for server in servers {
        if processes.is_running(*server).await { there.push(*server) } else { down.push(*server) }
    }
    let woken = do_each(&there, |server| processes.resume(server)).await;
    do_each(&down, |server| processes.start(server)).await?;
    woken?;
    processes.whole().await
}
