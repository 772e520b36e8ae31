//! `kill`: a server's process ends without a warning, and is started again when the fault ends.

use super::Entry;
use super::in_effect::How;
use super::outage::take_targets_down;
use crate::catalog::fault::FaultCard;

pub const CARD: FaultCard = FaultCard {
    name: "kill",
    summary: "kills a server (SIGKILL) and starts it again",
    source: "Jepsen's kill nemesis; ZooKeeper paper (USENIX ATC 2010), throughput upon failures",
    details: "\
Inject: SIGKILL to the server's Java process. It writes nothing more and closes nothing: its sockets break.
Proof: the process has ended, and the port for contenders no longer accepts connections. Where the leader was
hit, the others have elected another one.
Heal: the server is started again with the data that it left; healed when the ensemble is whole.

A correct lock: contenders of that server go to another one. While there is no leader nobody acquires and
nobody releases, but whoever holds goes on to hold: sessions outlast an election, and their timeouts start
anew with it. A request under way when the server went has an unknown outcome: a create may have made its
node, a delete may have removed it.
Where it misleads: on one host an election takes a few tenths of a second, less than over a real network.
`all` ends every server, and with one server its only one: nobody serves until they are back.",
    ..FaultCard::SERVERS
};

pub const ENTRY: Entry =
    Entry { card: CARD, inject: |firing| Box::pin(take_targets_down(How::Killed, firing)) };
