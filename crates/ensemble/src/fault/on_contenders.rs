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
Inject: the contender's connection is cut and its client discarded, without a release or a session close.
Proof: the contender has discarded its client and all of its state; each crash proves one fault. A contender between
two cycles crashes when the next cycle starts. If there is no crash within 30 s, the order is withdrawn.
Ends by itself: the contender returns immediately with a new session, as a restarted process would.

A correct lock: the node disappears with the session. The next contender acquires the lock after the rest of the
session timeout has passed, and at most one and a half ticks after the full timeout. Until then, no contender may
acquire the lock, because none of them can know that the holder is dead. A waiter that crashes only loses its
position.
Caveat: an election during that time restarts the timeout.",
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
Inject: a second connection presents the session's ID and password, and closes the session.
Proof: a server confirmed the close, which also deletes the session's ephemeral nodes. The password of a driver's
session is known only if the driver's answer to `open` contains it. Without the password, the fault has no effect and
is reported as not proved.
Ends by itself: the contender opens a new session.

A correct lock: the nodes are deleted immediately, so the next contender acquires the lock immediately. The former
holder is a zombie until its client has reconnected and learned of the expiry. It must not use the new session to
release a lock that it acquired with the old session.",
    ..FaultCard::CONTENDERS
},
 inject: |firing| Box::pin(expire(firing)),
},
    FaultEntry {
 card: FaultCard {
    name: "slow-consumer",
    summary: "delays the replies and events that a contender receives",
    source: "ZooKeeper Programmer's Guide, Java binding: callbacks that block the event thread",
    details: "\
Inject: the proxy delays everything that a server sends to the contender by `lag`. The fault `delay` affects both
directions.
Proof: data received after the injection was delayed by at least `lag` on average; checked again before healing.
Heal: the delay is removed, and waiting data is sent immediately.

A correct lock: the contender's own handoffs take `lag` longer for each read; other contenders' handoffs take as long
as before. A release must not wait until the slow contender has handled a notification.
Caveat: only the proxy lags; the contender itself is as fast as before.",
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
    summary: "advances the clock of a waiter's acquire deadline",
    source: "Jepsen's clock nemesis; ZooKeeper's own use of a monotonic clock for timeouts",
    details: "\
Inject: the current acquire's deadline moves closer by `by`, as if the clock had been set ahead.
Proof: the acquire ended within 10 s: it timed out at the new deadline or succeeded before it.
Ends by itself with that acquire.

A correct lock: it times out early and cleans up. Its node is deleted and the next contender's watch on the node
fires, but no contender enters because of this alone. Sessions are not affected, because their timeouts use a
monotonic clock.
A jump shorter than the remaining wait only shortens the wait. `acquire_timeout` must be set.",
    refuses: &["holder"],
    default_target: "waiter",
    needs_key: Some("acquire_timeout"),
    params: &[Param {
        name: "by",
        kind: ParamKind::Duration,
        default: "1h",
        doc: "Length of the clock jump.",
    }],
    ..FaultCard::CONTENDERS
},
 inject: |firing| Box::pin(clock_jump(firing)),
},
    FaultEntry {
 card: FaultCard {
    name: "burst",
    summary: "keeps contenders away for a while, then lets all of them request the lock at once",
    source: "arrival bursts of open systems; the thundering herd of ZooKeeper's recipes page",
    details: "\
Inject: the targeted contenders finish their cycles and stop requesting locks; their sessions stay open.
Proof: no targeted contender holds the lock, waits for it, or is about to.
Heal: all targeted contenders may request locks again at the same moment, from which their waits are measured.

A correct lock: nothing breaks. The queue builds up all at once instead of gradually: if all waiters watch the same
node, every waiter reads the whole queue. A fair lock serves waiters in the order in which their nodes were created,
and the last waiter waits longest.
Caveat: targeted contenders request no lock during the fault, so an outage during that time reveals
nothing about the lock. In a closed loop, the queue is soon as long as before; think time makes the effect visible.",
    default_target: "all",
    ends: Ends::Healed,
    ..FaultCard::CONTENDERS
},
 inject: |firing| Box::pin(burst(firing)),
},
];

