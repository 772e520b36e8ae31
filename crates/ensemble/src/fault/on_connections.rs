//! Faults in connections between contenders and servers, injected by the proxy.

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
    summary: "delays all data between a contender and its server",
    source: "Toxiproxy's latency toxic; Jepsen's packet delays",
    details: "\
Inject: the proxy delays all data in both directions by `latency` plus a random time of up to `extra`. The order is
preserved, as in a TCP connection.
Proof: data forwarded after the injection was delayed by at least `latency` on average; checked again before healing.
The metrics `request_*` include the added round-trip time.
Heal: the delay is removed, and waiting data is sent immediately.

A correct lock: it only gets slower. The slowdown shows how many round trips a strategy needs for a handoff.
Sessions survive if a round trip takes less than a third of the session timeout.
Caveat: the proxy delays whole socket reads, not packets, so it does not show the effect of a slow
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
            doc: "Maximum random extra delay.",
        },
    ],
    ..FaultCard::CONNECTIONS
},
 inject: |firing| Box::pin(delay(firing)),
},
    FaultEntry {
 card: FaultCard {
    name: "bandwidth",
    summary: "limits the bytes per second on a contender's connection",
    source: "Toxiproxy's bandwidth toxic",
    details: "\
Inject: the proxy forwards at most `bytes_per_second` in each direction of each connection.
Proof: traffic after the injection stayed within the limit; checked again before healing.
Heal: the limit is removed, and waiting data is sent immediately.

A correct lock: it only gets slower. A strategy that lists a long queue transfers many bytes for each acquisition and
suffers most; a strategy whose transfers do not grow with the queue hardly suffers.
Caveat: with few contenders, the lists are short and the fault has no visible effect. If heartbeats wait
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
    summary: "keeps a contender's connection open but forwards no data",
    source: "Toxiproxy's timeout toxic; ZooKeeper Programmer's Guide, sessions",
    details: "\
Inject: the proxy stops reading and forwarding data in both directions; new connections stall, too.
Proof: no data passed in either direction for 50 ms.
Heal: waiting data is forwarded in order.

A correct lock: a stall shorter than two thirds of the session timeout looks like a long wait. If the stall is longer,
the ensemble ends the session and grants the lock to the next contender. The holder is not notified: it must use its
own clock to stop believing that it holds the lock before the ensemble grants it to another contender. After that, the
old holder is a zombie, and only a fencing token prevents damage by its writes.
Caveat: late requests still arrive after healing. A create from an ended session is rejected; a lock that
then starts over must not mistake its old node for a new one.",
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
Ends by itself: new connections are not affected.

A correct lock: the session and its nodes survive. Every request in flight has an unknown outcome, which must be
checked before the request is repeated. The client re-registers its watches and reports missed events.",
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
    source: "Toxiproxy's disabled proxies",
    details: "\
Inject: the proxy closes the contender's connection, and every new connection as soon as it opens.
Proof: the contender has no connection left.
Heal: the proxy accepts connections again.

A correct lock: up to the session timeout, it behaves as under `reset`. After that, the ensemble ends the session
and the next contender acquires the lock. Unlike under `stall`, the contender learns immediately that it is
disconnected, so it has the whole timeout to stop its work.",
    ..FaultCard::CONNECTIONS
},
 inject: |firing| Box::pin(refuse(firing)),
},
    FaultEntry {
 card: FaultCard {
    name: "drop-reply",
    summary: "drops the reply to an executed request, and closes the connection",
    source: "Curator's CreateBuilder.withProtection; ZooKeeper's recipes page, recoverable errors",
    details: "\
Inject: the proxy waits for the contender's next request of the kind `request`, forwards it, withholds the reply and
closes the connection. If the server refuses the request, the proxy forwards the refusal and waits for the next
matching request. `join` is a create or a multi, and `release` is a delete or a multi, whichever comes first, so one
scenario fits every lock. `list` is a request for children with or without a watch; `watch` is any read that sets a
watch.
Proof: the reply reached the proxy and reports success; the connection is closed.
Ends by itself after that request. If the contender sends no matching request within 30 s, the fault is not proved.
With TLS, the proxy cannot read requests, so the fault is rejected.

A correct lock: after a `create`, it must find out whether its node exists or end its session: a node that no
contender knows about (an orphan) blocks the queue until the session ends. After a `delete`, it must not believe that
it still holds the lock, and it must not leave the node behind. A `multi` takes effect completely or not at all. After
a `list` or a `watch`, it reads again.",
    refuses: &["all"],
    default_target: "any",
    ends: Ends::ByItself,
    reads_requests: true,
    params: &[Param { doc: "Kind of request whose reply is dropped.", ..REQUEST }],
    ..FaultCard::CONNECTIONS
},
 inject: |firing| Box::pin(lose(firing, Proxy::drop_reply, |struck| format!("the server executed the request as transaction 0x{:x}", struck.zxid))),
},
    FaultEntry {
 card: FaultCard {
    name: "drop-request",
    summary: "drops a request before it reaches a server, and closes the connection",
    source: "CURATOR-678; Curator's guaranteed delete",
    details: "\
Inject: the proxy waits for the contender's next request of the kind `request`, forwards earlier requests, drops this
request and closes the connection. The session survives. The kinds of request are the same as for `drop-reply`. The
client cannot distinguish the two faults: it sees a lost connection in both cases.
Proof: the proxy dropped the request; the connection is closed.
Ends by itself after that request. If the contender sends no matching request within 30 s, the fault is not proved.
With TLS, the proxy cannot read requests, so the fault is rejected.

A correct lock: after a `delete` or a release's `multi`, it must resend the request or end its session; otherwise its
node remains and blocks the queue until the session ends. After a `create`, it must not believe that it has a node.
After a `list` or a `watch`, it reads again.",
    refuses: &["all"],
    default_target: "any",
    ends: Ends::ByItself,
    reads_requests: true,
    params: &[Param { default: "delete", doc: "Kind of request that is dropped.", ..REQUEST }],
    ..FaultCard::CONNECTIONS
},
 inject: |firing| Box::pin(lose(firing, Proxy::drop_request, |struck| format!("dropped: {} {}", struck.request.kind.name(), struck.request.path))),
},
];

async fn delay(Firing { choice, reach, mut draw }: Firing<'_>) -> Result<Active<'_>, String> {
    let hit = wire::aim_at(choice, reach, &mut draw).await?;
    let seed = draw.random();
    let delay = Delay { latency: choice.time("latency"), extra: choice.time("extra"), seed, only: None };
    let measure = move |since: &wire::Since<'_>| wire::waited(since.kept(), delay.latency, "forwarded");
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

/// Checks the number of forwarded bytes against the bandwidth limit.
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
    let proof = if stands_still(&|| hit.passed(), LOOKS_FOR).await {
        Proof::Proved(format!("nothing passed for {LOOKS_FOR:?}"))
    } else {
        Proof::NotProved("data still passed".into())
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
    let proof = proof(gone.map(|()| "no connection remained".to_owned()));
    let name = hit.name.clone();
    Ok(Active::until_dropped(name, proof, guards).still_if(wire::nothing_passes(hit)))
}

const LOOKS_FOR: Duration = Duration::from_millis(50);
const TAKES_EFFECT: Duration = Duration::from_secs(5);
