//! All kinds of faults, in three tables with their descriptions and injection functions.

mod aim;
mod contenders;
mod counter_near_end;
mod freeze;
mod on_connections;
mod on_contenders;
mod on_servers;
mod outage;
mod partition;
mod reach;
mod registry;
mod rolling_restart;
mod schedule;
mod wire;

use std::future::Future;
use std::pin::Pin;

use rand_chacha::ChaCha8Rng;

use zklockbench_core::catalog::fault::{FaultCard, FaultChoice, Proof};
use zklockbench_core::clock::Stamp;

pub use contenders::{Admission, Contenders, CrashOrder, CrashOrders, Doing};
pub use counter_near_end::NAME as COUNTER_NEAR_END;
pub use reach::{FaultReach, InEffect};
pub use registry::{cards, find, reaches_servers};
pub use schedule::{Fired, News, Schedule, run};
pub use wire::{REQUEST, requests};

/// A fault injection in progress. The error explains why the fault could not be injected.
pub type Injecting<'a> = Pin<Box<dyn Future<Output = Result<Active<'a>, String>> + 'a>>;

#[derive(Debug, Clone, Copy)]
pub struct FaultEntry {
    pub card: FaultCard,
    /// Injects the fault. Returns once the effect has been observed or the timeout has expired.
    pub inject: fn(Firing<'_>) -> Injecting<'_>,
}

pub struct Firing<'a> {
    pub choice: &'a FaultChoice,
    pub reach: &'a FaultReach<'a>,
    /// Random number generator for the fault's choices.
    pub draw: ChaCha8Rng,
}

/// Future that heals a fault and checks the result, or that checks the fault's effect.
pub type Healing<'a> = Pin<Box<dyn Future<Output = Result<(), String>> + 'a>>;

#[must_use = "the fault lasts until its healing is awaited"]
pub struct Active<'a> {
    /// Name of the target, e.g. `contender 7 (holder)`.
    pub target: String,
    pub proof: Proof,
    /// Time at which the effect was observed, if earlier than the creation of this value.
    pub seen_at: Option<Stamp>,
    /// Checks that the fault is still in effect, just before the fault is healed.
    pub still: Healing<'a>,
    pub healing: Healing<'a>,
}

impl<'a> Active<'a> {
    /// Creates a fault that lasts until `healing` ends it.
    pub fn until(
        target: String,
        proof: Proof,
        healing: impl Future<Output = Result<(), String>> + 'a,
    ) -> Self {
        let still = Box::pin(async { Ok(()) });
        Self { target, proof, seen_at: None, still, healing: Box::pin(healing) }
    }

    /// Adds a check to run just before the fault is healed.
    pub fn still_if(self, look: impl Future<Output = Result<(), String>> + 'a) -> Self {
        Self { still: Box::pin(look), ..self }
    }

    /// Creates a fault that lasts until `guard` is dropped.
    pub fn until_dropped(target: String, proof: Proof, guard: impl Sized + 'a) -> Self {
        Self::until(target, proof, async move {
            drop(guard);
            Ok(())
        })
    }

    pub fn over(target: String, proof: Proof) -> Self {
        Self::until(target, proof, async { Ok(()) })
    }
}
