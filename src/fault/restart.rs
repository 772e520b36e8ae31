//! `restart`: a server is stopped in order, and is started again when the fault ends.

use super::Entry;
use super::outage::{How, take_targets_down};
use crate::catalog::fault::{Capability, Ends, FaultCard, Targets};

/// Description.
pub const CARD: FaultCard = FaultCard {
    name: "restart",
    summary: "a server is stopped in order (SIGTERM), and is started again",
    source: "ZooKeeper's own script, zkServer.sh restart",
    details: "\
Inject: SIGTERM to the server's Java process, which ends itself.
Proof: the process has ended, and the port for contenders no longer accepts connections.
Heal: the server is started again with its data; healed when the ensemble is whole.

A right lock: as under `kill`. A server that stops in order closes its connections, so its contenders know at
once and do not wait for a timeout.",
    targets: Targets::Servers,
    refuses: &[],
    default_target: "leader",
    ends: Ends::Healed,
    needs: Capability::Processes,
    least_servers: 1,
    stops_service: false,
    needs_key: None,
    params: &[],
};

/// Description and deed.
pub const ENTRY: Entry = Entry {
    card: CARD,
    inject: |choice, site, draw| Box::pin(take_targets_down(How::Stopped, choice, site, draw)),
};
