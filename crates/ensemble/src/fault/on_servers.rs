//! Faults in servers and in the links between them.

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
Inject: SIGKILL to the server's Java process, which writes nothing more; its connections break.
Proof: the process has ended, and the client port no longer accepts connections. If the server was the leader, the
other servers have elected a new leader.
Heal: the server is restarted with its existing data; healed when the ensemble is healthy.

A correct lock: contenders of that server reconnect to another server. While there is no leader, no contender acquires
or releases the lock, but the holder keeps it: sessions survive an election, which restarts their timeouts. A request
in flight when the server died has an unknown outcome: a create may have created its node, and a delete may have
removed its node.
Caveat: on one host, an election takes a few tenths of a second, less than over a real network. `all`
kills every server, as does any target in a single-server ensemble: no server serves until they are back.",
    ..FaultCard::SERVERS
},
 inject: |firing| Box::pin(take_targets_down(How::Killed, firing)),
},
    FaultEntry {
 card: FaultCard {
    name: "restart",
    summary: "stops a server cleanly (SIGTERM) and starts it again",
    source: "ZooKeeper's script: zkServer.sh restart",
    details: "\
Inject: SIGTERM to the server's Java process, which shuts down cleanly.
Proof: the process has ended, and the client port no longer accepts connections.
Heal: the server is restarted with its existing data; healed when the ensemble is healthy.

A correct lock: as under `kill`. A server that stops cleanly closes its connections, so its contenders notice
immediately instead of waiting for a timeout.",
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
Inject: SIGSTOP to the server's Java process. Its connections stay open, but nothing sent to them is answered.
Proof: the operating system reports that the process is stopped, and the server does not answer.
Heal: SIGCONT; healed when the ensemble is healthy. SIGCONT is sent however the trial ends, because a stopped process
cannot be shut down cleanly.

A correct lock: it is not notified. Contenders of that server reconnect elsewhere after two thirds of their session
timeout without a reply. A paused leader is replaced after `syncLimit` ticks. When it resumes, it considers itself the
leader for up to a tick: its clients read stale data, and its writes find no majority. A lock that decides based on a
read must not admit a contender because of a stale list.
Caveat: a pause shorter than all timeouts shows up only as waiting.",
    stops_service: true,
    ..FaultCard::SERVERS
},
 inject: |firing| Box::pin(break_targets(Effect::Still, FALLS_SILENT, firing)),
},
    FaultEntry {
 card: FaultCard {
    name: "wipe",
    summary: "kills a server, deletes its data, and restarts it empty",
    source: "ClickHouse's Jepsen tests of Keeper, dropped data",
    details: "\
Inject: SIGKILL as under `kill`; once all other servers serve and are synchronised, the server's snapshots and
transaction logs are deleted. The server keeps its ID. A wipe first waits up to 30 s until every other server serves,
so two wipes never overlap.
Proof: the process has ended, and the data was deleted.
Heal: the server is restarted without data and fetches everything from the leader; healed when the ensemble is
healthy.

A correct lock: as under `kill`. A majority always keeps its data, so no acknowledged write is lost.
Caveat: `leader` also causes an election. `all` is rejected: an ensemble that has lost all data has lost
its locks, too, so no lock could be correct.",
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
Inject: SIGKILL to a bare majority of the servers, chosen by the seed.
Proof: the killed processes have ended, and the remaining servers report that they do not serve.
Heal: the killed servers are restarted; healed when the ensemble serves and all followers are synchronised.

A correct lock: no contender acquires or releases the lock, and no session ends, because all of this needs a majority.
The same contender therefore still holds the lock afterwards. Contenders that were disconnected for longer than their
session timeout must stop believing that they hold the lock, although their nodes may still exist.
Caveat: session timeouts restart when a leader is elected. A lock whose holder died during the outage is
therefore freed only a full timeout after the ensemble is back.",
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
    summary: "cuts a server off from the other servers and all contenders",
    source: "Jepsen's partition nemesis, one node split off",
    details: "\
Inject: the server's network link is taken down: nothing passes between the server and other servers or contenders. No
connection is closed, so each side must detect the cut itself. A server in a container is disconnected from its Docker
network, which also closes the contenders' connections to the server, because they pass through Docker.
Proof: no datagram passes in either direction between the server and the other servers or this suite; for a container,
connection attempts take the place of datagrams.
Heal: the link is brought up, or the container is reconnected with its old address; healed when every server can reach
every other server and the ensemble is healthy.

A correct lock: contenders reconnect to another server once they have detected the cut. An isolated leader considers
itself the leader until it has not heard from its followers for syncLimit ticks, but commits nothing; the other servers
elect a new leader. A holder connected to the isolated server keeps its session if it reaches another server in time.
Caveat: clients cannot reach the isolated server, so its stale answers cannot let any contender enter;
`partition` tests stale answers. With `all`, no server reaches another server, and no server serves.",
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
