//! Creating a lock's nodes: the missing parents, in the order in which the clients make them, and nodes that are
//! not left without an owner when the response to their create is lost.
//!
//! The name of such a node carries a mark of its own. After a create whose outcome is open the queue is
//! looked through for the mark before another node is created.

use std::cell::RefCell;
use std::collections::VecDeque;

use super::node::if_there;
use super::retry::Retry;
use crate::lock::QueueNode;
use crate::world::zk::{Failure, Names, NodeKind, Session, reactor, sequence_of};

/// Creates a directory and its missing ancestors as container nodes, which the server removes when they are
/// empty.
///
/// Source: Curator, `ZKPaths.mkdirs` with `asContainers`.
pub async fn make_containers(session: &Session, directory: &str) -> Result<(), Failure> {
    make_from_leaf(session, directory, NodeKind::Container).await
}

/// Creates a directory and its missing ancestors: looks from the leaf upwards, then creates downwards.
///
/// Sources: Curator, `ZKPaths.mkdirs`; kazoo, `ensure_path`.
pub async fn make_from_leaf(session: &Session, directory: &str, kind: NodeKind) -> Result<(), Failure> {
    let mut missing = Vec::new();
    let mut path = directory;
    while !path.is_empty() && session.exists(path).await?.is_none() {
        missing.push(path);
        path = path.rsplit_once('/').map_or("", |(parent, _)| parent);
    }
    for path in missing.into_iter().rev() {
        create_unless_there(session, path, &[], kind).await?;
    }
    Ok(())
}

/// Creates a directory and its missing ancestors, from the top downwards: looks at each before it is made.
///
/// Source: the Go client, `Lock.LockWithData`.
pub async fn make_from_top(session: &Session, directory: &str) -> Result<(), Failure> {
    let ends = directory.match_indices('/').map(|(end, _)| end).skip(1).chain([directory.len()]);
    for path in ends.map(|end| &directory[..end]) {
        make_directory(session, path).await?;
    }
    Ok(())
}

/// Looks for a directory whose parent is there, and creates it when it is missing.
pub async fn make_directory(session: &Session, path: &str) -> Result<(), Failure> {
    match session.exists(path).await? {
        Some(_) => Ok(()),
        None => create_unless_there(session, path, &[], NodeKind::Persistent).await,
    }
}

/// Creates a node without a look.
pub async fn create_unless_there(
    session: &Session,
    path: &str,
    data: &[u8],
    kind: NodeKind,
) -> Result<(), Failure> {
    match session.create(path, data, kind).await {
        Ok(_) | Err(Failure::NodeExists) => Ok(()),
        Err(failure) => Err(failure),
    }
}

/// A queue node's name, as far as it is known before the create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MarkedName {
    /// By what the own node is found again.
    pub mark: String,
    /// What the number is appended to; begins with the mark.
    pub prefix: String,
}

impl MarkedName {
    /// The pattern that Curator has introduced: `_c_<identifier>-<rest>`.
    pub fn curator(identifier: impl std::fmt::Display, rest: &str) -> Self {
        let mark = format!("_c_{identifier}-");
        let prefix = format!("{mark}{rest}");
        Self { mark, prefix }
    }
}

/// Creates something that can be found again: after a failure that leaves the outcome open, and as often as the
/// policy allows, looks for what an earlier try has made, and creates again when that is nothing.
pub async fn created_or_found<T>(
    retry: Retry,
    create: impl AsyncFn() -> Result<T, Failure>,
    find: impl AsyncFn() -> Result<Option<T>, Failure>,
) -> Result<T, Failure> {
    let mut tries = retry.tries();
    loop {
        let failure = match create().await {
            Ok(made) => return Ok(made),
            Err(failure) => failure,
        };
        reactor::sleep(tries.pause_after(failure)?).await;
        if let Some(made) = find().await? {
            return Ok(made);
        }
    }
}

/// Creates that got no answer and whose nodes were not found. They may still come.
///
/// A server that stands still keeps what its clients have sent: a create, and also a request to connect again that the client
/// has given up for another server. When it goes on, the latter moves the session back to it, so the leader takes the former
/// from it. `SessionMovedException` does not help then, and nothing that is asked before does. The node stands in the queue as
/// long as the session lives, in front of the contender that no longer knows of it.
#[derive(Debug, Clone, Default)]
pub struct LateCreates(RefCell<VecDeque<String>>);

