//! `slow-consumer`: a contender gets replies and events late.

use std::time::Duration;

use super::{Active, FaultEntry, Firing, wire};
use crate::proxy::{Delay, Direction};
use zklockbench_core::catalog::fault::FaultCard;
use zklockbench_core::catalog::{Param, ParamKind};

pub const CARD: FaultCard = FaultCard {
    name: "slow-consumer",
    summary: "a contender gets replies and events late",
    source: "ZooKeeper Programmer's Guide, Java binding: callbacks that hold up the event thread",
    details: "\
Inject: the proxy delays everything that a server sends to the contender by `lag`. `delay` does that in both
directions.
Proof: data that have come since were delayed by at least `lag` on average; checked again before healing.
Heal: the delay is removed, and waiting data are sent at once.

A correct lock: the contender's own handoffs get longer by `lag` for each read they take; those of the others stay
the same. A release must not wait until the slow contender has handled a notification.
Where it misleads: the lag is the proxy's; the contender itself is as fast as before.",
    params: &[Param {
        name: "lag",
        kind: ParamKind::Duration,
        default: "100ms",
        doc: "How late it gets each reply and event.",
    }],
    ..FaultCard::CONNECTIONS
};

pub const ENTRY: FaultEntry = FaultEntry { card: CARD, inject: |firing| Box::pin(inject(firing)) };

async fn inject(Firing { choice, reach, mut draw }: Firing<'_>) -> Result<Active<'_>, String> {
    let hit = wire::aim_at(choice, reach, &mut draw).await?;
    let lag = wire::time(choice, "lag");
    let delay = Delay { latency: lag, extra: Duration::ZERO, seed: 0, only: Some(Direction::ToClient) };
    let measure = move |since: &wire::Since<'_>| wire::waited(since.kept_replies(), lag, "passed on");
    Ok(wire::set(hit, move |proxy, who| proxy.delay(who, delay), measure).await)
}
