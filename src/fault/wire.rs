//! What faults of the links between contenders and servers have in common: whose connections they are, what is
//! seen of them, and how one message is lost.

use std::time::Duration;

use rand_chacha::ChaCha8Rng;

use super::seen::{only_if, proof};
use super::site::Site;
use super::{Active, Firing, aim};
use crate::catalog::fault::{FaultChoice, Proof, Target};
use crate::catalog::{Param, ParamKind, ParamValue};
use crate::ensemble::eventually;
use crate::measure::RequestKind;
use crate::proxy::{Guard, LostMessage, Proxy, Struck, Who};
use crate::units::counted;

/// Whose connections are hit, and how outputs call them.
pub struct Hit<'a> {
    pub proxy: &'a Proxy,
    pub who: Vec<Who>,
    /// `contender 3 (holder)`.
    pub name: String,
}

/// Finds out whose connections a fault hits.
pub async fn aim_at<'a>(
    choice: &FaultChoice,
    site: &Site<'a>,
    draw: &mut ChaCha8Rng,
) -> Result<Hit<'a>, String> {
    let proxy = site.proxy()?;
    let hit = aim::contenders(&choice.target, site, draw).await?;
    let name = aim::name(&hit, &choice.target);
    if choice.target == Target::Word("all") {
        return Ok(Hit { proxy, who: vec![Who::All], name });
    }
    // By contender: what hits a session ends with it, though the contender goes on with another.
    Ok(Hit { proxy, who: hit.into_iter().map(Who::Client).collect(), name })
}

/// Sets something for each of them, until it is healed. Proved once connections of theirs pass by it: while servers are
/// down there may be none.
pub async fn set<'a>(hit: Hit<'a>, what: &str, setting: impl Fn(&Proxy, Who) -> Guard) -> Active<'a> {
    let guards: Vec<Guard> = hit.who.iter().map(|who| setting(hit.proxy, *who)).collect();
    let refused = || hit.who.iter().all(|who| hit.proxy.in_force(*who).refused);
    let passing = || async {
        if refused() {
            return Ok(format!("{what}, once another fault lets a connection be made"));
        }
        let connections: usize = hit.who.iter().map(|who| hit.proxy.connections(*who)).sum();
        let proof = || format!("{what} on {}", counted(connections, "connection", "connections"));
        if connections > 0 { Ok(proof()) } else { Err("it had no connection".to_owned()) }
    };
    let seen = eventually(aim::PATIENCE, passing).await;
    Active::until_dropped(hit.name, proof(seen), guards)
}

/// From now until the look, nothing gets through.
pub fn nothing_passes(proxy: &Proxy, who: Vec<Who>) -> impl Future<Output = Result<(), String>> {
    let passed = move || -> Vec<(u64, u64)> { who.iter().map(|who| proxy.passed(*who)).collect() };
    let before = passed();
    async move { only_if(passed() == before, "something passed meanwhile") }
}

pub fn time(choice: &FaultChoice, name: &str) -> Duration {
    match choice.params.get(name) {
        Some(ParamValue::Duration(time)) => *time,
        _ => Duration::ZERO,
    }
}

/// Which request `drop-request` and `drop-reply` hit.
pub const REQUEST: Param = Param {
    name: "request",
    kind: ParamKind::OneOf(&["create", "delete", "multi", "join", "release", "list", "watch"]),
    default: "create",
    doc: "",
};

/// How long the contender may take until it sends such a request.
const WAITS_FOR: Duration = Duration::from_secs(30);

/// Has the proxy lose one message of the contender's next request of that kind, and waits until it is lost.
pub async fn lose(
    Firing { choice, site, mut draw }: Firing<'_>,
    order: impl Fn(&Proxy, Who, &[RequestKind]) -> LostMessage,
    tell: impl Fn(&Struck) -> String,
) -> Result<Active<'_>, String> {
    let hit = aim_at(choice, site, &mut draw).await?;
    let [who @ Who::Client(_)] = hit.who[..] else { return Err("it takes one contender".into()) };
    let loss = order(hit.proxy, who, kinds(choice));
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
