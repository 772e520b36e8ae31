//! `crash`: a contender is gone, and its session is not closed.

use super::seen::{proof, until};
use super::site::Doing;
use super::{Active, Entry, Firing, aim};
use crate::catalog::fault::{FaultCard, Target};
use std::time::Duration;

pub const CARD: FaultCard = FaultCard {
    name: "crash",
    summary: "a contender disappears without closing its session, as a killed process does",
    source: "ZooKeeper's recipes page, locks: ephemeral nodes of a client that fails",
    details: "\
Inject: the contender's socket is cut and its client discarded; nothing is released and nothing is closed.
Proof: the contender has discarded its client and come back without any of its state. One that is between two turns
dies when the next begins.
Ends by itself: the contender comes back at once, as a restarted process does, with a new session.

A correct lock: the node goes with the session, and the next one acquires: no sooner than the rest of the
session timeout, no later than the timeout and one and a half ticks. Until then the lock stands still, and rightly
so: nobody can know that the holder is dead. Waiters that crash only lose their place.
Where it misleads: an election in the meantime restarts the timeout.",
    ..FaultCard::CONTENDERS
};

/// A contender that is between two turns dies when the next one begins.
const AT_MOST: Duration = Duration::from_secs(30);

pub const ENTRY: Entry = Entry { card: CARD, inject: |firing| Box::pin(inject(firing)) };

async fn inject(Firing { choice, site, mut draw }: Firing<'_>) -> Result<Active<'_>, String> {
    let hit = aim::contenders(&choice.target, site, &mut draw).await?;
    let before: Vec<u64> = hit.iter().map(|contender| site.contenders.times_died(*contender)).collect();
    // Whoever has let go before it died is no holder any more: it dies in its next hold.
    let doing = match choice.target {
        Target::Word("holder") => Doing::Holding,
        Target::Word("waiter") => Doing::Waiting,
        _ => Doing::Anything,
    };
    hit.iter().for_each(|contender| site.contenders.crash(*contender, doing));
    let lives = || hit.iter().zip(&before).any(|(one, before)| site.contenders.times_died(*one) == *before);
    let died = until(AT_MOST, || !lives(), "it had not died").await;
    let seen = "its connection was closed without a word, and it came back with another session";
    let proof = proof(died.map(|()| seen.to_owned()));
    Ok(Active::over(aim::name(&hit, &choice.target), proof))
}
