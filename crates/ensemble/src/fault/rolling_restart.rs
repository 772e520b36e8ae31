//! `rolling-restart`: restarts the servers one at a time.

use std::time::Duration;

use super::aim::{self, proof};
use super::outage::lift;
use super::reach::{Effect, FaultReach, How};
use super::{Active, FaultEntry, Firing};
use crate::eventually;
use zklockbench_core::catalog::fault::{Ends, FaultCard};
use zklockbench_core::clock::{self, Stamp};

pub const CARD: FaultCard = FaultCard {
    name: "rolling-restart",
    summary: "restarts every server in turn: followers first, the leader last",
    source: "ZooKeeper's page on dynamic reconfiguration, rolling restarts",
    details: "\
Inject: each server gets SIGTERM and is restarted: first the followers in numerical order, then the leader. The next
server follows once the ensemble is healthy (all servers serve, and all followers are synchronised).
Proof: each server went down, and the ensemble was healthy before the next server was stopped.
Ends by itself once the former leader serves again; the duration depends on the servers.

A correct lock: nothing is lost. The only election is at the end. Until then, contenders reconnect to another server
only when their own server stops, at most once per restarted server. Sessions survive.
Caveat: restarted followers do not get their contenders back, so the load is uneven afterwards. With a
single server, the service is down during the restart.",
    ends: Ends::ByItself,
    ..FaultCard::FIXED
};

const GOES_DOWN: Duration = Duration::from_secs(20);

pub const ENTRY: FaultEntry = FaultEntry { card: CARD, inject: |firing| Box::pin(inject(firing)) };

async fn inject(Firing { reach, .. }: Firing<'_>) -> Result<Active<'_>, String> {
    let processes = reach.processes()?;
    let leader = aim::leader(reach).await?;
    let others = (1..=processes.servers()).filter(|server| *server != leader);
    let order: Vec<usize> = others.chain([leader]).collect();
    let (mut seen_at, mut down) = (None, Vec::new());
    let seen = roll(&order, reach, &mut down, &mut seen_at).await;
    // Healing also starts a server that a failure left down.
    let healing = lift(reach, down);
    Ok(Active { seen_at, ..Active::until("all servers".into(), proof(seen), healing) })
}

async fn roll(
    order: &[usize],
    reach: &FaultReach<'_>,
    down: &mut Vec<Effect>,
    seen_at: &mut Option<Stamp>,
) -> Result<String, String> {
    let processes = reach.processes()?;
    for server in order {
        down.push(Effect::Down(*server));
        reach.begin(Effect::Down(*server), How::Stopped).await?;
        eventually(GOES_DOWN, || processes.is_down(*server)).await?;
        seen_at.get_or_insert_with(clock::now);
        lift(reach, std::mem::take(down)).await?;
    }
    let order: Vec<String> = order.iter().map(ToString::to_string).collect();
    Ok(format!("servers {} went down one at a time and came back", order.join(", ")))
}
