//! Every lock sends exactly the requests of its recipe, request by request: alone, in a queue, when its patience
//! ends, and when a waiter in the middle leaves.

#![allow(clippy::unwrap_used)] // what prepares a test may stop it at once

#[path = "support/ensemble.rs"]
mod ensemble;
#[path = "conformance/multi.rs"]
mod multi;
#[path = "conformance/queues.rs"]
mod queues;
#[path = "support/rehearsal.rs"]
mod rehearsal;
#[path = "conformance/semaphores.rs"]
mod semaphores;
#[path = "support/sessions.rs"]
mod sessions;
#[path = "support/trials.rs"]
mod trials;
