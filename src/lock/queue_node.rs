//! The queue node that all fair locks share: joining, finding the own place, leaving.
//!
//! Base of every proof in this folder, the *monotone lower set*: nodes with a number below mine were all
//! created before mine, and the server that answered my create has applied them. So every later list on
//! that session is complete downwards, and the set of lower nodes can only shrink. A stale list can only
//! show nodes that are already gone: safe, at worst one more wait.

use super::AcquireError;
use crate::zk::{Failure, NodeKind, Session, sequence_of};

/// A node in a lock's queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueNode {
    /// Its full path.
    pub path: String,
    /// Its number: its place in the queue.
    pub sequence: i64,
    /// The transaction that created it: the fencing token.
    pub czxid: i64,
}

/// Where a node stands in its queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// Nobody is before it.
    First,
    /// The name of the node just before it.
    Behind(String),
}

impl QueueNode {
    /// Joins a lock's queue with an ephemeral sequential node named `prefix` plus its number.
    ///
    /// # Errors
    /// The create's failure; an indefinite one may have left a node, which ends with the session.
    pub async fn join(session: &Session, lock: &str, prefix: &str, data: &[u8]) -> Result<Self, Failure> {
        let path = format!("{lock}/{prefix}");
        let created = session.create(&path, data, NodeKind::EphemeralSequential).await?;
        let sequence = created.sequence.ok_or(Failure::OwnNodeMissing)?;
        Ok(Self { path: created.path, sequence, czxid: created.czxid })
    }

    /// The own name, without the directory.
    #[must_use]
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// Finds the own place among the names of a list, by number.
    ///
    /// # Errors
    /// [`Failure::OwnNodeMissing`] when the own node is not among them: an empty list is not a held lock.
    pub fn standing(&self, names: &[String]) -> Result<Standing, Failure> {
        if !names.iter().any(|name| name == self.name()) {
            return Err(Failure::OwnNodeMissing);
        }
        let before = names
            .iter()
            .filter_map(|name| sequence_of(name).map(|sequence| (sequence, name)))
            .filter(|(sequence, _)| *sequence < self.sequence)
            .max_by_key(|(sequence, _)| *sequence);
        Ok(before.map_or(Standing::First, |(_, name)| Standing::Behind(name.clone())))
    }

    /// Leaves the queue; a node that is gone already has left.
    ///
    /// # Errors
    /// The delete's failure.
    pub async fn leave(&self, session: &Session) -> Result<(), Failure> {
        match session.delete(&self.path).await {
            Err(Failure::NoNode) | Ok(()) => Ok(()),
            Err(failure) => Err(failure),
        }
    }

    /// Ends an acquire that will not succeed: the own node goes, so that nobody queues behind it.
    ///
    /// Returns why the acquire ended. If the node's fate is open, that is the reason that counts, because
    /// the caller must then end the session.
    pub async fn give_up(&self, session: &Session, why: AcquireError) -> AcquireError {
        if matches!(&why, AcquireError::Failed(failure) if !failure.session_survives()) {
            return why;
        }
        match self.leave(session).await {
            Ok(()) => why,
            Err(failure) => AcquireError::Failed(failure),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(sequence: i64) -> QueueNode {
        QueueNode { path: format!("/lock/n-{sequence:010}"), sequence, czxid: 0 }
    }

    fn names(sequences: &[i64]) -> Vec<String> {
        sequences.iter().map(|sequence| format!("n-{sequence:010}")).collect()
    }

    #[test]
    fn the_predecessor_is_the_highest_number_below_the_own_whatever_the_order_of_the_list() {
        let standing = node(7).standing(&names(&[9, 3, 7, 5])).unwrap();
        assert_eq!(standing, Standing::Behind("n-0000000005".into()));
        assert_eq!(node(3).standing(&names(&[9, 3, 7])).unwrap(), Standing::First);
    }

    #[test]
    fn a_list_without_the_own_node_never_means_held() {
        assert_eq!(node(3).standing(&[]), Err(Failure::OwnNodeMissing));
        assert_eq!(node(3).standing(&names(&[4])), Err(Failure::OwnNodeMissing));
    }

    #[test]
    fn names_without_a_number_are_nobodys_place() {
        let mut list = names(&[3]);
        list.push("config".into());
        assert_eq!(node(3).standing(&list).unwrap(), Standing::First);
    }
}
