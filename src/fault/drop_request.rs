//! `drop-request`: one request never reaches the ensemble.

use rand_chacha::ChaCha8Rng;

use super::active::Active;
use super::drop_reply::{REQUEST, WAITS_FOR, kinds};
use super::site::Site;
use super::{Entry, wire};
use crate::catalog::Param;
use crate::catalog::fault::{Capability, Ends, FaultCard, FaultChoice, Proof, Targets};
use crate::proxy::Who;

/// Description.
pub const CARD: FaultCard = FaultCard {
    name: "drop-request",
    summary: "a request is lost with the connection before any server has seen it",
    source: "CURATOR-678; Curator's guaranteed delete",
    details: "\
Inject: the proxy waits for the contender's next request of the kind `request`, passes on what was sent before it,
keeps the request and closes the connection. The session lives on. The kinds are those of `drop-reply`, from which
the client can't tell it: both are a lost connection.
Proof: the proxy has kept the request; the connection is gone.
Ends by itself, with that one request. When the contender sends none within 30 s it is not proved.

A right lock: after a `delete` or a release's `multi` it must send it again, or end its session: else its node stays
and blocks the queue for as long as the session lives. After a `create` it must not believe that it has a node. After a
`list` or a `watch` it looks again.",
    targets: Targets::Contenders,
    refuses: &[],
    default_target: "any",
    ends: Ends::ByItself,
    needs: Capability::Proxies,
    least_servers: 1,
    stops_service: false,
    needs_key: None,
    params: &[Param { default: "delete", doc: "Which request is lost.", ..REQUEST }],
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
    let [Who::Session(session)] = hit.who[..] else { return Err("it takes one contender".into()) };
    let loss = proxy.drop_request(session, kinds(choice));
    let proof = match tokio::time::timeout(WAITS_FOR, loss.strikes()).await {
        Ok(struck) => {
            Proof::Proved(format!("kept back: {} {}", struck.request.kind.name(), struck.request.path))
        }
        Err(_) => Proof::NotProved(format!("no such request came within {WAITS_FOR:?}")),
    };
    Ok(Active::over(hit.name, proof))
}
