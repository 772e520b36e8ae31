//! Semaphores of Curator and kazoo: an inner queue, whose head creates the lease.

use std::sync::Arc;

use super::{Reconstruction, split};
use crate::family::{KAZOO_INNER, lock_below};
use crate::queue::{Grant, Moment, Node, NodePath};
use crate::recipe::Recipe;

impl Reconstruction {
    /// Returns the session's node at the head of the inner queue of the semaphore with this lease directory.
    /// Only the holder of the inner queue creates leases; the session's other nodes belong to other threads.
    pub(super) fn inner_node(&self, leases: &[u8], recipe: Recipe, session: i64) -> Option<NodePath> {
        let inner = match recipe {
            Recipe::KazooSemaphore => [leases, KAZOO_INNER].concat(),
            _ => [split(leases).0, b"/locks"].concat(),
        };
        let first = self.queues.get(inner.as_slice())?.first()?;
        let is_own = self.is_watch || self.nodes.get(first)?.session == session;
        is_own.then(|| Arc::clone(first))
    }

    /// Takes the arrival time of a lease from the client's node in the inner queue. Returns whether the client may
    /// still be waiting for a free lease.
    pub(super) fn link_to_inner(&mut self, lease: &mut Node) -> bool {
        let Some(inner) = self.inner_node(&lease.directory, lease.recipe, lease.session) else {
            return false;
        };
        let outer = lock_below(&lease.directory, lease.recipe);
        let released = match self.semaphores.get_mut(outer) {
            Some(released) => released.take(),
            None => {
                self.semaphores.insert(outer.into(), None);
                self.adopt_inner_queue(split(&inner).0, outer);
                None
            }
        };
        let Some(inner) = self.nodes.get_mut(&inner) else { return false };
        if let Some(open) = self.sessions.get_mut(&inner.session) {
            open.queued -= usize::from(inner.is_queued());
        }
        inner.has_lease = true;
        lease.handoff_ms = match inner.grant {
            Grant::At(granted) => {
                // kazoo's client waits for a free lease before it creates its own.
                let is_later = |released: &Moment| released.since(granted).is_some();
                let released = released.filter(|_| lease.recipe == Recipe::KazooSemaphore);
                lease.arrived.since(released.filter(is_later).unwrap_or(granted))
            }
            Grant::Waits | Grant::Earlier => None,
        };
        lease.arrived = inner.arrived;
        lease.is_contended = inner.is_contended;
        lease.is_carried_over = inner.is_carried_over;
        lease.recipe == Recipe::CuratorSemaphore
    }

    /// Notes the time at which a lease became free. The first release ends the wait of the next client.
    pub(super) fn note_lease_end(&mut self, lease: &Node) {
        if let Some(released) = self.semaphores.get_mut(lock_below(&lease.directory, lease.recipe)) {
            released.get_or_insert(self.now);
        }
    }

    /// Ends the inner queue's phase of a cycle, which continues with the lease's node.
    pub(super) fn confirm_lease(&mut self, inner: &Node) {
        let leases = [split(&inner.directory).0, b"/leases"].concat();
        if let Some(queue) = self.queues.get_mut(leases.as_slice()) {
            queue.pending = None;
            queue.note_length();
        }
    }

    /// Attributes earlier cycles in an inner queue to its semaphore.
    fn adopt_inner_queue(&mut self, inner: &[u8], outer: &[u8]) {
        if let Some(number) = self.numbers.remove(inner)
            && let Some(lock) = self.locks.get_mut(number as usize)
        {
            lock.path = outer.into();
            lock.longest = 0;
            self.numbers.insert(outer.into(), number);
        }
    }
}
