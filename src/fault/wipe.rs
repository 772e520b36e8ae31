//! `wipe`: a server ends, loses its data, and comes back empty.

use super::Entry;
use super::in_effect::How;
use super::outage::take_targets_down;
use crate::catalog::fault::FaultCard;

pub const CARD: FaultCard = FaultCard {
    name: "wipe",
    summary: "kills a server, deletes its data, and starts it empty",
    source: "ClickHouse's Jepsen tests of Keeper, dropped data",
    details: "\
Inject: SIGKILL as under `kill`; then snapshots and transaction logs are deleted. The server keeps its number.
Proof: the process has ended, and the data were deleted.
Heal: the server is started with nothing and fetches everything from the leader; healed when the ensemble is whole.

A correct lock: as under `kill`. The data of a majority are never touched, so nothing that was acknowledged is
lost.
Where it misleads: `leader` causes an election first. `all` is refused: an ensemble that has lost all data has lost
its locks, too, and no lock can be correct then.",
    refuses: &["all"],
    default_target: "follower",
    least_servers: 3,
    ..FaultCard::SERVERS
};

pub const ENTRY: Entry =
    Entry { card: CARD, inject: |firing| Box::pin(take_targets_down(How::Wiped, firing)) };
