//! `cohort`: a process takes the ZooKeeper lock once and passes it among its contenders, a bounded number of
//! times.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::after::GOES_ON;
use crate::curator::queue::CuratorQueue;
use crate::in_process::InProcess;
use crate::prelude::*;
use crate::queue::protection::leave_for_certain;
use crate::queue::retry::{self};
use crate::{HoldOver, duration_of};
use zklockbench_core::locked::locked;
use zklockbench_zk::SessionState;

const CONTENDERS: u64 = 10;
const TURNS: u64 = 10;
const TIME: Duration = Duration::from_secs(5);
/// Expected time for each turn with the default parameters.
const TIME_A_TURN: Duration = Duration::from_millis(500);

const CONTENDERS_PER_PROCESS: Param = Param {
    name: "contenders_per_process",
    kind: ParamKind::Count(1, 100_000),
    default: "10",
    doc: "Number of contenders that form one process and share one queue node, in the order of their \
        numbers.",
};

const MAX_LOCAL_TURNS: Param = Param {
    name: "max_local_turns",
    kind: ParamKind::Count(1, 1_000_000),
    default: "10",
    doc: "Maximum number of consecutive holds within a process before the process queues up again.",
};

const MAX_LOCAL_TIME: Param = Param {
    name: "max_local_time",
    kind: ParamKind::Duration,
    default: "5s",
    doc: "Time during which a process may pass the lock among its contenders; holds are not cut short.",
};

pub const ENTRY: Entry = Entry {
    card: LockCard {
        name: "cohort",
        summary: "a process queues one node and passes the held lock among its contenders without a request, a bounded number \
                  of times",
        source: "lock cohorting (Dice, Marathe, Shavit, PPoPP 2012), adapted to ZooKeeper for this suite",
        details: include_str!("cohort.md").trim_ascii_end(),
        guarantees: Guarantees {
            fifo: false,
            reentrant: true,
            protection: Protection::Unsynced,
            ..Guarantees::QUEUE
        },
        after: &[GOES_ON],
        params: &joined::<3, 5, 8>([CONTENDERS_PER_PROCESS, MAX_LOCAL_TURNS, MAX_LOCAL_TIME], retry::PARAMS),
        batch_cost: Some(batch_cost),
        ..LockCard::OF_ZOOKEEPER
    },
    build: |config: &LockConfig| {
        let size =
            usize::try_from(config.count(CONTENDERS_PER_PROCESS.name, CONTENDERS)).unwrap_or(usize::MAX);
        Box::new(CohortLock {
            cohort: COHORTS.of(&config.path, config.contender / size.max(1)),
            remote: CuratorQueue::new(&config.path, Retry::of(config)),
            turns: config.count(MAX_LOCAL_TURNS.name, TURNS),
            time: config.duration(MAX_LOCAL_TIME.name, TIME),
            owned: None,
        })
    },
};

fn batch_cost(params: &Params, n: u64) -> BatchCost {
    let size = count_of(params, CONTENDERS_PER_PROCESS.name, CONTENDERS).max(1);
    let turns = count_of(params, MAX_LOCAL_TURNS.name, TURNS).max(1);
    let time = duration_of(params, MAX_LOCAL_TIME.name, TIME);
    BatchCost {
        // Each step of a batch takes time, so the time limit may expire before all turns of a node are used.
        open: time < TIME_A_TURN.saturating_mul(u32::try_from(turns.min(size)).unwrap_or(u32::MAX)),
        ..cost::processes_in_turns(n, size, turns)
    }
}

static COHORTS: InProcess<Cohort> = InProcess::new();

/// The contenders of one process that share one lock.
#[derive(Default)]
struct Cohort(Mutex<LocalQueue>);

#[derive(Default)]
struct LocalQueue {
    /// Whether a contender has the turn.
    is_taken: bool,
    waiting: VecDeque<oneshot::Sender<Turn>>,
}

/// A contender's right to take or hold the ZooKeeper lock for its process. When dropped, the turn passes to the
/// next contender.
struct Turn {
    cohort: Arc<Cohort>,
    /// The ZooKeeper lock, if the process has it.
    remote: Option<RemoteTurn>,
    is_given_away: bool,
}

/// The ZooKeeper lock, held by one contender.
struct RemoteTurn {
    tenure: Arc<Tenure>,
    /// Number of the turn within the tenure, from 0.
    number: u32,
}

impl RemoteTurn {
    fn can_be_handed_on(&self) -> bool {
        let has_more =
            u64::from(self.number) + 1 < self.tenure.most_turns && clock::now() < self.tenure.until;
        has_more && self.tenure.is_known_to_last()
    }

