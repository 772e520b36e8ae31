//! `reset`: a contender's connection breaks.

use rand_chacha::ChaCha8Rng;

use super::active::Active;
use super::seen::proof;
use super::site::Site;
use super::{Entry, aim, wire};
use crate::catalog::fault::{Capability, Ends, FaultCard, FaultChoice, Targets};
use crate::ensemble::eventually;

/// Description.
pub const CARD: FaultCard = FaultCard {
    name: "reset",
    summary: "a contender's connection breaks at once; it may connect again at once",
    source: "Toxiproxy's reset_peer toxic; ZooKeeper Programmer's Guide, connection loss",
    details: "\
Inject: the proxy closes both ends of the contender's connection with a reset.
Proof: at least one connection was reset.
Ends by itself: nothing stands in the way of the next connection.

A right lock: the session survives, and so do its nodes. Every request under way has an unknown outcome and
must be looked into before it is repeated. Watches are set anew by the client and tell what was missed.",
    targets: Targets::Contenders,
    refuses: &[],
    default_target: "any",
    ends: Ends::ByItself,
    needs: Capability::Proxies,
    least_servers: 1,
    stops_service: false,
    needs_key: None,
    params: &[],
};

/// Description and deed.
pub const ENTRY: Entry =
    Entry { card: CARD, inject: |choice, site, draw| Box::pin(inject(choice, site, draw)) };

async fn inject<'a>(
    choice: &'a FaultChoice,
    site: &'a Site<'a>,
    mut draw: ChaCha8Rng,
) -> Result<Active<'a>, String> {
    let (proxy, hit) = (site.proxy()?, wire::aim_at(choice, site, &mut draw).await?);
    // While servers are down there may be no connection to be reset.
    let reset = || async {
        match hit.who.iter().map(|who| proxy.reset(*who)).sum::<usize>() {
            0 => Err("it had no connection".to_owned()),
            reset => Ok(format!("{reset} connections were reset")),
        }
    };
    let proof = proof(eventually(aim::PATIENCE, reset).await);
    Ok(Active::over(hit.name, proof))
}
