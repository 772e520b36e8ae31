//! Protection against orphaned nodes when the reply to a create or delete is lost.
//!
//! The name of a protected node contains a unique mark. After a create with an unknown outcome, the contender
//! searches the queue for the mark before it creates another node.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::time::Duration;

use super::node::if_there;
use super::retry::Retry;
use crate::QueueNode;
use zklockbench_zk::{Failure, Names, Session, runtime, sequence_of};

const BACKGROUND_PAUSE: Duration = Duration::from_millis(50);

/// Name of a queue node, without its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MarkedName {
    /// Mark that identifies the contender's node.
    pub mark: String,
    /// Prefix that the number is appended to; starts with the mark.
    pub prefix: String,
}

impl MarkedName {
    /// Builds a name with Curator's pattern: `_c_<identifier>-<rest>`.
    pub fn curator(identifier: impl std::fmt::Display, rest: &str) -> Self {
        let mark = format!("_c_{identifier}-");
        let prefix = format!("{mark}{rest}");
        Self { mark, prefix }
    }
}

/// Runs `create`. After a failure with an unknown outcome, runs `find`, and `create` again if nothing is
/// found. `retry` limits the attempts.
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
        runtime::sleep(tries.pause_after(failure)?).await;
        if let Some(made) = find().await? {
            return Ok(made);
        }
    }
}

/// Creates that got no reply and whose nodes were not found, but may still appear.
///
/// A paused server keeps a client's create, and also a reconnect that the client abandoned for another
/// server. When the server resumes, the reconnect moves the session back to this server. The leader therefore
/// accepts the late create instead of rejecting it with `SessionMovedException`. The node then blocks the
/// queue until the session ends.
#[derive(Debug, Clone, Default)]
pub struct LateCreates(RefCell<VecDeque<String>>);

impl LateCreates {
    /// More creates than one contender is likely to have outstanding.
    const REMEMBERED: usize = 8;

    pub fn expect(&self, name: &MarkedName) {
        let mut marks = self.0.borrow_mut();
        marks.truncate(Self::REMEMBERED - 1);
        marks.push_front(name.mark.clone());
    }

    /// Deletes the late nodes in a list, except the contender's own node.
    pub async fn delete(
        &self,
        session: &Session,
        lock: &str,
        names: &Names,
        own: &QueueNode,
    ) -> Result<(), Failure> {
        // The usual case: there are no marks to search for.
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

/// Returns the node with this name, including its fencing token, which a list does not show.
pub async fn node_named(session: &Session, lock: &str, name: &str) -> Result<Option<QueueNode>, Failure> {
    let path = format!("{lock}/{name}");
    let found = session.exists(&path).await?;
    let sequence = sequence_of(name);
    Ok(found.zip(sequence).map(|(found, sequence)| QueueNode { path, sequence, czxid: found.czxid }))
}

pub async fn delete_marked(session: &Session, lock: &str, mark: &str) -> Result<(), Failure> {
    let names = if_there(session.get_children(lock).await)?.unwrap_or_default();
    let Some(name) = names.iter().find(|name| name.starts_with(mark)) else { return Ok(()) };
    if_there(session.delete(&format!("{lock}/{name}")).await).map(drop)
}

/// Deletes the node of an abandoned create in the background, if it exists.
///
/// Source: Curator, `FindAndDeleteProtectedNodeInBackground`.
pub fn delete_given_up(session: Session, lock: String, mark: String) {
    runtime::spawn_detached(async move {
        let Some(names) = until_done(async || session.get_children(&lock).await).await else { return };
        let Some(name) = names.iter().find(|name| name.starts_with(&mark)) else { return };
        let path = format!("{lock}/{name}");
        until_done(async || session.delete(&path).await).await;
    });
}

/// Deletes the node, with retries. If they fail, the deletion continues in the background until the node is
/// gone or the session is over.
///
/// Source: Curator, `DeleteBuilderImpl` with `guaranteed`.
pub async fn leave_for_certain(session: &Session, node: QueueNode, retry: Retry) -> Result<(), Failure> {
    let deleted = retry.around(|| node.leave(session)).await;
    if deleted.as_ref().is_err_and(Retry::is_retryable) {
        let session = session.clone();
        runtime::spawn_detached(async move {
            until_done(async || node.leave(&session).await).await;
        });
    }
    deleted
}

/// Repeats a request until it succeeds; `None` if the request is rejected or the session is over.
async fn until_done<T>(request: impl AsyncFn() -> Result<T, Failure>) -> Option<T> {
    loop {
        match request().await {
            Ok(done) => return Some(done),
            Err(failure) if Retry::is_retryable(&failure) => runtime::sleep(BACKGROUND_PAUSE).await,
            Err(_) => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_starts_with_its_mark() {
        let name = MarkedName::curator("0a1b", "lock-");
        assert_eq!((name.mark.as_str(), name.prefix.as_str()), ("_c_0a1b-", "_c_0a1b-lock-"));
    }

    #[test]
    fn late_creates_remember_the_eight_newest_marks() {
        let late = LateCreates::default();
        (0..10).for_each(|one| late.expect(&MarkedName::curator(one, "")));
        let expected: Vec<String> = (2..10).rev().map(|one| format!("_c_{one}-")).collect();
        assert_eq!(Vec::from(late.0.into_inner()), expected);
    }
}
