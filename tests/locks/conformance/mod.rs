//! Requests of each lock, one by one, and what locks do when requests are lost or nodes are deleted.

mod broken;
mod bytes;
mod counting;
mod multi;
mod races;
mod releasing;
mod semaphores;
mod shared_queue;
mod transcripts;
