//! `crash`: a contender disappears and its session is not closed.

use super::aim::{self, proof, until};
use super::{Active, CrashOrder, Doing, FaultEntry, Firing};
use std::time::Duration;
use zklockbench_core::catalog::fault::{FaultCard, Target};

pub const CARD: FaultCard = FaultCard {
    name: "crash",
    summary: "a contender disappears without closing its session, as a killed process does",
    source: "ZooKeeper's recipes page, locks: ephemeral nodes of a client that fails",
    details: "\
Inject: the contender's socket is cut and its client discarded; nothing is released and nothing is closed.
Proof: the contender has discarded its client and all of its state; each crash proves one fault. A contender between
two cycles crashes when the next one begins. After 30 s without a crash, the order is withdrawn.
Ends by itself: the contender comes back at once, as a restarted process does, with a new session.

A correct lock: the node disappears with the session, and the next contender acquires: no sooner than the rest of
the session timeout, no later than the timeout and one and a half ticks. Until then no contender acquires, and
rightly so: none of them can know that the holder is dead. Waiters that crash only lose their position.
Where it misleads: an election in the meantime restarts the timeout.",
    ..FaultCard::CONTENDERS
};

/// A contender between two cycles crashes when the next one begins.
const AT_MOST: Duration = Duration::from_secs(30);

pub const ENTRY: FaultEntry = FaultEntry { card: CARD, inject: |firing| Box::pin(inject(firing)) };

async fn inject(Firing { choice, reach, mut draw }: Firing<'_>) -> Result<Active<'_>, String> {
    let hit = aim::contenders(&choice.target, reach, &mut draw).await?;
    // A contender that released before it crashed is no longer a holder; it crashes in its next hold.
    let doing = match choice.target {
        Target::Word("holder") => Doing::Holding,
        Target::Word("waiter") => Doing::Waiting,
        _ => Doing::Anything,
    };
    let order = |contender: &usize| reach.contenders.crash(*contender, doing);
    let orders: Vec<CrashOrder> = hit.iter().map(order).collect();
    let all = || orders.iter().all(CrashOrder::is_carried_out);
    let crashed = until(AT_MOST, all, "it had not crashed").await;
    let seen = "its connection was cut, and its client was discarded";
    let proof = proof(crashed.map(|()| seen.to_owned()));
    Ok(Active::over(aim::name(&hit, &choice.target), proof))
}
