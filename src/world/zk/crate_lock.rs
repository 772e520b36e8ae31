//! The client library's own lock. It sends its requests past the session, so little of it can be counted.

use std::future::poll_fn;
use std::pin::pin;

use zookeeper_client::{Acls, Error as ClientError, LockPrefix};

use super::outcome::Failure;
use super::session::Session;
use super::wire;
use crate::words::clock;
use crate::words::measure::RequestKind;

impl Session {
    /// Queues with an ephemeral sequential node named `prefix` plus its number, and waits until no child whose
    /// name contains `contenders` has a lower one. Returns the node's path; deleting it is left to the caller.
    ///
    /// The create is counted. What follows is not seen here: a getChildren, and, while another is before it,
    /// a getData with a watch, its notification and a getChildren again. The acquire is noted as one that was
    /// not all seen.
    ///
    /// Dropped before its end, it lets the library delete the node behind the caller's back: a removeWatches
    /// and a delete, or, when the create is still unanswered, a look for the node before that.
    ///
    /// # Errors
    /// [`Failure::OwnNodeMissing`] when the node went while it waited; else the request's failure.
    pub async fn crate_lock(&self, prefix: &str, contenders: &str) -> Result<String, Failure> {
        let acls = if self.0.owned { Acls::creator_all() } else { Acls::anyone_all() };
        let name = LockPrefix::new_custom(prefix.to_owned(), contenders)?;
        let sent = self.sending(RequestKind::Create, prefix, wire::create(prefix, &[], self.0.owned));
        self.0.observed.recorder.borrow_mut().count(sent.at, |counts| counts.unseen += 1);
        let waker = self.0.take_waker();
        let locked = {
            let mut locking = pin!(self.0.client.lock(name, &[], acls));
            poll_fn(|cx| waker.poll(locking.as_mut(), cx)).await
        };
        self.0.return_waker(waker);
        let held = locked.map_err(|error| match error {
            ClientError::RuntimeInconsistent => Failure::OwnNodeMissing,
            other => other.into(),
        })?;
        self.0.observed.recorder.borrow_mut().count(clock::now(), |counts| {
            counts.succeeded.add(sent.kind, 1);
            counts.bytes_received += wire::created(held.lock_path());
        });
        let path = held.lock_path().to_owned();
        // Its destructor would delete the node once more, at the price of a proposal. This leaks its copy of
        // the path.
        std::mem::forget(held);
        Ok(path)
    }
}
