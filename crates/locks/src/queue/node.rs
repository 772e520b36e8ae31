//! A contender's queue node, as used by all fair locks: joining, finding the position, and leaving.
//!
//! All proofs in this folder rely on the *monotone lower set*. Nodes with a lower number were created before
//! the contender's own, and the server that answered its create has applied them. Therefore, every later list
//! on that session shows all lower nodes that still exist, and their set can only shrink. A stale list can
//! only show nodes that are already gone, which costs at most one more wait.
//!
//! This holds only while numbers are unique and grow, until the directory's counter is used up (see
//! `counter`). A contender therefore acquires the lock only with a unique number and a list of unique
//! numbers.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use futures_util::future::join;

use crate::{AcquireError, Acquired, Held};
use zklockbench_zk::{Created, Failure, Names, NodeKind, Session, Watch, counter, sequence_of};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueNode {
    pub path: String,
    /// Sequence number of the node, which determines its position in the queue.
    pub sequence: i64,
    /// Zxid of its create: the fencing token.
    pub czxid: i64,
}

impl QueueNode {
    /// Joins a lock's queue with an ephemeral sequential node named `prefix` plus its number.
    ///
    /// # Errors
    /// The create failed. After an indefinite failure, a node may exist until the session ends.
    pub async fn join(session: &Session, lock: &str, prefix: &str, data: &[u8]) -> Result<Self, Failure> {
        let path = format!("{lock}/{prefix}");
        let created = session.create(&path, data, NodeKind::EphemeralSequential).await;
        Self::of(session, lock, created).await
    }

    /// Joins a lock's queue and sends another request in the same flush, which the server processes after the
    /// create. Returns the node and the outcome of the other request.
    pub async fn join_and<F: Future>(
        session: &Session,
        lock: &str,
        prefix: &str,
        data: &[u8],
        also: impl FnOnce() -> F,
    ) -> Result<(Self, F::Output), Failure> {
        let path = format!("{lock}/{prefix}");
        // Requests are sent when their methods are called, so the create is sent first.
        let creating = session.create(&path, data, NodeKind::EphemeralSequential);
        let (created, also) = join(creating, also()).await;
        Ok((Self::of(session, lock, created).await?, also))
    }

    /// Builds the node from the result of a create. A node without a unique number is deleted and rejected.
    pub async fn of(
        session: &Session,
        lock: &str,
        created: Result<Created, Failure>,
    ) -> Result<Self, Failure> {
        let node = match created {
            Err(Failure::NodeExists) => return Err(why_taken(session, lock).await),
            created => Self::unchecked(created?)?,
        };
        match node.has_unique_number() {
            Ok(()) => Ok(node),
            Err(used_up) => node.leave(session).await.and(Err(used_up)),
        }
    }

    /// Builds a node whose number might not be unique. Check [`QueueNode::has_unique_number`] before using the
    /// number as a position.
    pub fn unchecked(created: Created) -> Result<Self, Failure> {
        let sequence = created.sequence.ok_or(Failure::OwnNodeMissing)?;
        Ok(Self { path: created.path, sequence, czxid: created.czxid })
    }

    /// Checks that no other node can have the same number.
    ///
    /// # Errors
    /// [`Failure::CounterUsedUp`] if other nodes may have the same number.
    pub fn has_unique_number(&self) -> Result<(), Failure> {
        if counter::is_unique(self.sequence) { Ok(()) } else { Err(self.counter_used_up()) }
    }

    fn counter_used_up(&self) -> Failure {
        let directory = self.path.rsplit_once('/').map_or("", |(directory, _)| directory);
        Failure::CounterUsedUp(directory.to_owned())
    }

    /// Returns the name of the node, without the directory.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// Returns the name of the node just before this one, by number; `None` if this node is first.
    ///
    /// # Errors
    /// [`Failure::OwnNodeMissing`] if this node is not among the names: an empty list is not a held lock.
    /// [`Failure::CounterUsedUp`] if one of the numbers might not be unique.
    pub fn predecessor(&self, names: &Names) -> Result<Option<String>, Failure> {
        let before = self.others(names)?.filter(|(distance, _)| *distance < 0);
        Ok(before.max_by_key(|(distance, _)| *distance).map(|(_, name)| name.to_owned()))
    }

