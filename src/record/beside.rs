//! What the suite itself asks of the servers during a trial: they count it, and no lock has asked for it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::words::measure::added_up;

/// Requests that succeeded and events that came, as servers count them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Beside {
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// NodeCreated events.
    pub node_created: u64,
    /// NodeDeleted events.
    pub node_deleted: u64,
    /// NodeDataChanged events.
    pub data_changed: u64,
    /// NodeChildrenChanged events.
    pub children_changed: u64,
}

added_up!(Beside { reads, writes, node_created, node_deleted, data_changed, children_changed });
