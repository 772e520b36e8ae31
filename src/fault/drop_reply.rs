//! `drop-reply`: one request is carried out, but its reply never arrives.

use std::time::Duration;

use rand_chacha::ChaCha8Rng;

use super::active::Active;
use super::site::Site;
use super::{Entry, wire};
use crate::catalog::fault::{Capability, Ends, FaultCard, FaultChoice, Proof, Targets};
use crate::catalog::{Param, ParamKind, ParamValue};
use crate::measure::RequestKind;
use crate::proxy::Who;

/// Description.
pub const CARD: FaultCard = FaultCard {
    name: "drop-reply",
    summary: "a request reaches the ensemble and is carried out, but its reply is lost with the connection",
    source: "Curator's CreateBuilder.withProtection; ZooKeeper's recipes page, recoverable errors",
    details: "\
Inject: the proxy waits for the contender's next request of the kind `request`, passes it on, keeps its reply
and then closes the connection. What the server refuses is passed on, and the next one waited for. `join` is a
create or a multi and `release` a delete or a multi, whichever comes first: with them one scenario hits every
lock. `list` is a request for children with or without a watch; `watch` is any read that sets one.
Proof: the reply has arrived in the proxy and says that the request succeeded; the connection is gone.
Ends by itself, with that one request. When the contender sends none within 30 s it is not proved.

A right lock: after a `create` it must find out whether its node is there, or leave it to die with its
session: a node that nobody knows of blocks the queue for as long as the session lives (an orphan). After a
`delete` it must not believe that it still holds, and must not leave the node behind either. After a `multi`
either all of it has happened or nothing. After a `list` or a `watch` it looks again.",
    targets: Targets::Contenders,
    refuses: &[],
    default_target: "any",
    ends: Ends::ByItself,
    needs: Capability::Proxies,
    least_servers: 1,
    stops_service: false,
    needs_key: None,
    params: &[Param { doc: "Which request loses its reply.", ..REQUEST }],
};

/// Which request is hit.
pub const REQUEST: Param = Param {
    name: "request",
    kind: ParamKind::OneOf(&["create", "delete", "multi", "join", "release", "list", "watch"]),
    default: "create",
    doc: "",
};

/// How long the contender may take until it sends such a request.
pub const WAITS_FOR: Duration = Duration::from_secs(30);

/// Description and deed.
pub const ENTRY: Entry =
    Entry { card: CARD, inject: |choice, site, draw| Box::pin(inject(choice, site, draw)) };

async fn inject<'a>(
    choice: &'a FaultChoice,
    site: &'a Site<'a>,
    mut draw: ChaCha8Rng,
) -> Result<Active<'a>, String> {
    let (proxy, hit) = (site.proxy()?, wire::aim_at(choice, site, &mut draw).await?);
    let kinds = kinds(choice);
    let [Who::Session(session)] = hit.who[..] else { return Err("it takes one contender".into()) };
    let loss = proxy.drop_reply(session, kinds);
    let proof = match tokio::time::timeout(WAITS_FOR, loss.strikes()).await {
        Ok(struck) => Proof::Proved(format!("the server had done it by transaction 0x{:x}", struck.zxid)),
        Err(_) => Proof::NotProved(format!("no such request came within {WAITS_FOR:?}")),
    };
    Ok(Active::over(hit.name, proof))
}

/// The requests that a fault with the parameter [`REQUEST`] hits.
pub fn kinds(choice: &FaultChoice) -> &'static [RequestKind] {
    match choice.params.get("request") {
        Some(ParamValue::Word(word)) if word == "delete" => &[RequestKind::Delete],
        Some(ParamValue::Word(word)) if word == "multi" => &[RequestKind::Multi],
        Some(ParamValue::Word(word)) if word == "join" => &[RequestKind::Create, RequestKind::Multi],
        Some(ParamValue::Word(word)) if word == "release" => &[RequestKind::Delete, RequestKind::Multi],
        Some(ParamValue::Word(word)) if word == "list" => {
            &[RequestKind::GetChildren, RequestKind::GetChildrenWatch]
        }
        Some(ParamValue::Word(word)) if word == "watch" => {
            &[RequestKind::GetDataWatch, RequestKind::ExistsWatch, RequestKind::GetChildrenWatch]
        }
        _ => &[RequestKind::Create],
    }
}
