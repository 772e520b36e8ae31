//! Imports of every strategy: its interface and card, the queue engine, and the session.

pub(crate) use async_trait::async_trait;

pub(crate) use crate::queue::joining::{JOIN, Joined, Joining, is_count};
pub(crate) use crate::queue::retry::Retry;
pub(crate) use crate::queue::{Habits, Queue, Watches};
pub(crate) use crate::{
    AcquireError, Acquired, Entry, Held, LockConfig, Patience, QueueNode, Strategy, cost, count_of, has_word,
};
pub(crate) use zklockbench_core::catalog::{
    BatchCost, Choice, Events, Guarantees, Holders, LockCard, Mode, Param, ParamKind, ParamValue, Params,
    Protection, joined,
};
pub(crate) use zklockbench_core::clock::{self, Stamp};
pub(crate) use zklockbench_core::measure::RequestKind::{
    CheckWatches, Create, Delete, Exists, ExistsWatch, GetChildren, GetChildrenWatch, GetData, GetDataWatch,
    Multi,
};
pub(crate) use zklockbench_zk::{EventKind, Failure, Names, NodeKind, Session, Watch, runtime};
