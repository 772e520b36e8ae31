//! Waiting that can end: by what was awaited, by the acquire timeout, or by being asked to stop.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::clock::{self, Stamp};
use crate::zk::reactor;

/// Counts the contenders that are waiting at this moment.
#[derive(Debug, Clone, Default)]
pub struct WaitGauge(Arc<AtomicUsize>);

impl WaitGauge {
    /// How many are waiting.
    #[must_use]
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

/// Why a wait ended before what was awaited came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The deadline passed.
    TimedOut,
    /// Somebody asked to stop.
    Cancelled,
}

/// The clock by which a contender keeps its deadlines: this host's, and by how much it has jumped ahead of it.
#[derive(Debug, Clone, Default)]
pub struct DeadlineClock(Arc<Jumps>);

#[derive(Debug, Default)]
struct Jumps {
    ahead_us: AtomicU64,
    jumped: Notify,
}

impl DeadlineClock {
    /// Jumps ahead, as when somebody sets a clock.
    pub fn jump(&self, by: Duration) {
        self.0.ahead_us.fetch_add(clock::micros(by), Ordering::SeqCst);
        self.0.jumped.notify_waiters();
    }

    /// What it shows.
    #[must_use]
    pub fn now(&self) -> Stamp {
        clock::now().saturating_add(self.0.ahead_us.load(Ordering::SeqCst))
    }

    /// Returns when it shows that time; never without one.
    async fn reaches(&self, deadline: Option<Stamp>) {
        let Some(deadline) = deadline else { return std::future::pending().await };
        loop {
            let jumped = self.0.jumped.notified();
            let ahead = self.0.ahead_us.load(Ordering::SeqCst);
            let sleep = reactor::sleep_until(Some(deadline.saturating_sub(ahead)));
            tokio::select! {
                biased;
                () = sleep => return,
                () = jumped => {}
            }
        }
    }
}

/// How long one acquire may wait, and what can end it early.
#[derive(Debug, Clone)]
pub struct Patience {
    /// When it ends; `None` for never.
    pub deadline: Option<Stamp>,
    /// By which clock.
    pub clock: DeadlineClock,
    /// Ends it at once.
    pub cancel: CancellationToken,
    /// Where the wait is shown.
    pub gauge: WaitGauge,
}

impl Patience {
    /// Waits for something. Only waits are cut short, never a request that is out.
    ///
    /// # Errors
    /// [`Ended`] when the deadline or a cancellation came first.
    pub async fn wait<T>(&self, awaited: impl Future<Output = T>) -> Result<T, Ended> {
        let _waiting = self.gauge.enter();
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(Ended::Cancelled),
            value = awaited => Ok(value),
            () = self.clock.reaches(self.deadline) => Err(Ended::TimedOut),
        }
    }

    /// Sleeps, as a waiting contender does between two looks.
    ///
    /// # Errors
    /// [`Ended`] when the deadline or a cancellation came first.
    pub async fn sleep(&self, duration: Duration) -> Result<(), Ended> {
        self.wait(reactor::sleep(duration)).await
    }

    /// Whether the deadline has passed.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= self.clock.now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patience(deadline: Option<Duration>) -> Patience {
        Patience {
            deadline: deadline.map(|after| clock::now() + clock::micros(after)),
            clock: DeadlineClock::default(),
            cancel: CancellationToken::new(),
            gauge: WaitGauge::default(),
        }
    }

    #[tokio::test]
    async fn a_wait_ends_at_its_deadline_and_no_longer_shows_in_the_gauge() {
        let patience = patience(Some(Duration::from_millis(20)));
        assert_eq!(patience.wait(std::future::pending::<()>()).await, Err(Ended::TimedOut));
        assert_eq!(patience.gauge.waiting(), 0);
        assert!(patience.is_over());
    }

    #[tokio::test]
    async fn a_clock_that_jumps_ahead_ends_a_wait_and_a_wait_without_a_deadline_does_not_care() {
        let waiting = patience(Some(Duration::from_secs(3_600)));
        let jumping = async {
            tokio::time::sleep(Duration::from_millis(10)).await;
            waiting.clock.jump(Duration::from_secs(3_601));
        };
        let (ended, ()) = tokio::join!(waiting.wait(std::future::pending::<()>()), jumping);
        assert_eq!((ended, waiting.is_over()), (Err(Ended::TimedOut), true));
        let endless = Patience { deadline: None, ..waiting };
        assert_eq!(endless.wait(std::future::ready(1)).await, Ok(1));
    }

    #[tokio::test]
    async fn a_cancelled_wait_ends_even_when_the_awaited_is_there() {
        let patience = patience(None);
        patience.cancel.cancel();
        assert_eq!(patience.wait(std::future::ready(1)).await, Err(Ended::Cancelled));
    }
}
