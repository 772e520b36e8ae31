//! `bandwidth`: what a contender sends and receives passes slowly.

use super::{Active, Entry, Firing, wire};
use crate::catalog::fault::FaultCard;
use crate::catalog::{Param, ParamKind, ParamValue};

pub const CARD: FaultCard = FaultCard {
    name: "bandwidth",
    summary: "limits how many bytes a second pass through a contender's connection",
    source: "Toxiproxy's bandwidth toxic",
    details: "\
Inject: the proxy passes on at most `bytes_per_second` in each direction of each connection.
Proof: the contender has connections, and they pass through the proxy, which counts what it lets through.
Heal: the limit is lifted, and what waits goes at once.

A correct lock: nothing but time is lost. A strategy that lists a long queue moves many bytes for each
acquisition and suffers most; one with constant bytes hardly does.
Where it misleads: with few contenders the lists are short and there is nothing to see. If heartbeats wait behind a
list for longer than the session timeout, the session ends.",
    default_target: "all",
    params: &[Param {
        name: "bytes_per_second",
        kind: ParamKind::Count(1, 1_000_000_000),
        default: "10000",
        doc: "Bytes per second in each direction.",
    }],
    ..FaultCard::CONNECTIONS
};

pub const ENTRY: Entry = Entry { card: CARD, inject: |firing| Box::pin(inject(firing)) };

async fn inject(Firing { choice, site, mut draw }: Firing<'_>) -> Result<Active<'_>, String> {
    let hit = wire::aim_at(choice, site, &mut draw).await?;
    let rate = match choice.params.get("bytes_per_second") {
        Some(ParamValue::Count(rate)) => *rate,
        _ => 1,
    };
    Ok(wire::set(hit, "the proxy passes on no more than that", |proxy, who| proxy.bandwidth(who, rate)).await)
}
