//! `kill`: a server's process ends without a warning, and is started again when the fault ends.

use super::FaultEntry;
use super::outage::take_targets_down;
use super::reach::How;
use zklockbench_core::catalog::fault::FaultCard;

pub const CARD: FaultCard = FaultCard {
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
};

pub const ENTRY: FaultEntry =
    FaultEntry { card: CARD, inject: |firing| Box::pin(take_targets_down(How::Killed, firing)) };
