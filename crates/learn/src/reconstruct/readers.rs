//! Readers for which some versions of their library use another rule than the queue.

use super::{Reconstruction, Request};
use crate::cycle::TRY_REQUESTS;
use crate::queue::{Grant, Moment, Node, NodePath, Queue};
use crate::recipe::{DIGITS, Recipe, Role, is_sequential};

impl Reconstruction {
    /// Returns the position of the writer that a new reader downgrades, and whether the writer holds the lock.
    /// The reader's name has the writer's number, and both nodes belong to the same session.
    pub(super) fn downgraded_writer(
        &self,
        directory: &[u8],
        name: &[u8],
        sequence: Option<i32>,
        session: i64,
    ) -> Option<((i64, u32), bool)> {
        if sequence.is_some() && is_sequential(name, sequence) {
            return None;
        }
        let number = name.last_chunk::<DIGITS>()?;
        let own = self.sessions.get(&session)?.nodes.iter().filter(|path| path.ends_with(number));
        let writer = own
            .filter_map(|path| self.nodes.get(path))
            .find(|node| node.role == Role::Write && *node.directory == *directory)?;
        Some((writer.position, writer.grant != Grant::Waits))
    }

    /// Returns the time until which a reader, which deletes its node, may have waited after its grant: its end if it
    /// may have given up. Grants the lock to a reader whose session holds the write lock.
    pub(super) fn waited_until(&mut self, path: &NodePath, request: Request) -> Option<Moment> {
        self.waited_for_later_writer(path, request).or_else(|| self.waited_for_own_writer(path, request))
    }

    /// Returns the time until which a reader may have waited for a later writer. Before version 2.9, kazoo's readers
    /// watch the last writer, so a reader gets the lock when there is none. An odd number of requests indicates a
    /// timeout. A reader that only waited for earlier writers sent two requests for each, to list the nodes and to
    /// watch one, and two more, to list the nodes and to delete its own.
    fn waited_for_later_writer(&self, path: &NodePath, request: Request) -> Option<Moment> {
        let is_reader = |node: &&Node| node.recipe == Recipe::KazooReadWrite && node.grant != Grant::Waits;
        let node = self.nodes.get(path).filter(is_reader)?;
        let requests = self.requests(node, request)? as usize;
        if !requests.is_multiple_of(2) {
            let has_later_writer = self.queues.get(&node.directory).is_some_and(|queue| queue.writers > 0);
            return has_later_writer.then_some(self.now);
        }
        let is_later = |until: &Moment| Grant::At(*until) != node.grant;
        node.without_writers.filter(is_later).filter(|_| requests > 2 * (node.writers_ahead + 1))
    }

    /// Grants the lock to a reader that arrived while its session held the write lock. Before version 5.5.0, Curator did
    /// not give such a reader the number of its writer. Returns the time until which the reader may have waited after
    /// its grant. If the reader sent only two requests, it listed the nodes and deleted its own, so it did not wait,
    /// even if the write lock was released in between. Otherwise, it may belong to another thread of the session, which
    /// gave up.
    fn waited_for_own_writer(&mut self, path: &NodePath, request: Request) -> Option<Moment> {
        let node = self.nodes.get(path).filter(|node| node.is_within_own_write)?;
        let (arrived, requests) = (node.arrived, self.requests(node, request)?);
        let did_not_wait = requests == TRY_REQUESTS;
        let is_within = node.grant == Grant::Waits && self.holds_write_lock(&node.directory, request.session);
        if node.grant == Grant::At(arrived) || !did_not_wait && !is_within {
            return None;
        }
        let node = self.nodes.get_mut(path)?;
        node.grant = Grant::At(arrived);
        node.is_contended = false;
        Some(if did_not_wait { arrived } else { self.now })
    }

    /// Returns whether the session holds the write lock of this directory. A writer with the lock is first in the queue.
    pub(super) fn holds_write_lock(&self, directory: &[u8], session: i64) -> bool {
        let first = self.queues.get(directory).and_then(Queue::first);
        let holder = first.and_then(|path| self.nodes.get(path)).filter(|node| node.grant != Grant::Waits);
        holder.is_some_and(|node| node.role == Role::Write && node.session == session)
    }
}
