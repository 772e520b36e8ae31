//! `crash`: a contender is gone, and its session is not closed.

use super::active::Active;
use super::site::Site;
use super::{Entry, aim};
use crate::catalog::fault::{Capability, Ends, FaultCard, FaultChoice, Proof, Targets};
use crate::clock;
use rand_chacha::ChaCha8Rng;
use std::time::Duration;

/// Description.
pub const CARD: FaultCard = FaultCard {
    name: "crash",
    summary: "a contender is gone without closing its session, as when its process is killed",
    source: "ZooKeeper's recipes page, locks: ephemeral nodes of a client that fails",
    details: "\
Inject: the contender's socket is cut and its client thrown away; nothing is released and nothing is closed.
Proof: the contender has thrown its client away and has come back with nothing of it. One that is between two turns
dies when the next begins.
Ends by itself: the contender comes back at once, as a restarted process does, with a new session.

A right lock: the node goes with the session, and the next one acquires: no sooner than the rest of the
session timeout, no later than the timeout and one and a half ticks. Until then the lock stands still, which
is right: nobody can know that the holder is dead. Waiters that crash cost nothing but their place.
Where it misleads: an election in the meantime begins the timeout anew.",
    targets: Targets::Contenders,
    refuses: &[],
    default_target: "holder",
    ends: Ends::ByItself,
    needs: Capability::Contenders,
    least_servers: 1,
    stops_service: false,
    needs_key: None,
    params: &[],
};

/// A contender that is between two turns dies when the next one begins.
const AT_MOST: Duration = Duration::from_secs(10);

/// Description and deed.
pub const ENTRY: Entry =
    Entry { card: CARD, inject: |choice, site, draw| Box::pin(inject(choice, site, draw)) };

async fn inject<'a>(
    choice: &'a FaultChoice,
    site: &'a Site<'a>,
    mut draw: ChaCha8Rng,
) -> Result<Active<'a>, String> {
    let hit = aim::contenders(&choice.target, site, &mut draw).await?;
    let before: Vec<u64> = hit.iter().map(|contender| site.contenders.times_died(*contender)).collect();
    hit.iter().for_each(|contender| site.contenders.crash(*contender));
    let begin = clock::now();
    let lives = || hit.iter().zip(&before).any(|(one, before)| site.contenders.times_died(*one) == *before);
    while lives() && clock::now() - begin < clock::micros(AT_MOST) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let proof = if lives() {
        Proof::NotProved(format!("it had not died within {AT_MOST:?}"))
    } else {
        Proof::Proved(
            "its connection was closed without a word, and it came back with another session".into(),
        )
    };
    Ok(Active::over(aim::name(&hit, &choice.target), proof))
}
