//! `stall`: a contender's connection stays open, but nothing passes.

use std::time::Duration;

use super::aim::stands_still;
use super::{Active, FaultEntry, Firing, wire};
use zklockbench_core::catalog::fault::{FaultCard, Proof};

pub const CARD: FaultCard = FaultCard {
    name: "stall",
    summary: "keeps a contender's connection open, but lets nothing pass",
    source: "Toxiproxy's timeout toxic; ZooKeeper Programmer's Guide, sessions",
    details: "\
Inject: the proxy stops reading and passing on data, in both directions; new connections stall as well.
Proof: nothing passed in either direction for 50 ms.
Heal: waiting data are passed on, in order.

A correct lock: a stall shorter than two thirds of the session timeout is a long wait. If it is longer, the ensemble
ends the session and grants the lock to the next contender. The holder is not notified: by its own clock, it must
stop believing that it holds before the ensemble gives the lock away. After that it is a zombie, and only a fencing
token prevents damage by its writes.
Where it misleads: after healing, the late requests arrive. A create from a session that has ended is refused; a
lock that then starts over must not mistake its old node for a new one.",
    ..FaultCard::CONNECTIONS
};

const LOOKS_FOR: Duration = Duration::from_millis(50);

pub const ENTRY: FaultEntry = FaultEntry { card: CARD, inject: |firing| Box::pin(inject(firing)) };

async fn inject(Firing { choice, reach, mut draw }: Firing<'_>) -> Result<Active<'_>, String> {
    let hit = wire::aim_at(choice, reach, &mut draw).await?;
    let guards: Vec<_> = hit.who.iter().map(|who| hit.proxy.stall(*who)).collect();
    let passed = || -> Vec<(u64, u64)> { hit.who.iter().map(|who| hit.proxy.passed(*who)).collect() };
    let proof = if stands_still(&passed, LOOKS_FOR).await {
        Proof::Proved(format!("nothing passed for {LOOKS_FOR:?}"))
    } else {
        Proof::NotProved("something passed".into())
    };
    let name = hit.name.clone();
    Ok(Active::until_dropped(name, proof, guards).still_if(wire::nothing_passes(hit)))
}
