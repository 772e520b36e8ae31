//! `refuse`: a contender's connection breaks, and new ones are refused.

use std::time::Duration;

use super::aim::{proof, until};
use super::{Active, FaultEntry, Firing, wire};
use zklockbench_core::catalog::fault::FaultCard;

pub const CARD: FaultCard = FaultCard {
    name: "refuse",
    summary: "breaks a contender's connection, and refuses new ones for a while",
    source: "Toxiproxy, a proxy that is down",
    details: "\
Inject: the proxy closes the contender's connection, and each new one as soon as it is made.
Proof: the contender has no connection left.
Heal: connections are let through again.

A correct lock: up to the session timeout, it behaves as under `reset`. After that, the ensemble ends the session
and the next contender acquires. Unlike under `stall`, the contender knows at once that it is disconnected: it has
the whole timeout to stop its work.",
    ..FaultCard::CONNECTIONS
};

const TAKES_EFFECT: Duration = Duration::from_secs(5);

pub const ENTRY: FaultEntry = FaultEntry { card: CARD, inject: |firing| Box::pin(inject(firing)) };

async fn inject(Firing { choice, reach, mut draw }: Firing<'_>) -> Result<Active<'_>, String> {
    let hit = wire::aim_at(choice, reach, &mut draw).await?;
    let guards: Vec<_> = hit.who.iter().map(|who| hit.proxy.refuse(*who)).collect();
    let gone = || hit.who.iter().all(|who| hit.proxy.connections(*who) == 0);
    let gone = until(TAKES_EFFECT, gone, "a connection stayed").await;
    let proof = proof(gone.map(|()| "no connection was left".to_owned()));
    let name = hit.name.clone();
    Ok(Active::until_dropped(name, proof, guards).still_if(wire::nothing_passes(hit)))
}
