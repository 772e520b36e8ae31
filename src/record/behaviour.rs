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
    /// The same with a list and, after it, a second request that sets the watch.
    #[serde(default)]
    pub raced_apart: Option<Raced>,
    /// The transactions of what several servers' sessions change at the same time.
    pub order: Option<UpdateOrder>,
    /// Whether a lock that is one node outlives its holder's session.
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

/// Creates, writes and deletes in several directories, by sessions of all servers at the same time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct UpdateOrder {
    /// Sessions.
    pub sessions: u64,
    /// Directories.
    pub directories: u64,
    /// Changes.
    pub changes: u64,
    /// Changes whose transaction is no later than the one before in the same session, or that share one.
    pub out_of_order: u64,
    /// Servers whose transaction logs were read.
    pub logs: u64,
    /// Changes that a server's log does not have under the transaction that the client was told, or in another order than
    /// the other logs.
    pub logged_otherwise: u64,
}

/// A lock that is one node: whether the next one gets it when its holder's session has ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Left {
    /// Whether the next one got it where it is an ephemeral node.
    pub ephemeral_taken: bool,
    /// The same of a persistent node.
    pub persistent_taken: bool,
    /// For how long the next one tried, in microseconds.
    pub looked_us: u64,
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
    /// How long its server took for an update, by its own clock: the mean, in microseconds. `None` where it does not say.
    #[serde(default)]
    pub server_update_us: Option<f64>,
    /// Whether the servers had processors that this program did not use.
    #[serde(default)]
    pub processors_apart: bool,
}
