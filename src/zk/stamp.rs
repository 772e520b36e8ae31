//! Stamps the moment at which a reply or a notification arrives, not the one at which somebody looks.
//!
//! The client library wakes the waiting task from the task that has just read the socket. [`StampWaker`]
//! stands between the two: it notes the time inside that wake-up and then passes it on. The difference to
//! the moment at which the contender runs is the generator's own dispatch lag, measured on every sample.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;

use crate::clock::{self, Stamp};

/// Counts everything that arrives or leaves, so that a batch can tell when all is quiet.
pub type Pulse = Arc<AtomicU64>;

/// A waker that notes when it was first woken.
#[derive(Debug, Default)]
pub struct StampWaker {
    arrived: AtomicU64,
    task: AtomicWaker,
    pulse: Option<Pulse>,
}

impl StampWaker {
    /// A waker that has not been woken; each wake-up also moves the pulse.
    #[must_use]
    pub fn new(pulse: Option<Pulse>) -> Arc<Self> {
        Arc::new(Self { arrived: AtomicU64::new(0), task: AtomicWaker::new(), pulse })
    }

    /// When it was first woken; `None` if it was not yet.
    #[must_use]
    pub fn arrived(&self) -> Option<Stamp> {
        Some(self.arrived.load(Ordering::Acquire)).filter(|stamp| *stamp != 0)
    }

    /// Forgets the wake-up, for use with another future.
    pub fn reset(&self) {
        self.arrived.store(0, Ordering::Release);
    }

    /// Polls a future so that its wake-up is stamped before it reaches the current task.
    pub fn poll<F: Future + ?Sized>(
        self: &Arc<Self>,
        future: Pin<&mut F>,
        cx: &mut Context<'_>,
    ) -> Poll<F::Output> {
        self.task.register(cx.waker());
        let waker = Waker::from(Arc::clone(self));
        future.poll(&mut Context::from_waker(&waker))
    }
}

impl Wake for StampWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Only the first wake-up is the arrival; 0 means none yet, and no stamp is 0 after start-up.
        let _ = self.arrived.compare_exchange(0, clock::now().max(1), Ordering::AcqRel, Ordering::Relaxed);
        if let Some(pulse) = &self.pulse {
            pulse.fetch_add(1, Ordering::Relaxed);
        }
        self.task.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_stamp_is_taken_when_the_sender_sends_not_when_the_receiver_looks() {
        let (sender, receiver) = tokio::sync::oneshot::channel::<()>();
        let waker = StampWaker::new(None);
        let mut receiver = std::pin::pin!(receiver);
        std::future::poll_fn(|cx| {
            assert!(waker.poll(receiver.as_mut(), cx).is_pending());
            Poll::Ready(())
        })
        .await;
        assert_eq!(waker.arrived(), None);
        sender.send(()).unwrap();
        let sent = clock::now();
        std::thread::sleep(std::time::Duration::from_millis(5));
        assert!(waker.arrived().unwrap() <= sent);
    }
}
