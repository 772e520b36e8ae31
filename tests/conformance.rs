//! Every lock sends exactly the requests of its recipe, request by request: alone, in a queue, when its patience
//! ends, and when a waiter in the middle leaves.

#![allow(clippy::unwrap_used)] // what prepares a test may stop it at once

#[path = "conformance/broken.rs"]
mod broken;
#[path = "conformance/bytes.rs"]
mod bytes;
#[path = "conformance/clients.rs"]
mod clients;
#[path = "support/contender.rs"]
mod contender;
#[path = "support/ensemble.rs"]
mod ensemble;
#[path = "conformance/faster.rs"]
mod faster;
#[path = "conformance/multi.rs"]
mod multi;
#[path = "support/proxy.rs"]
mod proxy;
#[path = "conformance/published.rs"]
mod published;
#[path = "conformance/queues.rs"]
mod queues;
#[path = "conformance/races.rs"]
mod races;
#[path = "conformance/read_write.rs"]
mod read_write;
#[path = "support/rehearsal.rs"]
mod rehearsal;
#[path = "conformance/semaphores.rs"]
mod semaphores;
#[path = "support/sessions.rs"]
mod sessions;
#[path = "support/trials.rs"]
mod trials;
