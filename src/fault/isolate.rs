//! `isolate`: a server is cut off from all other servers.

use std::time::Duration;

use rand_chacha::ChaCha8Rng;

use super::active::Active;
use super::outage::until_whole;
use super::site::Site;
use super::{Entry, aim};
use crate::catalog::fault::{Capability, Ends, FaultCard, FaultChoice, Proof, Targets};
use crate::ensemble::eventually;

/// Description.
pub const CARD: FaultCard = FaultCard {
    name: "isolate",
    summary: "a server is cut off from the other servers, but not from its contenders",
    source: "Jepsen's partition nemesis, one node split off",
    details: "\
Inject: the server's network link is set down: nothing gets to it or from it any more, neither the other servers' nor
the contenders'. No connection is closed: each side finds out by itself.
Proof: datagrams between it and every other server, and this suite, do not arrive, in either direction.
Heal: the link is set up; healed when everything gets everywhere and the ensemble is whole.

A right lock: for a moment there are two servers that take themselves for the leader, of which one only can
commit. The other serves reads of the past for up to a tick before it steps down and sends its contenders
away. Nobody must be let in by what it says: the fencing token of a later holder is always the larger one.
Where it misleads: with `all` no server reaches another one and nobody serves.",
    targets: Targets::Servers,
    refuses: &[],
    default_target: "leader",
    ends: Ends::Healed,
    needs: Capability::Links,
    least_servers: 3,
    stops_service: false,
    needs_key: None,
    params: &[],
};

/// How long it may take until nothing gets through, or everything.
const TAKES_EFFECT: Duration = Duration::from_secs(30);

/// Description and deed.
pub const ENTRY: Entry =
    Entry { card: CARD, inject: |choice, site, draw| Box::pin(inject(choice, site, draw)) };

async fn inject<'a>(
    choice: &'a FaultChoice,
    site: &'a Site<'a>,
    mut draw: ChaCha8Rng,
) -> Result<Active<'a>, String> {
    let (processes, links) = (site.processes()?, site.links()?);
    let servers = aim::servers(&choice.target, processes, &mut draw).await?;
    let leader = processes.leader().await.ok();
    for server in &servers {
        links.isolate(*server).await?;
    }
    let mut seen = Vec::new();
    for server in &servers {
        seen.push(eventually(TAKES_EFFECT, || links.is_isolated(*server)).await);
    }
    let proof = match seen.into_iter().collect::<Result<Vec<_>, _>>() {
        Ok(seen) => Proof::Proved(seen.join("; ")),
        Err(why) => Proof::NotProved(why),
    };
    let name = aim::server_name(&servers, &choice.target, leader);
    let healing = async move {
        let mut joined = Ok(());
        for server in &servers {
            joined = links.rejoin(*server).await.and(joined);
        }
        joined?;
        eventually(TAKES_EFFECT, || links.all_reach()).await?;
        until_whole(processes).await
    };
    Ok(Active::until(name, proof, healing))
}
