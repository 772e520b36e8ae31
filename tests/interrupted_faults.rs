//! However a trial is interrupted, each fault is undone: one in effect, and one that is just being done.

#![allow(clippy::unwrap_used)] // what prepares a test may stop it at once
#![allow(clippy::print_stdout)] // what was interrupted where is worth knowing

#[path = "support/ensemble.rs"]
mod ensemble;
#[path = "support/trials.rs"]
mod trials;

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use zklockbench::catalog::fault::{Capability, Ends, FaultCard, Proof};
use zklockbench::ensemble::{Links, Local, Processes, links_capability};
use zklockbench::fault;
use zklockbench::load::Event;
use zklockbench::record::{Completeness, FaultRecord};
use zklockbench::scenario::TrialSpec;

/// A trial in which that happens early and lasts longer than anybody waits.
fn plan(card: &FaultCard) -> Vec<TrialSpec> {
    let duration = if card.ends == Ends::Healed { "duration = \"60s\"\n" } else { "" };
    trials::plan(&format!(
        "strategies = [\"curator-mutex\"]\ncontenders = 4\nhold = \"20ms\"\nduration = \"120s\"\nwarm_up = \"0s\"\n\
         session_timeout = \"4s\"\nacquire_timeout = \"90s\"\n[[fault]]\nkind = \"{}\"\nat = \"200ms\"\n{duration}",
        card.name
    ))
}

/// An ensemble for all kinds that can be done here.
async fn ensemble_and_kinds() -> (Arc<Local>, Vec<FaultCard>) {
    let Err(why) = links_capability() else {
        return (Arc::new(ensemble::start_apart(3).await), fault::cards());
    };
    println!("servers can not be cut off from each other here: {why}");
    let needs_links = [Capability::Isolation, Capability::Links];
    let kinds = fault::cards().into_iter().filter(|card| !needs_links.contains(&card.needs));
    (ensemble::shared_local(), kinds.collect())
}

/// What became of the only fault of a trial that was interrupted, once it is undone.
async fn undone(local: &Local, mut trials: Vec<zklockbench::record::Trial>) -> FaultRecord {
    let mut trial = trials.remove(0);
    let fault = trial.faults.remove(0);
    assert!(matches!(&trial.completeness, Completeness::Partial(why) if why == "interrupted"), "{fault:?}");
    assert!(fault.ended_us.is_some() && fault.left.is_none(), "{fault:?}");
    // Whatever it was, the servers are as before: each serves, and everything gets everywhere.
    local.whole().await.unwrap_or_else(|why| panic!("{}: {why}", fault.label));
    if links_capability().is_ok() {
        local.all_reach().await.unwrap_or_else(|why| panic!("{}: {why}", fault.label));
    }
    fault
}

#[tokio::test]
async fn a_fault_in_effect_is_undone_when_the_run_is_interrupted() {
    let (local, kinds) = ensemble_and_kinds().await;
    for card in kinds {
        let interrupt = CancellationToken::new();
        let sink = |event: Event<'_>| match event {
            Event::Note(text) if text.contains("took effect") => interrupt.cancel(),
            _ => {}
        };
        let course = trials::Course { interrupt: &interrupt, sink: &sink };
        let fault = undone(&local, trials::run_interrupted(&local, plan(&card), course).await).await;
        assert!(matches!(fault.proof, Proof::Proved(_)), "{fault:?}");
    }
}

#[tokio::test]
async fn a_fault_that_is_just_being_done_to_servers_is_undone_as_well() {
    let (local, kinds) = ensemble_and_kinds().await;
    let mut in_the_middle = Vec::new();
    for card in kinds.into_iter().filter(|card| card.needs.reaches_servers()) {
        let interrupt = CancellationToken::new();
        let course = trials::Course { interrupt: &interrupt, sink: &|_| {} };
        let running = trials::run_interrupted(&local, plan(&card), course);
        // As soon as anything is amiss: for most kinds that is before they have seen their effect.
        let watching = async {
            while local.whole().await.is_ok() {
                tokio::task::yield_now().await;
            }
            interrupt.cancel();
        };
        let (trials, ()) = tokio::join!(running, watching);
        let fault = undone(&local, trials).await;
        if matches!(&fault.proof, Proof::NotProved(why) if why.contains("interrupted")) {
            in_the_middle.push(card.name);
        }
    }
    println!("interrupted in the middle: {in_the_middle:?}");
    // These take long enough: an election, or several starts.
    for kind in ["kill", "rolling-restart", "lose-majority"] {
        assert!(in_the_middle.contains(&kind), "{in_the_middle:?}");
    }
}
