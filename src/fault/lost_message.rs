//! One request of a contender that is lost, or whose reply is: what `drop-request` and `drop-reply` have in common.

use std::time::Duration;

use rand_chacha::ChaCha8Rng;

use super::active::Active;
use super::site::Site;
use super::wire;
use crate::catalog::fault::{FaultChoice, Proof};
use crate::catalog::{Param, ParamKind, ParamValue};
use crate::measure::RequestKind;
use crate::proxy::{LostMessage, Proxy, Struck, Who};

/// Which request is hit.
pub const REQUEST: Param = Param {
    name: "request",
    kind: ParamKind::OneOf(&["create", "delete", "multi", "join", "release", "list", "watch"]),
    default: "create",
    doc: "",
};

/// How long the contender may take until it sends such a request.
const WAITS_FOR: Duration = Duration::from_secs(30);

/// Has the proxy lose one message of the contender's next request of that kind, and waits until it is lost.
pub async fn lose<'a>(
    (choice, site, mut draw): (&'a FaultChoice, &'a Site<'a>, ChaCha8Rng),
    order: impl Fn(&Proxy, i64, &[RequestKind]) -> LostMessage,
    tell: impl Fn(&Struck) -> String,
) -> Result<Active<'a>, String> {
    let (proxy, hit) = (site.proxy()?, wire::aim_at(choice, site, &mut draw).await?);
    let [Who::Session(session)] = hit.who[..] else { return Err("it takes one contender".into()) };
    let loss = order(proxy, session, kinds(choice));
    let proof = match tokio::time::timeout(WAITS_FOR, loss.strikes()).await {
        Ok(struck) => Proof::Proved(tell(&struck)),
        Err(_) => Proof::NotProved(format!("no such request came within {WAITS_FOR:?}")),
    };
    Ok(Active::over(hit.name, proof))
}

/// The requests that a fault with the parameter [`REQUEST`] hits.
fn kinds(choice: &FaultChoice) -> &'static [RequestKind] {
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
