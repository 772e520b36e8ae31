//! Faults injected into contenders.

use std::time::Duration;

use super::aim::{self, only_if, proof, until};
use super::contenders::KeptAway;
use super::{Active, CrashOrder, Doing, FaultEntry, Firing, freeze, wire};
use crate::proxy::{Delay, Direction};
use zklockbench_core::catalog::fault::{Ends, FaultCard, Proof, Target};
use zklockbench_core::catalog::{Param, ParamKind};
use zklockbench_core::clock;

pub const FAULTS: &[FaultEntry] = &[
    FaultEntry {
 card: FaultCard {
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
},
 inject: |firing| Box::pin(crash(firing)),
},
    freeze::ENTRY,
    FaultEntry {
 card: FaultCard {
    name: "expire",
    summary: "closes a contender's session from another connection",
    source: "ZooKeeper FAQ, expiring a session for testing; kazoo's expire_session",
    details: "\
Inject: a second connection presents the session's id and password, and closes the session.
Proof: a server has answered the close, which also deletes the session's ephemeral nodes. The password of a driver's
session is known only if the answer to `open` contains it; without it the fault has no effect and is reported as not
proved.
Ends by itself: the contender opens a new session.

A correct lock: the nodes are deleted at once, so the next contender acquires at once. The former holder believes
that it holds until its client has reconnected and learned of the expiry; until then it is a zombie. It must not use
the new session to release what it acquired with the old one.",
    ..FaultCard::CONTENDERS
},
 inject: |firing| Box::pin(expire(firing)),
},
    FaultEntry {
 card: FaultCard {
    name: "slow-consumer",
    summary: "a contender receives replies and events late",
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
        doc: "Delay of each reply and event.",
    }],
    ..FaultCard::CONNECTIONS
},
 inject: |firing| Box::pin(slow_consumer(firing)),
},
    FaultEntry {
 card: FaultCard {
    name: "clock-jump",
    summary: "the clock behind a waiter's acquire deadline jumps ahead",
    source: "Jepsen's clock nemesis; ZooKeeper's own use of a monotonic clock for timeouts",
    details: "\
Inject: the deadline of the current acquire is moved `by` nearer, as if the clock had been set.
Proof: the acquire has ended within 10 s: timed out at the moved deadline, or acquired before it.
Ends by itself, with that acquire.

A correct lock: it times out early and leaves cleanly. Its node is deleted, the next contender's watch on it fires,
and no contender enters because of that alone. Sessions are not affected, because their timeouts use a monotonic
clock.
A jump shorter than the remaining time only shortens it. `acquire_timeout` must be set.",
    refuses: &["holder"],
    default_target: "waiter",
    needs_key: Some("acquire_timeout"),
    params: &[Param {
        name: "by",
        kind: ParamKind::Duration,
        default: "1h",
        doc: "How far the clock jumps.",
    }],
    ..FaultCard::CONTENDERS
},
 inject: |firing| Box::pin(clock_jump(firing)),
},
    FaultEntry {
 card: FaultCard {
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
},
 inject: |firing| Box::pin(burst(firing)),
},
];

async fn crash(Firing { choice, reach, mut draw }: Firing<'_>) -> Result<Active<'_>, String> {
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
    let crashed = until(AT_MOST, all, "the contender had not crashed").await;
    let seen = "its connection was cut, and its client was discarded";
    let proof = proof(crashed.map(|()| seen.to_owned()));
    Ok(Active::over(aim::name(&hit, &choice.target), proof))
}

async fn expire(Firing { choice, reach, mut draw }: Firing<'_>) -> Result<Active<'_>, String> {
    let hit = aim::contenders(&choice.target, reach, &mut draw).await?;
    let mut closed = Vec::new();
    for contender in &hit {
        let key = aim::session(*contender, reach).await?;
        let id = key.id();
        // Recorded first, because the next contender may enter before the reply arrives.
        reach.contenders.is_being_closed(*contender, id);
        reach.target.expire(key, DEADLINE).await.map_err(|failure| failure.to_string())?;
        reach.contenders.was_closed(*contender, id);
        closed.push(format!("0x{id:x}"));
    }
    let proof = Proof::Proved(format!("the server has closed session {}", closed.join(", ")));
    Ok(Active::over(aim::name(&hit, &choice.target), proof))
}

async fn slow_consumer(Firing { choice, reach, mut draw }: Firing<'_>) -> Result<Active<'_>, String> {
    let hit = wire::aim_at(choice, reach, &mut draw).await?;
    let lag = choice.time("lag");
    let delay = Delay { latency: lag, extra: Duration::ZERO, seed: 0, only: Some(Direction::ToClient) };
    let measure = move |since: &wire::Since<'_>| wire::waited(since.kept_replies(), lag, "passed on");
    Ok(wire::set(hit, move |proxy, who| proxy.delay(who, delay), measure).await)
}

async fn clock_jump(Firing { choice, reach, mut draw }: Firing<'_>) -> Result<Active<'_>, String> {
    let hit = aim::contenders(&choice.target, reach, &mut draw).await?;
    let by = choice.time("by");
    hit.iter().for_each(|contender| reach.contenders.clock_jumps(*contender, by));
    let begin = clock::now();
    let waits =
        || hit.iter().any(|one| reach.contenders.waits_since(*one).is_some_and(|since| since <= begin));
    let noticed = until(NOTICES, || !waits(), "the contender still waited").await;
    let proof = proof(noticed.map(|()| "its acquire has ended".to_owned()));
    Ok(Active::over(aim::name(&hit, &choice.target), proof))
}

async fn burst(Firing { choice, reach, mut draw }: Firing<'_>) -> Result<Active<'_>, String> {
    let hit = aim::contenders(&choice.target, reach, &mut draw).await?;
    let admissions: Vec<_> = hit.iter().map(|contender| reach.contenders.admission(*contender)).collect();
    let kept = KeptAway::behind(admissions.clone());
    let gone = until(TAKES_EFFECT, || kept.are_out(), "one of them still holds or waits").await;
    let seen = gone.map(|()| "none of them holds or waits any more".to_owned());
    let are_out = move || !admissions.iter().any(|admission| admission.is_in());
    let still = async move { only_if(are_out(), "one of them has entered") };
    Ok(Active::until_dropped(aim::name(&hit, &choice.target), proof(seen), kept).still_if(still))
}

/// Timeout for a crash. A contender between two cycles crashes when the next one begins.
const AT_MOST: Duration = Duration::from_secs(30);
/// Timeout for a server to close the session, long enough for an election.
const DEADLINE: Duration = Duration::from_secs(30);
const NOTICES: Duration = Duration::from_secs(10);
/// Timeout for the last contender to be served and to release.
const TAKES_EFFECT: Duration = Duration::from_secs(120);
