//! `kazoo`: the Lock from Python's kazoo.

use std::time::Duration;

use rand::Rng;

use crate::after::{After, CreatesExhausted, DirectoryDeleted, Fails, GOES_ON, GoesOn, NoNode};
use crate::prelude::*;
use crate::queue::directories::make_from_leaf;
use crate::queue::protection::{delete_marked, node_named};
use crate::wait::{AnyEvent, BLOCKING, blocks, cost_of_tries};

/// Pattern before the number in the node names of kazoo's own locks.
pub const OWN_PATTERN: &str = "__lock__";
/// Pattern of Curator and the Go client.
const CURATOR_PATTERN: &str = "lock-";
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

pub const ENTRY: Entry = Entry {
    card: LockCard {
        name: "kazoo",
        summary: "kazoo's Lock: queue node with the lock object's own prefix, data watch on the predecessor",
        source: "Python's kazoo, recipe/lock.py",
        details: include_str!("lock.md").trim_ascii_end(),
        guarantees: Guarantees { protection: Protection::Unsynced, ..Guarantees::QUEUE },
        after: &[AFTER],
        params: &[
            Param {
                name: "extra_patterns",
                kind: ParamKind::OneOf(&["none", CURATOR_PATTERN]),
                default: "none",
                doc: "Which nodes count in addition to kazoo's own: none, or nodes from Curator and the Go \
                    client \
                      (`extra_lock_patterns`). Java's Curator does not wait for kazoo, and the Go client does so only as of v1.0.2.",
            },
            BLOCKING,
        ],
        batch_cost: Some(batch_cost),
        ..LockCard::OF_ZOOKEEPER
    },
    build: |config: &LockConfig| Box::new(Kazoo::of(config)),
};

pub const AFTER: After =
    GOES_ON.but([(CreatesExhausted, GoesOn), (DirectoryDeleted, Fails(NoNode))]).trying_creates(None);

/// Computes the cost of an ordinary queue, plus one exists of the directory per contender. Also applies to
/// the read-write lock if all contenders write.
pub fn batch_cost(params: &Params, n: u64) -> BatchCost {
    if !blocks(params) {
        return cost_of_tries();
    }
    let mut cost = cost::predecessor_queue(GetDataWatch, n);
    cost.requests.push((Exists, n));
    cost
}

/// A lock object: a lock, or one side of a read-write lock.
pub struct Kazoo {
    queue: Queue<AnyEvent>,
    blocking: bool,
    /// Prefix of this object's nodes, which no other object uses.
    pub prefix: String,
    /// Patterns before the number in the names of nodes that the object waits for.
    patterns: &'static [&'static str],
    is_path_assured: bool,
    is_acquired: bool,
    own: Own,
}

enum Own {
    /// No create has been sent yet.
    None,
    /// A create has been sent: a node with its prefix may exist.
    Unknown,
    Known(QueueNode),
}

#[async_trait(?Send)]
impl Strategy for Kazoo {
    async fn acquire(&mut self, session: &Session, _: Mode, patience: &Patience) -> Acquired {
        let mut pause = FIRST_PAUSE;
        loop {
            match self.attempt(session, patience).await {
                Ok(node) => {
                    self.is_acquired = true;
                    return Ok(Held::by(node));
                }
                Err(why) if is_worth_another(&why) => match back_off(&mut pause, patience).await {
                    Ok(()) => {}
                    Err(why) => return Err(self.clean_up(session, why).await),
                },
                Err(why) => return Err(self.clean_up(session, why).await),
            }
        }
    }

    async fn release(&mut self, session: &Session, held: Held) -> Result<(), Failure> {
        leave_as_kazoo(session, held).await?;
        self.is_acquired = false;
        self.own = Own::Unknown;
        Ok(())
    }
}

