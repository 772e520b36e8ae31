//! `restart`: a server is stopped cleanly, and started again when the fault ends.

use super::FaultEntry;
use super::outage::take_targets_down;
use super::reach::How;
use zklockbench_core::catalog::fault::FaultCard;

pub const CARD: FaultCard = FaultCard {
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
};

pub const ENTRY: FaultEntry =
    FaultEntry { card: CARD, inject: |firing| Box::pin(take_targets_down(How::Stopped, firing)) };
