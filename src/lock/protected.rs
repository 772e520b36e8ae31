//! Creating a queue node so that a lost response does not leave it without an owner.
//!
//! The node's name carries a mark that nobody else's has. After a create whose outcome is open the queue is
//! looked through for the mark before another node is created.

use super::QueueNode;
use super::retry::Retry;
use crate::zk::{Failure, Session, reactor, sequence_of};

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
    #[must_use]
    pub fn curator(identifier: impl std::fmt::Display, rest: &str) -> Self {
        let mark = format!("_c_{identifier}-");
        let prefix = format!("{mark}{rest}");
        Self { mark, prefix }
    }
}

/// Creates something that can be found again: after a failure that leaves the outcome open, and as often as the
/// policy allows, looks for what an earlier try has made, and creates again when that is nothing.
///
/// # Errors
/// The create's or the look's failure; an indefinite one may have left nodes, which end with the session.
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

/// The node in a queue that carries that mark.
///
/// # Errors
/// A request's failure, after the retries.
pub async fn find_marked(
    session: &Session,
    lock: &str,
    mark: &str,
    retry: Retry,
) -> Result<Option<QueueNode>, Failure> {
    let names = retry.around(|| session.get_children(lock)).await?;
    let Some(name) = names.into_iter().find(|name| name.starts_with(mark)) else { return Ok(None) };
    retry.around(|| node_named(session, lock, &name)).await
}

/// The node of that name; the list that showed it does not tell its fencing token.
///
/// # Errors
/// The request's failure.
pub async fn node_named(session: &Session, lock: &str, name: &str) -> Result<Option<QueueNode>, Failure> {
    let path = format!("{lock}/{name}");
    let found = session.exists(&path).await?;
    let sequence = sequence_of(name);
    Ok(found.zip(sequence).map(|(found, sequence)| QueueNode { path, sequence, czxid: found.czxid }))
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
