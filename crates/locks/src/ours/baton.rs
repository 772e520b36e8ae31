//! `baton`: the holder hands the lock to the next waiter by writing into the waiter's node.

use std::cell::Cell;
use std::mem::take;

use futures_util::future::join;

use crate::after::{DirectoryDeleted, ENDS, ENDS_BY_COUNT, Fails, OwnNodeMissing};
use crate::prelude::*;
use crate::queue::joining::{COUNT, Lately};
use crate::queue::node::{if_there, watch_data};
use crate::wait::{AnyEvent, blocks, cost_of_tries};
use zklockbench_zk::Op;

const PREFIX: &str = "n-";
/// Largest queue length, including the contender's own node, for which the count saves requests.
const HELPED_UP_TO: usize = 2;
/// Data that a holder writes into the node of the waiter that gets the lock.
const GRANT: &[u8] = b"go";
/// The next release grants if at least this many of the last three releases found a waiter.
const FOUND_TO_GRANT: usize = 2;

/// How a holder releases the lock.
pub const RELEASE: Param = Param {
    name: "release",
    kind: ParamKind::OneOf(&["grant", COUNT]),
    default: "grant",
    doc: "How a holder that was admitted without a list releases the lock: by a grant or, after releases without a \
        waiter, by a delete that counts the waiters.",
};

pub const ENTRY: Entry = Entry {
    card: LockCard {
        name: "baton",
        summary: "a release writes a grant into the next waiter's node; the waiter's watch reports it, without a read",
        source: "this suite, after the queue lock of shared-memory systems (MCS)",
        details: include_str!("baton.md").trim_ascii_end(),
        guarantees: Guarantees::QUEUE,
        after: &[ENDS.but([(DirectoryDeleted, Fails(OwnNodeMissing))]), ENDS_BY_COUNT.with(JOIN.name, COUNT)],
        params: &[JOIN, RELEASE],
        batch_cost: Some(|params, n| batch_cost(&JOIN, params, n)),
        ..LockCard::OF_ZOOKEEPER
    },
    build: |config: &LockConfig| Box::new(Baton::new(&JOIN, config)),
};

pub fn batch_cost(join: &Param, params: &Params, n: u64) -> BatchCost {
    match (blocks(params), is_count(join, params)) {
        (false, _) => cost_of_tries(),
        (true, true) => counted(n),
        (true, false) => created(n),
    }
}

/// Computes the cost of joins by count. The count admits the first contender, the deletion of its node admits
/// the second, and grants admit all others. The last contender has no waiter to grant to.
fn counted(n: u64) -> BatchCost {
    let granted = n.saturating_sub(2);
    let last_looks = u64::from(n > 1);
    BatchCost {
        requests: vec![
            (Multi, n + granted + last_looks),
            (GetDataWatch, n - 1),
            (GetChildrenWatch, granted),
            (GetChildren, last_looks),
            (Delete, 1 + last_looks),
        ],
        refused: vec![(Multi, last_looks)],
        written_by_multis: 2 * n + 2 * granted,
        events: Events { node_deleted: n - 1, data_changed: granted, ..Events::default() },
        to_waiters_by_release: n - 1 + granted,
        names_returned: Some(last_looks),
        ..BatchCost::default()
    }
}

fn created(n: u64) -> BatchCost {
    // Lists admit the first two contenders, and grants admit all others. The last contender has no waiter to
    // grant to.
    let listed = n.min(2);
    let granted = n - listed;
    let after_the_first_release = n.saturating_sub(1);
    let last_looks = u64::from(granted > 0);
    BatchCost {
        requests: vec![
            (Create, n),
            (GetDataWatch, n),
            (GetChildrenWatch, n),
            (GetChildren, listed + last_looks),
            (Multi, granted + last_looks),
            (Delete, n - granted),
        ],
        refused: vec![(GetChildrenWatch, 1), (Multi, last_looks)],
        written_by_multis: 2 * granted,
        events: Events { node_deleted: n - 1 + listed, data_changed: granted, ..Events::default() },
        to_waiters_by_release: n - 1 + granted,
        to_releaser: listed,
        names_returned: Some(1 + after_the_first_release + last_looks),
        ..BatchCost::default()
    }
}

#[derive(Default)]
enum Behind {
    #[default]
    NextNumber,
    /// The next waiter according to a list, if any.
    Listed(Option<String>),
}

pub struct Baton {
    lock: String,
    joining: Joining,
    leaving: Leaving,
    blocking: bool,
    behind: Behind,
    connection: AnyEvent,
}

enum BatonEvent {
    Own(EventKind),
    BeforeIsGone,
    Reconnected,
}

