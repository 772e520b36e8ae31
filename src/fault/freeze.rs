//! `freeze`: a contender stands still together with its session.

use super::seen::{only_if, stands_still};
use super::site::Site;
use super::{Active, Entry, Firing, aim};
use crate::catalog::fault::{Ends, FaultCard, FaultChoice, Proof, Target};
use crate::zk::gate::{Gate, Shut};
use rand_chacha::ChaCha8Rng;
use std::sync::Arc;
use std::time::Duration;

pub const CARD: FaultCard = FaultCard {
    name: "freeze",
    summary: "a contender and its session stop for a while, as in a long garbage collection",
    source: "Kleppmann, How to do distributed locking (2016), the client that pauses",
    details: "\
Inject: neither the contender nor its client does anything: no heartbeat is sent, no reply and no event is
looked at.
Proof: nothing of the contender and its client was run for 30 ms. A holder that had let go before it stood still is
no holder: then another one is chosen.
Heal: the contender goes on where it stood.

A correct lock: shorter than the session timeout it is a long hold or a long wait. Longer, the contender wakes
up as a zombie: it believes that it holds while the next one holds already. No lock can prevent that; it can
only let the contender know soon, and give it a fencing token by which whatever the lock protects refuses the
zombie's work. Entries of a zombie are told apart from violations by the end of its session.",
    ends: Ends::Healed,
    ..FaultCard::CONTENDERS
};

/// What was running when the gate was shut ends within this.
const SETTLES: Duration = Duration::from_millis(20);
/// For so long nothing may have run.
const LOOKS_FOR: Duration = Duration::from_millis(30);
/// A holder may have left before its gate was shut; then another one is chosen.
const TRIES: u32 = 100;

pub const ENTRY: Entry = Entry { card: CARD, inject: |firing| Box::pin(inject(firing)) };

async fn inject(Firing { choice, site, mut draw }: Firing<'_>) -> Result<Active<'_>, String> {
    let (hit, gates, shut) = shut(choice, site, &mut draw).await?;
    let passed = move || -> u64 { gates.iter().map(|gate| gate.times_passed()).sum() };
    let proof = if stands_still(&passed, LOOKS_FOR).await {
        Proof::Proved(format!("nothing of it ran for {LOOKS_FOR:?}"))
    } else {
        Proof::NotProved("it went on".into())
    };
    let before = passed();
    let target = aim::name(&hit, &choice.target);
    let stood = async move { only_if(passed() == before, "it has gone on") };
    Ok(Active::until_dropped(target, proof, shut).still_if(stood))
}

/// Shuts the gates of those that the target names, and makes sure that they are still what it says.
async fn shut(
    choice: &FaultChoice,
    site: &Site<'_>,
    draw: &mut ChaCha8Rng,
) -> Result<(Vec<usize>, Vec<Arc<Gate>>, Shut), String> {
    for _ in 0..TRIES {
        let hit = aim::contenders(&choice.target, site, draw).await?;
        let gates: Vec<_> = hit.iter().map(|contender| site.contenders.gate(*contender)).collect();
        let shut = Shut::these(&gates);
        tokio::time::sleep(SETTLES).await;
        let is_still = match choice.target {
            Target::Word("holder") => hit.iter().all(|one| site.contenders.inside().contains(one)),
            Target::Word("waiter") => hit.iter().all(|one| site.contenders.waiting().contains(one)),
            _ => true,
        };
        if is_still {
            return Ok((hit, gates, shut));
        }
    }
    Err(format!("{TRIES} times whoever was to stand still had done its part already; hold longer"))
}
