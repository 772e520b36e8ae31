//! `bandwidth`: limits the rate at which a contender sends and receives.

use super::{Active, FaultEntry, Firing, wire};
use std::time::Duration;
use zklockbench_core::catalog::fault::FaultCard;
use zklockbench_core::catalog::{Param, ParamKind, ParamValue};
use zklockbench_core::units::counted;

pub const CARD: FaultCard = FaultCard {
    name: "bandwidth",
    summary: "limits how many bytes a second pass through a contender's connection",
    source: "Toxiproxy's bandwidth toxic",
    details: "\
Inject: the proxy passes on at most `bytes_per_second` in each direction of each connection.
Proof: no more than that has passed since; checked again before healing.
Heal: the limit is lifted, and waiting data are sent at once.

A correct lock: it only gets slower. A strategy that lists a long queue moves many bytes for each acquisition and
suffers most; a strategy with constant bytes hardly does.
Where it misleads: with few contenders the lists are short, and the fault has no visible effect. If heartbeats wait
behind a list for longer than the session timeout, the session ends.",
    default_target: "all",
    params: &[Param {
        name: "bytes_per_second",
        kind: ParamKind::Count(1, 1_000_000_000),
        default: "10000",
        doc: "Bytes per second in each direction.",
    }],
    ..FaultCard::CONNECTIONS
};

pub const ENTRY: FaultEntry = FaultEntry { card: CARD, inject: |firing| Box::pin(inject(firing)) };

async fn inject(Firing { choice, reach, mut draw }: Firing<'_>) -> Result<Active<'_>, String> {
    let hit = wire::aim_at(choice, reach, &mut draw).await?;
    let rate = match choice.params.get("bytes_per_second") {
        Some(ParamValue::Count(rate)) => *rate,
        _ => 1,
    };
    let measure = move |since: &wire::Since<'_>| measured(since, rate);
    Ok(wire::set(hit, move |proxy, who| proxy.bandwidth(who, rate), measure).await)
}

/// Allowance for saved-up capacity of a connection and for late timers.
const SLACK: Duration = Duration::from_millis(100);

/// Number of bytes that have passed; an error if it exceeds the limit.
fn measured(since: &wire::Since<'_>, rate: u64) -> wire::Measured {
    let (bytes, lasted, connections) = (since.bytes(), since.lasts(), since.connections().max(1));
    if bytes == 0 {
        return None;
    }
    let both_ways = 2.0 * connections as f64;
    let most = both_ways * (1.0 + rate as f64 * (lasted + SLACK).as_secs_f64());
    let on = counted(connections, "connection", "connections");
    let told = format!("{bytes} bytes passed in {lasted:.1?} on {on}; the limit is {most:.0}");
    Some(if bytes as f64 <= most { Ok(told) } else { Err(told) })
}