impl LateCreates {
    /// More than are likely to be under way for one contender.
    const REMEMBERED: usize = 8;

    pub fn expect(&self, name: &MarkedName) {
        let mut marks = self.0.borrow_mut();
        marks.truncate(Self::REMEMBERED - 1);
        marks.push_front(name.mark.clone());
    }

    /// Deletes the nodes that have come by now, as a list shows them beside the contender's own.
    ///
    /// # Errors
    /// The delete's failure.
    pub async fn delete(
        &self,
        session: &Session,
        lock: &str,
        names: &Names,
        own: &QueueNode,
    ) -> Result<(), Failure> {
        // Nearly always there is nothing to compare the names with.
        if self.0.borrow().is_empty() {
            return Ok(());
        }
        let is_expected = |name: &str| self.0.borrow().iter().any(|mark| name.starts_with(mark));
        let is_late = |name: &&str| *name != own.name() && is_expected(name);
        let late: Vec<String> = names.iter().filter(is_late).map(|name| format!("{lock}/{name}")).collect();
        for path in late {
            if_there(Retry::USUAL.around(|| session.delete(&path)).await)?;
        }
        Ok(())
    }
}

pub async fn find_marked(
    session: &Session,
    lock: &str,
    mark: &str,
    retry: Retry,
) -> Result<Option<QueueNode>, Failure> {
    let names = retry.around(|| session.get_children(lock)).await?;
    let Some(name) = names.iter().find(|name| name.starts_with(mark)) else { return Ok(None) };
    retry.around(|| node_named(session, lock, name)).await
}

/// The node of that name; the list that showed it does not tell its fencing token.
pub async fn node_named(session: &Session, lock: &str, name: &str) -> Result<Option<QueueNode>, Failure> {
    let path = format!("{lock}/{name}");
    let found = session.exists(&path).await?;
    let sequence = sequence_of(name);
    Ok(found.zip(sequence).map(|(found, sequence)| QueueNode { path, sequence, czxid: found.czxid }))
}

/// The race that locks without a queue are: everybody tries to create the same node, and one succeeds. One contender's
/// tries.
#[derive(Debug, Default)]
pub struct Race {
    /// A create got no answer, so the node that is there may be the own one: also in a later acquire, as a server that stood
    /// still may apply it late (see [`LateCreates`]).
    reply_lost: bool,
}

impl Race {
    /// Tries to create the lock's one node; `None` when another's is there.
    ///
    /// After a lost reply it tries again and, when a node is there, asks whose it is: else a contender whose
    /// create had succeeded would wait for itself until its session ends. The second create is a write that
    /// the session's present server has applied, so the look after it is not behind the first.
    pub async fn try_create(&mut self, session: &Session, path: &str) -> Result<Option<QueueNode>, Failure> {
        loop {
            match session.create(path, &[], NodeKind::Ephemeral).await {
                Ok(created) => return Ok(Some(node(path, created.czxid))),
                Err(Failure::NodeExists) if self.reply_lost => return own(session, path).await,
                Err(Failure::NodeExists) => return Ok(None),
                Err(Failure::ConnectionLoss) => self.reply_lost = true,
                Err(failure) => return Err(failure),
            }
        }
    }
}

/// The node, if it belongs to this session.
async fn own(session: &Session, path: &str) -> Result<Option<QueueNode>, Failure> {
    let found = session.exists(path).await?;
    Ok(found.filter(|found| found.owner == session.id()).map(|found| node(path, found.czxid)))
}

/// A node without a queue has no number. The transaction stands in for it, so that two holds by the same
/// path are told apart.
fn node(path: &str, czxid: i64) -> QueueNode {
    QueueNode { path: path.to_owned(), sequence: czxid, czxid }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_begins_with_the_mark_by_which_it_is_found_again() {
        let name = MarkedName::curator("0a1b", "lock-");
        assert_eq!((name.mark.as_str(), name.prefix.as_str()), ("_c_0a1b-", "_c_0a1b-lock-"));
    }
}
