//! Ways to join a queue: by a create, or by a transaction that also returns the number of nodes ahead.
//!
//! Proof for every lock that joins by the transaction. The transaction, z, creates the node and sets the
//! directory's data. The reply contains the directory's stat as of z, including the number of children, c.
//! Every server applies transactions one by one in the leader's order, so c counts exactly the nodes that
//! exist at z. The leader increments the directory's counter with every create. Therefore, the other nodes
//! that exist at z have lower numbers, and later nodes have higher ones: c − 1 nodes are ahead, and no node
//! can be added to them. If c = 1, the contender's node is the lowest from z until its deletion; other locks
//! need a list to show this. Earlier holders no longer have a node at z.
//!
//! A count that is read later proves nothing, because it includes the nodes behind.
//!
//! Numbers grow up to 2^31 - 2. A node with the next number, or a negative one, is deleted without acquiring
//! the lock. All nodes that exist at the same time as a node with a unique number were created while the
//! counter still grew.

use std::cell::Cell;

use super::directories::in_containers;
use super::node::if_there;
use super::protection::{LateCreates, MarkedName, created_or_found, delete_given_up, find_marked};
use super::retry::Retry;
use crate::{LockConfig, QueueNode, has_word};
use zklockbench_core::catalog::{LockCard, Param, ParamKind, Params, Protection};
use zklockbench_zk::{Failure, Names, Op, Session, sequence_of};

pub const COUNT: &str = "count";
const CREATE: &str = "create";

pub const JOIN: Param = Param {
    name: "join",
    kind: ParamKind::OneOf(&[CREATE, COUNT]),
    default: CREATE,
    doc: "The request that joins the queue: a create, or a multi that also reports the number of nodes \
        ahead, as `count` does.",
};

/// [`JOIN`] for locks that join by count by default.
pub const COUNTING: Param = Param { default: COUNT, ..JOIN };

pub fn joins_by_count(card: &LockCard, params: &Params) -> bool {
    card.params.iter().any(|param| param.name == JOIN.name && is_count(param, params))
}

pub fn is_count(param: &Param, params: &Params) -> bool {
    match param.default {
        COUNT => !has_word(params, JOIN.name, CREATE),
        _ => has_word(params, JOIN.name, COUNT),
    }
}

#[derive(Debug, Clone)]
pub struct Joining {
    pub data: &'static [u8],
    /// How a contender finds its node by the unique mark after an unanswered create, before it creates
    /// another node.
    ///
    /// `Unsynced` follows Curator: it searches without a sync, unless the queue is joined by count, and
    /// deletes the node of an abandoned create in the background. `Complete` sends a sync before each search.
    pub protection: Protection,
    /// Retry policy for creates and searches.
    pub retry: Retry,
    /// Whether the first list is sent with the create.
    pub lists_along: bool,
    /// Largest queue length, including the contender's own node, for which the count is useful.
    pub helped_up_to: usize,
    pub late: LateCreates,
    pub count: Counting,
}

#[derive(Debug, Clone, Default)]
pub struct Counting {
    /// Whether counting is configured. Even then, a join may skip the count (see [`Joining::counts`]).
    is_asked_for: bool,
    /// Whether the ACL of the directory denied a write.
    is_forbidden: Cell<bool>,
    /// Whether the count was useful, or would have been, in each of the last three acquires.
    was_of_use: Lately,
}

/// A node in a queue, with the additional results of its create.
#[derive(Debug)]
pub struct Joined {
    pub node: QueueNode,
    /// Length of the queue at the transaction that created the node; `None` if unknown.
    pub queue: Option<u32>,
    /// List requested in the same flush as the create.
    pub listed: Option<Names>,
}

impl Joined {
    /// Wraps a node whose position only a list can show.
    pub fn untold(node: QueueNode) -> Self {
        Self { node, queue: None, listed: None }
    }

    /// Returns whether the node has been the lowest since its create.
    pub fn is_alone(&self) -> bool {
        self.queue == Some(1)
    }
}

