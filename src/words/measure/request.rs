//! The kinds of request that a session can send, and one value for each of them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One kind of request. A read that sets a watch is a kind of its own, because it costs the server more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum RequestKind {
    /// create, of any mode.
    Create,
    /// delete.
    Delete,
    /// getChildren without a watch.
    GetChildren,
    /// getChildren that sets a child watch.
    GetChildrenWatch,
    /// getData without a watch.
    GetData,
    /// getData that sets a data watch.
    GetDataWatch,
    /// exists without a watch.
    Exists,
    /// exists that sets a watch.
    ExistsWatch,
    /// setData.
    SetData,
    /// A multi, counted as one request.
    Multi,
    /// sync.
    Sync,
    /// removeWatches, which the client sends when an armed watch is given up.
    RemoveWatches,
}

impl RequestKind {
    /// Every kind, in the order in which outputs list them.
    pub const ALL: [RequestKind; 12] = [
        Self::Create,
        Self::Delete,
        Self::GetChildren,
        Self::GetChildrenWatch,
        Self::GetData,
        Self::GetDataWatch,
        Self::Exists,
        Self::ExistsWatch,
        Self::SetData,
        Self::Multi,
        Self::Sync,
        Self::RemoveWatches,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Delete => "delete",
            Self::GetChildren => "get_children",
            Self::GetChildrenWatch => "get_children_watch",
            Self::GetData => "get_data",
            Self::GetDataWatch => "get_data_watch",
            Self::Exists => "exists",
            Self::ExistsWatch => "exists_watch",
            Self::SetData => "set_data",
            Self::Multi => "multi",
            Self::Sync => "sync",
            Self::RemoveWatches => "remove_watches",
        }
    }
}

/// One number for each kind of request. In files every kind is there by its name, also with 0: it was counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "BTreeMap<RequestKind, u64>", into = "BTreeMap<RequestKind, u64>")]
pub struct PerRequest([u64; RequestKind::ALL.len()]);

impl PerRequest {
    pub fn get(&self, kind: RequestKind) -> u64 {
        self.0[kind as usize]
    }

    pub fn add(&mut self, kind: RequestKind, amount: u64) {
        self.0[kind as usize] += amount;
    }

    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Kind and number, in the order of [`RequestKind::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = (RequestKind, u64)> + '_ {
        RequestKind::ALL.into_iter().map(|kind| (kind, self.get(kind)))
    }

    pub fn merge(&mut self, other: &Self) {
        for (own, theirs) in self.0.iter_mut().zip(other.0) {
            *own += theirs;
        }
    }
}

impl From<PerRequest> for BTreeMap<RequestKind, u64> {
    fn from(numbers: PerRequest) -> Self {
        numbers.iter().collect()
    }
}

impl From<BTreeMap<RequestKind, u64>> for PerRequest {
    fn from(by_kind: BTreeMap<RequestKind, u64>) -> Self {
        let mut numbers = Self::default();
        by_kind.into_iter().for_each(|(kind, amount)| numbers.add(kind, amount));
        numbers
    }
}
