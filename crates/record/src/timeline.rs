//! Timeline of a violation: what both contenders did and received before and during the overlap, on one
//! clock.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Kind of a step in a timeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StepKind {
    /// From a contender to the server.
    Request,
    /// From the server to a contender.
    Reply,
    Notification,
    LostRequest,
    LostReply,
    /// A contender calls acquire, gets the lock, or releases it.
    Deed,
    Fault,
}

/// Events around one violation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Timeline {
    /// Summary in one sentence without a full stop.
    pub summary: String,
    /// The holder, and the contender that entered.
    pub contenders: [String; 2],
    /// Length of the overlap, in microseconds from the entry.
    pub together_us: u64,
    /// The last steps before the entry and the steps during the overlap, in chronological order.
    pub steps: Vec<TimelineStep>,
}

/// One step of a timeline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TimelineStep {
    /// Time in microseconds since the entry; negative before it.
    pub at_us: i64,
    /// Index in `contenders`; `None` for a fault.
    pub contender: Option<usize>,
    pub kind: StepKind,
    /// The step in a few words, e.g. `getChildren lock-0`.
    pub what: String,
}

impl Timeline {
    /// Maximum number of steps before the entry.
    pub const BEFORE: usize = 20;
    /// Maximum number of steps during the overlap, not counting the entry.
    pub const DURING: usize = 3;
}
