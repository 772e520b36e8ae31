//! How the Java classes of the three-strategy article differ from ZooKeeper's recipes: they poll a flag, and
//! have flaws.

use std::future::pending;

use crate::after::{
    After, ConnectionLoss, ENDS, Event, Fails, GoesOn, NoDirectory, Outcome, OwnNodeDeleted, SessionMoved,
    TimedOutInBackOff, TimesOut, WithoutNode,
};
use crate::prelude::*;
use crate::wait::{FLAG_INTERVAL, Flag};
use zklockbench_zk::SessionState;

pub const ARTICLE: &str = "article";

/// Prefix of all node names in the article's classes.
const PREFIX: &str = "temp";

pub const WATCHING_CLASS: Param = Param {
    kind: ParamKind::Choice(&[
        Choice { word: "textbook", takes: &["wake", "while_holding", FLAG_INTERVAL.name, JOIN.name] },
        Choice { word: ARTICLE, takes: &[FLAG_INTERVAL.name, DIRECTORY.name] },
    ]),
    ..CLASS
};

pub const CLASS: Param = Param {
    name: "class",
    kind: ParamKind::Choice(&[
        Choice { word: "textbook", takes: &[] },
        Choice { word: ARTICLE, takes: &[DIRECTORY.name] },
    ]),
    default: "textbook",
    doc: "Whether to use the recipe, or the three-strategy article's class with its flaws.",
};

const MISSING: &str = "missing";

pub const DIRECTORY: Param = Param {
    name: "directory",
    kind: ParamKind::OneOf(&["there", MISSING]),
    default: "there",
    doc: "`missing`: the lock uses a subdirectory that the first contenders create; only with `class = \"article\"`.",
};

pub fn lock(config: &LockConfig) -> String {
    let path = &config.path;
    if config.is(DIRECTORY.name, MISSING) { format!("{path}/printed") } else { path.clone() }
}

/// Events after which the class behaves differently from the recipe.
pub const OTHERWISE: [(Event, Outcome); 4] = [
    (SessionMoved, Fails(ConnectionLoss)),
    (TimedOutInBackOff, TimesOut),
    (OwnNodeDeleted, WithoutNode),
    (NoDirectory, GoesOn),
];

pub const AFTER: After = ENDS.but(OTHERWISE).with(CLASS.name, ARTICLE);

pub fn is_asked_for(config: &LockConfig) -> bool {
    config.is(CLASS.name, ARTICLE)
}

/// Computes the cost of a batch for the class from the cost for the recipe.
pub fn batch_cost(mut of_recipe: BatchCost, params: &Params, n: u64) -> BatchCost {
    if has_word(params, CLASS.name, ARTICLE) {
        of_recipe.requests.push((Exists, n));
        // The number of contenders that find the directory missing depends on timing.
        of_recipe.open |= has_word(params, DIRECTORY.name, MISSING);
    }
    of_recipe
}

/// Joins the queue. The article's class first checks that its directory exists. Returns `None` if another
/// contender has just created the directory; the class then waits without a node.
pub async fn join(session: &Session, lock: &str, is_class: bool) -> Result<Option<QueueNode>, Failure> {
    if is_class && session.exists(lock).await?.is_none() {
        match session.create(lock, &[], NodeKind::Persistent).await {
            Err(Failure::NodeExists) => return Ok(None),
            made => drop(made?),
        }
    }
    QueueNode::join(session, lock, PREFIX, &[]).await.map(Some)
}

/// Waits for a flag that no watcher will ever set.
pub async fn forgotten<T>(session: &Session, patience: &Patience) -> Acquired<T> {
    until_disconnected(true, session, patience.wait(pending())).await
}

#[derive(Debug, PartialEq, Eq)]
pub enum Seen {
    /// The contender's own node is the lowest, or the list is empty; the class treats both as held.
    Held,
    /// Name of the node just before the contender's own.
    Behind(String),
    /// The contender's own node is missing from the list, which has this length.
    Missing(usize),
}

/// Returns the position of `node` in a list, as determined by the class.
pub fn seen(node: &QueueNode, names: &Names) -> Result<Seen, Failure> {
    if names.is_empty() {
        return Ok(Seen::Held);
    }
    match node.predecessor(names) {
        Ok(None) => Ok(Seen::Held),
        Ok(Some(predecessor)) => Ok(Seen::Behind(predecessor)),
        Err(Failure::OwnNodeMissing) => Ok(Seen::Missing(names.iter().count())),
        Err(failure) => Err(failure),
    }
}

/// Returns the function that finds the node to wait for. If the contender's own node is missing from a list
/// that shows other nodes, the class waits for that missing node.
pub fn in_the_way(is_class: bool) -> fn(&QueueNode, &Names) -> Result<Option<String>, Failure> {
    fn by_class(node: &QueueNode, names: &Names) -> Result<Option<String>, Failure> {
        Ok(match seen(node, names)? {
            Seen::Held => None,
            Seen::Behind(name) => Some(name),
            Seen::Missing(_) => Some(node.name().to_owned()),
        })
    }
    if is_class { by_class } else { QueueNode::predecessor }
}

/// Runs the class's work until the connection is first lost. The class then gives up, although its session
/// may survive.
pub async fn until_disconnected<T>(
    is_class: bool,
    session: &Session,
    work: impl Future<Output = Acquired<T>>,
) -> Acquired<T> {
    if !is_class {
        return work.await;
    }
    let mut states = session.states();
    states.state();
    let disconnected = async {
        loop {
            match states.changed().await {
                SessionState::SyncConnected => {}
                SessionState::Disconnected => return Failure::ConnectionLoss,
                state if state.is_terminated() => return Failure::SessionExpired,
                _ => {}
            }
        }
    };
    tokio::select! {
        biased;
        done = work => done,
        failure = disconnected => Err(failure.into()),
    }
}

/// Delays the end of a wait until the contender's next check of its flag. In the class, the flag also reports
/// failures.
pub async fn noticed(
    is_class: bool,
    flag: Flag,
    begun: Stamp,
    patience: &Patience,
    waited: Acquired<()>,
) -> Acquired<()> {
    if is_class || waited.is_ok() {
        flag.noticed(begun, patience).await?;
    }
    waited
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(numbers: &[i64]) -> Names {
        numbers.iter().map(|number| format!("temp{number:010}")).collect()
    }

    #[test]
    fn article_class_holds_the_lock_only_if_its_node_is_lowest_or_the_list_is_empty() {
        let node = QueueNode { path: "/lock/temp0000000007".into(), sequence: 7, czxid: 0 };
        let seen = |numbers: &[i64]| seen(&node, &names(numbers));
        assert_eq!(seen(&[9, 7]), Ok(Seen::Held));
        assert_eq!(seen(&[]), Ok(Seen::Held), "an empty list counts as held");
        assert_eq!(seen(&[8]), Ok(Seen::Missing(1)));
        assert_eq!(seen(&[3, 8]), Ok(Seen::Missing(2)));
        assert_eq!(seen(&[9, 3, 5, 7]), Ok(Seen::Behind("temp0000000005".into())));
        assert_eq!(seen(&[7, i64::from(i32::MAX)]), Err(Failure::CounterUsedUp("/lock".into())));
    }
}
