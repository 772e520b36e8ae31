//! How a holder leaves a queue who could hand the lock on, but does not know whether anybody is behind.
//!
//! A grant to nobody is refused, and a list and a deletion follow: three requests where one would do. A deletion costs the
//! next in the queue, if there is one, a list. The same transaction tells how many are left, so it is also known which of the
//! two would have been better, and the last such releases say which to choose. Nothing but that follows from the number: a later
//! join finds another queue. With p, how often nobody is behind, a deletion costs 1 + (1 - p) requests at most and a grant
//! 1 + 2p, so from p = 1/3 on the deletion is the better one.

use std::cell::Cell;

use crate::lock::queue::lately::Lately;
use crate::lock::{LockConfig, QueueNode};
use crate::words::catalog::{Param, ParamKind};
use crate::world::zk::{Failure, Session};

const COUNT: &str = "count";

/// How the holder leaves, where it can be chosen.
pub const RELEASE: Param = Param {
    name: "release",
    kind: ParamKind::OneOf(&["grant", COUNT]),
    default: "grant",
    doc: "What a holder does that waited and doesn't know who is behind: grant; or, after releases that found nobody, \
          delete and count.",
};

/// If so many of the last three releases found a waiter, the next one grants.
const FOUND_TO_GRANT: usize = 2;

/// How one contender leaves one queue.
#[derive(Debug)]
pub struct Leaving {
    may_count: Cell<bool>,
    found_somebody: Lately,
}

impl Leaving {
    pub fn of(config: &LockConfig) -> Self {
        let may_count = Cell::new(config.is(RELEASE.name, COUNT));
        // Where it is not known, nobody is to wait longer than need be.
        Self { may_count, found_somebody: Lately::always() }
    }

    /// Whether a grant is worth trying.
    pub fn grants(&self) -> bool {
        !self.may_count.get() || self.found_somebody.times() >= FOUND_TO_GRANT
    }

    /// Notes whether a release found a waiter.
    pub fn learn(&self, found_somebody: bool) {
        self.found_somebody.note(found_somebody);
    }

    /// Leaves without a grant, and learns whether one would have been better. Who may not write to the directory deletes, and
    /// grants from then on.
    ///
    /// # Errors
    /// Same errors as [`QueueNode::leave`].
    pub async fn count(&self, session: &Session, lock: &str, node: &QueueNode) -> Result<(), Failure> {
        match session.leave_and_count(lock, &node.path).await {
            Ok(behind) => self.learn(behind > 0),
            // It has left already.
            Err(Failure::NoNode) => {}
            Err(Failure::NoAuth) => {
                self.may_count.set(false);
                node.leave(session).await?;
            }
            Err(failure) => return Err(failure),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grants_while_two_of_the_last_three_releases_found_somebody() {
        let leaving = Leaving { may_count: Cell::new(true), found_somebody: Lately::always() };
        let after = |found: bool| {
            leaving.learn(found);
            leaving.grants()
        };
        assert!(leaving.grants());
        let found = [false, true, false, true, true, false, false];
        assert_eq!(found.map(after), [true, true, false, true, true, true, false]);
    }

    #[test]
    fn who_was_not_asked_to_count_or_may_not_always_grants() {
        let leaving = Leaving { may_count: Cell::new(false), found_somebody: Lately::default() };
        assert!(leaving.grants());
    }
}
