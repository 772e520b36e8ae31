//! Finds out what a fault hits: words such as `holder` have a meaning only at the moment when it fires.

use std::time::Duration;

use rand::Rng;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;

use super::reach::FaultReach;
use crate::words::catalog::fault::Target;
use crate::words::clock;
use crate::world::ensemble::{Processes, eventually};
use crate::world::zk::SessionKey;

/// How long it may take until a contender is what the word says, or has what is to be broken. Another fault may just have
/// ended all sessions, or made the servers elect.
pub const PATIENCE: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(1);

pub async fn contenders(
    target: &Target,
    reach: &FaultReach<'_>,
    draw: &mut ChaCha8Rng,
) -> Result<Vec<usize>, String> {
    let all = reach.contenders.all();
    let begin = clock::now();
    let word = match target {
        Target::Contender(number) if all.contains(number) => return Ok(vec![*number]),
        Target::Contender(number) => return Err(format!("there is no contender {number}")),
        Target::Word("any") => return Ok(all.choose(draw).copied().into_iter().collect()),
        Target::Word("all") | Target::Fixed => return Ok(all),
        Target::Word(word) => *word,
        Target::Server(number) => return Err(format!("server {number} is no contender")),
    };
    loop {
        let those = if word == "holder" { reach.contenders.inside() } else { reach.contenders.waiting() };
        if let Some(one) = those.choose(draw) {
            return Ok(vec![*one]);
        }
        if clock::now() - begin > clock::micros(PATIENCE) {
            return Err(format!("there was no {word} for {PATIENCE:?}"));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// A contender's session. One that has just lost its own, by another fault perhaps, opens the next one.
pub async fn session(contender: usize, reach: &FaultReach<'_>) -> Result<SessionKey, String> {
    let look = || async {
        let key = reach.contenders.session(contender);
        key.ok_or_else(|| format!("contender {contender} had no session"))
    };
    eventually(PATIENCE, look).await
}

pub async fn servers(
    target: &Target,
    processes: &dyn Processes,
    draw: &mut ChaCha8Rng,
) -> Result<Vec<usize>, String> {
    let count = processes.servers();
    match target {
        Target::Server(number) if (1..=count).contains(number) => Ok(vec![*number]),
        Target::Server(number) => Err(format!("there is no server {number}")),
        Target::Word("leader") => Ok(vec![leader(processes).await?]),
        Target::Word("follower") => {
            let followers = eventually(PATIENCE, || processes.followers()).await?;
            Ok(followers.choose(draw).copied().into_iter().collect())
        }
        Target::Word("any") => Ok(vec![draw.random_range(1..=count)]),
        _ => Ok((1..=count).collect()),
    }
}

/// The server that leads. While servers elect, the next one that does.
pub async fn leader(processes: &dyn Processes) -> Result<usize, String> {
    eventually(PATIENCE, || processes.leader()).await
}

/// How outputs call these servers, of which that one led.
pub fn server_name(servers: &[usize], target: &Target, leader: Option<usize>) -> String {
    let role = |server: usize| match leader {
        Some(leader) if leader == server => " (leader)",
        Some(_) => " (follower)",
        None => "",
    };
    if matches!(target, Target::Word("all")) {
        return "all servers".into();
    }
    let names = servers.iter().map(|server| format!("server {server}{}", role(*server)));
    names.collect::<Vec<_>>().join(", ")
}

pub fn name(contenders: &[usize], target: &Target) -> String {
    let role = match target {
        Target::Word(word @ ("holder" | "waiter")) => format!(" ({word})"),
        _ => String::new(),
    };
    match contenders {
        [one] => format!("contender {one}{role}"),
        many => crate::words::units::contenders(many.len()),
    }
}