impl Joining {
    /// Joins with one create. A lost connection or a missing directory ends the attempt.
    pub fn by_create() -> Self {
        Self {
            data: &[],
            protection: Protection::None,
            retry: Retry::NEVER,
            lists_along: false,
            helped_up_to: 1,
            late: LateCreates::default(),
            count: Counting::default(),
        }
    }

    pub fn of(param: &Param, config: &LockConfig) -> Self {
        // Joins by count until three acquires in a row gain nothing from the count.
        let was_of_use = Lately::always();
        let count =
            Counting { is_asked_for: is_count(param, &config.params), was_of_use, ..Counting::default() };
        Self { count, ..Self::by_create() }
    }

    /// Returns whether the next join counts the nodes ahead. Under contention, the count saves nothing and
    /// makes each transaction longer.
    pub fn counts(&self) -> bool {
        self.count.is_asked_for && !self.count.is_forbidden.get() && self.count.was_of_use.times() > 0
    }

    /// Records whether the count was useful in this acquire, or would have been.
    pub fn learn(&self, is_of_use: bool) {
        self.count.was_of_use.note(is_of_use);
    }

    /// Records whether the count would have been useful in this acquire, judged by its first list: few enough
    /// nodes ahead, and only queue nodes in the directory.
    pub fn learn_from(&self, node: &QueueNode, names: &Names) {
        if self.count.is_asked_for {
            let most = self.helped_up_to;
            let has_others = names.iter().any(|name| sequence_of(name).is_none());
            let before = node.nearest_before(names, most).map_or(most, |before| before.len());
            self.learn(!has_others && before < most);
        }
    }

    /// Joins a lock's queue with an ephemeral sequential node whose name ends with `kind` and its number. If
    /// the ACL denies writes to the directory, later joins use plain creates. A missing directory is created
    /// if the join is protected or counts.
    ///
    /// # Errors
    /// The create failed. After an indefinite failure, a node may exist until the session ends.
    pub async fn join(&self, session: &Session, lock: &str, kind: &str) -> Result<Joined, Failure> {
        if self.protection != Protection::None {
            return self.join_marked(session, lock, kind).await;
        }
        let join = async || self.once(session, lock, kind).await;
        if self.count.is_asked_for { in_containers(session, lock, join).await } else { join().await }
    }

    async fn join_marked(&self, session: &Session, lock: &str, kind: &str) -> Result<Joined, Failure> {
        let name = MarkedName::curator(uuid::Uuid::new_v4(), kind);
        if let Some(joined) = self.list_along(session, lock, &name).await? {
            return Ok(joined);
        }
        let join = async || self.once(session, lock, &name.prefix).await;
        let joined = created_or_found(
            self.retry,
            async || in_containers(session, lock, &join).await,
            async || self.find(session, lock, &name).await,
        );
        let joined = joined.await;
        if self.protection == Protection::Unsynced && joined.as_ref().is_err_and(Retry::is_retryable) {
            delete_given_up(session.clone(), lock.to_owned(), name.mark);
        }
        joined
    }

    /// Tries once, with a create and a list in one flush; `None` if the count may make a list unnecessary, or
    /// if the attempt had no effect.
    async fn list_along(
        &self,
        session: &Session,
        lock: &str,
        name: &MarkedName,
    ) -> Result<Option<Joined>, Failure> {
        if !self.lists_along || self.counts() {
            return Ok(None);
        }
        let list = || session.get_children(lock);
        match QueueNode::join_and(session, lock, &name.prefix, self.data, list).await {
            Ok((node, listed)) => Ok(Some(Joined { listed: listed.ok(), ..Joined::untold(node) })),
            Err(Failure::NoNode) => Ok(None),
            Err(Failure::ConnectionLoss) => self.find(session, lock, name).await,
            Err(failure) => Err(failure),
        }
    }

