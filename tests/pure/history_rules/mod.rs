//! What the checker of histories finds, and what it lets pass: tiny histories, each for one rule.

mod belief;
mod counted;
mod ensemble;
mod fencing;
mod progress;
mod random;
mod sense;
mod shared;
