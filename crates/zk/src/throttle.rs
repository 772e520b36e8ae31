//! A rate limit for this process's requests, for ensembles shared with other users.
//!
//! Requests themselves are never delayed, because the delay would be included in the lock's measured times.
//! Instead, new work waits until earlier requests are paid for.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use super::runtime;
use zklockbench_core::clock::{self, Stamp};

/// Lower bound of the credit limit, in requests. Applies at low rates.
const LEAST_CREDIT: i64 = 100;

#[derive(Debug)]
pub struct Throttle {
    per_s: f64,
    between_ns: u64,
    /// Time at which all requests so far are paid for, in nanoseconds of process time.
    paid_at: AtomicU64,
    /// Number of prepaid requests.
    credit: AtomicI64,
    sent: AtomicU64,
}

impl Throttle {
    pub fn at_most(per_s: f64) -> Arc<Self> {
        let between_ns = (1e9 / per_s.max(1e-3)) as u64;
        let [paid_at, sent] = [const { AtomicU64::new(0) }; 2];
        Arc::new(Self { per_s, between_ns, paid_at, credit: AtomicI64::new(0), sent })
    }

    pub fn per_s(&self) -> f64 {
        self.per_s
    }

    /// Returns the number of requests sent so far.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Charges for sent requests.
    pub fn spend(&self, requests: u64) {
        self.sent.fetch_add(requests, Ordering::Relaxed);
        let count = i64::try_from(requests).unwrap_or(i64::MAX);
        let credit = self.credit.fetch_sub(count, Ordering::Relaxed).clamp(0, count);
        self.credit.fetch_add(count - credit, Ordering::Relaxed);
        let due = (count - credit).unsigned_abs().saturating_mul(self.between_ns);
        let now = clock::now() * 1_000;
        let paid = |paid_at: u64| Some(paid_at.max(now).saturating_add(due));
        let _ = self.paid_at.fetch_update(Ordering::AcqRel, Ordering::Relaxed, paid);
    }

    /// Admits and prepays new work of about this many requests, or returns the time for the next attempt.
    pub fn try_admit(&self, requests: u32) -> Result<(), Stamp> {
        let now = clock::now() * 1_000;
        let pays = |paid_at: u64| {
            (paid_at <= now).then(|| now.saturating_add(u64::from(requests).saturating_mul(self.between_ns)))
        };
        match self.paid_at.fetch_update(Ordering::AcqRel, Ordering::Acquire, pays) {
            Ok(_) => {
                self.credit.fetch_add(i64::from(requests), Ordering::Relaxed);
                // Limit the credit, so that cheap cycles cannot accumulate enough for a burst.
                self.credit.fetch_min((self.per_s as i64).max(LEAST_CREDIT), Ordering::Relaxed);
                Ok(())
            }
            Err(paid_at) => Err(paid_at.div_ceil(1_000)),
        }
    }

    /// Waits until new work is admitted.
    pub async fn admit(&self, requests: u32) {
        while let Err(at) = self.try_admit(requests) {
            runtime::sleep_until(Some(at)).await;
        }
    }

    /// Waits until a session is admitted, and pays for opening and closing it.
    pub async fn admit_session(&self) {
        self.admit_outside_the_load(2).await;
    }

    /// Waits until this many requests outside the load may be sent, and pays for them.
    pub async fn admit_outside_the_load(&self, requests: u32) {
        self.admit(requests).await;
        self.spend(u64::from(requests));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_admitted_only_after_earlier_requests_are_paid_for() {
        let throttle = Throttle::at_most(100.0);
        let begun = clock::now();
        assert_eq!(throttle.try_admit(4), Ok(()));
        let again = throttle.try_admit(4).unwrap_err();
        assert!((39_000..60_000).contains(&(again - begun)), "{}", again - begun);
        // Four requests are prepaid; two more are not.
        throttle.spend(6);
        let later = throttle.try_admit(1).unwrap_err();
        assert!((19_000..=21_000).contains(&(later - again)), "{}", later - again);
        assert_eq!(throttle.sent(), 6);
    }

    #[tokio::test]
    async fn request_rate_stays_within_the_limit_for_cycles_of_any_cost() {
        let throttle = Throttle::at_most(1_000.0);
        let begun = clock::now();
        for requests in [1, 9, 3, 40, 2, 45, 1, 1] {
            throttle.admit(4).await;
            throttle.spend(requests);
        }
        throttle.admit(1).await;
        let took = clock::now() - begun;
        assert!(took >= 101_000, "102 requests in {took} µs");
    }
}