#[async_trait(?Send)]
impl Strategy for Baton {
    async fn acquire(&mut self, session: &Session, _: Mode, patience: &Patience) -> Acquired {
        let joined = self.joining.join(session, &self.lock, PREFIX).await?;
        let waited = self.wait(session, &joined, patience).await;
        let node = joined.node;
        match waited {
            Ok(behind) => {
                self.behind = behind;
                Ok(Held::by(node))
            }
            Err(why) => Err(node.give_up(session, why).await),
        }
    }

    async fn release(&mut self, session: &Session, held: Held) -> Result<(), Failure> {
        let Some(node) = held.node else { return Ok(()) };
        let mut next = match take(&mut self.behind) {
            Behind::NextNumber if !self.leaving.grants() => {
                return self.leaving.count(session, &self.lock, &node).await;
            }
            Behind::NextNumber => Some(format!("{}/{}", self.lock, node.name_at(PREFIX, 1))),
            Behind::Listed(next) => next,
        };
        while let Some(path) = next {
            match session.multi(&[Op::SetData(&path, GRANT), Op::Delete(&node.path)]).await {
                Ok(_) => {
                    self.leaving.learn(true);
                    return Ok(());
                }
                Err(Failure::NoNode) => next = self.look_behind(session, &node).await?,
                Err(failure) => return Err(failure),
            }
            if next.is_none() {
                self.leaving.learn(false);
            }
        }
        node.leave(session).await
    }
}

impl Baton {
    pub fn new(join: &Param, config: &LockConfig) -> Self {
        Self {
            lock: config.path.clone(),
            joining: Joining { helped_up_to: HELPED_UP_TO, ..Joining::of(join, config) },
            leaving: Leaving::of(config),
            blocking: blocks(&config.params),
            behind: Behind::default(),
            connection: AnyEvent::default(),
        }
    }

    async fn wait(&mut self, session: &Session, joined: &Joined, patience: &Patience) -> Acquired<Behind> {
        if !self.blocking || patience.tries_once {
            return self.look_once(session, joined).await;
        }
        if joined.queue == Some(2) {
            if let Some(behind) = self.wait_as_second(session, &joined.node, patience).await? {
                self.joining.learn(true);
                return Ok(behind);
            }
        } else if joined.is_alone() {
            self.joining.learn(true);
            return Ok(Behind::Listed(None));
        }
        self.wait_for_turn(session, &joined.node, patience).await
    }

    /// Checks the position once. The count is enough to show whether the contender is alone.
    async fn look_once(&self, session: &Session, joined: &Joined) -> Acquired<Behind> {
        if joined.is_alone() {
            return Ok(Behind::Listed(None));
        }
        if joined.queue.is_none() {
            let names = session.get_children(&self.lock).await?;
            if joined.node.nearest_before(&names, 1)?.is_empty() {
                return Ok(Behind::Listed(self.behind_in(&joined.node, &names)?));
            }
        }
        Err(AcquireError::TimedOut)
    }

    /// Waits until the only node ahead is deleted, with or without a grant. `None` if another node is ahead.
    async fn wait_as_second(
        &self,
        session: &Session,
        node: &QueueNode,
        patience: &Patience,
    ) -> Acquired<Option<Behind>> {
        let only = format!("{}/{}", self.lock, node.name_at(PREFIX, -1));
        let Some(mut watch) = watch_data(session, &only).await? else {
            // The node is already gone, or has another name.
            let names = session.get_children(&self.lock).await?;
            let is_first = node.nearest_before(&names, 1)?.is_empty();
            return Ok(if is_first { Some(Behind::Listed(self.behind_in(node, &names)?)) } else { None });
        };
        let event = patience.wait(watch.changed()).await?;
        Ok((event == EventKind::NodeDeleted).then_some(Behind::NextNumber))
    }

    async fn wait_for_turn(
        &mut self,
        session: &Session,
        node: &QueueNode,
        patience: &Patience,
    ) -> Acquired<Behind> {
        let path = format!("{}/{}", self.lock, node.name_at(PREFIX, -1));
        let (own, before) = join(session.get_data_and_watch(&node.path), watch_end(session, &path)).await;
        let (data, mut own) = own.map_err(own_is_missing)?;
        let mut before = before?;
        if data == GRANT {
            return Ok(Behind::NextNumber);
        }
        let mut is_first_look = before.is_none();
        if !is_first_look {
            self.joining.learn(false);
        }
        loop {
            let Some(end) = &mut before else {
                let names = session.get_children(&self.lock).await?;
                if take(&mut is_first_look) {
                    self.joining.learn_from(node, &names);
                }
                let Some(nearest) = node.nearest_before(&names, 1)?.pop() else {
                    return Ok(Behind::Listed(self.behind_in(node, &names)?));
                };
                drop(names);
                before = watch_end(session, &format!("{}/{nearest}", self.lock)).await?;
                continue;
            };
            match patience.wait(self.next(session, &mut own, end)).await? {
                BatonEvent::Own(EventKind::DataChanged) => return Ok(Behind::NextNumber),
                BatonEvent::Own(EventKind::SessionOver) => return Err(Failure::SessionExpired.into()),
                BatonEvent::Own(_) => return Err(Failure::OwnNodeMissing.into()),
                BatonEvent::BeforeIsGone => before = None,
                BatonEvent::Reconnected => {
                    let (data, _) = session.get_data(&node.path).await.map_err(own_is_missing)?;
                    if data == GRANT {
                        return Ok(Behind::NextNumber);
                    }
                }
            }
        }
    }

