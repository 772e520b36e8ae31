//! What faults of the links between contenders and servers have in common: whose connections they are, and what is
//! seen of them.

use std::time::Duration;

use rand_chacha::ChaCha8Rng;

use super::active::Active;
use super::aim;
use super::site::Site;
use crate::catalog::ParamValue;
use crate::catalog::fault::{FaultChoice, Proof, Target};
use crate::clock;
use crate::proxy::{Knob, Proxy, Who};

/// How long it may take until there is something to be seen.
const TAKES_EFFECT: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(5);

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
    let session = |contender: &usize| {
        let key = site.contenders.session(*contender);
        key.map(|key| Who::Session(key.id()))
            .ok_or_else(|| format!("contender {contender} had no session then"))
    };
    Ok(Hit { who: hit.iter().map(session).collect::<Result<_, _>>()?, name })
}

/// Turns a knob for each of them, until it is healed. Proved when connections of theirs pass by it.
pub fn turn<'a>(hit: Hit, proxy: &Proxy, what: &str, knob: impl Fn(Who) -> Knob) -> Active<'a> {
    let knobs: Vec<Knob> = hit.who.iter().map(|who| knob(*who)).collect();
    let connections: usize = hit.who.iter().map(|who| proxy.connections(*who)).sum();
    let proof = if connections > 0 {
        Proof::Proved(format!("{what} on {connections} connections"))
    } else {
        Proof::NotProved("it had no connection at that moment".into())
    };
    until_dropped(hit.name, proof, knobs)
}

/// In effect as long as these knobs are turned.
pub fn until_dropped<'a>(name: String, proof: Proof, knobs: Vec<Knob>) -> Active<'a> {
    Active::until(name, proof, async move {
        drop(knobs);
        Ok(())
    })
}

/// Looks until it is so, for 5 s at most; whether it was.
pub async fn eventually(is_so: impl Fn() -> bool) -> bool {
    let begin = clock::now();
    while !is_so() {
        if clock::now() - begin > clock::micros(TAKES_EFFECT) {
            return false;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    true
}

/// A parameter that is a time.
pub fn time(choice: &FaultChoice, name: &str) -> Duration {
    match choice.params.get(name) {
        Some(ParamValue::Duration(time)) => *time,
        _ => Duration::ZERO,
    }
}