    /// Returns the names of at most `most` nodes just before this one, nearest first.
    pub fn nearest_before(&self, names: &Names, most: usize) -> Result<Vec<String>, Failure> {
        // Only a few of possibly thousands of names are needed, so only these are kept.
        let mut nearest = BinaryHeap::new();
        for (distance, name) in self.others(names)?.filter(|(distance, _)| *distance < 0) {
            nearest.push((Reverse(distance), name));
            if nearest.len() > most {
                nearest.pop();
            }
        }
        Ok(nearest.into_sorted_vec().into_iter().map(|(_, name)| name.to_owned()).collect())
    }

    /// Returns the name of the node just behind this one.
    pub fn next_behind(&self, names: &Names) -> Result<Option<String>, Failure> {
        let others = self.others(names)?.filter(|(distance, _)| *distance > 0);
        Ok(others.min_by_key(|(distance, _)| *distance).map(|(_, name)| name.to_owned()))
    }

    /// Returns the names of all numbered nodes, with their distances behind this node. Fails if this node is
    /// not listed.
    pub fn others<'a>(
        &self,
        names: &'a Names,
    ) -> Result<impl Iterator<Item = (i64, &'a str)> + use<'a>, Failure> {
        let distances = self.distances(names)?;
        if !names.iter().any(|name| name == self.name()) {
            return Err(Failure::OwnNodeMissing);
        }
        Ok(distances)
    }

    /// Like [`Self::others`], but this node need not be listed.
    pub fn distances<'a>(
        &self,
        names: &'a Names,
    ) -> Result<impl Iterator<Item = (i64, &'a str)> + use<'a>, Failure> {
        self.has_unique_number()?;
        let numbered = || names.iter().filter_map(|name| sequence_of(name).map(|number| (number, name)));
        if numbered().any(|(number, _)| !counter::is_unique(number)) {
            return Err(self.counter_used_up());
        }
        let own = self.sequence;
        Ok(numbered().map(move |(number, name)| (number - own, name)))
    }

    /// Returns the name of the node at this distance behind this one, if all nodes of the queue have this
    /// prefix.
    pub fn name_at(&self, prefix: &str, places: i64) -> String {
        format!("{prefix}{:010}", self.sequence + places)
    }

    /// Leaves the queue. A missing node is not an error.
    pub async fn leave(&self, session: &Session) -> Result<(), Failure> {
        if_there(session.delete(&self.path).await).map(drop)
    }

    /// Ends an acquire after its wait: the lock is held, or the node is deleted.
    pub async fn held_after(self, session: &Session, waited: Acquired<()>) -> Acquired {
        match waited {
            Ok(()) => Ok(Held::by(self)),
            Err(why) => Err(self.give_up(session, why).await),
        }
    }

    /// Ends a failed acquire: deletes the node, so that no other contender waits for it.
    ///
    /// Returns the original error, or the failure to delete the node.
    pub async fn give_up(&self, session: &Session, why: AcquireError) -> AcquireError {
        why.after(self.leave(session)).await
    }
}

/// Explains why the create of a sequential node failed with `NodeExists`.
async fn why_taken(session: &Session, lock: &str) -> Failure {
    match session.exists(lock).await {
        Ok(Some(stat)) if !counter::is_unique(stat.next_number) => Failure::CounterUsedUp(lock.to_owned()),
        _ => Failure::NodeExists,
    }
}

