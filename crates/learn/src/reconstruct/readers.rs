//! Readers for which some versions of their library use another rule than the queue.

use super::{Reconstruction, Request};
use crate::cycle::TRY_REQUESTS;
use crate::queue::{Grant, Moment, Node, NodePath};
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
        let node = self.nodes.get(path).filter(|node| node.recipe == Recipe::KazooReadWrite)?;
        if request.session != node.session || node.cxid == 0 || node.grant == Grant::Waits {
            return None;
        }
        let requests = usize::try_from(request.cxid.wrapping_sub(node.cxid)).ok()?;
        if requests % 2 != 0 {
            let has_later_writer = self.queues.get(&node.directory).is_some_and(|queue| queue.writers > 0);
            return has_later_writer.then_some(self.now);
        }
        let is_later = |until: &Moment| Grant::At(*until) != node.grant;
        node.without_writers.filter(is_later).filter(|_| requests > 2 * (node.writers_ahead + 1))
    }

    /// Grants the lock to a reader whose session holds the write lock. Returns the time until which the reader may have
    /// waited after its grant: its end if it may belong to another thread of the session, which gave up. If the reader
    /// sent only two requests, it listed the nodes and deleted its own, so it did not wait.
    fn waited_for_own_writer(&mut self, path: &NodePath, request: Request) -> Option<Moment> {
        let node = self.nodes.get(path).filter(|node| self.is_within_own_write(node, request))?;
        let (arrived, requests) = (node.arrived, request.cxid.wrapping_sub(node.cxid));
        if let Some(node) = self.nodes.get_mut(path) {
            node.grant = Grant::At(arrived);
            node.is_contended = false;
        }
        Some(if u32::try_from(requests) == Ok(TRY_REQUESTS) { arrived } else { self.now })
    }

    /// Returns whether a reader arrived while its session held the write lock, and ends before that lock does. Before
    /// version 5.5.0, Curator did not give such a reader the number of its writer.
    fn is_within_own_write(&self, node: &Node, request: Request) -> bool {
        let is_waiting_reader =
            (node.recipe, node.role, node.grant) == (Recipe::CuratorReadWrite, Role::Read, Grant::Waits);
        let holds = |other: &Node| match other.grant {
            Grant::At(granted) => node.arrived.since(granted).is_some(),
            Grant::Earlier => true,
            Grant::Waits => false,
        };
        let is_own = |path: &NodePath| {
            self.nodes.get(path).is_some_and(|other| other.session == node.session && holds(other))
        };
        let Some(queue) = self.queues.get(&node.directory).filter(|_| is_waiting_reader) else {
            return false;
        };
        request.session == node.session && node.cxid > 0 && queue.blockers(node, &self.nodes).any(is_own)
    }
}
