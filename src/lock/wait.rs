//! Waiting that can end: by what was awaited, by the acquire timeout, or by being asked to stop.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

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

/// How long one acquire may wait, and what can end it early.
#[derive(Debug, Clone)]
pub struct Patience {
    /// When it ends; `None` for never.
    pub deadline: Option<Stamp>,
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
            () = reactor::sleep_until(self.deadline) => Err(Ended::TimedOut),
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
        self.deadline.is_some_and(|deadline| deadline <= clock::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patience(deadline: Option<Duration>) -> Patience {
        Patience {
            deadline: deadline.map(|after| clock::now() + clock::micros(after)),
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
    async fn a_cancelled_wait_ends_even_when_the_awaited_is_there() {
        let patience = patience(None);
        patience.cancel.cancel();
        assert_eq!(patience.wait(std::future::ready(1)).await, Err(Ended::Cancelled));
    }
}
