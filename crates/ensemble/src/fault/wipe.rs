//! `wipe`: a server ends, loses its data, and comes back empty.

use super::FaultEntry;
use super::outage::wipe_target;
use zklockbench_core::catalog::fault::FaultCard;

pub const CARD: FaultCard = FaultCard {
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
};

pub const ENTRY: FaultEntry = FaultEntry { card: CARD, inject: |firing| Box::pin(wipe_target(firing)) };
