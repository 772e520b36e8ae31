//! `pause`: a server's process stands still, and goes on when the fault ends.

use std::time::Duration;

use super::aim::{self, all_still, do_and_see, proof};
use super::outage::lift;
use super::reach::{Effect, FaultReach};
use super::{Active, FaultEntry, Firing};
use crate::words::catalog::fault::FaultCard;

pub const CARD: FaultCard = FaultCard {
    name: "pause",
    summary: "pauses a server (SIGSTOP, then SIGCONT), as a long garbage collection would",
    source: "Jepsen's pause nemesis",
    details: "\
Inject: SIGSTOP to the server's Java process. Its sockets stay open and swallow what is sent.
Proof: the system says that the process is stopped, and the server does not answer.
Heal: SIGCONT; healed when the ensemble is whole. It is sent however the trial ends, because a stopped process
cannot even be ended cleanly.

A correct lock: nobody is told. Contenders of that server notice when nothing is answered for two thirds of their
session timeout, and move. A leader is replaced after `syncLimit` ticks. When it wakes up it still takes itself for
the leader for up to a tick, and clients that read from it then read the past; its writes find no majority. A lock
that decides by a read must not enter because of an old list.
Where it misleads: a pause shorter than what the others tolerate shows up only as waiting.",
    stops_service: true,
    ..FaultCard::SERVERS
};

const FALLS_SILENT: Duration = Duration::from_secs(20);

pub const ENTRY: FaultEntry = FaultEntry { card: CARD, inject: |firing| Box::pin(inject(firing)) };

async fn inject(Firing { choice, reach, mut draw }: Firing<'_>) -> Result<Active<'_>, String> {
    let processes = reach.processes()?;
    let servers = aim::servers(&choice.target, processes, &mut draw).await?;
    let leader = processes.leader().await.ok();
    let pause = |server| reach.begin(Effect::Still(server));
    let seen = do_and_see(&servers, pause, FALLS_SILENT, |server| stands(server, reach)).await;
    let name = aim::server_name(&servers, &choice.target, leader);
    let looked_at = servers.clone();
    let still = async move { all_still(&looked_at, |server| stands(server, reach)).await };
    let healing = lift(reach, servers.into_iter().map(Effect::Still).collect());
    Ok(Active::until(name, proof(seen), healing).still_if(still))
}

/// It stands still; or another fault holds it down, and it will stand still when that one ends.
async fn stands(server: usize, reach: &FaultReach<'_>) -> Result<String, String> {
    let processes = reach.processes()?;
    let _settled = reach.in_effect.settled(server).await;
    if reach.in_effect.has(Effect::Down(server)) {
        return Ok(format!("{}, by another fault", processes.is_down(server).await?));
    }
    processes.is_silent(server).await
}
