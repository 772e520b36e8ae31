//! A kind of fault: its description, and how it is done.

use std::future::Future;
use std::pin::Pin;

use rand_chacha::ChaCha8Rng;

use super::active::Active;
use super::site::Site;
use crate::catalog::fault::{FaultCard, FaultChoice};

/// A fault that is being done; the error says why it could not be.
pub type Injecting<'a> = Pin<Box<dyn Future<Output = Result<Active<'a>, String>> + 'a>>;

/// One kind of fault.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// What is known of it.
    pub card: FaultCard,
    /// Does it, and returns when its effect was seen, or could not be.
    pub inject: for<'a> fn(&'a FaultChoice, &'a Site<'a>, ChaCha8Rng) -> Injecting<'a>,
}
