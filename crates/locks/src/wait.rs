//! Waiting: deadlines and cancellation, connection events as in Java clients, and polled flags.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{AcquireError, Acquired, LockConfig};
use zklockbench_core::catalog::{BatchCost, Param, ParamKind, ParamValue, Params};
use zklockbench_core::clock::{self, Stamp};
use zklockbench_zk::{Session, SessionState, SessionStates, runtime};

/// Number of contenders that are currently waiting.
#[derive(Debug, Clone, Default)]
pub struct WaitGauge(Arc<AtomicUsize>);

impl WaitGauge {
    pub fn waiting(&self) -> usize {
        self.0.load(Ordering::Acquire)
    }

    fn enter(&self) -> Waiting<'_> {
        self.0.fetch_add(1, Ordering::AcqRel);
        Waiting(self)
    }
}

struct Waiting<'a>(&'a WaitGauge);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Clock for a contender's deadlines: the host's clock plus all simulated forward jumps.
#[derive(Debug, Clone, Default)]
pub struct DeadlineClock(Arc<Jumps>);

#[derive(Debug, Default)]
struct Jumps {
    ahead_us: AtomicU64,
    jumped: Notify,
}

impl DeadlineClock {
    pub fn jump(&self, by: Duration) {
        self.0.ahead_us.fetch_add(clock::micros(by), Ordering::SeqCst);
        self.0.jumped.notify_waiters();
    }

    pub fn now(&self) -> Stamp {
        clock::now().saturating_add(self.0.ahead_us.load(Ordering::SeqCst))
    }

    /// Returns when the clock reaches `deadline`; never if `deadline` is `None`.
    async fn reaches(&self, deadline: Option<Stamp>) {
        let Some(deadline) = deadline else { return std::future::pending().await };
        loop {
            let jumped = self.0.jumped.notified();
            let ahead = self.0.ahead_us.load(Ordering::SeqCst);
            let sleep = runtime::sleep_until(Some(deadline.saturating_sub(ahead)));
            tokio::select! {
                biased;
                () = sleep => return,
                () = jumped => {}
            }
        }
    }
}

/// Deadline and cancellation of one acquire; by default, the acquire waits forever.
#[derive(Debug, Clone, Default)]
pub struct Patience {
    /// End of the wait; `None` if there is no timeout.
    pub deadline: Option<Stamp>,
    /// Whether the acquire is a try, which times out at once unless the lock is free.
    pub tries_once: bool,
    pub clock: DeadlineClock,
    /// Cancels the wait.
    pub cancel: CancellationToken,
    pub gauge: WaitGauge,
}

impl Patience {
    /// Waits for `awaited` until the deadline or a cancellation. A try polls `awaited` only once.
    pub async fn wait<T>(&self, awaited: impl Future<Output = T>) -> Acquired<T> {
        if self.tries_once {
            let is_cancelled = self.cancel.is_cancelled();
            let ready = if is_cancelled { Err(AcquireError::Cancelled) } else { Ok(awaited.now_or_never()) };
            return ready?.ok_or(AcquireError::TimedOut);
        }
        let _waiting = self.gauge.enter();
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(AcquireError::Cancelled),
            value = awaited => Ok(value),
            () = self.clock.reaches(self.deadline) => Err(AcquireError::TimedOut),
        }
    }

    /// Sleeps between two checks; counts as waiting.
    pub async fn sleep(&self, duration: Duration) -> Acquired<()> {
        self.wait(runtime::sleep(duration)).await
    }

    pub fn is_over(&self) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= self.clock.now())
    }
}

/// Connection changes. Java's client reports them to every watcher, so they wake every waiter.
///
/// A change between two waits ends the second wait at once, unless [`AnyEvent::forget`] is called first.
#[derive(Default)]
pub struct AnyEvent(Option<(i64, SessionStates)>);

