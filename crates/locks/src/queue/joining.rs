//! How a queue is joined: by a create, or by one transaction that tells at once who is before.
//!
//! The proof, for every lock that joins by the transaction. It creates the node and sets the directory's data, and a server
//! answers the latter with the directory's stat as it is right after that: with the number of its children, c. Each server
//! applies one transaction after the other in the order that the leader gave them, so c counts exactly the nodes that are
//! there at this transaction, z. Numbers come from a counter that the leader raises with every create: nodes that are there
//! beside the own have lower numbers, and nodes that come later have higher ones. So c − 1 nodes are before the own at z, and
//! from then on they can only go. With c = 1 the own node is the lowest from z until it is deleted, which is what every
//! other lock of this folder waits for a list to show. Whoever held before has no node at z any more.
//!
//! A count that is read later can't do this: it includes those behind.
//!
//! Numbers grow up to 2^31 - 2. A node with the number after that, or with a negative one, is deleted and lets nobody in: all
//! nodes that are there beside one with a unique number were created while the counter still grew.

use std::cell::Cell;

use super::directories::in_containers;
use super::node::if_there;
use super::protection::{LateCreates, MarkedName, created_or_found, delete_given_up, find_marked};
use super::retry::Retry;
use crate::{LockConfig, QueueNode, has_word};
use zklockbench_core::catalog::{LockCard, Param, ParamKind, Params, Protection};
use zklockbench_zk::{Failure, Names, Session, sequence_of};

pub const COUNT: &str = "count";
const CREATE: &str = "create";

pub const JOIN: Param = Param {
    name: "join",
    kind: ParamKind::OneOf(&[CREATE, COUNT]),
    default: CREATE,
    doc: "The request that joins the queue: a create, or a multi that also tells how many are before, as `count` does.",
};

/// The same for a lock that is about joining by count.
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
    /// Whether its nodes have marked names, by which one is found again whose create got no answer, before another is created.
    ///
    /// `Unsynced` is Curator's way: it looks without a sync, unless the queue is joined in another way than Curator's, and for
    /// a node whose create is given up in the background, to delete it. `Complete` asks for a sync before each look.
    pub protection: Protection,
    /// How often it creates and looks.
    pub retry: Retry,
    /// Whether the first list goes along with a create.
    pub lists_along: bool,
    /// With so many in the queue, its own node included, it is of use to know the count.
    pub helped_up_to: usize,
    pub late: LateCreates,
    pub count: Counting,
}

#[derive(Debug, Clone, Default)]
pub struct Counting {
    /// It may not do so every time.
    is_asked_for: bool,
    /// The directory can't be written to.
    is_forbidden: Cell<bool>,
    /// Whether to know the count was of use, or would have been, in the last acquires.
    was_of_use: Lately,
}

/// A node in a queue, and what the request that made it has told beside.
#[derive(Debug)]
pub struct Joined {
    pub node: QueueNode,
    /// How many nodes the queue had at the transaction that created this one; `None` where nothing told.
    pub queue: Option<u32>,
    /// The list that was sent along.
    pub listed: Option<Names>,
}

impl Joined {
    /// With a node of which only a list can tell where it stands.
    pub fn untold(node: QueueNode) -> Self {
        Self { node, queue: None, listed: None }
    }

    /// Whether it is the lowest from the transaction on that created it.
    pub fn is_alone(&self) -> bool {
        self.queue == Some(1)
    }
}

