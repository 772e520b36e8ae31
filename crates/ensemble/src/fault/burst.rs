//! `burst`: contenders stay away, then all arrive at once.

use std::time::Duration;

use super::aim::{self, only_if, proof, until};
use super::contenders::KeptAway;
use super::{Active, FaultEntry, Firing};
use zklockbench_core::catalog::fault::{Ends, FaultCard};

pub const CARD: FaultCard = FaultCard {
    name: "burst",
    summary: "contenders stay away for a while, then all ask for the lock at once",
    source: "arrival bursts of open systems; the thundering herd of ZooKeeper's recipes page",
    details: "\
Inject: contenders finish their cycle and stop acquiring; their sessions live on.
Proof: none of them holds, waits, or is about to.
Heal: all of them may acquire again from the same moment on, and their waits count from it.

A correct lock: nothing breaks. The queue builds up all at once instead of one by one: if all waiters watch the same
node, the whole queue is read as many times as there are waiters. A fair lock serves them in the order in which
their nodes were created, and the last one waits longest.
Where it misleads: no contender asks while they are away, so the longest gap during that time reveals nothing about
the lock. In a closed loop the queue is soon as long as before; with think time, the difference is what counts.",
    default_target: "all",
    ends: Ends::Healed,
    ..FaultCard::CONTENDERS
};

/// Time until the last contender has been served and has released.
const TAKES_EFFECT: Duration = Duration::from_secs(120);

pub const ENTRY: FaultEntry = FaultEntry { card: CARD, inject: |firing| Box::pin(inject(firing)) };

async fn inject(Firing { choice, reach, mut draw }: Firing<'_>) -> Result<Active<'_>, String> {
    let hit = aim::contenders(&choice.target, reach, &mut draw).await?;
    let admissions: Vec<_> = hit.iter().map(|contender| reach.contenders.admission(*contender)).collect();
    let kept = KeptAway::behind(admissions.clone());
    let gone = until(TAKES_EFFECT, || kept.are_out(), "one of them still holds or waits").await;
    let seen = gone.map(|()| "none of them holds or waits any more".to_owned());
    let are_out = move || !admissions.iter().any(|admission| admission.is_in());
    let still = async move { only_if(are_out(), "one of them has entered") };
    Ok(Active::until_dropped(aim::name(&hit, &choice.target), proof(seen), kept).still_if(still))
}
