//! `lose-majority`: a majority of the servers ends, so the others cannot commit anything.

use std::time::Duration;

use rand::Rng;

use super::aim::proof;
use super::outage::take_down;
use super::reach::How;
use super::{Active, FaultEntry, Firing};
use crate::eventually;
use zklockbench_core::catalog::fault::{FaultCard, Proof};

pub const CARD: FaultCard = FaultCard {
    name: "lose-majority",
    summary: "kills a majority of the servers (SIGKILL) and starts them again",
    source: "Jepsen's kill nemesis, on a majority",
    details: "\
Inject: SIGKILL to the fewest servers that leave no majority, drawn by the seed.
Proof: their processes have ended, and the remaining servers report that they do not serve.
Heal: all are started again; healed when the ensemble serves and all followers are in step.

A correct lock: no contender acquires or releases, and no session ends, because that takes a majority: the earlier
holder still holds afterwards. Contenders that were disconnected for longer than their session timeout must stop
believing that they hold, although their nodes may still exist.
Where it misleads: session timeouts start over when a leader is elected. So a lock whose holder died in the meantime
is freed only a whole timeout after the ensemble is back.",
    least_servers: 3,
    stops_service: true,
    ..FaultCard::FIXED
};

const NOTICES: Duration = Duration::from_secs(60);

pub const ENTRY: FaultEntry = FaultEntry { card: CARD, inject: |firing| Box::pin(inject(firing)) };

async fn inject(Firing { choice, reach, mut draw }: Firing<'_>) -> Result<Active<'_>, String> {
    let processes = reach.processes()?;
    let active = take_down(How::Killed, processes.majority(draw.random()), &choice.target, reach).await?;
    if matches!(active.proof, Proof::NotProved(_)) {
        return Ok(active);
    }
    let seen = eventually(NOTICES, || processes.nobody_serves()).await;
    let seen_at = active.seen_at.filter(|_| seen.is_err());
    Ok(Active { proof: proof(seen), seen_at, ..active })
}
