//! Tries: acquires that never wait. A try acquires a free lock, and gives up at once on a held lock.

use zklockbench_core::catalog::{Holders, Mode};
use zklockbench_core::clock;
use zklockbench_core::measure::{Measure, Outcome};
use zklockbench_core::verdict::Verdict;
use zklockbench_locks::{AcquireError, Acquired, Patience, STRATEGIES};
use zklockbench_record::figures;

use crate::support::{contender::Contender, sessions::on_scene, trials};

/// Maximum number of requests per try. Curator's semaphore mutex needs this many to join a queue and list leases.
const REQUESTS: usize = 12;

async fn tries(one: &mut Contender) -> Acquired {
    let try_once = Patience { deadline: Some(clock::now()), tries_once: true, ..Patience::default() };
    one.lock.acquire(&one.session, Mode::Write, &try_once).await
}

#[test]
fn try_fails_at_once_on_a_held_lock_and_succeeds_on_a_free_one() {
    let exclusive = STRATEGIES
        .iter()
        .map(|entry| entry.card)
        .filter(|card| card.guarantees.exclusive && !matches!(card.guarantees.holders, Holders::Leases(_)));
    for card in exclusive {
        let name = card.name;
        on_scene(async |scene| {
            // Given a held lock
            let (mut holder, held) = Contender::holding(name, &scene).await;
            let mut one = Contender::of(name, &scene).await;
            let before = scene.nodes().await;
            // When another contender tries
            assert_eq!(tries(&mut one).await.unwrap_err(), AcquireError::TimedOut, "{name}");
            // Then no node is left, after few requests
            assert_eq!(scene.nodes().await, before, "{name}");
            let sent = one.kinds();
            assert!(sent.len() <= REQUESTS, "{name}: {sent:?}");
            // And once the lock is free, a try acquires it
            holder.release(held).await.unwrap();
            let held = tries(&mut one).await.unwrap_or_else(|why| panic!("{name}: {why}"));
            one.release(held).await.unwrap();
            assert_eq!(scene.nodes().await, 0, "{name}");
        });
    }
}

#[tokio::test]
async fn failed_tries_are_evidence_but_not_waits() {
    let trial = trials::run_one(
        "strategies = [\"predecessor-watch\"]\ncontenders = 6\nhold = \"30ms\"\nthink = \"10ms\"\n\
         acquire_timeout = \"0s\"\nduration = \"3s\"\n",
    )
    .await;
    let outcomes = &trial.measured.outcomes;
    let (won, failed) = (outcomes.get(Outcome::Acquired), outcomes.get(Outcome::TimedOut));
    assert!(won > 10 && failed > won, "{outcomes:?}");
    // Tries that found a holder inside are evidence of exclusion
    assert_eq!(trial.judged.verdict, Verdict::Held, "{:?} {:?}", trial.judged, trial.evidence);
    assert!(trial.checked() > won, "{:?}", trial.evidence);
    // The times and requests of failed tries are recorded separately, and failed tries do not count as waits
    assert_eq!(trial.histograms[&Measure::FailedTry].len(), failed);
    assert_eq!(trial.histograms[&Measure::Wait].len(), won);
    // Only tries in progress at the end are unserved
    assert!(trial.unserved() <= 6, "{}", trial.unserved());
    let share = figures::WON_SHARE.of(&trial).unwrap();
    assert!((share - won as f64 / (won + failed) as f64).abs() < 1e-9, "{share}");
    let requests = figures::REQUESTS_PER_FAILED_TRY.of(&trial).unwrap();
    assert!((2.9..=4.1).contains(&requests), "{requests}");
    // A hold of 30 ms and a few requests allow at most 33 acquisitions per second, on a busy host fewer
    let saturation = figures::SATURATION.of(&trial).unwrap();
    assert!((2.0..=33.4).contains(&saturation), "{saturation}");
}

#[tokio::test]
async fn tries_do_not_pile_up_when_an_open_load_exceeds_saturation() {
    // Given 60 tries per second on a lock that is held for 50 ms
    let trial = trials::run_one(
        "strategies = [\"count\"]\ncontenders = 10\nload = \"open\"\nrate = 60\nhold = \"50ms\"\nlate = \"drop\"\n\
         acquire_timeout = \"0s\"\nduration = \"3s\"\n",
    )
    .await;
    assert!(!trial.is_unstable(), "{:?}", trial.steady);
    assert_eq!(trial.unserved(), 0);
    let share = figures::WON_SHARE.of(&trial).unwrap();
    // By Erlang's formula, a quarter of the tries acquire the lock: 1 / (1 + 60/s × 50 ms)
    assert!((0.1..=0.4).contains(&share), "{share}");
}
