//! Reconstruction of cycles from a watch, which reports neither sessions nor times, and from listings.

use std::collections::HashSet;
use std::io;

use super::{Reconstruction, Request, split};
use crate::cycle::UNKNOWN_SESSION;
use crate::queue::NodePath;
use crate::recipe::recognise;
use crate::snapshot::StoredNode;
use zklockbench_core::txn::{Change, Happened};

/// Existing nodes, as a watch found them.
#[derive(Debug, Default)]
pub struct Listing {
    /// Ephemeral nodes in order of creation.
    pub found: Vec<StoredNode>,
    /// Paths that were not read. Nodes at or below them may exist.
    pub unread: Vec<String>,
}

/// A node's creation or deletion that a watch observed.
#[derive(Debug, Clone)]
pub struct Seen {
    pub path: Vec<u8>,
    pub happened: Happened,
    pub at_ms: i64,
}

impl Reconstruction {
    /// Records that a watch started or ended at this time.
    pub fn watches_at(&mut self, at_ms: i64) {
        self.is_watch = true;
        self.pass_time(at_ms);
    }

    /// Records a change that a watch observed.
    pub fn sees(&mut self, path: &[u8], happened: Happened, at_ms: i64) -> io::Result<()> {
        self.last += 1;
        self.pass_time(at_ms);
        self.counts.records += 1;
        // A watch reports no sessions, so each node is assigned a different session.
        let owner = self.nodes.get(path).map_or(-self.last, |node| node.session);
        let request = Request { session: owner, cxid: 0, zxid: self.last, place: 0, expired_after_ms: None };
        if happened == Happened::Created {
            self.forget_parent(path);
        }
        let ephemeral = happened == Happened::Created;
        let change = Change { path, happened, with_its_session: false, ephemeral, sequence: None };
        self.apply(&change, request);
        self.forget_session(owner);
        self.failure.take().map_or(Ok(()), Err)
    }

    /// Continues with the nodes that a watch listed, and then with the changes that arrived during the listing. The
    /// first change of a node shows whether the node existed when the listing started. Known nodes that were not
    /// read are assumed to remain.
    pub fn resumes(&mut self, listing: Listing, seen: &[Seen]) -> io::Result<()> {
        let (mut changed, mut created) = (HashSet::new(), HashSet::new());
        // Nodes that existed at the start, but not when their directory was listed.
        let mut unlisted: Vec<&[u8]> = Vec::new();
        {
            let is_listed: HashSet<&[u8]> = listing.found.iter().map(|node| node.path.as_slice()).collect();
            for change in seen {
                let path = change.path.as_slice();
                if !changed.insert(path) {
                    continue;
                }
                let (directory, name) = split(path);
                if change.happened == Happened::Created {
                    created.insert(path);
                } else if !is_listed.contains(path)
                    && (self.nodes.contains_key(path) || recognise(directory, name).is_some())
                {
                    unlisted.push(path);
                }
            }
        }
        // Negative zxids place these nodes before the listed ones, because most locks are released in order of
        // creation.
        let (created_ms, owner) = (self.now.ms, Some(UNKNOWN_SESSION));
        let first = -i64::try_from(unlisted.len()).unwrap_or(i64::MAX);
        let mut stored: Vec<StoredNode> = unlisted
            .into_iter()
            .zip(first..)
            .map(|(path, created)| StoredNode { path: path.to_vec(), created, created_ms, owner })
            .collect();
        let unread: HashSet<&[u8]> =
            listing.unread.iter().map(|path| path.trim_end_matches('/').as_bytes()).collect();
        let listed = listing.found.into_iter();
        stored.extend(listed.filter(|node| !created.contains(node.path.as_slice())));
        let lost: Vec<NodePath> = {
            let exist: HashSet<&[u8]> = stored.iter().map(|node| node.path.as_slice()).collect();
            let remains = |path: &NodePath| {
                exist.contains(&**path) || is_within(path, &unread) && !created.contains(&**path)
            };
            self.nodes.keys().filter(|path| !remains(path)).cloned().collect()
        };
        self.replace(lost, stored)?;
        seen.iter().try_for_each(|change| self.sees(&change.path, change.happened, change.at_ms))
    }

    /// Returns a node's session, unless a watch assigned it to the node: the negative number of a change.
    pub(super) fn known(&self, session: i64) -> i64 {
        if self.is_watch && (-self.last..0).contains(&session) { UNKNOWN_SESSION } else { session }
    }

    /// Forgets a session without nodes, because a watch assigns a new session to each new node.
    fn forget_session(&mut self, session: i64) {
        if self.sessions.get(&session).is_some_and(|open| open.nodes.is_empty()) {
            self.sessions.remove(&session);
        }
    }

    /// Forgets the parent of a new node: a node with children is not ephemeral.
    fn forget_parent(&mut self, path: &[u8]) {
        let Some((parent, node)) = self.nodes.remove_entry(split(path).0) else { return };
        self.queues.remove(&node.directory);
        if let Some(open) = self.sessions.get_mut(&node.session) {
            open.nodes.remove(&parent);
        }
        self.forget_session(node.session);
    }
}

