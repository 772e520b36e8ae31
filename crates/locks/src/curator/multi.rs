//! `curator-multi`: Apache Curator's InterProcessMultiLock.

use super::mutex::CuratorMutex;
use crate::after::GOES_ON;
use crate::prelude::*;
use crate::queue::retry::{self};

/// Default number of members.
pub const MEMBERS: u64 = 3;

/// Parameters of every lock with several members.
pub const PARAMS: [Param; 2] = [
    Param { name: "members", kind: ParamKind::Count(2, 8), default: "3", doc: "Number of member locks." },
    Param {
        name: "order",
        kind: ParamKind::OneOf(&["same", "rotated"]),
        default: "same",
        doc: "Whether all contenders take the members in the same order, or each contender starts at a different member.",
    },
];

pub const ENTRY: Entry = Entry {
    card: LockCard {
        name: "curator-multi",
        summary: "Curator's InterProcessMultiLock: several mutexes taken one after the other, as one lock",
        source: "Apache Curator, InterProcessMultiLock",
        details: include_str!("multi.md").trim_ascii_end(),
        guarantees: Guarantees { reentrant: true, protection: Protection::Unsynced, ..Guarantees::QUEUE },
        after: &[GOES_ON],
        params: &joined::<2, 5, 7>(PARAMS, retry::PARAMS),
        batch_cost: Some(batch_cost),
        ..LockCard::OF_ZOOKEEPER
    },
    build: |config: &LockConfig| Box::new(CuratorMulti::new(config)),
};

fn batch_cost(params: &Params, n: u64) -> BatchCost {
    if has_word(params, "order", "rotated") {
        return BatchCost { open: true, ..BatchCost::default() };
    }
    cost::one_queue_after_another(count_of(params, "members", MEMBERS), n)
}

/// Returns the directories of the members, in the order in which one lock object takes them.
pub fn directories(config: &LockConfig) -> Vec<String> {
    let count = config.count("members", MEMBERS).max(1);
    let begin = if config.is("order", "rotated") { config.contender as u64 } else { 0 };
    (0..count).map(|k| format!("{}/member-{}", config.path, (begin + k) % count)).collect()
}

struct CuratorMulti {
    /// Member locks in the order in which they are taken.
    members: Vec<CuratorMutex>,
    /// Position of `member-0`, whose node represents the whole lock.
    zeroth: usize,
    /// Holds of all members in the same order, one item per acquisition.
    taken: Vec<Vec<Held>>,
}

#[async_trait(?Send)]
impl Strategy for CuratorMulti {
    async fn acquire(&mut self, session: &Session, mode: Mode, patience: &Patience) -> Acquired {
        let limit = patience.deadline.map(|deadline| deadline.saturating_sub(patience.clock.now()));
        let (mut taken, mut why) = (Vec::new(), None);
        for (position, member) in self.members.iter_mut().enumerate() {
            let deadline = limit.map(|limit| patience.clock.now() + limit);
            match member.acquire(session, mode, &Patience { deadline, ..patience.clone() }).await {
                Ok(held) => taken.push((position, held)),
                // Remember the failure, but still try the later members.
                Err(failed @ AcquireError::Failed(_)) => why = Some(failed),
                Err(ended) => {
                    why = why.or(Some(ended));
                    break;
                }
            }
        }
        let Some(why) = why else { return Ok(self.keep(taken)) };
        // A failed release may leave a node, so its failure takes precedence.
        match self.release_in_reverse(session, taken).await {
            Err(failure) if !failure.is_definite() => Err(failure.into()),
            _ => Err(why),
        }
    }

    async fn release(&mut self, session: &Session, _: Held) -> Result<(), Failure> {
        let taken = self.taken.pop().unwrap_or_default();
        self.release_in_reverse(session, taken.into_iter().enumerate().collect()).await
    }
}

impl CuratorMulti {
    fn new(config: &LockConfig) -> Self {
        let directories = directories(config);
        let zeroth = directories.iter().position(|path| path.ends_with("/member-0")).unwrap_or(0);
        let retry = Retry::of(config);
        let members = directories.iter().map(|path| CuratorMutex::new(path, retry)).collect();
        Self { members, zeroth, taken: Vec::new() }
    }

    fn keep(&mut self, taken: Vec<(usize, Held)>) -> Held {
        let taken: Vec<Held> = taken.into_iter().map(|(_, held)| held).collect();
        let node = taken.get(self.zeroth).and_then(|held| held.node.clone());
        self.taken.push(taken);
        Held::of(node)
    }

    /// Releases each member in reverse order; returns the first failure.
    async fn release_in_reverse(
        &mut self,
        session: &Session,
        taken: Vec<(usize, Held)>,
    ) -> Result<(), Failure> {
        let mut ended = Ok(());
        for (position, held) in taken.into_iter().rev() {
            let released = self.members[position].release(session, held).await;
            ended = ended.and(released);
        }
        ended
    }
}