    /// Returns the next event. A grant takes precedence over the deletion, as in the server's order.
    async fn next(&mut self, session: &Session, own: &mut Watch, before: &mut Watch) -> BatonEvent {
        tokio::select! {
            biased;
            event = own.changed() => BatonEvent::Own(event),
            _ = before.changed() => BatonEvent::BeforeIsGone,
            () = self.connection.reconnected(session) => BatonEvent::Reconnected,
        }
    }

    /// Finds the next waiter. Also returns `None` if the holder's own node is gone.
    async fn look_behind(&self, session: &Session, node: &QueueNode) -> Result<Option<String>, Failure> {
        let names = session.get_children(&self.lock).await?;
        match self.behind_in(node, &names) {
            // Waiters without unique numbers fail, so none of them can be next.
            Err(Failure::OwnNodeMissing | Failure::CounterUsedUp(_)) => Ok(None),
            found => found,
        }
    }

    fn behind_in(&self, node: &QueueNode, names: &Names) -> Result<Option<String>, Failure> {
        Ok(node.next_behind(names)?.map(|name| format!("{}/{name}", self.lock)))
    }
}

fn own_is_missing(failure: Failure) -> Failure {
    if failure == Failure::NoNode { Failure::OwnNodeMissing } else { failure }
}

/// Watches for the deletion of a queue node; `None` if the node is already gone.
async fn watch_end(session: &Session, path: &str) -> Result<Option<Watch>, Failure> {
    Ok(if_there(session.get_children_and_watch(path).await)?.map(|(_, watch)| watch))
}

/// Release by a holder that does not know whether there is a waiter.
///
/// A grant without a waiter is refused, and a list and a deletion follow: three requests instead of one. A
/// deletion costs the next waiter, if there is one, a list. The deleting transaction also returns the number
/// of nodes left, which shows whether a grant would have been better. The last three releases decide. The
/// number is only a prediction, because a later join finds another queue.
///
/// Let p be the share of releases that find no waiter. A deletion costs at most 1 + (1 - p) requests, and a grant
/// costs 1 + 2p, so the deletion is better if p is at least 1/3.
#[derive(Debug)]
struct Leaving {
    may_count: Cell<bool>,
    found_a_waiter: Lately,
}

impl Leaving {
    fn of(config: &LockConfig) -> Self {
        let may_count = Cell::new(config.is(RELEASE.name, COUNT));
        // Until the first release, assume a waiter, so that no waiter waits longer than necessary.
        Self { may_count, found_a_waiter: Lately::always() }
    }

    fn grants(&self) -> bool {
        !self.may_count.get() || self.found_a_waiter.times() >= FOUND_TO_GRANT
    }

    fn learn(&self, found_a_waiter: bool) {
        self.found_a_waiter.note(found_a_waiter);
    }

    /// Leaves without a grant, and records whether a grant would have been better. If the ACL denies writes
    /// to the directory, deletes the node, and always grants from then on.
    async fn count(&self, session: &Session, lock: &str, node: &QueueNode) -> Result<(), Failure> {
        match session.leave_and_count(lock, &node.path).await {
            Ok(behind) => self.learn(behind > 0),
            // The node is already gone.
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
    fn holder_grants_while_two_of_the_last_three_releases_found_a_waiter() {
        let leaving = Leaving { may_count: Cell::new(true), found_a_waiter: Lately::always() };
        let after = |found: bool| {
            leaving.learn(found);
            leaving.grants()
        };
        assert!(leaving.grants());
        let found = [false, true, false, true, true, false, false];
        assert_eq!(found.map(after), [true, true, false, true, true, true, false]);
    }

    #[test]
    fn holder_that_may_not_count_waiters_always_grants_the_lock() {
        let leaving = Leaving { may_count: Cell::new(false), found_a_waiter: Lately::default() };
        assert!(leaving.grants());
    }
}
