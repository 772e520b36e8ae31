//! What was sent and received on behalf of a trial's lock, by whichever count knows it.

use super::{Counting, Trial};
use crate::words::measure::PerRequest;

/// What was sent and received on behalf of a lock, and over how many acquisitions.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sent {
    pub acquired: u64,
    pub releases: u64,
    pub requests: u64,
    pub notifications: u64,
    pub by_release: Option<u64>,
    pub names: u64,
    pub bytes_sent: u64,
    pub bytes_received: u64,
}

impl Trial {
    /// Whether its requests are known from a trial of their own only.
    pub fn is_counted_apart(&self) -> bool {
        self.driver.is_some()
    }

    pub fn on_the_wire(&self) -> Option<&Counting> {
        self.counting.as_ref().filter(|counting| counting.is_there())
    }

    /// What was sent and received: by the session's own count, in the measured phase; of a driver's lock, by that on the wire.
    /// `None` where not all of it was seen.
    pub(super) fn sent(&self) -> Option<Sent> {
        if self.is_counted_apart() {
            let counting = self.on_the_wire()?;
            let counts = &counting.counted;
            return Some(Sent {
                acquired: counts.acquired,
                // Nothing is broken in such a trial: who has acquired releases.
                releases: counts.acquired,
                requests: counts.all_requests(),
                notifications: counts.notifications.total(),
                by_release: counting.by_release,
                names: counts.names_returned,
                bytes_sent: counts.bytes_sent,
                bytes_received: counts.bytes_received,
            });
        }
        let counts = &self.measured;
        (counts.unseen == 0).then(|| Sent {
            acquired: counts.acquired(),
            releases: counts.releases,
            requests: counts.requests.total(),
            notifications: counts.notifications.total(),
            by_release: Some(counts.notifications.by_release()),
            names: counts.names_returned,
            bytes_sent: counts.bytes_sent,
            bytes_received: counts.bytes_received,
        })
    }

    /// Requests by kind, and over how many acquisitions; as the figures have them.
    pub fn requests_by_kind(&self) -> Option<(PerRequest, u64)> {
        let acquired = self.sent()?.acquired;
        let requests = match self.on_the_wire().filter(|_| self.is_counted_apart()) {
            Some(counting) => counting.counted.requests,
            None => self.measured.requests,
        };
        Some((requests, acquired))
    }
}
