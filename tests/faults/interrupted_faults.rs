//! Interrupting a trial heals its fault, whether the fault is in effect or still being injected.

use crate::support::breakable::{self, Breakable};
use crate::support::faults::{WITHIN, kinds, lasting, needs_links};
use crate::support::{depth, trials};
use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio_util::sync::CancellationToken;
use zklockbench_core::catalog::fault::{Capability, Ends, FaultCard};
use zklockbench_ensemble::{Links, Local, Processes, eventually, links_capability};
use zklockbench_load::EnvironmentEvent;
use zklockbench_record::{Cause, FaultRecord, Trial};
use zklockbench_scenario::TrialSpec;

fn spec(card: &FaultCard) -> TrialSpec {
    trials::plan(&lasting(card)).remove(0)
}

fn needs_servers(capability: Capability) -> bool {
    capability.reaches_servers() && !needs_links(capability)
}

/// Interval between checks: shorter than any fault to be interrupted, but long enough not to load the servers.
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

/// Faults that take long enough to be interrupted midway, because they cause an election or several starts.
const TAKES_LONG: [&str; 3] = ["kill", "rolling-restart", "lose-majority"];

/// Kinds of server faults to test: all with --long, otherwise only the kinds that `which` selects.
fn in_turn(which: impl Fn(&FaultCard) -> bool) -> Vec<FaultCard> {
    kinds(needs_servers).into_iter().filter(|card| depth::is_long() || which(card)).collect()
}

fn undone(mut trial: Trial) -> FaultRecord {
    let fault = trial.faults.remove(0);
    let cut = trial.cut_short.as_ref().map(|cut| cut.cause);
    assert_eq!(cut, Some(Cause::Interrupted), "{fault:?}");
    assert!(fault.ended_us.is_some() && fault.left.is_none(), "{fault:?}");
    fault
}

/// Asserts that all servers serve and that all links work.
async fn assert_as_before(local: &Local, done: &str) {
    // On a busy host, servers that run and reach each other may elect another leader.
    eventually(WITHIN, || local.whole()).await.unwrap_or_else(|why| panic!("{done}: {why}"));
    if links_capability().is_ok() {
        local.all_reach().await.unwrap_or_else(|why| panic!("{done}: {why}"));
    }
}

async fn interrupt_in_effect(local: &Arc<Local>, card: &FaultCard) {
    let interrupt = CancellationToken::new();
    let sink = |event: EnvironmentEvent<'_>| match event {
        EnvironmentEvent::Note(text) if text.contains("took effect") => interrupt.cancel(),
        _ => {}
    };
    let (spec, course) = (spec(card), trials::Course { interrupt: &interrupt, sink: &sink });
    let fault = undone(trials::run_beside(local, &spec, trials::known(&spec), course).await);
    // The fault took effect and, if it has a duration, was cut short
    let is_over = card.ends == Ends::ByItself;
    assert!(fault.effective_us.is_some() && fault.proved == is_over, "{fault:?}");
    assert!(is_over || fault.proof.ends_with("of 60 s: the run was interrupted"), "{fault:?}");
}

/// Interrupts a trial as soon as its fault makes the ensemble unhealthy. Returns whether the effect was still
/// unverified at that time.
async fn interrupt_in_the_middle(local: &Arc<Local>, card: &FaultCard) -> bool {
    let interrupt = CancellationToken::new();
    let course = trials::Course { interrupt: &interrupt, sink: &|_| {} };
    let spec = spec(card);
    let running = trials::run_beside(local, &spec, trials::known(&spec), course);
    let watching = async {
        while local.whole().await.is_ok() {
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
        interrupt.cancel();
    };
    let (trial, ()) = tokio::join!(running, watching);
    let fault = undone(trial);
    !fault.proved && fault.proof.contains("interrupted")
}

/// Runs half of the kinds on each of two ensembles, and checks the servers after each kind.
async fn on_two_ensembles(kinds: Vec<FaultCard>, work: impl AsyncFn(&Arc<Local>, &FaultCard)) {
    let half = async |local: Breakable, kinds: &[FaultCard]| {
        for card in kinds {
            work(&local, card).await;
            assert_as_before(&local, card.name).await;
        }
    };
    let (one, other) = (breakable::apart_if_possible().await, breakable::apart_if_possible().await);
    let (first, second) = kinds.split_at(kinds.len() / 2);
    tokio::join!(half(one, first), half(other, second));
}

#[tokio::test]
async fn interrupted_run_heals_an_active_contender_fault() {
    let local = breakable::apart_if_possible().await;
    let kinds = kinds(|capability| !capability.reaches_servers());
    // Each fault hits only contenders of its own trial.
    join_all(kinds.iter().map(|card| interrupt_in_effect(&local, card))).await;
    assert_as_before(&local, "faults of contenders").await;
}

#[tokio::test]
async fn interrupted_run_heals_an_active_server_fault() {
    // A fault that ends by itself leaves nothing to heal.
    let kinds = in_turn(|card| !TAKES_LONG.contains(&card.name) && card.ends == Ends::Healed);
    on_two_ensembles(kinds, async |local, card| interrupt_in_effect(local, card).await).await;
}

#[tokio::test]
#[ignore = "long: an active server fault is always tested"]
async fn interrupted_run_heals_a_server_fault_during_its_injection() {
    let in_the_middle = RefCell::new(Vec::new());
    let interrupt = async |local: &Arc<Local>, card: &FaultCard| {
        if interrupt_in_the_middle(local, card).await {
            in_the_middle.borrow_mut().push(card.name);
        }
    };
    on_two_ensembles(in_turn(|card| TAKES_LONG.contains(&card.name)), interrupt).await;
    let in_the_middle = in_the_middle.into_inner();
    println!("interrupted in the middle: {in_the_middle:?}");
    for kind in TAKES_LONG {
        assert!(in_the_middle.contains(&kind), "{in_the_middle:?}");
    }
}

#[tokio::test]
async fn interrupted_run_heals_an_active_link_fault() {
    let Some(local) = breakable::apart().await else { return };
    for card in kinds(needs_links) {
        interrupt_in_effect(&local, &card).await;
        assert_as_before(&local, card.name).await;
        if depth::is_long() {
            interrupt_in_the_middle(&local, &card).await;
            assert_as_before(&local, card.name).await;
        }
    }
}