impl AnyEvent {
    /// Returns the result of `other`, or `None` at the connection's next change.
    pub async fn or<T>(&mut self, session: &Session, other: impl Future<Output = T>) -> Option<T> {
        let states = self.changes(session);
        tokio::select! {
            biased;
            event = other => Some(event),
            _ = states.changed() => None,
        }
    }

    /// Returns when the session has reconnected or is over.
    pub async fn reconnected(&mut self, session: &Session) {
        self.forget(session);
        let states = self.changes(session);
        loop {
            let state = states.changed().await;
            if state == SessionState::SyncConnected || state.is_terminated() {
                return;
            }
        }
    }

    /// Discards earlier changes, so that they do not end the next wait.
    pub fn forget(&mut self, session: &Session) {
        self.changes(session).state();
    }

    fn changes(&mut self, session: &Session) -> &mut SessionStates {
        self.0.take_if(|(id, _)| *id != session.id());
        &mut self.0.get_or_insert_with(|| (session.id(), session.states())).1
    }
}

const DEFAULT_INTERVAL: Duration = Duration::from_secs(1);

pub const BLOCKING: Param = Param {
    name: "blocking",
    kind: ParamKind::Bool,
    default: "true",
    doc: "Whether an acquire waits. If not, it times out at once unless it is first in the queue.",
};

pub fn blocks(params: &Params) -> bool {
    !matches!(params.get(BLOCKING.name), Some(ParamValue::Bool(false)))
}

/// Returns the cost of a batch of acquires that do not wait. The cost is open, because timing decides how many
/// acquires succeed.
pub fn cost_of_tries() -> BatchCost {
    BatchCost { open: true, ..BatchCost::default() }
}

pub const WAKE: Param = Param {
    name: "wake",
    kind: ParamKind::OneOf(&["at-once", "poll-flag"]),
    default: "at-once",
    doc: "Whether the contender continues as soon as its watcher fires, or checks a flag periodically.",
};

pub const FLAG_INTERVAL: Param = Param {
    name: "flag_interval",
    kind: ParamKind::Duration,
    default: "1s",
    doc: "Time between two checks of the flag; only with `wake = \"poll-flag\"` or `class = \"article\"`.",
};

/// Flag that a contender polls at fixed intervals from the start of its acquire; `None` if the contender does
/// not poll.
///
/// The three-strategy article's classes work like this: a watcher sets the flag, and the waiting thread polls
/// it.
#[derive(Debug, Clone, Copy)]
pub struct Flag(Option<Duration>);

impl Flag {
    pub fn of(config: &LockConfig) -> Self {
        let interval = config.duration(FLAG_INTERVAL.name, DEFAULT_INTERVAL);
        let looks = config.is(WAKE.name, "poll-flag") || config.is("class", "article");
        Self(looks.then_some(interval))
    }

    /// Waits until the next check finds the flag set.
    pub async fn noticed(self, begun: Stamp, patience: &Patience) -> Acquired<()> {
        match self.0.filter(|_| !patience.tries_once) {
            Some(interval) => patience.sleep(until_next_look(interval, begun, clock::now())).await,
            None => Ok(()),
        }
    }
}

