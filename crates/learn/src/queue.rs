//! Queue of the nodes in a lock's directory, which determines the holders.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::sync::Arc;

use crate::recipe::{Recipe, Role};

pub type NodePath = Arc<[u8]>;

/// A time by the leader's clock. Times from before and after the clock was set back cannot be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    pub ms: i64,
    /// Number of times the clock had been set back by then.
    pub setting: u32,
}

impl Moment {
    pub fn since(self, earlier: Self) -> Option<u32> {
        let ms = u64::try_from(self.ms - earlier.ms).ok().filter(|_| self.setting == earlier.setting)?;
        Some(u32::try_from(ms).unwrap_or(u32::MAX))
    }
}

#[derive(Debug)]
pub struct Node {
    pub directory: NodePath,
    /// Zxid of the node's create, and the node's position in that transaction.
    pub position: (i64, u32),
    pub arrived: Moment,
    pub session: i64,
    pub cxid: i32,
    pub recipe: Recipe,
    pub role: Role,
    pub grant: Grant,
    pub is_contended: bool,
    pub since_ms: Option<u32>,
    pub after_release_ms: Option<u32>,
    pub is_carried_over: bool,
    pub handoff_ms: Option<u32>,
    /// Whether the node's name is unknown and no node of the directory has ended yet. The directory may be a
    /// registry.
    pub may_be_registered: bool,
    /// Number of writers in the queue when the node was created.
    pub writers_ahead: usize,
    /// First time at which no writer was in a reader's queue.
    pub without_writers: Option<Moment>,
    /// Whether the node is in a semaphore's inner queue and its client has already created the lease.
    pub has_lease: bool,
}

impl Node {
    /// Returns whether a client waits for or holds a lock with this node. A node that was replaced by a lease does
    /// not count.
    pub fn is_queued(&self) -> bool {
        !self.recipe.is_single() && !self.recipe.is_election() && !self.has_lease && !self.may_be_registered
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grant {
    Waits,
    At(Moment),
    /// The node got the lock at an unknown time, e.g. before the start of the logs.
    Earlier,
}

/// Nodes of one directory, in order of creation.
#[derive(Debug, Default)]
pub struct Queue {
    nodes: BTreeMap<(i64, u32), NodePath>,
    pub writers: usize,
    /// Lease node of a client that is still waiting for a free lease.
    pub pending: Option<NodePath>,
    /// Whether that client waits for the next release.
    is_full: bool,
    /// Largest number of nodes at the same time, excluding `pending`.
    pub longest: u32,
}

impl Queue {
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    pub fn first(&self) -> Option<&NodePath> {
        self.nodes.values().next()
    }

    /// Adds a node; returns whether it holds the lock immediately.
    pub fn add(&mut self, path: &NodePath, node: &Node) -> bool {
        let holds = match node.role {
            Role::Lease => true,
            Role::Write => self.nodes.is_empty(),
            Role::Read => self.writers == 0,
        };
        self.writers += usize::from(node.role == Role::Write);
        self.nodes.insert(node.position, Arc::clone(path));
        holds
    }

    /// Marks a new lease, whose client may still be waiting for a free one. If the queue was as long before, a lease is
    /// free.
    pub fn set_pending(&mut self, path: &NodePath) {
        self.pending = Some(Arc::clone(path));
        self.is_full = self.nodes.len() > self.longest as usize;
    }

    pub fn note_length(&mut self) {
        let length = self.nodes.len() - usize::from(self.pending.is_some());
        self.longest = self.longest.max(u32::try_from(length).unwrap_or(u32::MAX));
    }

    /// Returns the nodes for which this node waits, in ascending order.
    pub fn blockers<'a>(
        &'a self,
        node: &'a Node,
        others: &'a HashMap<NodePath, Node>,
    ) -> impl Iterator<Item = &'a NodePath> {
        let is_writer = |path: &NodePath| others.get(path).is_some_and(|other| other.role == Role::Write);
        let ahead = self.nodes.range(..node.position).map(|(_, path)| path);
        ahead.filter(move |path| node.role == Role::Write || is_writer(path))
    }

    /// Removes a node, and grants the lock to its successors.
    pub fn remove(&mut self, gone: &Node, grant: Grant, others: &mut HashMap<NodePath, Node>) {
        self.nodes.remove(&gone.position);
        self.writers -= usize::from(gone.role == Role::Write && self.writers > 0);
        let pending = self.pending.clone().filter(|_| self.is_full);
        match (gone.role, pending.and_then(|path| others.get_mut(&path))) {
            (Role::Lease, Some(pending)) => {
                pending.grant = grant;
                self.is_full = false;
            }
            (Role::Lease, None) => {}
            // The remaining readers already hold the lock.
            (Role::Read, _) => self.grant_to_first(1, grant, others),
            (Role::Write, _) => self.grant_to_first(usize::MAX, grant, others),
        }
    }

    fn grant_to_first(&self, most: usize, grant: Grant, others: &mut HashMap<NodePath, Node>) {
        for (at, path) in self.nodes.values().take(most).enumerate() {
            let Some(node) = others.get_mut(path) else { continue };
            if at > 0 && node.role == Role::Write {
                return;
            }
            if node.grant == Grant::Waits {
                node.grant = grant;
            }
            if self.writers == 0
                && let Grant::At(now) = grant
            {
                node.without_writers.get_or_insert(now);
            }
            if node.role == Role::Write {
                return;
            }
        }
    }
}
