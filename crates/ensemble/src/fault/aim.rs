//! Selects a fault's targets, and verifies that the fault affected them. Targets such as `holder` are resolved
//! when the fault fires. Every effect must be healed, so an action on several targets continues if it fails on one.

use std::future::Future;
use std::time::Duration;

use futures_util::future::try_join_all;
use rand::Rng;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;

use super::reach::FaultReach;
use crate::eventually;
use zklockbench_core::catalog::fault::{Proof, Target};
use zklockbench_core::clock;
use zklockbench_zk::SessionKey;

/// Timeout for finding a holder, waiter, session or leader. Another fault may have just ended all sessions
/// or triggered an election.
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
        Target::Server(number) => return Err(format!("server {number} is not a contender")),
    };
    loop {
        let those = if word == "holder" { reach.contenders.inside() } else { reach.contenders.waiting() };
        if let Some(one) = those.choose(draw) {
            return Ok(vec![*one]);
        }
        if clock::now() - begin > clock::micros(PATIENCE) {
            return Err(format!("no {word} was found within {PATIENCE:?}"));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Returns a contender's session. If another fault has just ended the session, waits for the next session.
pub async fn session(contender: usize, reach: &FaultReach<'_>) -> Result<SessionKey, String> {
    let look = || async {
        let key = reach.contenders.session(contender);
        key.ok_or_else(|| format!("contender {contender} had no session"))
    };
    eventually(PATIENCE, look).await
}

pub async fn servers(
    target: &Target,
    reach: &FaultReach<'_>,
    draw: &mut ChaCha8Rng,
) -> Result<Vec<usize>, String> {
    let processes = reach.processes()?;
    let count = processes.servers();
    match target {
        Target::Server(number) if (1..=count).contains(number) => Ok(vec![*number]),
        Target::Server(number) => Err(format!("there is no server {number}")),
        Target::Word("leader") => Ok(vec![leader(reach).await?]),
        Target::Word("follower") => {
            let followers = reach.while_loaded(eventually(PATIENCE, || processes.followers())).await?;
            Ok(followers.choose(draw).copied().into_iter().collect())
        }
        Target::Word("any") => Ok(vec![draw.random_range(1..=count)]),
        _ => Ok((1..=count).collect()),
    }
}

/// Returns the leader's server number. During an election, waits for the result.
pub async fn leader(reach: &FaultReach<'_>) -> Result<usize, String> {
    let processes = reach.processes()?;
    reach.while_loaded(eventually(PATIENCE, || processes.leader())).await
}

/// Returns a display name for the servers, with their roles if the leader is known.
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
        many => zklockbench_core::units::contenders(many.len()),
    }
}

/// Time allowed for work in progress to finish.
const SETTLES: Duration = Duration::from_millis(20);
const RESTS_WITHIN: Duration = Duration::from_secs(5);

pub fn proof(seen: Result<String, String>) -> Proof {
    match seen {
        Ok(how) => Proof::Proved(how),
        Err(why) => Proof::NotProved(why),
    }
}

pub fn only_if(is_so: bool, otherwise: &str) -> Result<(), String> {
    if is_so { Ok(()) } else { Err(otherwise.to_owned()) }
}

pub async fn all_still<T: Copy, F>(all: &[T], look: impl Fn(T) -> F) -> Result<(), String>
where
    F: Future<Output = Result<String, String>>,
{
    try_join_all(all.iter().map(|one| look(*one))).await.map(drop)
}

/// Applies an action to every target, even after a failure. Returns the first failure.
pub async fn do_each<T: Copy, F>(all: &[T], deed: impl Fn(T) -> F) -> Result<(), String>
where
    F: Future<Output = Result<(), String>>,
{
    let mut done = Ok(());
    for one in all {
        done = done.and(deed(*one).await);
    }
    done
}

/// Applies an action to every target, and waits until it has taken effect on all of them.
pub async fn do_and_see<T: Copy, D, S>(
    all: &[T],
    deed: impl Fn(T) -> D,
    within: Duration,
    look: impl Fn(T) -> S,
) -> Result<String, String>
where
    D: Future<Output = Result<(), String>>,
    S: Future<Output = Result<String, String>>,
{
    do_each(all, deed).await?;
    let mut seen = Vec::new();
    for one in all {
        seen.push(eventually(within, || look(*one)).await?);
    }
    Ok(seen.join("; "))
}

pub async fn until(within: Duration, is_so: impl Fn() -> bool, otherwise: &str) -> Result<(), String> {
    let look = || async { only_if(is_so(), otherwise) };
    eventually(within, look).await
}

/// Waits until a count stays unchanged for `lasts`. Returns false if it still changes after seconds: on a busy host, work
/// in progress may take long to finish.
pub async fn stands_still<T: PartialEq>(count: &impl Fn() -> T, lasts: Duration) -> bool {
    let rests = async {
        loop {
            let before = count();
            tokio::time::sleep(lasts).await;
            if count() == before {
                return;
            }
        }
    };
    tokio::time::sleep(SETTLES).await;
    tokio::time::timeout(RESTS_WITHIN, rests).await.is_ok()
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[tokio::test]
    async fn do_each_continues_after_failures_and_returns_the_first_failure() {
        let done = RefCell::new(Vec::new());
        let all = do_each(&[1, 2, 3], async |one| {
            done.borrow_mut().push(one);
            if one == 1 { Ok(()) } else { Err(format!("{one} failed")) }
        });
        assert_eq!(all.await, Err("2 failed".into()));
        assert_eq!(*done.borrow(), [1, 2, 3]);
    }

    #[tokio::test(start_paused = true)]
    async fn stands_still_unless_a_count_grows_for_seconds() {
        let count = std::cell::Cell::new(0_u32);
        let moving = || count.replace(count.get() + 1);
        assert!(!stands_still(&moving, Duration::from_millis(50)).await);
        assert!(stands_still(&|| 7, Duration::from_millis(50)).await);
        // The count changes only between the first two polls
        let slowing = || {
            count.set(count.get().saturating_sub(1));
            count.get()
        };
        count.set(2);
        assert!(stands_still(&slowing, Duration::from_millis(50)).await);
    }
}