impl Kazoo {
    fn of(config: &LockConfig) -> Self {
        let counts_curator = config.is("extra_patterns", CURATOR_PATTERN);
        let patterns: &'static [&'static str] =
            if counts_curator { &[OWN_PATTERN, CURATOR_PATTERN] } else { &[OWN_PATTERN] };
        Self { blocking: blocks(&config.params), ..Self::new(&config.path, OWN_PATTERN, patterns) }
    }

    /// Creates an object whose nodes have `name` before their number. The object waits for nodes with one of
    /// these patterns.
    pub fn new(lock: &str, name: &str, patterns: &'static [&'static str]) -> Self {
        Self {
            queue: Queue::new(lock, Habits::PLAIN, Joining::by_create()),
            blocking: true,
            prefix: format!("{}{name}", uuid::Uuid::new_v4().simple()),
            patterns,
            is_path_assured: false,
            is_acquired: false,
            own: Own::None,
        }
    }

    async fn attempt(&mut self, session: &Session, patience: &Patience) -> Acquired<QueueNode> {
        let blocking = self.blocking && !patience.tries_once;
        if self.is_acquired {
            // A blocking acquire retries until its deadline; a non-blocking one fails at once.
            return Err(if blocking { AcquireError::Deadlock } else { AcquireError::TimedOut });
        }
        if !self.is_path_assured {
            make_from_leaf(session, &self.queue.lock, NodeKind::Persistent).await?;
            self.is_path_assured = true;
        }
        let mut joined = Joined::untold(self.find_or_join(session).await?);
        self.own = Own::Known(joined.node.clone());
        let patterns = self.patterns;
        let in_the_way = |node: &QueueNode, names: &Names| {
            let counts = |name: &&str| is_contender(name, patterns) || *name == node.name();
            let predecessor = node.predecessor(&names.iter().filter(counts).collect())?;
            if predecessor.is_some() && !blocking { Err(AcquireError::TimedOut) } else { Ok(predecessor) }
        };
        self.queue.wait(session, &mut joined, patience, in_the_way).await?;
        Ok(joined.node)
    }

    /// Searches for the node of an earlier attempt, unless this is the first attempt, and creates a node if
    /// none is found.
    async fn find_or_join(&mut self, session: &Session) -> Result<QueueNode, Failure> {
        let lock = &self.queue.lock;
        if matches!(self.own, Own::None) {
            self.own = Own::Unknown;
        } else {
            let names = session.get_children(lock).await?;
            let name = names.iter().find(|name| name.starts_with(&self.prefix));
            let found = match (name, &self.own) {
                (Some(name), Own::Known(known)) if known.name() == name => Some(known.clone()),
                (Some(name), _) => node_named(session, lock, name).await?,
                (None, _) => None,
            };
            if let Some(found) = found {
                return Ok(found);
            }
        }
        QueueNode::join(session, lock, &self.prefix, &[]).await
    }

    /// Ends a failed acquire. An object that holds the lock keeps its node.
    ///
    /// Source: kazoo, `Lock._best_effort_cleanup`.
    async fn clean_up(&mut self, session: &Session, why: AcquireError) -> AcquireError {
        if self.is_acquired { why } else { why.after(self.leave_queue(session)).await }
    }

    /// Deletes the contender's node: the known node, or the node whose create was not answered.
    async fn leave_queue(&mut self, session: &Session) -> Result<(), Failure> {
        if matches!(self.own, Own::None) {
            return Ok(());
        }
        match std::mem::replace(&mut self.own, Own::Unknown) {
            Own::Known(node) => node.leave(session).await,
            _ => delete_marked(session, &self.queue.lock, &self.prefix).await,
        }
    }
}

/// Deletes the contender's node, and retries after every lost connection.
///
/// Source: kazoo, `Lock.release` and `KazooClient.retry`, which retries without limit by default.
async fn leave_as_kazoo(session: &Session, held: Held) -> Result<(), Failure> {
    let mut pause = FIRST_PAUSE;
    loop {
        let left = crate::leave(session, held.clone()).await;
        if left != Err(Failure::ConnectionLoss) {
            return left;
        }
        runtime::sleep(next_pause(&mut pause)).await;
    }
}

/// Returns the pause before the next attempt; each pause is about twice as long as the previous one.
fn next_pause(pause: &mut Duration) -> Duration {
    let now = pause.mul_f64(rand::rng().random_range(0.6..1.4));
    *pause = (now * 2).min(LONGEST_PAUSE);
    now
}

/// Returns whether a node with this name is in the queue: it ends with a pattern, an optional minus sign, and
/// ten digits.
fn is_contender(name: &str, patterns: &[&str]) -> bool {
    let Some((stem, digits)) = name.len().checked_sub(10).and_then(|at| name.split_at_checked(at)) else {
        return false;
    };
    let is_after = |stem: &str| patterns.iter().any(|pattern| stem.ends_with(pattern));
    digits.bytes().all(|byte| byte.is_ascii_digit())
        && (is_after(stem) || stem.strip_suffix('-').is_some_and(is_after))
}

fn is_worth_another(why: &AcquireError) -> bool {
    use AcquireError::{Deadlock, Failed};
    matches!(why, Deadlock | Failed(Failure::ConnectionLoss | Failure::OwnNodeMissing))
}

/// Pauses before another attempt, unless the pause would end after the deadline.
///
/// Source: kazoo, `KazooRetry`.
async fn back_off(pause: &mut Duration, patience: &Patience) -> Acquired<()> {
    let now = next_pause(pause);
    if patience.deadline.is_some_and(|deadline| patience.clock.now() + clock::micros(now) >= deadline) {
        return Err(AcquireError::TimedOut);
    }
    patience.sleep(now).await
}

#[cfg(test)]
mod tests {
    use super::*;

    const KAZOO: &str = "0123456789abcdef0123456789abcdef__lock__0000000007";
    const CURATOR: &str = "_c_01234567-89ab-cdef-0123-456789abcdef-lock-0000000008";

    #[test]
    fn only_names_that_end_with_a_known_pattern_and_ten_digits_are_queue_nodes() {
        assert!(is_contender(KAZOO, &[OWN_PATTERN]));
        assert!(!is_contender(CURATOR, &[OWN_PATTERN]));
        assert!(is_contender(CURATOR, &[OWN_PATTERN, CURATOR_PATTERN]));
        assert!(is_contender("x__lock__-2147483648", &[OWN_PATTERN]));
        for other in ["config", "__lock__", "0123__lock__12345", "0123__rlock__0000000001", "lock-ä000000001"]
        {
            assert!(!is_contender(other, &[OWN_PATTERN, CURATOR_PATTERN]), "{other}");
        }
    }

    #[test]
    fn jittered_pause_varies_by_up_to_two_fifths() {
        for _ in 0..100 {
            let mut pause = FIRST_PAUSE;
            let pause = next_pause(&mut pause);
            assert!((Duration::from_millis(60)..Duration::from_millis(140)).contains(&pause), "{pause:?}");
        }
    }
}
