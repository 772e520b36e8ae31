//! `reset`: a contender's connection breaks.

use super::aim::{self, proof};
use super::{Active, FaultEntry, Firing, wire};
use crate::eventually;
use zklockbench_core::catalog::fault::{Ends, FaultCard};
use zklockbench_core::units::counted;

pub const CARD: FaultCard = FaultCard {
    name: "reset",
    summary: "breaks a contender's connection; it may reconnect at once",
    source: "Toxiproxy's reset_peer toxic; ZooKeeper Programmer's Guide, connection loss",
    details: "\
Inject: the proxy closes both ends of the contender's connection with a reset.
Proof: at least one connection was reset.
Ends by itself: the next connection is not hindered.

A correct lock: the session survives, and so do its nodes. Every request under way has an unknown outcome and must
be checked before it is repeated. The client sets watches again and reports missed events.",
    default_target: "any",
    ends: Ends::ByItself,
    ..FaultCard::CONNECTIONS
};

pub const ENTRY: FaultEntry = FaultEntry { card: CARD, inject: |firing| Box::pin(inject(firing)) };

async fn inject(Firing { choice, reach, mut draw }: Firing<'_>) -> Result<Active<'_>, String> {
    let hit = wire::aim_at(choice, reach, &mut draw).await?;
    // While servers are down there may be no connection to reset.
    let reset = || async {
        match hit.who.iter().map(|who| hit.proxy.reset(*who)).sum::<usize>() {
            0 => Err("it had no connection".to_owned()),
            reset => Ok(counted(reset, "connection was reset", "connections were reset")),
        }
    };
    let proof = proof(eventually(aim::PATIENCE, reset).await);
    Ok(Active::over(hit.name, proof))
}
