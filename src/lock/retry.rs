//! When to try a request again after a failure that left its outcome open.

use std::time::Duration;

use rand::Rng;

use crate::zk::{Failure, reactor};

/// Exponential back-off with jitter: the n-th pause is the base times a random number up to 2^(n+1).
///
/// Source: Curator, `ExponentialBackoffRetry`.
#[derive(Debug, Clone, Copy)]
pub struct Retry {
    /// Unit of the pauses.
    pub base: Duration,
    /// How many times to try again.
    pub times: u32,
}

impl Retry {
    /// Whether that failure is worth another try at all.
    #[must_use]
    pub fn is_retryable(failure: &Failure) -> bool {
        matches!(failure, Failure::ConnectionLoss)
    }

    /// The pause before the n-th new try, counted from 0; `None` when there are no more.
    #[must_use]
    pub fn pause(&self, n: u32) -> Option<Duration> {
        let most = 1_u32 << (n + 1).min(29);
        (n < self.times).then(|| self.base * rand::rng().random_range(1..most.max(2)))
    }

    /// Sends a request, and again after each failure that is worth it.
    ///
    /// # Errors
    /// The last failure.
    pub async fn around<T, F: Future<Output = Result<T, Failure>>>(
        &self,
        request: impl Fn() -> F,
    ) -> Result<T, Failure> {
        let mut attempt = 0;
        loop {
            let failure = match request().await {
                Ok(reply) => return Ok(reply),
                Err(failure) => failure,
            };
            let pause = self.pause(attempt).filter(|_| Self::is_retryable(&failure)).ok_or(failure)?;
            reactor::sleep(pause).await;
            attempt += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_end() {
        let retry = Retry { base: Duration::from_millis(10), times: 3 };
        assert!(retry.pause(0).unwrap() < Duration::from_millis(20));
        assert!(retry.pause(2).unwrap() < Duration::from_millis(80));
        assert_eq!(retry.pause(3), None);
    }
}
