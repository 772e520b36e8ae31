//! A fault in effect.

use std::future::Future;
use std::pin::Pin;

use crate::catalog::fault::Proof;
use crate::clock::Stamp;

/// What undoes a fault, and sees that it is undone.
pub type Healing<'a> = Pin<Box<dyn Future<Output = Result<(), String>> + 'a>>;

/// A fault that has been done.
#[must_use = "a fault is undone by its healing"]
pub struct Active<'a> {
    /// Whom it has hit: `contender 7 (holder)`.
    pub target: String,
    /// Whether its effect was seen.
    pub proof: Proof,
    /// When its effect was seen, where that was before this was made.
    pub seen_at: Option<Stamp>,
    /// What undoes it.
    pub healing: Healing<'a>,
}

impl<'a> Active<'a> {
    /// One that is to be healed so.
    pub fn until(
        target: String,
        proof: Proof,
        healing: impl Future<Output = Result<(), String>> + 'a,
    ) -> Self {
        Self { target, proof, seen_at: None, healing: Box::pin(healing) }
    }

    /// One that is in effect as long as this lives.
    pub fn until_dropped(target: String, proof: Proof, guard: impl Sized + 'a) -> Self {
        Self::until(target, proof, async move {
            drop(guard);
            Ok(())
        })
    }

    /// One that has ended by itself.
    pub fn over(target: String, proof: Proof) -> Self {
        Self::until(target, proof, async { Ok(()) })
    }
}