    fn next(self) -> Self {
        Self { number: self.number + 1, ..self }
    }
}

impl Cohort {
    async fn turn(self: &Arc<Self>, patience: &Patience) -> Acquired<Turn> {
        let granted = {
            let mut queue = locked(&self.0);
            if !queue.is_taken {
                queue.is_taken = true;
                return Ok(Turn { cohort: Arc::clone(self), remote: None, is_given_away: false });
            }
            queue.waiting.retain(|waiting| !waiting.is_closed());
            let (grant, granted) = oneshot::channel();
            queue.waiting.push_back(grant);
            granted
        };
        // A turn that arrives too late is dropped with the channel, and passes to the next waiter.
        match patience.wait(granted).await? {
            Ok(turn) => Ok(turn),
            Err(_) => Err(Failure::NoReply.into()),
        }
    }

    fn is_wanted(&self) -> bool {
        locked(&self.0).waiting.iter().any(|waiting| !waiting.is_closed())
    }

    /// Passes the turn, and the lock if given, to the next waiter. If there is no waiter, releases the lock.
    fn pass(self: &Arc<Self>, mut remote: Option<RemoteTurn>) {
        loop {
            let next = {
                let mut queue = locked(&self.0);
                let next = queue.waiting.pop_front();
                if next.is_none() && remote.is_none() {
                    queue.is_taken = false;
                    return;
                }
                next
            };
            let Some(next) = next else {
                if let Some(remote) = remote.take() {
                    remote.tenure.order_end();
                }
                continue;
            };
            let turn = Turn { cohort: Arc::clone(self), remote: remote.take(), is_given_away: false };
            match next.send(turn) {
                Ok(()) => return,
                Err(mut back) => {
                    back.is_given_away = true;
                    remote = back.remote.take();
                }
            }
        }
    }
}

impl Turn {
    fn give(mut self, remote: Option<RemoteTurn>) {
        self.is_given_away = true;
        self.cohort.pass(remote);
    }
}

impl Drop for Turn {
    /// Passes on the turn of a contender that gave up or died.
    fn drop(&mut self) {
        if self.is_given_away {
            return;
        }
        let remote = self.remote.take().and_then(|remote| {
            // In the first turn, the node belongs to the contender's own session and ends with it.
            if remote.number > 0 && remote.can_be_handed_on() {
                return Some(remote.next());
            }
            remote.tenure.order_end();
            None
        });
        self.cohort.pass(remote);
    }
}

/// Order to leave the queue, with a channel for the result if a contender waits for it.
type Order = Option<oneshot::Sender<Result<(), Failure>>>;

/// One process's hold of the ZooKeeper lock, with one node.
struct Tenure {
    node: QueueNode,
    most_turns: u64,
    /// Time after which the process must not pass the lock among its contenders.
    until: Stamp,
    /// Channel to the task that deletes the node after the lock was handed over. The task ends with the
    /// node's session.
    keeper: Mutex<Option<oneshot::Sender<Order>>>,
    /// Time until which the node's session is known to be alive; stays 0 once this is in doubt.
    lasts_until: AtomicU64,
    /// Cancelled when the tenure is over, at the latest with the session.
    over: CancellationToken,
}

impl Tenure {
    /// Returns whether the node's session is certainly alive.
    fn is_known_to_last(&self) -> bool {
        !self.over.is_cancelled() && clock::now() < self.lasts_until.load(Ordering::Acquire)
    }

    /// Checks the session of the node.
    ///
    /// Servers expire a session a full timeout after its last message. The client reports a lost connection
    /// within two thirds of the timeout, so while it is connected, a third is left. A client that was paused
    /// may report an outdated state. Therefore, a check after that third proves nothing: the session may have
    /// ended.
    fn look_at(&self, session: &Session, state: SessionState) {
        let is_known = state == SessionState::SyncConnected && self.is_known_to_last();
        self.lasts_until.store(if is_known { a_third_from_now(session) } else { 0 }, Ordering::Release);
    }

    /// Checks the session periodically until it is over.
    async fn watch_over(&self, session: &Session) {
        let mut states = session.states();
        loop {
            let state = states.peek_state();
            self.look_at(session, state);
            if state.is_terminated() {
                return;
            }
            tokio::select! {
                biased;
                _ = states.changed() => {}
                () = runtime::sleep(session.timeout() / 6) => {}
            }
        }
    }

