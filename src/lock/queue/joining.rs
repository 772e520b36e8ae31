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

use std::cell::Cell;

use super::creating::{LateCreates, make_containers};
use super::lately::Lately;
use crate::lock::{LockConfig, QueueNode, has_word};
use crate::words::catalog::{LockCard, Param, ParamKind, Params};
use crate::world::zk::{Counted, Failure, Names, Session, sequence_of};

const COUNT: &str = "count";
const CREATE: &str = "create";

/// How a lock joins its queue, where it can be chosen.
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

/// How one contender joins one queue.
#[derive(Debug, Clone)]
pub struct Joining {
    is_asked_for: bool,
    /// The directory can't be written to.
    is_forbidden: Cell<bool>,
    /// Whether to know the count was of use, or would have been, in the last acquires.
    was_of_use: Lately,
    /// Of a queue whose nodes can be recognised.
    pub late: LateCreates,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Joined {
    pub node: QueueNode,
    /// How many nodes the queue had at the transaction that created this one; `None` where nothing told.
    pub queue: Option<u32>,
}

impl Joined {
    /// With a node of which only a list can tell where it stands.
    pub fn untold(node: QueueNode) -> Self {
        Self { node, queue: None }
    }

    /// Whether it is the lowest from the transaction on that created it.
    pub fn is_alone(&self) -> bool {
        self.queue == Some(1)
    }
}

impl Joining {
    pub fn by_create() -> Self {
        Self {
            is_asked_for: false,
            is_forbidden: Cell::default(),
            was_of_use: Lately::default(),
            late: LateCreates::default(),
        }
    }

    pub fn of(param: &Param, config: &LockConfig) -> Self {
        Self {
            is_asked_for: is_count(param, &config.params),
            // Nothing speaks against it yet.
            was_of_use: Lately::always(),
            ..Self::by_create()
        }
    }

    /// Whether it was asked to count; it may not do so every time.
    pub fn is_asked_for(&self) -> bool {
        self.is_asked_for
    }

    /// Whether the next join will count. Among contenders the count saves nothing, and makes each transaction longer.
    pub fn counts(&self) -> bool {
        self.is_asked_for && !self.is_forbidden.get() && self.was_of_use.times() > 0
    }

    /// Notes whether it was of use in this acquire to know the count, or would have been.
    pub fn learn(&self, is_of_use: bool) {
        self.was_of_use.note(is_of_use);
    }

    /// Notes whether it would have been of use to know the count in this acquire, by the first list of its queue: whether
    /// fewer than so many were before, and nobody's nodes but those of the queue.
    pub fn learn_from(&self, node: &QueueNode, names: &Names, most: usize) {
        if self.is_asked_for {
            let has_others = names.iter().any(|name| sequence_of(name).is_none());
            let before = node.nearest_before(names, most).map_or(most, |before| before.len());
            self.learn(!has_others && before < most);
        }
    }

    /// Joins a lock's queue with an ephemeral sequential node named `prefix` plus its number. Who may create nodes in the
    /// lock's directory, but not write to it, creates from then on.
    ///
    /// # Errors
    /// Same errors as [`QueueNode::join`].
    pub async fn join(
        &self,
        session: &Session,
        lock: &str,
        prefix: &str,
        data: &[u8],
    ) -> Result<Joined, Failure> {
        if self.counts() {
            match session.join_and_count(lock, &format!("{lock}/{prefix}"), data).await {
                Err(Failure::NoAuth) => self.is_forbidden.set(true),
                ended => return joined(ended?),
            }
        }
        QueueNode::join(session, lock, prefix, data).await.map(Joined::untold)
    }

    /// As [`Joining::join`]; where it was asked to count, a directory that is missing is made.
    ///
    /// # Errors
    /// Same errors as [`QueueNode::join`].
    pub async fn join_or_make(
        &self,
        session: &Session,
        lock: &str,
        prefix: &str,
        data: &[u8],
    ) -> Result<Joined, Failure> {
        let join = async || self.join(session, lock, prefix, data).await;
        if self.is_asked_for { in_containers(session, lock, join).await } else { join().await }
    }
}

fn joined(counted: Counted) -> Result<Joined, Failure> {
    Ok(Joined { node: QueueNode::of(counted.node)?, queue: counted.children })
}

/// Does what needs a lock's directory; when that is missing, makes it as containers and does it again.
///
/// # Errors
/// What was done, or a request's failure.
pub async fn in_containers<T>(
    session: &Session,
    lock: &str,
    what: impl AsyncFn() -> Result<T, Failure>,
) -> Result<T, Failure> {
    match what().await {
        Err(Failure::NoNode) => {
            make_containers(session, lock).await?;
            what().await
        }
        ended => ended,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::catalog::ParamValue;

    fn joining() -> Joining {
        Joining { is_asked_for: true, was_of_use: Lately::always(), ..Joining::by_create() }
    }

    #[test]
    fn it_goes_on_counting_until_that_was_of_no_use_three_times_and_begins_again_after_one_of_use() {
        let joining = joining();
        for _ in 0..2 {
            joining.learn(false);
            assert!(joining.counts());
        }
        joining.learn(false);
        assert!(!joining.counts());
        joining.learn(true);
        assert!(joining.counts());
        for _ in 0..2 {
            joining.learn(false);
            assert!(joining.counts());
        }
        joining.learn(false);
        assert!(!joining.counts());
    }

    #[test]
    fn who_was_not_asked_to_count_or_may_not_never_does() {
        let create = Joining::by_create();
        create.learn(true);
        assert!(!create.counts() && !create.is_asked_for());
        let forbidden = joining();
        forbidden.is_forbidden.set(true);
        assert!(!forbidden.counts() && forbidden.is_asked_for());
    }

    #[test]
    fn a_card_says_how_it_joins_where_nothing_is_set() {
        let card = |name: &str| crate::lock::find(name).unwrap().card;
        let set = |word: &str| Params::from([(JOIN.name.to_owned(), ParamValue::Word(word.to_owned()))]);
        let of = |name: &str, params: &Params| joins_by_count(&card(name), params);
        let none = Params::new();
        assert_eq!([of("baton", &none), of("count", &none), of("ticket", &none)], [false, true, false]);
        assert_eq!([of("baton", &set(COUNT)), of("count", &set(CREATE))], [true, false]);
        assert_eq!([of("baton", &set(CREATE)), of("count", &set(COUNT))], [false, true]);
        assert!(!of("ticket", &set(COUNT)));
    }
}
