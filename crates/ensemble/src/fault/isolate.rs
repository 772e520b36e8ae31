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
Inject: the server's network link is taken down: nothing reaches it or leaves it any more, neither to nor from other
servers and contenders. No connection is closed: each side finds out by itself. Docker disconnects a server in a
container from its network, which also closes the contenders' connections to it, because they pass through Docker.
Proof: datagrams between it and every other server, and this suite, do not arrive, in either direction; for a
container, connections are tried instead.
Heal: the link is brought up, or the container reconnected under its old address; healed when every server reaches
every other and the ensemble is whole.

A correct lock: its contenders move to another server once they have found out. An isolated leader takes itself for
the leader until it has missed its followers for syncLimit ticks, and commits nothing; the others elect a new one. A
holder on its side keeps its session if it gets to another server in time.
Where it misleads: nobody can ask the isolated server, so nobody can enter because of its outdated answers: that
needs `partition`. With `all` no server reaches another one and nobody serves.",
    needs: Capability::Isolation,
    least_servers: 3,
    ..FaultCard::SERVERS
};

pub const ENTRY: FaultEntry = FaultEntry { card: CARD, inject: |firing| Box::pin(inject(firing)) };

async fn inject(firing: Firing<'_>) -> Result<Active<'_>, String> {
    firing.reach.links()?;
    break_targets(Effect::Off, LINKS_CHANGE, firing).await
}