/// Returns whether a path is one of these paths, or below one.
fn is_within(mut path: &[u8], paths: &HashSet<&[u8]>) -> bool {
    while !paths.contains(path) {
        if path.is_empty() {
            return false;
        }
        path = split(path).0;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cycle::Ending;
    use crate::reconstruct::Scope;
    use crate::summarise::{Asked, summarise};

    const GUID: &str = "0f8fad5b-d9cb-469f-a165-70867728950e";

    fn started() -> Reconstruction {
        let mut watched = Reconstruction::new(Scope::default(), &std::env::temp_dir());
        watched.watches_at(0);
        watched
    }

    /// Watches a hundred uncontended cycles.
    fn watched() -> Reconstruction {
        let mut watched = started();
        for of in 0..100 {
            let at_ms = i64::from(of) * 10;
            watched.sees(&node(of), Happened::Created, at_ms).unwrap();
            watched.sees(&node(of), Happened::Deleted, at_ms + 5).unwrap();
        }
        watched
    }

    #[test]
    fn watch_forgets_deleted_nodes() {
        let mut watched = watched();
        watched.sees(b"/a", Happened::Created, 2_000).unwrap();
        watched.sees(b"/a/b", Happened::Created, 2_001).unwrap();
        watched.sees(b"/a/b", Happened::Deleted, 2_002).unwrap();
        assert_eq!((watched.nodes.len(), watched.queues.len(), watched.sessions.len()), (0, 0, 0));
    }

    fn node(of: u32) -> Vec<u8> {
        format!("/l/_c_{GUID}-lock-{of:010}").into_bytes()
    }

    fn seen(of: u32, happened: Happened, at_ms: i64) -> Seen {
        Seen { path: node(of), happened, at_ms }
    }

    fn listed(of: u32) -> Listing {
        let node =
            StoredNode { path: node(of), created: 1_000 + i64::from(of), created_ms: 5, owner: Some(7) };
        Listing { found: vec![node], unread: Vec::new() }
    }

    /// Returns the ending, wait, hold and origin of each cycle.
    fn cycles(watched: Reconstruction) -> Vec<(Ending, Option<u32>, Option<u32>, bool)> {
        let observed = watched.finish().unwrap();
        let cycles = observed.cycles.iter().unwrap().map(Result::unwrap);
        cycles.map(|cycle| (cycle.ending, cycle.waited_ms, cycle.held_ms, cycle.is_carried_over)).collect()
    }

    #[test]
    fn changes_during_the_listing_count_once() {
        let mut watched = started();
        let changes =
            [seen(1, Happened::Created, 10), seen(2, Happened::Created, 12), seen(1, Happened::Deleted, 30)];
        watched.resumes(listed(2), &changes).unwrap();
        watched.sees(&node(2), Happened::Deleted, 50).unwrap();
        let released = |waited: u32, held: u32| (Ending::Released, Some(waited), Some(held), false);
        assert_eq!(cycles(watched), [released(0, 20), released(18, 20)]);
    }

    #[test]
    fn node_deleted_before_it_is_listed_blocks_requests_until_then() {
        let mut watched = started();
        let changes = [seen(2, Happened::Created, 12), seen(1, Happened::Deleted, 30)];
        watched.resumes(listed(2), &changes).unwrap();
        watched.sees(&node(2), Happened::Deleted, 50).unwrap();
        let held = (Ending::Released, None, None, true);
        assert_eq!(cycles(watched), [held, (Ending::Released, Some(18), Some(20), false)]);
    }

    #[test]
    fn node_that_survives_a_gap_ends_when_it_is_deleted_during_the_listing() {
        let mut watched = started();
        watched.sees(&node(1), Happened::Created, 10).unwrap();
        watched.resumes(Listing::default(), &[seen(1, Happened::Deleted, 30)]).unwrap();
        assert_eq!(cycles(watched), [(Ending::Released, Some(0), Some(20), false)]);
    }

    #[test]
    fn known_nodes_that_are_not_read_after_a_gap_remain() {
        let deleted_later = |unread: &[&str]| {
            let mut watched = started();
            watched.sees(&node(1), Happened::Created, 10).unwrap();
            let unread = unread.iter().map(|path| (*path).to_owned()).collect();
            watched.resumes(Listing { found: Vec::new(), unread }, &[]).unwrap();
            watched.sees(&node(1), Happened::Deleted, 30).unwrap();
            cycles(watched)[0].0
        };
        let path = String::from_utf8(node(1)).unwrap();
        for unread in [path.as_str(), "/l", "/"] {
            assert_eq!(deleted_later(&[unread]), Ending::Released, "{unread}");
        }
        for unread in ["/other", "/l/_c"] {
            assert_eq!(deleted_later(&[unread]), Ending::Unobserved, "{unread}");
        }
        assert_eq!(deleted_later(&[]), Ending::Unobserved);
    }

    #[test]
    fn watch_counts_no_sessions() {
        let found = summarise(&watched().finish().unwrap(), Asked::default()).unwrap();
        assert_eq!((found.families[0].arrivals, found.families[0].sessions), (100, 0));
    }
}
