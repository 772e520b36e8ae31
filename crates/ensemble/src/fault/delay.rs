//! `delay`: every request and reply of a contender takes longer.

use rand::Rng;

use super::{Active, FaultEntry, Firing, wire};
use crate::proxy::Delay;
use zklockbench_core::catalog::fault::FaultCard;
use zklockbench_core::catalog::{Param, ParamKind};

pub const CARD: FaultCard = FaultCard {
    name: "delay",
    summary: "delays every packet between a contender and its server",
    source: "Toxiproxy's latency toxic; Jepsen's packet delays",
    details: "\
Inject: the proxy delays all data in both directions by `latency` plus a random time of up to `extra`. The order is
kept, as in a TCP connection.
Proof: data that have passed since were delayed by at least `latency` on average; checked again before healing. The
results show the added round-trip time as `request_*`.
Heal: the delay is removed, and waiting data are sent at once.

A correct lock: it only gets slower. The slowdown shows how many round trips a strategy spends on a handoff.
Sessions survive as long as a round trip is shorter than a third of their timeout.
Where it misleads: the proxy delays whole socket reads, not packets, so it does not show the effect of a slow
network on a single large reply.",
    default_target: "all",
    params: &[
        Param {
            name: "latency",
            kind: ParamKind::Duration,
            default: "20ms",
            doc: "Delay in each direction.",
        },
        Param {
            name: "extra",
            kind: ParamKind::Duration,
            default: "0ms",
            doc: "Random extra delay, up to this.",
        },
    ],
    ..FaultCard::CONNECTIONS
};

pub const ENTRY: FaultEntry = FaultEntry { card: CARD, inject: |firing| Box::pin(inject(firing)) };

async fn inject(Firing { choice, reach, mut draw }: Firing<'_>) -> Result<Active<'_>, String> {
    let hit = wire::aim_at(choice, reach, &mut draw).await?;
    let seed = draw.random();
    let delay = Delay {
        latency: wire::time(choice, "latency"),
        extra: wire::time(choice, "extra"),
        seed,
        only: None,
    };
    let measure = move |since: &wire::Since<'_>| wire::waited(since.kept(), delay.latency, "passed on");
    Ok(wire::set(hit, move |proxy, who| proxy.delay(who, delay), measure).await)
}
