//! `isolate`: a server is cut off from everything.

use super::outage::{LINKS_CHANGE, break_targets};
use super::reach::Effect;
use super::{Active, FaultEntry, Firing};
use zklockbench_core::catalog::fault::{Capability, FaultCard};

pub const CARD: FaultCard = FaultCard {
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
};

pub const ENTRY: FaultEntry = FaultEntry { card: CARD, inject: |firing| Box::pin(inject(firing)) };

async fn inject(firing: Firing<'_>) -> Result<Active<'_>, String> {
    firing.reach.links()?;
    break_targets(Effect::Off, LINKS_CHANGE, firing).await
}