    /// Prepares the first handover: starts a task in the owner's session that will delete the node.
    fn keep(self: &Arc<Self>, session: &Session, retry: Retry) {
        let (keeper, orders) = oneshot::channel();
        *locked(&self.keeper) = Some(keeper);
        // `over` is also cancelled when the task is dropped because the contender died or gave up its session.
        let over = self.over.clone().drop_guard();
        runtime::spawn_detached(keep(session.clone(), Arc::clone(self), retry, orders, over));
    }

    /// Orders the deletion of the node without waiting for the result. If there is no keeper, the node ends with
    /// its session.
    fn order_end(&self) {
        let keeper = locked(&self.keeper).take();
        if let Some(keeper) = keeper {
            // If the keeper is gone, so are the session and the node.
            let _ = keeper.send(None);
        }
    }

    /// Leaves the queue, in the session of the node.
    async fn end(&self, session: &Session, remote: &mut CuratorQueue) -> Result<(), Failure> {
        let keeper = locked(&self.keeper).take();
        let Some(keeper) = keeper else {
            // The lock was never handed over.
            return remote.leave(session, self.node.clone()).await;
        };
        let (reply, replied) = oneshot::channel();
        match keeper.send(Some(reply)) {
            Ok(()) => replied.await.unwrap_or(Err(Failure::SessionExpired)),
            Err(_) => Err(Failure::SessionExpired),
        }
    }
}

fn a_third_from_now(session: &Session) -> Stamp {
    clock::now() + clock::micros(session.timeout() / 3)
}

/// Keeps a node through which other contenders hold the lock, until an order to delete the node arrives or its
/// session ends.
async fn keep(
    session: Session,
    tenure: Arc<Tenure>,
    retry: Retry,
    mut orders: oneshot::Receiver<Order>,
    _over: DropGuard,
) {
    let order = tokio::select! {
        biased;
        order = &mut orders => order,
        () = tenure.watch_over(&session) => return,
    };
    let left = leave_for_certain(&session, tenure.node.clone(), retry).await;
    if let Ok(Some(reply)) = order {
        // The releasing contender may be gone by now.
        let _ = reply.send(left);
    }
}

struct CohortLock {
    cohort: Arc<Cohort>,
    remote: CuratorQueue,
    turns: u64,
    time: Duration,
    owned: Option<Owned>,
}

struct Owned {
    held: Held,
    /// Number of times this owner has acquired the lock.
    count: u32,
    turn: Turn,
}

#[async_trait(?Send)]
impl Strategy for CohortLock {
    async fn acquire(&mut self, session: &Session, _: Mode, patience: &Patience) -> Acquired {
        if let Some(owned) = &mut self.owned {
            owned.count += 1;
            return Ok(owned.held.clone());
        }
        let mut turn = self.cohort.turn(patience).await?;
        // A handover within the process sends no request that would reveal an expired session.
        if session.is_over() {
            return Err(Failure::SessionExpired.into());
        }
        if let Some(lost) = turn.remote.take_if(|remote| !remote.tenure.is_known_to_last()) {
            lost.tenure.order_end();
        }
        let remote = match turn.remote.take() {
            Some(handed_on) => handed_on,
            None => RemoteTurn { tenure: self.take_remote(session, patience).await?, number: 0 },
        };
        let held = Held { turn: remote.number, ..Held::by(remote.tenure.node.clone()) };
        turn.remote = Some(remote);
        self.owned = Some(Owned { held: held.clone(), count: 1, turn });
        Ok(held)
    }

    async fn hold(&mut self, session: &Session, end: Pin<&mut dyn Future<Output = ()>>) -> HoldOver {
        let remote = self.owned.as_ref().and_then(|owned| owned.turn.remote.as_ref());
        let Some(RemoteTurn { tenure, number }) = remote else {
            end.await;
            return HoldOver::ByItself;
        };
        let is_lost = async {
            if *number == 0 {
                tenure.watch_over(session).await;
            } else {
                tenure.over.cancelled().await;
            }
        };
        tokio::select! {
            biased;
            () = end => HoldOver::ByItself,
            () = is_lost => HoldOver::Lost,
        }
    }

    async fn release(&mut self, session: &Session, _: Held) -> Result<(), Failure> {
        if let Some(owned) = self.owned.as_mut().filter(|owned| owned.count > 1) {
            owned.count -= 1;
            return Ok(());
        }
        let Some(Owned { mut turn, .. }) = self.owned.take() else { return Ok(()) };
        let Some(remote) = turn.remote.take() else { return Ok(()) };
        let is_first = remote.number == 0;
        if is_first {
            remote.tenure.look_at(session, session.states().peek_state());
        }
        if remote.can_be_handed_on() && turn.cohort.is_wanted() {
            if is_first {
                remote.tenure.keep(session, self.remote.retry);
            }
            turn.give(Some(remote.next()));
            return Ok(());
        }
        let ended = remote.tenure.end(session, &mut self.remote).await;
        // The next contender queues behind all waiters, including those behind this node.
        turn.give(None);
        ended
    }
}

