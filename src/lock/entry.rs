//! What the registry holds of a strategy.

use super::{LockConfig, Strategy};
use crate::catalog::LockCard;

/// A strategy's description and its constructor.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// What is known of it.
    pub card: LockCard,
    /// Builds one contender's lock object.
    pub build: fn(&LockConfig) -> Box<dyn Strategy>,
}
