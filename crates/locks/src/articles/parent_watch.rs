//! `parent-watch`: every waiter watches the whole queue.

use tokio_util::sync::CancellationToken;

use super::class::{self, WATCHING_CLASS};
use crate::after::ENDS;
use crate::prelude::*;
use crate::wait::{FLAG_INTERVAL, Flag, WAKE};

pub const ENTRY: Entry = Entry {
    card: LockCard {
        name: "parent-watch",
        aliases: &["parent-node-watch"],
        summary: "queue node; every waiter watches the parent's children, so a release wakes all of them",
        source: "watch-lock article, first lock; three-strategy comparison article, second lock",
        details: concat!(include_str!("parent_watch.md"), include_str!("class.md")).trim_ascii_end(),
        guarantees: Guarantees::QUEUE,
        after: &[ENDS, class::AFTER],
        params: &[
            WATCHING_CLASS,
            Param {
                name: "while_holding",
                kind: ParamKind::OneOf(&["stop", "relist"]),
                default: "stop",
                doc: "`relist`: a holder keeps listing the queue at each change, as the article's class does.",
            },
            WAKE,
            FLAG_INTERVAL,
            class::DIRECTORY,
        ],
        batch_cost: Some(batch_cost),
        ..LockCard::OF_ZOOKEEPER
    },
    build: |config: &LockConfig| {
        Box::new(ParentWatch {
            queue: Queue::new(
                &class::lock(config),
                Habits { watches: Watches::Children, ..Habits::PLAIN },
                Joining::by_create(),
            ),
            relists: relists(&config.params),
            is_article: class::is_asked_for(config),
            relister: None,
            flag: Flag::of(config),
        })
    },
};

fn batch_cost(params: &Params, n: u64) -> BatchCost {
    let cost = if relists(params) { relisting(n) } else { cost::parent_queue(n) };
    class::batch_cost(cost, params, n)
}

fn relists(params: &Params) -> bool {
    has_word(params, "while_holding", "relist") || has_word(params, "class", "article")
}

/// Arrival k wakes the k - 1 contenders before it, including the holder; each of the k contenders then lists
/// k names.
fn relisting(n: u64) -> BatchCost {
    let pairs = n * (n - 1) / 2;
    let names_at_arrivals = n * (n + 1) * (2 * n + 1) / 6;
    let squares_below_n = (n - 1) * n * (2 * n - 1) / 6;
    BatchCost {
        requests: vec![(Create, n), (Delete, n), (GetChildrenWatch, n * n)],
        events: Events { children_changed: n * n, ..Events::default() },
        to_waiters_by_release: pairs,
        to_releaser: n,
        by_arrival: pairs,
        names_returned: Some(names_at_arrivals + squares_below_n),
        ..BatchCost::default()
    }
}

struct ParentWatch {
    queue: Queue,
    relists: bool,
    is_article: bool,
    relister: Option<CancellationToken>,
    flag: Flag,
}

#[async_trait(?Send)]
impl Strategy for ParentWatch {
    async fn acquire(&mut self, session: &Session, _: Mode, patience: &Patience) -> Acquired {
        let begun = clock::now();
        let Some(node) = class::join(session, &self.queue.lock, self.is_article).await? else {
            return class::forgotten(session, patience).await;
        };
        let mut joined = Joined::untold(node);
        let waited = self.wait(session, &mut joined, patience).await;
        let waited = class::noticed(self.is_article, self.flag, begun, patience, waited).await;
        if waited.is_err() {
            self.stop_listing();
        }
        joined.node.held_after(session, waited).await
    }

    async fn release(&mut self, session: &Session, held: Held) -> Result<(), Failure> {
        self.stop_listing();
        crate::leave(session, held).await
    }
}

impl ParentWatch {
    async fn wait(&mut self, session: &Session, joined: &mut Joined, patience: &Patience) -> Acquired<()> {
        let watching = self.queue.wait(session, joined, patience, class::in_the_way(self.is_article));
        let waited = class::until_disconnected(self.is_article, session, watching).await;
        waited.map(|watch| self.keep(session, watch))
    }

    fn stop_listing(&mut self) {
        if let Some(relister) = self.relister.take() {
            relister.cancel();
        }
    }

    /// If configured, keeps listing the queue at each change while the lock is held.
    fn keep(&mut self, session: &Session, watch: Option<Watch>) {
        let Some(mut watch) = watch.filter(|_| self.relists) else { return };
        let stop = CancellationToken::new();
        self.relister = Some(stop.clone());
        let (session, lock) = (session.clone(), self.queue.lock.clone());
        let listing = async move {
            while stop.run_until_cancelled(watch.changed()).await.is_some() {
                match session.get_children_and_watch(&lock).await {
                    Ok((_, next)) => watch = next,
                    Err(_) => return,
                }
            }
        };
        runtime::spawn_detached(listing);
    }
}