async fn crash(Firing { choice, reach, mut draw }: Firing<'_>) -> Result<Active<'_>, String> {
    let hit = aim::contenders(&choice.target, reach, &mut draw).await?;
    // A contender that releases before it crashes is no longer the holder, so it crashes in its next hold.
    let doing = match choice.target {
        Target::Word("holder") => Doing::Holding,
        Target::Word("waiter") => Doing::Waiting,
        _ => Doing::Anything,
    };
    let order = |contender: &usize| reach.contenders.crash(*contender, doing);
    let orders: Vec<CrashOrder> = hit.iter().map(order).collect();
    let all = || orders.iter().all(CrashOrder::is_carried_out);
    let crashed = until(AT_MOST, all, "the contender did not crash").await;
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
        // Record the close first, because the next contender may acquire the lock before the reply arrives.
        reach.contenders.is_being_closed(*contender, id);
        reach.target.expire(key, DEADLINE).await.map_err(|failure| failure.to_string())?;
        reach.contenders.was_closed(*contender, id);
        closed.push(format!("0x{id:x}"));
    }
    let proof = Proof::Proved(format!("the server closed session {}", closed.join(", ")));
    Ok(Active::over(aim::name(&hit, &choice.target), proof))
}

async fn slow_consumer(Firing { choice, reach, mut draw }: Firing<'_>) -> Result<Active<'_>, String> {
    let hit = wire::aim_at(choice, reach, &mut draw).await?;
    let lag = choice.time("lag");
    let delay = Delay { latency: lag, extra: Duration::ZERO, seed: 0, only: Some(Direction::ToClient) };
    let measure = move |since: &wire::Since<'_>| wire::waited(since.kept_replies(), lag, "forwarded");
    Ok(wire::set(hit, move |proxy, who| proxy.delay(who, delay), measure).await)
}

async fn clock_jump(Firing { choice, reach, mut draw }: Firing<'_>) -> Result<Active<'_>, String> {
    let hit = aim::contenders(&choice.target, reach, &mut draw).await?;
    let by = choice.time("by");
    let begin = clock::now();
    let waits =
        || hit.iter().any(|one| reach.contenders.waits_since(*one).is_some_and(|since| since <= begin));
    let was_waiting = waits();
    hit.iter().for_each(|contender| reach.contenders.clock_jumps(*contender, by));
    let noticed = if was_waiting {
        until(NOTICES, || !waits(), "the contender was still waiting").await
    } else {
        Err("the contender was not waiting".to_owned())
    };
    let proof = proof(noticed.map(|()| "its acquire ended".to_owned()));
    Ok(Active::over(aim::name(&hit, &choice.target), proof))
}

async fn burst(Firing { choice, reach, mut draw }: Firing<'_>) -> Result<Active<'_>, String> {
    let hit = aim::contenders(&choice.target, reach, &mut draw).await?;
    let admissions: Vec<_> = hit.iter().map(|contender| reach.contenders.admission(*contender)).collect();
    let kept = KeptAway::behind(admissions.clone());
    let gone = until(TAKES_EFFECT, || kept.are_out(), "a contender still holds the lock or is waiting").await;
    let seen = gone.map(|()| "no contender holds the lock or is waiting".to_owned());
    let are_out = move || !admissions.iter().any(|admission| admission.is_in());
    let still = async move { only_if(are_out(), "a contender started another cycle") };
    Ok(Active::until_dropped(aim::name(&hit, &choice.target), proof(seen), kept).still_if(still))
}

/// Timeout for a crash. A contender between two cycles crashes when the next cycle starts.
const AT_MOST: Duration = Duration::from_secs(30);
/// Timeout for a server to close the session, long enough for an election.
const DEADLINE: Duration = Duration::from_secs(30);
const NOTICES: Duration = Duration::from_secs(10);
/// Timeout for the last contender to acquire and release.
const TAKES_EFFECT: Duration = Duration::from_secs(120);
