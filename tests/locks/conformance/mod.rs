//! The requests of each lock, one by one, and its reactions to lost requests and deleted nodes.

mod broken;
mod bytes;
mod counting;
mod multi;
mod races;
mod releasing;
mod semaphores;
mod shared_queue;
mod transcripts;
