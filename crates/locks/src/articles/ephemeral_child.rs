//! `ephemeral-child`: one child of one directory; all contenders race to create it and watch the directory.

use super::ephemeral_node::Race;
use crate::after::RACES;
use crate::prelude::*;
use crate::queue::directories::create_unless_there;

pub const ENTRY: Entry = Entry {
    card: LockCard {
        name: "ephemeral-child",
        summary: "one ephemeral child of a directory; other contenders watch the directory and race at each change",
        source: "shared-lock article, exclusive lock",
        details: include_str!("ephemeral_child.md").trim_ascii_end(),
        guarantees: Guarantees { fifo: false, protection: Protection::Complete, ..Guarantees::QUEUE },
        after: &[RACES],
        batch_cost: Some(batch_cost),
        ..LockCard::OF_ZOOKEEPER
    },
    build: |config: &LockConfig| {
        let directory = format!("{}/exclusive_lock", config.path);
        Box::new(EphemeralChild { node: format!("{directory}/lock"), directory, race: Race::default() })
    },
};

fn batch_cost(_: &Params, n: u64) -> BatchCost {
    let mut cost = cost::race(GetChildrenWatch, n);
    // The first create fails because the directory is missing. The contender creates the directory and retries.
    cost.requests.push((Create, 2));
    cost.refused.push((Create, 1));
    let woken = cost.to_waiters_by_release;
    let events = Events { children_changed: woken, ..Events::default() };
    // Each list returns only the name of the holder's node.
    BatchCost { events, names_returned: Some(woken), ..cost }
}

struct EphemeralChild {
    directory: String,
    node: String,
    race: Race,
}

#[async_trait(?Send)]
impl Strategy for EphemeralChild {
    async fn acquire(&mut self, session: &Session, _: Mode, patience: &Patience) -> Acquired {
        loop {
            if let Some(node) = self.try_create(session).await? {
                return Ok(Held::by(node));
            }
            if patience.tries_once {
                return Err(AcquireError::TimedOut);
            }
            let (names, mut watch) = session.get_children_and_watch(&self.directory).await?;
            let is_free = names.is_empty();
            drop(names);
            if !is_free {
                patience.wait(watch.changed()).await?;
            }
        }
    }
}

impl EphemeralChild {
    /// Tries once, creating the directory if it is missing. A lost reply to that create does not matter: the
    /// next attempt shows whether the directory exists.
    async fn try_create(&mut self, session: &Session) -> Result<Option<QueueNode>, Failure> {
        loop {
            match self.race.try_create(session, &self.node, NodeKind::Ephemeral).await {
                Err(Failure::NoNode) => {}
                tried => return tried,
            }
            match create_unless_there(session, &self.directory, &[], NodeKind::Persistent).await {
                Err(Failure::ConnectionLoss) => {}
                made => made?,
            }
        }
    }
}
