//! Faults of servers and of the links between them.

use std::time::Duration;

use rand::Rng;

use super::aim::proof;
use super::outage::{LINKS_CHANGE, break_targets, take_down, take_targets_down, wipe_target};
use super::reach::{Effect, How};
use super::{Active, FaultEntry, Firing, counter_near_end, partition, rolling_restart};
use crate::eventually;
use zklockbench_core::catalog::fault::{Capability, FaultCard, Proof};

pub const FAULTS: &[FaultEntry] = &[
    FaultEntry {
 card: FaultCard {
    name: "kill",
    summary: "kills a server (SIGKILL) and starts it again",
    source: "Jepsen's kill nemesis; ZooKeeper paper (USENIX ATC 2010), throughput upon failures",
    details: "\
Inject: SIGKILL to the server's Java process. It writes nothing more and closes nothing: its sockets break.
Proof: the process has ended, and the port for contenders no longer accepts connections. If it was the leader, the
others have elected another one.
Heal: the server is started again with the data it left; healed when the ensemble is healthy.

A correct lock: contenders of that server move to another one. While there is no leader no contender acquires or
releases, but the holder keeps the lock: sessions outlast an election, and their timeouts start over with it. A
request under way when the server died has an unknown outcome: a create may have made its node, a delete may have
removed it.
Where it misleads: on one host an election takes a few tenths of a second, less than over a real network. `all`
kills every server, and with a single server so does any other target: no server serves until they are back.",
    ..FaultCard::SERVERS
},
 inject: |firing| Box::pin(take_targets_down(How::Killed, firing)),
},
    FaultEntry {
 card: FaultCard {
    name: "restart",
    summary: "stops a server cleanly (SIGTERM) and starts it again",
    source: "ZooKeeper's own script, zkServer.sh restart",
    details: "\
Inject: SIGTERM to the server's Java process, which shuts down by itself.
Proof: the process has ended, and the port for contenders no longer accepts connections.
Heal: the server is started again with its data; healed when the ensemble is healthy.

A correct lock: as under `kill`. A server that stops cleanly closes its connections, so its contenders know at once
and do not wait for a timeout.",
    ..FaultCard::SERVERS
},
 inject: |firing| Box::pin(take_targets_down(How::Stopped, firing)),
},
    rolling_restart::ENTRY,
    FaultEntry {
 card: FaultCard {
    name: "pause",
    summary: "pauses a server (SIGSTOP, then SIGCONT), as a long garbage collection would",
    source: "Jepsen's pause nemesis",
    details: "\
Inject: SIGSTOP to the server's Java process. Its sockets stay open and swallow everything that is sent.
Proof: the system reports that the process is stopped, and the server does not answer.
Heal: SIGCONT; healed when the ensemble is healthy. It is sent however the trial ends, because a stopped process
cannot even be ended cleanly.

A correct lock: it gets no notice. Contenders of that server move after two thirds of their session timeout without
an answer. A leader is replaced after `syncLimit` ticks. When it wakes up it considers itself the leader for up to a
tick. Clients that read from it then get outdated data; its writes find no majority. A lock that decides by a read
must not enter because of an old list.
Where it misleads: a pause shorter than the timeouts of the others shows up only as waiting.",
    stops_service: true,
    ..FaultCard::SERVERS
},
 inject: |firing| Box::pin(break_targets(Effect::Still, FALLS_SILENT, firing)),
},
    FaultEntry {
 card: FaultCard {
    name: "wipe",
    summary: "kills a server, deletes its data, and starts it empty",
    source: "ClickHouse's Jepsen tests of Keeper, dropped data",
    details: "\
Inject: SIGKILL as under `kill`; once all other servers serve and are in step, snapshots and transaction logs are
deleted. The server keeps its number. A wipe first waits up to 30 s until every other server serves, so two never
overlap.
Proof: the process has ended, and the data were deleted.
Heal: the server is started without data and fetches everything from the leader; healed when the ensemble is
healthy.

A correct lock: as under `kill`. A majority always keeps its data, so no acknowledged write is lost.
Where it misleads: `leader` causes an election first. `all` is refused: an ensemble that has lost all data has lost
its locks, too, and no lock can be correct then.",
    refuses: &["all"],
    default_target: "follower",
    least_servers: 3,
    ..FaultCard::SERVERS
},
 inject: |firing| Box::pin(wipe_target(firing)),
},
    FaultEntry {
 card: FaultCard {
    name: "lose-majority",
    summary: "kills a majority of the servers (SIGKILL) and starts them again",
    source: "Jepsen's kill nemesis, on a majority",
    details: "\
Inject: SIGKILL to the fewest servers that leave no majority, drawn by the seed.
Proof: their processes have ended, and the remaining servers report that they do not serve.
Heal: all are started again; healed when the ensemble serves and all followers are in step.

A correct lock: no contender acquires or releases, and no session ends, because that takes a majority: the earlier
holder still holds afterwards. Contenders that were disconnected for longer than their session timeout must stop
believing that they hold, although their nodes may still exist.
Where it misleads: session timeouts start over when a leader is elected. So a lock whose holder died in the meantime
is freed only a whole timeout after the ensemble is back.",
    least_servers: 3,
    stops_service: true,
    ..FaultCard::FIXED
},
 inject: |firing| Box::pin(lose_majority(firing)),
},
    counter_near_end::ENTRY,
    FaultEntry {
 card: FaultCard {
    name: "isolate",
    summary: "cuts a server off from everything: the other servers and its contenders",
    source: "Jepsen's partition nemesis, one node split off",
    details: "\
Inject: the server's network link is taken down: nothing passes between it and other servers or contenders. No
connection is closed, so each side must detect the cut itself. Docker disconnects a server in a container from its
network, which also closes the contenders' connections to it, because they pass through Docker.
Proof: no datagram arrives, in either direction, between it and the other servers or this suite; for a container,
connections are tried instead.
Heal: the link is brought up, or the container reconnected under its old address; healed when every server reaches
every other and the ensemble is healthy.

A correct lock: its contenders move to another server once they have detected the cut. An isolated leader considers
itself the leader until it has missed its followers for syncLimit ticks, and commits nothing; the others elect a new
one. A holder connected to it keeps its session if it reaches another server in time.
Where it misleads: clients cannot reach the isolated server, so none can enter because of its outdated answers;
`partition` tests that. With `all`, no server reaches another one and none serves.",
    needs: Capability::Isolation,
    least_servers: 3,
    ..FaultCard::SERVERS
},
 inject: |firing| Box::pin(isolate(firing)),
},
    partition::ENTRY,
];

const FALLS_SILENT: Duration = Duration::from_secs(20);

const NOTICES: Duration = Duration::from_secs(60);

async fn lose_majority(Firing { choice, reach, mut draw }: Firing<'_>) -> Result<Active<'_>, String> {
    let processes = reach.processes()?;
    let active = take_down(How::Killed, processes.majority(draw.random()), &choice.target, reach).await?;
    if matches!(active.proof, Proof::NotProved(_)) {
        return Ok(active);
    }
    let seen = eventually(NOTICES, || processes.nobody_serves()).await;
    let seen_at = active.seen_at.filter(|_| seen.is_err());
    Ok(Active { proof: proof(seen), seen_at, ..active })
}

async fn isolate(firing: Firing<'_>) -> Result<Active<'_>, String> {
    firing.reach.links()?;
    break_targets(Effect::Off, LINKS_CHANGE, firing).await
}