impl Joining {
    /// By one create. A lost connection ends it, and so does a missing directory.
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
        // Nothing speaks against it yet.
        let was_of_use = Lately::always();
        let count =
            Counting { is_asked_for: is_count(param, &config.params), was_of_use, ..Counting::default() };
        Self { count, ..Self::by_create() }
    }

    /// Whether the next join will count. Among contenders the count saves nothing, and makes each transaction longer.
    pub fn counts(&self) -> bool {
        self.count.is_asked_for && !self.count.is_forbidden.get() && self.count.was_of_use.times() > 0
    }

    /// Notes whether it was of use in this acquire to know the count, or would have been.
    pub fn learn(&self, is_of_use: bool) {
        self.count.was_of_use.note(is_of_use);
    }

    /// Notes whether it would have been of use to know the count in this acquire, by the first list of its queue: whether few
    /// enough were before, and nobody's nodes but those of the queue.
    pub fn learn_from(&self, node: &QueueNode, names: &Names) {
        if self.count.is_asked_for {
            let most = self.helped_up_to;
            let has_others = names.iter().any(|name| sequence_of(name).is_none());
            let before = node.nearest_before(names, most).map_or(most, |before| before.len());
            self.learn(!has_others && before < most);
        }
    }

    /// Joins a lock's queue with an ephemeral sequential node whose name ends with that kind plus its number. Who may create
    /// nodes in the lock's directory, but not write to it, creates from then on. With protection, and where it was asked to
    /// count, a directory that is missing is made.
    ///
    /// # Errors
    /// The failure of a create; an indefinite one may have left a node, which ends with the session.
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

    /// One try, by a create and a list in one flush; `None` where the count won't leave a need for a list, or nothing came of
    /// it.
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
            match session.join_and_count(lock, &format!("{lock}/{prefix}"), self.data).await {
                Err(Failure::NoAuth) => self.count.is_forbidden.set(true),
                ended => {
                    let (node, queue) = match ended {
                        Ok(counted) => (Ok(counted.node), counted.children),
                        Err(failure) => (Err(failure), None),
                    };
                    let node = QueueNode::of(session, lock, node).await?;
                    return Ok(Joined { queue, ..Joined::untold(node) });
                }
            }
        }
        QueueNode::join(session, lock, prefix, self.data).await.map(Joined::untold)
    }

    /// The node of a create whose reply was lost, which only a list tells the place of. A directory that is missing has none.
    ///
    /// After a sync the list shows all that the leader had begun; what isn't there then is expected later. A follower has its
    /// sync answered behind the proposals that are under way; at the leader the session's own requests keep their order,
    /// those that came by another server included (`CommitProcessor.pendingRequests`).
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

/// Whether it was so, each of the last times: what a contender goes by where nothing tells it what it will find.
#[derive(Debug, Clone, Default)]
pub struct Lately(Cell<[bool; REMEMBERED]>);

impl Lately {
    /// As if it had always been so.
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
    fn it_goes_on_counting_until_that_was_of_no_use_three_times_and_begins_again_after_one_of_use() {
        let joining = joining();
        let after = |is_of_use| {
            joining.learn(is_of_use);
            joining.counts()
        };
        let of_use = [false, false, false, true, false, false, false];
        assert_eq!(of_use.map(after), [true, true, false, true, true, true, false]);
    }

    #[test]
    fn who_was_not_asked_to_count_or_may_not_never_does() {
        let create = Joining::by_create();
        create.learn(true);
        assert!(!create.counts());
        let forbidden = joining();
        forbidden.count.is_forbidden.set(true);
        assert!(!forbidden.counts() && forbidden.count.is_asked_for);
    }

    #[test]
    fn a_card_says_how_it_joins_where_nothing_is_set() {
        let card = |name: &str| crate::find(name).unwrap().card;
        let set = |word: &str| Params::from([(JOIN.name.to_owned(), ParamValue::Word(word.to_owned()))]);
        let of = |name: &str, params: &Params| joins_by_count(&card(name), params);
        let none = Params::new();
        assert_eq!([of("baton", &none), of("count", &none), of("ticket", &none)], [false, true, false]);
        assert_eq!([of("baton", &set(COUNT)), of("count", &set(CREATE))], [true, false]);
        assert_eq!([of("baton", &set(CREATE)), of("count", &set(COUNT))], [false, true]);
        assert!(!of("ticket", &set(COUNT)));
    }

    #[test]
    fn only_the_last_three_times_count() {
        let lately = Lately::always();
        let after = |is_so| {
            lately.note(is_so);
            lately.times()
        };
        assert_eq!([false, false, true, false, false, false, true].map(after), [2, 1, 1, 1, 1, 0, 1]);
        assert_eq!((Lately::default().times(), Lately::always().times()), (0, 3));
    }
}
