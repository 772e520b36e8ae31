//! The door through which a contender comes to ask for the lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use tokio::sync::Notify;

use crate::clock::{self, Stamp};

/// One contender's door. Shut, it lets the contender finish its turn and then keeps it away.
#[derive(Debug, Default)]
pub struct Door {
    /// How many keep it shut.
    shut: AtomicUsize,
    /// Its contender has come in, for a turn.
    is_in: AtomicBool,
    opened_at: AtomicU64,
    opened: Notify,
}

impl Door {
    /// Comes in, once the door is open. Returns when it should have come: at that time, or when the door was opened if
    /// it was shut then.
    pub async fn come_in(&self, intended: Stamp) -> Stamp {
        // First in, then the look: whoever shuts the door and sees nobody inside is right.
        self.is_in.store(true, Ordering::SeqCst);
        if !self.is_shut() {
            return intended;
        }
        loop {
            self.is_in.store(false, Ordering::SeqCst);
            let opened = self.opened.notified();
            if self.is_shut() {
                opened.await;
            }
            self.is_in.store(true, Ordering::SeqCst);
            if !self.is_shut() {
                return intended.max(self.opened_at.load(Ordering::SeqCst));
            }
        }
    }

    /// Its turn is over.
    pub fn go_out(&self) {
        self.is_in.store(false, Ordering::SeqCst);
    }

    /// Whether its contender has come in and not gone out yet.
    #[must_use]
    pub fn is_in(&self) -> bool {
        self.is_in.load(Ordering::SeqCst)
    }

    fn is_shut(&self) -> bool {
        self.shut.load(Ordering::SeqCst) > 0
    }

    fn shut(&self) {
        self.shut.fetch_add(1, Ordering::SeqCst);
    }

    fn open(&self, at: Stamp) {
        self.opened_at.store(at, Ordering::SeqCst);
        self.shut.fetch_sub(1, Ordering::SeqCst);
        self.opened.notify_waiters();
    }
}

/// Doors that are shut as long as this lives, however it ends, and then are opened all at once.
#[derive(Debug)]
pub struct KeptAway(Vec<Arc<Door>>);

impl KeptAway {
    /// Shuts these.
    #[must_use]
    pub fn behind(doors: Vec<Arc<Door>>) -> Self {
        doors.iter().for_each(|door| door.shut());
        Self(doors)
    }

    /// Whether all have gone out.
    #[must_use]
    pub fn are_out(&self) -> bool {
        !self.0.iter().any(|door| door.is_in())
    }
}

impl Drop for KeptAway {
    fn drop(&mut self) {
        let at = clock::now();
        self.0.iter().for_each(|door| door.open(at));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn an_open_door_lets_in_at_the_intended_time_and_a_shut_one_when_all_have_opened_it() {
        let door = Arc::new(Door::default());
        assert_eq!(door.come_in(7).await, 7);
        let one = KeptAway::behind(vec![Arc::clone(&door)]);
        assert!(!one.are_out(), "it finishes its turn");
        door.go_out();
        assert!(one.are_out());
        let other = KeptAway::behind(vec![Arc::clone(&door)]);
        let waiting = tokio::spawn({
            let door = Arc::clone(&door);
            async move { door.come_in(7).await }
        });
        drop(one);
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(!waiting.is_finished() && !door.is_in());
        let before = clock::now();
        drop(other);
        let came = waiting.await.unwrap();
        assert!((before..=clock::now()).contains(&came), "{came}");
        assert!(door.is_in());
    }
}