/// Returns the time until the next check. The first check comes after one interval, not at the start.
fn until_next_look(interval: Duration, begun: Stamp, now: Stamp) -> Duration {
    let interval_us = clock::micros(interval).max(1);
    Duration::from_micros(interval_us - (now - begun) % interval_us)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patience(deadline: Option<Duration>) -> Patience {
        let deadline = deadline.map(|after| clock::now() + clock::micros(after));
        Patience { deadline, ..Patience::default() }
    }

    #[test]
    fn acquire_blocks_unless_blocking_is_false() {
        let blocking = |value| Params::from([(BLOCKING.name.to_owned(), ParamValue::Bool(value))]);
        let found = [Params::default(), blocking(true), blocking(false)].map(|params| blocks(&params));
        assert_eq!(found, [true, true, false]);
        assert!(cost_of_tries().open, "the number of successful tries depends on timing");
    }

    #[tokio::test]
    async fn wait_ends_at_its_deadline_and_is_no_longer_counted() {
        let patience = patience(Some(Duration::from_millis(20)));
        assert_eq!(patience.wait(std::future::pending::<()>()).await, Err(AcquireError::TimedOut));
        assert_eq!(patience.gauge.waiting(), 0);
        assert!(patience.is_over());
    }

    #[tokio::test]
    async fn clock_jump_ends_only_waits_with_a_deadline() {
        let waiting = patience(Some(Duration::from_secs(3_600)));
        let jumping = async {
            tokio::time::sleep(Duration::from_millis(10)).await;
            waiting.clock.jump(Duration::from_secs(3_601));
        };
        let (ended, ()) = tokio::join!(waiting.wait(std::future::pending::<()>()), jumping);
        assert_eq!((ended, waiting.is_over()), (Err(AcquireError::TimedOut), true));
        let endless = Patience { deadline: None, ..waiting };
        assert_eq!(endless.wait(std::future::ready(1)).await, Ok(1));
    }

    #[tokio::test]
    async fn try_succeeds_only_if_the_result_is_ready() {
        let try_once = Patience { tries_once: true, ..Patience::default() };
        assert_eq!(try_once.wait(std::future::ready(1)).await, Ok(1));
        assert_eq!(try_once.wait(std::future::pending::<()>()).await, Err(AcquireError::TimedOut));
        assert_eq!(try_once.sleep(Duration::from_secs(3_600)).await, Err(AcquireError::TimedOut));
        let flag = Flag(Some(Duration::from_secs(3_600)));
        assert_eq!(flag.noticed(clock::now(), &try_once).await, Ok(()), "the flag is already set");
        try_once.cancel.cancel();
        assert_eq!(try_once.wait(std::future::ready(1)).await, Err(AcquireError::Cancelled));
    }

    #[tokio::test]
    async fn gauge_counts_current_waits() {
        let patience = patience(None);
        let seen = patience.wait(async { patience.wait(async { patience.gauge.waiting() }).await });
        assert_eq!((seen.await, patience.gauge.waiting()), (Ok(Ok(2)), 0));
    }

    #[tokio::test]
    async fn sleep_lasts_its_full_duration_or_until_the_deadline() {
        let begun = clock::now();
        assert_eq!(patience(None).sleep(Duration::from_millis(30)).await, Ok(()));
        assert!(clock::now() - begun >= 30_000);
        let short = patience(Some(Duration::from_millis(10)));
        assert_eq!(short.sleep(Duration::from_secs(3_600)).await, Err(AcquireError::TimedOut));
    }

    #[tokio::test]
    async fn polled_flag_is_noticed_at_the_next_check() {
        let (patience, begun) = (patience(None), clock::now());
        assert_eq!(Flag(Some(Duration::from_millis(30))).noticed(begun, &patience).await, Ok(()));
        assert!(clock::now() - begun >= 30_000);
        patience.cancel.cancel();
        let at_once = Flag(None).noticed(begun, &patience).await;
        assert_eq!(at_once, Ok(()), "without a flag there is no wait to cancel");
    }

    #[tokio::test]
    async fn cancelled_wait_fails_even_if_the_result_is_ready() {
        let patience = patience(None);
        patience.cancel.cancel();
        assert_eq!(patience.wait(std::future::ready(1)).await, Err(AcquireError::Cancelled));
    }

    #[test]
    fn flag_is_checked_once_per_interval() {
        let left = |elapsed_us: u64| until_next_look(Duration::from_secs(1), 70, 70 + elapsed_us).as_micros();
        assert_eq!((left(0), left(1), left(999_999), left(1_000_000)), (1_000_000, 999_999, 1, 1_000_000));
        assert_eq!(left(2_300_000), 700_000);
    }
}
