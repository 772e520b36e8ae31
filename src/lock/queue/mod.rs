//! What all queue locks are made of: how a queue is joined, where a node stands in it, and when a request is tried again.

pub mod creating;
pub mod joining;
pub mod lately;
pub mod node;
pub mod retry;
pub mod sides;