impl CohortLock {
    async fn take_remote(&mut self, session: &Session, patience: &Patience) -> Acquired<Arc<Tenure>> {
        let node = self.remote.enter(session, "lock-", patience, &QueueNode::predecessor).await?;
        Ok(Arc::new(Tenure {
            node,
            most_turns: self.turns,
            until: clock::now().saturating_add(clock::micros(self.time)),
            keeper: Mutex::default(),
            // The servers have just answered, so the session is known to be alive.
            lasts_until: AtomicU64::new(a_third_from_now(session)),
            over: CancellationToken::new(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AcquireError;

    fn tenure(most_turns: u64) -> (Arc<Tenure>, oneshot::Receiver<Order>) {
        let (keeper, orders) = oneshot::channel();
        let node = QueueNode { path: "/lock/n-0000000001".into(), sequence: 1, czxid: 7 };
        let (keeper, lasts_until) = (Mutex::new(Some(keeper)), AtomicU64::new(Stamp::MAX));
        let over = CancellationToken::new();
        (Arc::new(Tenure { node, most_turns, until: Stamp::MAX, keeper, lasts_until, over }), orders)
    }

    #[tokio::test]
    async fn turns_follow_arrival_order_and_a_dropped_turn_passes_to_the_next_waiter() {
        let cohort = Arc::<Cohort>::default();
        let first = cohort.turn(&Patience::default()).await.unwrap();
        let (short, long) = (Patience::default(), Patience::default());
        let mut second = Box::pin(cohort.turn(&short));
        let mut third = Box::pin(cohort.turn(&long));
        assert!(futures_util::poll!(&mut second).is_pending());
        assert!(futures_util::poll!(&mut third).is_pending());
        // The second contender gives up at the moment when the lock is passed to it.
        drop(first);
        short.cancel.cancel();
        assert!(matches!(second.await, Err(AcquireError::Cancelled)));
        let turn = third.await.unwrap();
        assert!(turn.remote.is_none() && !cohort.is_wanted());
        drop(turn);
        assert!(!locked(&cohort.0).is_taken);
    }

    #[tokio::test]
    async fn lock_of_a_dead_holder_is_passed_on_and_the_last_turn_orders_the_deletion() {
        let cohort = Arc::<Cohort>::default();
        let mut first = cohort.turn(&Patience::default()).await.unwrap();
        let (tenure, mut orders) = tenure(3);
        first.remote = Some(RemoteTurn { tenure, number: 1 });
        let asked = Patience::default();
        let mut second = Box::pin(cohort.turn(&asked));
        assert!(futures_util::poll!(&mut second).is_pending());
        drop(first);
        let second = second.await.unwrap();
        assert_eq!(second.remote.as_ref().map(|remote| remote.number), Some(2));
        assert!(orders.try_recv().is_err());
        let mut third = Box::pin(cohort.turn(&asked));
        assert!(futures_util::poll!(&mut third).is_pending());
        drop(second);
        assert!(third.await.unwrap().remote.is_none() && matches!(orders.try_recv(), Ok(None)));
    }

    #[tokio::test]
    async fn node_whose_session_is_over_or_in_doubt_admits_no_contender() {
        for is_over in [true, false] {
            let cohort = Arc::<Cohort>::default();
            let mut first = cohort.turn(&Patience::default()).await.unwrap();
            let (tenure, mut orders) = tenure(10);
            if is_over {
                tenure.over.cancel();
            } else {
                tenure.lasts_until.store(clock::now(), Ordering::Release);
            }
            first.remote = Some(RemoteTurn { tenure, number: 1 });
            let asked = Patience::default();
            let mut second = Box::pin(cohort.turn(&asked));
            assert!(futures_util::poll!(&mut second).is_pending());
            drop(first);
            assert!(second.await.unwrap().remote.is_none() && matches!(orders.try_recv(), Ok(None)));
        }
    }

    #[tokio::test]
    async fn lock_without_waiters_is_released() {
        let cohort = Arc::<Cohort>::default();
        let turn = cohort.turn(&Patience::default()).await.unwrap();
        let (tenure, mut orders) = tenure(10);
        turn.give(Some(RemoteTurn { tenure, number: 1 }));
        assert!(matches!(orders.try_recv(), Ok(None)) && !locked(&cohort.0).is_taken);
    }
}
