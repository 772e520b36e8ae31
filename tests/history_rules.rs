//! What the checker of histories finds, and what it lets pass: tiny histories, each for one rule.

#![allow(clippy::unwrap_used)] // what prepares a test may stop it at once

#[path = "history/belief.rs"]
mod belief;
#[path = "history/ensemble.rs"]
mod ensemble;
#[path = "history/fencing.rs"]
mod fencing;
#[path = "history/progress.rs"]
mod progress;
#[path = "history/random.rs"]
mod random;
#[path = "history/sense.rs"]
mod sense;
#[path = "history/shared.rs"]
mod shared;
#[path = "support/story.rs"]
mod story;