/// Converts the reply to a request about one node; `None` if the node does not exist.
pub fn if_there<T>(reply: Result<T, Failure>) -> Result<Option<T>, Failure> {
    match reply {
        Ok(reply) => Ok(Some(reply)),
        Err(Failure::NoNode) => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// Watches a node by its data; `None`, without a watch, if the node is already gone.
pub async fn watch_data(session: &Session, path: &str) -> Result<Option<Watch>, Failure> {
    Ok(if_there(session.get_data_and_watch(path).await)?.map(|(_, watch)| watch))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn node(sequence: i64) -> QueueNode {
        QueueNode { path: format!("/lock/n-{sequence:010}"), sequence, czxid: 0 }
    }

    fn names(sequences: &[i64]) -> Names {
        sequences.iter().map(|sequence| format!("n-{sequence:010}")).collect()
    }

    #[test]
    fn neighbours_of_a_node_have_consecutive_numbers_in_their_names() {
        let names = [-1, 0, 1].map(|places| node(counter::END - 1).name_at("n-", places));
        assert_eq!(names, ["n-2147483645", "n-2147483646", "n-2147483647"]);
        assert_eq!(node(7).name_at("lock-", -1), "lock-0000000006");
    }

    #[test]
    fn predecessor_has_the_highest_lower_number_in_a_list_in_any_order() {
        let predecessor = node(7).predecessor(&names(&[9, 3, 7, 5])).unwrap();
        assert_eq!(predecessor.as_deref(), Some("n-0000000005"));
        assert_eq!(node(3).predecessor(&names(&[9, 3, 7])).unwrap(), None);
        let with_config = ["n-0000000003", "config"].iter().collect();
        assert_eq!(node(3).predecessor(&with_config).unwrap(), None, "names without a number are ignored");
        for list in [vec![], vec![4_i64]] {
            let found = node(3).predecessor(&names(&list));
            assert_eq!(found, Err(Failure::OwnNodeMissing), "without its node in {list:?}");
        }
    }

    #[test]
    fn last_unique_number_is_a_valid_queue_position() {
        let list = names(&[counter::END - 1, counter::END - 2, counter::END - 3]);
        let own = node(counter::END - 1);
        assert_eq!(own.nearest_before(&list, 2).unwrap(), ["n-2147483645", "n-2147483644"]);
        assert_eq!(own.next_behind(&list).unwrap(), None);
        assert_eq!(node(counter::END - 3).predecessor(&list).unwrap(), None);
    }

    /// Queues whose counter is used up, with the numbers that servers then assign.
    const USED_UP: [(i64, &[i64]); 6] = [
        // Nodes with unique prefixes get equal numbers.
        (counter::END, &[counter::END, counter::END]),
        (counter::END, &[counter::END]),
        // Concurrent creates get negative numbers.
        (-counter::END - 1, &[counter::END, -counter::END - 1, -counter::END]),
        (-counter::END, &[-counter::END]),
        // The contender's number is unique, but another number is not.
        (counter::END - 1, &[counter::END - 1, counter::END]),
        (counter::END - 1, &[counter::END - 1, -counter::END - 1]),
    ];

    #[test]
    fn numbers_that_might_not_be_unique_have_no_queue_position() {
        for (own, list) in USED_UP {
            let (own, list) = (node(own), names(list));
            let used_up = Failure::CounterUsedUp("/lock".into());
            assert_eq!(own.predecessor(&list), Err(used_up.clone()), "{own:?} {list:?}");
            assert_eq!(own.nearest_before(&list, 2), Err(used_up.clone()), "{own:?} {list:?}");
            assert_eq!(own.next_behind(&list), Err(used_up.clone()), "{own:?} {list:?}");
            assert_eq!(own.distances(&list).err(), Some(used_up), "{own:?} {list:?}");
        }
    }

    proptest! {
        /// The contenders with the lowest number are first; no contender is first if a number might not be
        /// unique.
        #[test]
        fn only_contenders_with_the_lowest_unique_number_are_first(
            numbers in proptest::collection::vec(
                prop_oneof![(counter::END - 6)..=counter::END, (-counter::END - 1)..(-counter::END + 3)],
                1..8,
            ),
        ) {
            let name = |(of, number): (usize, &i64)| format!("_c_{of}-lock-{number:010}");
            let list: Names = numbers.iter().enumerate().map(name).collect();
            let is_first = |(of, number): (usize, &i64)| {
                let path = format!("/lock/{}", name((of, number)));
                QueueNode { path, sequence: *number, czxid: 0 }.predecessor(&list) == Ok(None)
            };
            let first = numbers.iter().enumerate().filter(|one| is_first(*one)).count();
            // Servers assign a unique number only once, but these lists may repeat it.
            let lowest = numbers.iter().min();
            let as_low = numbers.iter().filter(|number| Some(*number) == lowest).count();
            let expected = if numbers.iter().all(|number| counter::is_unique(*number)) { as_low } else { 0 };
            prop_assert_eq!(first, expected);
        }
    }

    #[test]
    fn nearest_before_is_sorted_and_requires_the_contenders_node() {
        assert_eq!(node(7).nearest_before(&names(&[9, 3, 7, 5]), 1).unwrap(), ["n-0000000005"]);
        assert!(node(3).nearest_before(&names(&[9, 3, 7]), 2).unwrap().is_empty());
        assert_eq!(node(3).nearest_before(&names(&[2]), 2), Err(Failure::OwnNodeMissing));
        assert_eq!(node(3).next_behind(&names(&[9, 3, 7])).unwrap().unwrap(), "n-0000000007");
    }

    #[test]
    fn if_there_returns_none_for_a_missing_node() {
        assert_eq!(if_there(Ok(7)), Ok(Some(7)));
        assert_eq!(if_there::<u8>(Err(Failure::NoNode)), Ok(None));
        assert_eq!(if_there::<u8>(Err(Failure::ConnectionLoss)), Err(Failure::ConnectionLoss));
    }
}
