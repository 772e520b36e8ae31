//! `freeze`: pauses a contender and its client for a while.

use super::aim::{self, only_if, stands_still};
use super::reach::FaultReach;
use super::{Active, FaultEntry, Firing};
use rand_chacha::ChaCha8Rng;
use std::sync::Arc;
use std::time::Duration;
use zklockbench_core::catalog::fault::{Ends, FaultCard, FaultChoice, Proof, Target};
use zklockbench_zk::gate::{Gate, Shut};

pub const CARD: FaultCard = FaultCard {
    name: "freeze",
    summary: "pauses a contender and its client, as a long garbage collection would",
    source: "Kleppmann, How to do distributed locking (2016): the paused client",
    details: "\
Inject: the contender and its client stop running: they send no heartbeats and read no replies or events.
Proof: neither the contender nor its client ran for 30 ms. If the holder released before it was frozen, another
holder is chosen.
Heal: the contender resumes where it stopped.

A correct lock: a freeze shorter than the session timeout looks like a long hold or a long wait. After a longer freeze
the contender wakes up as a zombie: it believes that it holds the lock although the next contender already does. No
lock can prevent this. A lock can only notify the contender promptly and issue fencing tokens, which let the protected
resource reject a zombie's writes. Overlaps with a zombie are not violations: a zombie's session has ended.",
    ends: Ends::Healed,
    ..FaultCard::CONTENDERS
};

/// Time for work in progress to finish after the gate is shut.
const SETTLES: Duration = Duration::from_millis(20);
/// Period without activity that proves the fault.
const LOOKS_FOR: Duration = Duration::from_millis(30);
/// Maximum number of attempts. If a holder releases before its gate is shut, another holder is chosen.
const TRIES: u32 = 100;

pub const ENTRY: FaultEntry = FaultEntry { card: CARD, inject: |firing| Box::pin(inject(firing)) };

async fn inject(Firing { choice, reach, mut draw }: Firing<'_>) -> Result<Active<'_>, String> {
    let (hit, gates, shut) = shut(choice, reach, &mut draw).await?;
    let passed = move || -> u64 { gates.iter().map(|gate| gate.times_passed()).sum() };
    let proof = if stands_still(&passed, LOOKS_FOR).await {
        Proof::Proved(format!("neither the contender nor its client ran for {LOOKS_FOR:?}"))
    } else {
        Proof::NotProved("the contender kept running".into())
    };
    let before = passed();
    let target = aim::name(&hit, &choice.target);
    let stood = async move { only_if(passed() == before, "the contender has resumed") };
    Ok(Active::until_dropped(target, proof, shut).still_if(stood))
}

/// Shuts the targets' gates, and checks that the targets still have the requested role.
async fn shut(
    choice: &FaultChoice,
    reach: &FaultReach<'_>,
    draw: &mut ChaCha8Rng,
) -> Result<(Vec<usize>, Vec<Arc<Gate>>, Shut), String> {
    for _ in 0..TRIES {
        let hit = aim::contenders(&choice.target, reach, draw).await?;
        let gates: Vec<_> = hit.iter().map(|contender| reach.contenders.gate(*contender)).collect();
        let shut = Shut::these(&gates);
        tokio::time::sleep(SETTLES).await;
        let is_still = match choice.target {
            Target::Word("holder") => hit.iter().all(|one| reach.contenders.inside().contains(one)),
            Target::Word("waiter") => hit.iter().all(|one| reach.contenders.waiting().contains(one)),
            _ => true,
        };
        if is_still {
            return Ok((hit, gates, shut));
        }
    }
    Err(format!(
        "in each of {TRIES} attempts, the contender stopped holding or waiting before it was frozen; use \
         longer holds"
    ))
}
