//! The measuring half, as a crate of its own.

pub use zklockbench_records::{record, scenario, words};

// ZooKeeper, and what goes wrong on purpose.
pub mod world;
// The subjects.
pub mod lock;
// Doing.
pub mod load;
