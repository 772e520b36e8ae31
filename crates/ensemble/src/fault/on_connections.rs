//! Faults of connections between contenders and servers, injected by the proxy.

use std::time::Duration;

use rand::Rng;

use super::aim::{self, proof, stands_still, until};
use super::wire::{self, REQUEST, lose};
use super::{Active, FaultEntry, Firing};
use crate::eventually;
use crate::proxy::{Delay, Proxy};
use zklockbench_core::catalog::fault::{Ends, FaultCard, Proof};
use zklockbench_core::catalog::{Param, ParamKind};
use zklockbench_core::units::counted;

pub const FAULTS: &[FaultEntry] = &[
    FaultEntry {
 card: FaultCard {
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
},
 inject: |firing| Box::pin(delay(firing)),
},
    FaultEntry {
 card: FaultCard {
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
},
 inject: |firing| Box::pin(bandwidth(firing)),
},
    FaultEntry {
 card: FaultCard {
    name: "stall",
    summary: "keeps a contender's connection open, but passes no data",
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
},
 inject: |firing| Box::pin(stall(firing)),
},
    FaultEntry {
 card: FaultCard {
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
},
 inject: |firing| Box::pin(reset(firing)),
},
    FaultEntry {
 card: FaultCard {
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
},
 inject: |firing| Box::pin(refuse(firing)),
},
    FaultEntry {
 card: FaultCard {
    name: "drop-reply",
    summary: "loses the reply to an executed request, together with the connection",
    source: "Curator's CreateBuilder.withProtection; ZooKeeper's recipes page, recoverable errors",
    details: "\
Inject: the proxy waits for the contender's next request of the kind `request`, passes it on, keeps its reply and
then closes the connection. If the server refuses the request, the refusal is passed on and the proxy waits for the
next one. `join` is a create or a multi and `release` a delete or a multi, whichever comes first, so that one
scenario hits every lock. `list` is a request for children with or without a watch; `watch` is any read that sets
one.
Proof: the reply has arrived in the proxy and reports success; the connection is gone.
Ends by itself, with that one request. If the contender sends none within 30 s, the fault is not proved.
With TLS the proxy cannot read requests, so the fault is refused.

A correct lock: after a `create` it must find out whether its node exists, or let it end with its session: a node
that no contender knows about (an orphan) blocks the queue for as long as the session lives. After a `delete` it
must neither believe that it still holds nor leave the node behind. A `multi` took effect completely or not at all.
After a `list` or a `watch` it reads again.",
    refuses: &["all"],
    default_target: "any",
    ends: Ends::ByItself,
    reads_requests: true,
    params: &[Param { doc: "Which request loses its reply.", ..REQUEST }],
    ..FaultCard::CONNECTIONS
},
 inject: |firing| Box::pin(lose(firing, Proxy::drop_reply, |struck| format!("the server had executed it as transaction 0x{:x}", struck.zxid))),
},
    FaultEntry {
 card: FaultCard {
    name: "drop-request",
    summary: "loses a request, together with the connection, before it reaches a server",
    source: "CURATOR-678; Curator's guaranteed delete",
    details: "\
Inject: the proxy waits for the contender's next request of the kind `request`, passes on earlier requests, keeps
this one and closes the connection. The session lives on. The kinds are those of `drop-reply`. The client cannot
tell the two faults apart: both are a lost connection.
Proof: the proxy has kept the request; the connection is gone.
Ends by itself, with that one request. If the contender sends none within 30 s, the fault is not proved.
With TLS the proxy cannot read requests, so the fault is refused.

A correct lock: after a `delete` or a release's `multi` it must send the request again or end its session; otherwise
its node stays and blocks the queue for as long as the session lives. After a `create` it must not believe that it
has a node. After a `list` or a `watch` it reads again.",
    refuses: &["all"],
    default_target: "any",
    ends: Ends::ByItself,
    reads_requests: true,
    params: &[Param { default: "delete", doc: "Which request is lost.", ..REQUEST }],
    ..FaultCard::CONNECTIONS
},
 inject: |firing| Box::pin(lose(firing, Proxy::drop_request, |struck| format!("kept back: {} {}", struck.request.kind.name(), struck.request.path))),
},
];

async fn delay(Firing { choice, reach, mut draw }: Firing<'_>) -> Result<Active<'_>, String> {
    let hit = wire::aim_at(choice, reach, &mut draw).await?;
    let seed = draw.random();
    let delay = Delay { latency: choice.time("latency"), extra: choice.time("extra"), seed, only: None };
    let measure = move |since: &wire::Since<'_>| wire::waited(since.kept(), delay.latency, "passed on");
    Ok(wire::set(hit, move |proxy, who| proxy.delay(who, delay), measure).await)
}

async fn bandwidth(Firing { choice, reach, mut draw }: Firing<'_>) -> Result<Active<'_>, String> {
    let hit = wire::aim_at(choice, reach, &mut draw).await?;
    let rate = choice.count("bytes_per_second");
    let measure = move |since: &wire::Since<'_>| measured(since, rate);
    Ok(wire::set(hit, move |proxy, who| proxy.bandwidth(who, rate), measure).await)
}

/// Tolerance for a connection's unused capacity and for late timers.
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

async fn stall(Firing { choice, reach, mut draw }: Firing<'_>) -> Result<Active<'_>, String> {
    let hit = wire::aim_at(choice, reach, &mut draw).await?;
    let guards: Vec<_> = hit.who.iter().map(|who| hit.proxy.stall(*who)).collect();
    let passed = || -> Vec<(u64, u64)> { hit.who.iter().map(|who| hit.proxy.passed(*who)).collect() };
    let proof = if stands_still(&passed, LOOKS_FOR).await {
        Proof::Proved(format!("nothing passed for {LOOKS_FOR:?}"))
    } else {
        Proof::NotProved("data passed".into())
    };
    let name = hit.name.clone();
    Ok(Active::until_dropped(name, proof, guards).still_if(wire::nothing_passes(hit)))
}

async fn reset(Firing { choice, reach, mut draw }: Firing<'_>) -> Result<Active<'_>, String> {
    let hit = wire::aim_at(choice, reach, &mut draw).await?;
    // While servers are down, there may be no connection to reset.
    let reset = || async {
        match hit.who.iter().map(|who| hit.proxy.reset(*who)).sum::<usize>() {
            0 => Err("the contender had no connection".to_owned()),
            reset => Ok(counted(reset, "connection was reset", "connections were reset")),
        }
    };
    let proof = proof(eventually(aim::PATIENCE, reset).await);
    Ok(Active::over(hit.name, proof))
}

async fn refuse(Firing { choice, reach, mut draw }: Firing<'_>) -> Result<Active<'_>, String> {
    let hit = wire::aim_at(choice, reach, &mut draw).await?;
    let guards: Vec<_> = hit.who.iter().map(|who| hit.proxy.refuse(*who)).collect();
    let gone = || hit.who.iter().all(|who| hit.proxy.connections(*who) == 0);
    let gone = until(TAKES_EFFECT, gone, "a connection remained open").await;
    let proof = proof(gone.map(|()| "no connection was left".to_owned()));
    let name = hit.name.clone();
    Ok(Active::until_dropped(name, proof, guards).still_if(wire::nothing_passes(hit)))
}

const LOOKS_FOR: Duration = Duration::from_millis(50);
const TAKES_EFFECT: Duration = Duration::from_secs(5);
