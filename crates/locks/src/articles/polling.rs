//! `polling`: each waiter lists the queue at intervals.

use std::time::Duration;

use rand::Rng;

use super::class::{self, CLASS};
use crate::after::{After, ENDS, Never, TimedOutInBackOff, WatchReplyLost};
use crate::prelude::*;
use crate::queue::{Waiter, Wakes, WatchOn};

const DEFAULT_INTERVAL: Duration = Duration::from_secs(1);

pub const ENTRY: Entry = Entry {
    card: LockCard {
        name: "polling",
        summary: "queue node; sleeps, lists the queue, and holds the lock once its node is the lowest",
        source: "three-strategy comparison article, first lock",
        details: concat!(include_str!("polling.md"), include_str!("class.md")).trim_ascii_end(),
        guarantees: Guarantees { watches: false, ..Guarantees::QUEUE },
        after: &[
            AFTER,
            AFTER.but(class::OTHERWISE).but([(TimedOutInBackOff, Never)]).with(CLASS.name, class::ARTICLE),
        ],
        params: &[
            CLASS,
            Param {
                name: "poll_interval",
                kind: ParamKind::Duration,
                default: "1s",
                doc: "Time between two checks of the queue.",
            },
            Param {
                name: "jitter",
                kind: ParamKind::OneOf(&["none", "half"]),
                default: "none",
                doc: "Whether each pause is random, between 0.5 and 1.5 intervals.",
            },
            class::DIRECTORY,
        ],
        batch_cost: Some(batch_cost),
        ..LockCard::OF_ZOOKEEPER
    },
    build: |config: &LockConfig| {
        let interval = config.duration("poll_interval", DEFAULT_INTERVAL);
        let wakes = Pauses { interval, jitters: config.is("jitter", "half") };
        let (lock, joining) = (class::lock(config), Joining::by_create());
        let habits = Habits { watches: Watches::Nothing, ..Habits::PLAIN };
        let queue = Queue { lock, habits, joining, wakes };
        Box::new(Polling { queue, is_article: class::is_asked_for(config) })
    },
};

/// Polling sets no watches. Its first list comes after a pause, so a short acquire timeout expires before any
/// list's reply can be lost.
const AFTER: After = ENDS.but([(WatchReplyLost, Never), (TimedOutInBackOff, Never)]);

fn batch_cost(params: &Params, n: u64) -> BatchCost {
    let jitters = has_word(params, "jitter", "half");
    let cost = BatchCost {
        requests: vec![(Create, n), (Delete, n)],
        looks_follow_waits: !jitters,
        looks_vary: jitters,
        ..BatchCost::default()
    };
    class::batch_cost(cost, params, n)
}

struct Polling {
    queue: Queue<Pauses>,
    is_article: bool,
}

#[async_trait(?Send)]
impl Strategy for Polling {
    async fn acquire(&mut self, session: &Session, _: Mode, patience: &Patience) -> Acquired {
        let Some(node) = class::join(session, &self.queue.lock, self.is_article).await? else {
            return self.without_node(session, patience).await;
        };
        let mut joined = Joined::untold(node);
        let polling = async {
            // A try reads the queue once, without a pause.
            if !patience.tries_once {
                self.queue.wakes.rest(session, patience).await?;
            }
            self.queue.wait(session, &mut joined, patience, class::in_the_way(self.is_article)).await
        };
        let waited = class::until_disconnected(self.is_article, session, polling).await;
        joined.node.held_after(session, waited.map(drop)).await
    }
}

impl Polling {
    /// Acquires without a node: the contender holds the lock if the list is empty; any other list is a failure.
    async fn without_node(&self, session: &Session, patience: &Patience) -> Acquired {
        let polling = async {
            self.queue.wakes.rest(session, patience).await?;
            Ok(session.get_children(&self.queue.lock).await?.is_empty())
        };
        match class::until_disconnected(true, session, polling).await? {
            true => Ok(Held::of(None)),
            false => Err(Failure::OwnNodeMissing.into()),
        }
    }
}

struct Pauses {
    interval: Duration,
    jitters: bool,
}

impl Pauses {
    fn next(&self) -> Duration {
        if self.jitters { self.interval.mul_f64(rand::rng().random_range(0.5..=1.5)) } else { self.interval }
    }

    async fn rest(&self, session: &Session, patience: &Patience) -> Acquired<()> {
        let (pause, begin) = (self.next(), clock::now());
        patience.sleep(pause).await?;
        session.overslept(clock::now().saturating_sub(begin).saturating_sub(clock::micros(pause)));
        Ok(())
    }
}

impl Wakes for Pauses {
    async fn woken(&mut self, waiter: &Waiter<'_>, _: &mut Vec<WatchOn>) -> Acquired<Option<EventKind>> {
        self.rest(waiter.session, waiter.patience).await.map(|()| None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pauses(jitters: bool) -> Pauses {
        Pauses { interval: Duration::from_secs(1), jitters }
    }

    #[test]
    fn only_jitter_varies_pauses_by_up_to_half_an_interval() {
        assert_eq!(pauses(false).next(), Duration::from_secs(1));
        let pauses: Vec<Duration> = (0..1000).map(|_| pauses(true).next()).collect();
        let (shortest, longest) = (pauses.iter().min().unwrap(), pauses.iter().max().unwrap());
        assert!((Duration::from_millis(500)..Duration::from_millis(600)).contains(shortest), "{shortest:?}");
        assert!((Duration::from_millis(1400)..=Duration::from_millis(1500)).contains(longest), "{longest:?}");
    }
}