    async fn once(&self, session: &Session, lock: &str, prefix: &str) -> Result<Joined, Failure> {
        if self.counts() {
            let join = Op::Join { path: &format!("{lock}/{prefix}"), data: self.data };
            match session.join_all(&[join], lock).await {
                Err(Failure::NoAuth) => self.count.is_forbidden.set(true),
                ended => {
                    let (node, queue) = match ended {
                        Ok((mut nodes, queue)) => (nodes.pop().ok_or(Failure::ConnectionLoss), queue),
                        Err(failure) => (Err(failure), None),
                    };
                    let node = QueueNode::of(session, lock, node).await?;
                    return Ok(Joined { queue, ..Joined::untold(node) });
                }
            }
        }
        QueueNode::join(session, lock, prefix, self.data).await.map(Joined::untold)
    }

    /// Finds the node of a create whose reply was lost. Its position is unknown until the next list.
    ///
    /// After a sync, the list shows every create that the leader had received before. If the node is missing,
    /// its create may still arrive late. A follower answers a sync after the proposals in progress. The
    /// leader keeps the order of a session's requests, even across servers
    /// (`CommitProcessor.pendingRequests`).
    async fn find(
        &self,
        session: &Session,
        lock: &str,
        name: &MarkedName,
    ) -> Result<Option<Joined>, Failure> {
        let syncs = self.count.is_asked_for || self.protection == Protection::Complete;
        if syncs {
            self.retry.around(|| session.sync(lock)).await?;
        }
        let found = if_there(find_marked(session, lock, &name.mark, self.retry).await)?.flatten();
        if syncs && found.is_none() {
            self.late.expect(name);
        }
        Ok(found.map(Joined::untold))
    }
}

const REMEMBERED: usize = 3;

/// Whether a condition held in each of the last three cases, as a prediction for the next case.
#[derive(Debug, Clone, Default)]
pub struct Lately(Cell<[bool; REMEMBERED]>);

impl Lately {
    /// Returns a history in which the condition always held.
    pub fn always() -> Self {
        Self(Cell::new([true; REMEMBERED]))
    }

    pub fn note(&self, is_so: bool) {
        let [_, before, last] = self.0.get();
        self.0.set([before, last, is_so]);
    }

    pub fn times(&self) -> usize {
        self.0.get().iter().filter(|is_so| **is_so).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zklockbench_core::catalog::ParamValue;

    fn joining() -> Joining {
        let count = Counting { is_asked_for: true, was_of_use: Lately::always(), ..Counting::default() };
        Joining { count, ..Joining::by_create() }
    }

    #[test]
    fn joining_stops_counting_after_three_useless_counts_and_resumes_after_a_useful_count() {
        let joining = joining();
        let after = |is_of_use| {
            joining.learn(is_of_use);
            joining.counts()
        };
        let of_use = [false, false, false, true, false, false, false];
        assert_eq!(of_use.map(after), [true, true, false, true, true, true, false]);
    }

    #[test]
    fn joining_never_counts_if_counting_is_forbidden_or_not_configured() {
        let create = Joining::by_create();
        create.learn(true);
        assert!(!create.counts());
        let forbidden = joining();
        forbidden.count.is_forbidden.set(true);
        assert!(!forbidden.counts() && forbidden.count.is_asked_for);
    }

    #[test]
    fn unconfigured_lock_joins_by_the_default_on_its_card() {
        let card = |name: &str| crate::find(name).unwrap().card;
        let set = |word: &str| Params::from([(JOIN.name.to_owned(), ParamValue::Word(word.to_owned()))]);
        let of = |name: &str, params: &Params| joins_by_count(&card(name), params);
        let none = Params::new();
        assert_eq!([of("baton", &none), of("count", &none), of("ticket", &none)], [false, true, false]);
        assert_eq!([of("baton", &set(COUNT)), of("count", &set(CREATE))], [true, false]);
        assert_eq!([of("baton", &set(CREATE)), of("count", &set(COUNT))], [false, true]);
        assert!(!of("ticket", &set(COUNT)));
    }
}
