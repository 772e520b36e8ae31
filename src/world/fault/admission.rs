//! Whether a contender is let in to ask for the lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use tokio::sync::Notify;

use crate::words::clock::{self, Stamp};

/// One contender's admission. Closed, it lets the contender finish its turn and then keeps it away.
#[derive(Debug, Default)]
pub struct Admission {
    closed: AtomicUsize,
    /// Its contender has come in, for a turn.
    is_in: AtomicBool,
    opened_at: AtomicU64,
    opened: Notify,
}

impl Admission {
    /// Comes in, once it is admitted. Returns when it should have come: at that time, or when admission was opened if
    /// it was closed then.
    pub async fn come_in(&self, intended: Stamp) -> Stamp {
        // First in, then the look: so admission that is closed and seen empty is empty.
        self.is_in.store(true, Ordering::SeqCst);
        if !self.is_closed() {
            return intended;
        }
        loop {
            self.is_in.store(false, Ordering::SeqCst);
            let opened = self.opened.notified();
            if self.is_closed() {
                opened.await;
            }
            self.is_in.store(true, Ordering::SeqCst);
            if !self.is_closed() {
                return intended.max(self.opened_at.load(Ordering::SeqCst));
            }
        }
    }

    pub fn go_out(&self) {
        self.is_in.store(false, Ordering::SeqCst);
    }

    pub fn is_in(&self) -> bool {
        self.is_in.load(Ordering::SeqCst)
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst) > 0
    }

    fn close(&self) {
        self.closed.fetch_add(1, Ordering::SeqCst);
    }

    fn open(&self, at: Stamp) {
        self.opened_at.store(at, Ordering::SeqCst);
        self.closed.fetch_sub(1, Ordering::SeqCst);
        self.opened.notify_waiters();
    }
}

/// Admissions that are closed as long as this lives, however it ends, and then are opened all at once.
#[derive(Debug)]
pub struct KeptAway(Vec<Arc<Admission>>);

impl KeptAway {
    pub fn behind(admissions: Vec<Arc<Admission>>) -> Self {
        admissions.iter().for_each(|admission| admission.close());
        Self(admissions)
    }

    pub fn are_out(&self) -> bool {
        !self.0.iter().any(|admission| admission.is_in())
    }
}

impl Drop for KeptAway {
    fn drop(&mut self) {
        let at = clock::now();
        self.0.iter().for_each(|admission| admission.open(at));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn an_open_admission_lets_in_at_the_intended_time_and_a_closed_one_when_all_have_opened_it() {
        let admission = Arc::new(Admission::default());
        assert_eq!(admission.come_in(7).await, 7);
        let one = KeptAway::behind(vec![Arc::clone(&admission)]);
        assert!(!one.are_out(), "it finishes its turn");
        admission.go_out();
        assert!(one.are_out());
        let other = KeptAway::behind(vec![Arc::clone(&admission)]);
        let waiting = tokio::spawn({
            let admission = Arc::clone(&admission);
            async move { admission.come_in(7).await }
        });
        drop(one);
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(!waiting.is_finished() && !admission.is_in());
        let before = clock::now();
        drop(other);
        let came = waiting.await.unwrap();
        assert!((before..=clock::now()).contains(&came), "{came}");
        assert!(admission.is_in());
    }
}
