//! The handle to a watch: waiting for its notification, leaving it behind, taking it off the server.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use super::armed::{Armed, EventKind};
use super::inner::Inner;

/// A handle to an armed watch.
///
/// Dropping it leaves the watch armed, as Java clients do: its notification is then still counted when it
/// arrives. [`Watch::remove`] takes it off the server, at the price of a request.
pub struct Watch {
    armed: Option<Armed>,
    session: Rc<Inner>,
}

impl Watch {
    pub(super) fn new(armed: Armed, session: Rc<Inner>) -> Self {
        Self { armed: Some(armed), session }
    }

    /// Waits for the notification. Cancelling the wait leaves the watch armed.
    pub async fn changed(&mut self) -> EventKind {
        let arrival = poll_fn(|cx| match &mut self.armed {
            Some(armed) => armed.poll(cx, true),
            // Fired before: whoever waits again is answered at once, as by a latch.
            None => Poll::Pending,
        })
        .await;
        self.armed = None;
        let kind = arrival.kind;
        self.session.news.learn(arrival.zxid);
        self.session.woken_by(&arrival);
        self.session.deliver(arrival);
        kind
    }

    /// Whether its notification is still to come.
    #[must_use]
    pub fn is_armed(&self) -> bool {
        self.armed.as_ref().is_some_and(|armed| !armed.has_arrived())
    }

    /// Takes the watch off the server with a removeWatches request, as this client library does when an
    /// armed watch is dropped.
    pub fn remove(mut self) {
        if let Some(armed) = self.armed.take() {
            self.session.count_removal(&armed.path);
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(armed) = self.armed.take() {
            self.session.park(armed);
        }
    }
}
