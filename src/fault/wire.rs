//! What faults of the links between contenders and servers have in common: whose connections they are, and what is
//! seen of them.

use std::time::Duration;

use rand_chacha::ChaCha8Rng;

use super::active::Active;
use super::aim;
use super::seen::proof;
use super::site::Site;
use crate::catalog::ParamValue;
use crate::catalog::fault::{FaultChoice, Target};
use crate::ensemble::eventually;
use crate::proxy::{Knob, Proxy, Who};

/// Whose connections are hit, and how outputs call them.
pub struct Hit {
    /// The connections.
    pub who: Vec<Who>,
    /// `contender 3 (holder)`.
    pub name: String,
}

/// Finds out whose connections a fault hits.
pub async fn aim_at(choice: &FaultChoice, site: &Site<'_>, draw: &mut ChaCha8Rng) -> Result<Hit, String> {
    let hit = aim::contenders(&choice.target, site, draw).await?;
    let name = aim::name(&hit, &choice.target);
    if choice.target == Target::Word("all") {
        return Ok(Hit { who: vec![Who::All], name });
    }
    let mut who = Vec::new();
    for contender in hit {
        who.push(Who::Session(aim::session(contender, site).await?.id()));
    }
    Ok(Hit { who, name })
}

/// Turns a knob for each of them, until it is healed. Proved once connections of theirs pass by it: while servers are
/// down there may be none.
pub async fn turn<'a>(hit: Hit, proxy: &Proxy, what: &str, knob: impl Fn(Who) -> Knob) -> Active<'a> {
    let knobs: Vec<Knob> = hit.who.iter().map(|who| knob(*who)).collect();
    let passing = || async {
        let connections: usize = hit.who.iter().map(|who| proxy.connections(*who)).sum();
        let proof = || format!("{what} on {connections} connections");
        if connections > 0 { Ok(proof()) } else { Err("it had no connection".to_owned()) }
    };
    let seen = eventually(aim::PATIENCE, passing).await;
    Active::until_dropped(hit.name, proof(seen), knobs)
}

/// A parameter that is a time.
pub fn time(choice: &FaultChoice, name: &str) -> Duration {
    match choice.params.get(name) {
        Some(ParamValue::Duration(time)) => *time,
        _ => Duration::ZERO,
    }
}
