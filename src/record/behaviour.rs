//! What ZooKeeper itself does where articles on locks make claims about it: each tried on the ensemble, without a lock.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Timing;

/// What was found. A part that failed is `None`, and `missing` says why.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Behaviour {
    /// How much data a node holds.
    pub node_size: Option<NodeSize>,
    /// Which number a sequential node gets.
    pub numbers: Option<Numbers>,
    /// Each kind of watch against each kind of change.
    pub watches: Option<Vec<WatchCell>>,
    /// How often one watch fires.
    pub one_shot: Option<OneShot>,
    /// Changes that race with a list that sets a watch.
    pub raced: Option<Raced>,
    /// The transactions of sequential nodes that several servers' sessions create at the same time.
    pub order: Option<CreationOrder>,
    /// A queue of nodes, seen and changed from outside.
    pub queue: Option<QueueSeen>,
    /// What is left of a node when its session has ended.
    pub left: Option<Left>,
    /// A bystander's requests while others are woken.
    pub bystander: Option<Vec<Bystander>>,
    /// What could not be tried, and why.
    pub missing: Vec<String>,
}

/// How much data a node holds, with the servers' default limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodeSize {
    /// The most bytes that were accepted at creation.
    pub accepted_bytes: u64,
    /// The fewest that were refused, which is one more.
    pub refused_bytes: u64,
}

/// Three sequential nodes below one parent: the first two are created, one of them is deleted, then comes the third.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Numbers {
    /// The number of the second.
    pub second: i64,
    /// Children when the third was created.
    pub children_then: u64,
    /// The number of the third.
    pub third: i64,
}

/// A kind of watch, by the request that sets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WatchedBy {
    /// getData.
    GetData,
    /// exists.
    Exists,
    /// getChildren.
    GetChildren,
}

/// A change, seen from the watched node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// A child is created.
    ChildCreated,
    /// Its data are set.
    DataSet,
    /// A child is deleted.
    ChildDeleted,
    /// It is deleted itself.
    Deleted,
}

/// Whether a watch fires at a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WatchCell {
    /// The watch.
    pub watch: WatchedBy,
    /// The change.
    pub change: Change,
    /// The event that came; `None` where none did.
    pub event: Option<String>,
}

/// Several changes under one watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OneShot {
    /// Changes of the watched node's data.
    pub changes: u64,
    /// Events that came.
    pub events: u64,
}

/// Rounds in which one session lists with a watch while another creates a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Raced {
    /// Rounds.
    pub rounds: u64,
    /// Rounds in which the list showed the child.
    pub listed: u64,
    /// Rounds in which it did not, and the watch fired.
    pub notified: u64,
    /// Rounds with neither.
    pub lost: u64,
}

/// Sequential nodes below one parent, created by sessions of all servers at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CreationOrder {
    /// Sessions.
    pub sessions: u64,
    /// Nodes.
    pub nodes: u64,
    /// Neighbours by number whose transactions do not rise from the lower to the higher one.
    pub out_of_order: u64,
}

/// A queue of three sessions' nodes, looked at by a fourth, which then deletes the first node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QueueSeen {
    /// Whether the list, by number, is the order in which they were created.
    pub in_order: bool,
    /// How many of the three nodes name the session that created them.
    pub owners_told: u64,
    /// Whether the second one, which watches the first, was woken by the deletion.
    pub next_woken: bool,
    /// Whether the first one's owner was told by a watch on its own node.
    pub owner_told: bool,
    /// Whether the first one's owner, whose session lives, is told `NoNode` when it deletes its node.
    pub owner_gets_no_node: bool,
}

/// What is left when a session has been closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Left {
    /// Whether its ephemeral node is there.
    pub ephemeral: bool,
    /// Whether its persistent node is there.
    pub persistent: bool,
}

/// A bystander's reads and writes on one server while so many sessions there are woken at once, again and again: those that
/// it asked for while they were being woken.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bystander {
    /// Which of the rounds it was; in each, one is woken and then all are, or the other way round.
    #[serde(default)]
    pub round: u64,
    /// Sessions that wait on its server.
    pub waiting: u64,
    /// How many of them each change wakes.
    pub woken: u64,
    /// Changes.
    pub changes: u64,
    /// Its getData.
    pub read: Option<Timing>,
    /// Its setData.
    pub write: Option<Timing>,
}
