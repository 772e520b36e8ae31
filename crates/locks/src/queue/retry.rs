//! Curator's retry policies, for requests whose connection was lost.

use std::time::Duration;

use rand::Rng;

use crate::LockConfig;
use zklockbench_core::catalog::{Choice, Param, ParamKind};
use zklockbench_core::clock::{self, Stamp};
use zklockbench_zk::{Failure, runtime};

/// Exponential back-off as in Curator's documentation, but with a shorter base.
const SLEEP: Duration = Duration::from_millis(50);
const TIMES: u32 = 3;
const LONGEST: Duration = Duration::from_secs(1);
const ELAPSED: Duration = Duration::from_secs(2);
/// Curator's limit on exponential retries, so that the power of two fits into an int.
const BACKOFF_TIMES: u32 = 29;
/// Curator's longest pause, because it stores milliseconds in an int.
const UNBOUNDED: Duration = Duration::from_millis(i32::MAX as u64);

pub const PARAMS: [Param; 5] = [
    Param {
        name: "retry",
        kind: ParamKind::Choice(&[
            Choice { word: "exponential-backoff", takes: &["retry_sleep", "retry_times"] },
            Choice { word: "bounded-exponential", takes: &["retry_sleep", "retry_times", "retry_max_sleep"] },
            Choice { word: "n-times", takes: &["retry_sleep", "retry_times"] },
            Choice { word: "until-elapsed", takes: &["retry_sleep", "retry_elapsed"] },
            Choice { word: "forever", takes: &["retry_sleep"] },
        ]),
        default: "exponential-backoff",
        doc: "When to resend a request whose connection was lost, and when to restart an acquire whose node is gone.",
    },
    Param {
        name: "retry_sleep",
        kind: ParamKind::Duration,
        default: "50ms",
        doc: "Pause before a retry. Exponential policies multiply it by a random number: at least 1 and, before \
              the n-th retry, less than 2^n.",
    },
    Param {
        name: "retry_times",
        kind: ParamKind::Count(0, 1_000_000),
        default: "3",
        doc: "Maximum number of retries; exponential policies make at most 29.",
    },
    Param { name: "retry_max_sleep", kind: ParamKind::Duration, default: "1s", doc: "Longest pause." },
    Param {
        name: "retry_elapsed",
        kind: ParamKind::Duration,
        default: "2s",
        doc: "Time after the first attempt during which retries may start.",
    },
];

/// A retry policy.
///
/// Source: Curator 5.4, package `org.apache.curator.retry`. Two things differ. Curator computes exponential
/// pauses as an int, so they wrap after 24 days, and its `RetryUntilElapsed` pauses once more before it gives
/// up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// `ExponentialBackoffRetry` and `BoundedExponentialBackoffRetry`: the base times a random number.
    Backoff { base: Duration, most: Duration, times: u32 },
    /// `RetryNTimes`; with `times` 1, `RetryOneTime`.
    Times { pause: Duration, times: u32 },
    /// `RetryUntilElapsed`.
    UntilElapsed { pause: Duration, limit: Duration },
    /// `RetryForever`.
    Forever { pause: Duration },
}

impl Retry {
    pub const NEVER: Self = Self::Times { pause: Duration::ZERO, times: 0 };

    /// Default policy.
    pub const USUAL: Self = Self::Backoff { base: SLEEP, most: UNBOUNDED, times: TIMES };

    pub fn of(config: &LockConfig) -> Self {
        let pause = config.duration("retry_sleep", SLEEP);
        let times = u32::try_from(config.count("retry_times", u64::from(TIMES))).unwrap_or(u32::MAX);
        let backoff = |most| Self::Backoff { base: pause, most, times: times.min(BACKOFF_TIMES) };
        match config.word("retry") {
            Some("bounded-exponential") => backoff(config.duration("retry_max_sleep", LONGEST)),
            Some("n-times") => Self::Times { pause, times },
            Some("until-elapsed") => {
                Self::UntilElapsed { pause, limit: config.duration("retry_elapsed", ELAPSED) }
            }
            // Without a pause, retries would spin during an outage. Curator also requires one.
            Some("forever") => Self::Forever { pause: pause.max(Duration::from_millis(1)) },
            _ => backoff(UNBOUNDED),
        }
    }

    pub fn is_retryable(failure: &Failure) -> bool {
        matches!(failure, Failure::ConnectionLoss)
    }

    /// Returns the pause before retry `n`, counted from 0, if `elapsed` has passed since the first attempt;
    /// `None` if there are no more retries.
    pub fn pause(&self, n: u32, elapsed: Duration) -> Option<Duration> {
        match *self {
            Self::Backoff { base, most, times } => (n < times).then(|| (base * factor(n)).min(most)),
            Self::Times { pause, times } => (n < times).then_some(pause),
            Self::UntilElapsed { pause, limit } => (elapsed < limit).then_some(pause),
            Self::Forever { pause } => Some(pause),
        }
    }

    /// Starts counting attempts; the first attempt starts now.
    pub fn tries(self) -> Tries {
        Tries { policy: self, begun: clock::now(), again: 0 }
    }

    /// Sends a request, and resends it after each retryable failure.
    pub async fn around<T>(&self, request: impl AsyncFn() -> Result<T, Failure>) -> Result<T, Failure> {
        let mut tries = self.tries();
        loop {
            match request().await {
                Ok(reply) => return Ok(reply),
                Err(failure) => runtime::sleep(tries.pause_after(failure)?).await,
            }
        }
    }
}

/// Draws the number by which the base is multiplied before retry `n`, counted from 0: uniformly random, below
/// 2^(n+1), where 0 counts as 1.
fn factor(n: u32) -> u32 {
    rand::rng().random_range(0..1_u32 << (n + 1).min(BACKOFF_TIMES)).max(1)
}

#[derive(Debug)]
pub struct Tries {
    policy: Retry,
    begun: Stamp,
    again: u32,
}

impl Tries {
    /// Returns the pause before the next attempt; `None` if there are no more attempts.
    pub fn next_pause(&mut self) -> Option<Duration> {
        let elapsed = Duration::from_micros(clock::now().saturating_sub(self.begun));
        let pause = self.policy.pause(self.again, elapsed);
        self.again = self.again.saturating_add(1);
        pause
    }

    /// Returns the pause before resending a request after `failure`, or `failure` itself if the request must
    /// not be resent.
    pub fn pause_after(&mut self, failure: Failure) -> Result<Duration, Failure> {
        if Retry::is_retryable(&failure) { self.next_pause().ok_or(failure) } else { Err(failure) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zklockbench_core::catalog::{ParamValue, Params};

    const BASE: Duration = Duration::from_millis(10);
    const LONG: Duration = Duration::from_secs(3600);

    fn of(params: &[(&str, ParamValue)]) -> Retry {
        let params: Params = params.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        Retry::of(&LockConfig { path: String::new(), params, contender: 0, drivers: None })
    }

    fn named(word: &str) -> (&'static str, ParamValue) {
        ("retry", ParamValue::Word(word.to_owned()))
    }

    fn sleep(millis: u64) -> (&'static str, ParamValue) {
        ("retry_sleep", ParamValue::Duration(Duration::from_millis(millis)))
    }

    fn times(count: u64) -> (&'static str, ParamValue) {
        ("retry_times", ParamValue::Count(count))
    }

    /// Draws this pause many times; returns each length in units of the base.
    fn factors(retry: Retry, n: u32, draws: usize) -> Vec<u128> {
        let factor = |_| {
            let pause = retry.pause(n, LONG).unwrap();
            assert_eq!(pause.as_micros() % BASE.as_micros(), 0);
            pause.as_micros() / BASE.as_micros()
        };
        (0..draws).map(factor).collect()
    }

    #[test]
    fn exponential_pause_is_an_integer_multiple_of_the_base() {
        let retry = of(&[sleep(10), times(29)]);
        // 10 ms times 2^28 no longer fits an int.
        for n in 0..27 {
            let factors = factors(retry, n, 200);
            assert!(factors.iter().all(|factor| (1..1 << (n + 1)).contains(factor)), "{n}: {factors:?}");
        }
    }

    #[test]
    fn backoff_factors_are_uniform_and_zero_counts_as_one() {
        let retry = of(&[sleep(10), times(3)]);
        assert!(factors(retry, 0, 200).iter().all(|factor| *factor == 1));
        // The second retry draws from 0, 1, 2, 3: half of the results are 1, and a quarter each are 2 and 3.
        let drawn = factors(retry, 1, 4000);
        let share = |wanted| drawn.iter().filter(|factor| **factor == wanted).count();
        assert!((1_800..2_200).contains(&share(1)), "{}", share(1));
        assert!((800..1_200).contains(&share(2)) && (800..1_200).contains(&share(3)));
    }

    #[test]
    fn exponential_policy_stops_after_its_count_or_29_retries() {
        let retry = of(&[sleep(10), times(3)]);
        assert!(retry.pause(2, LONG).is_some() && retry.pause(3, Duration::ZERO).is_none());
        let most = of(&[sleep(10), times(1000)]);
        assert!(most.pause(28, LONG).is_some() && most.pause(29, Duration::ZERO).is_none());
    }

    #[test]
    fn bounded_pause_grows_exponentially_up_to_its_bound() {
        let bound = ("retry_max_sleep", ParamValue::Duration(BASE * 5));
        let retry = of(&[named("bounded-exponential"), sleep(10), times(29), bound]);
        assert!(factors(retry, 0, 100).iter().all(|factor| *factor == 1));
        for n in 1..28 {
            assert!(factors(retry, n, 200).iter().all(|factor| (1..=5).contains(factor)), "{n}");
        }
        // Hardly any number below 2^20 is below 5.
        assert!(factors(retry, 19, 200).iter().filter(|factor| **factor == 5).count() > 190);
    }

    #[test]
    fn constant_pauses_end_after_a_number_of_retries_after_a_time_or_never() {
        let retry = of(&[named("n-times"), sleep(10), times(2)]);
        let pauses: Vec<_> = (0..4).map(|n| retry.pause(n, LONG)).collect();
        assert_eq!(pauses, [Some(BASE), Some(BASE), None, None]);
        assert_eq!(of(&[named("n-times"), times(0)]).pause(0, Duration::ZERO), None);
        let limit = ("retry_elapsed", ParamValue::Duration(Duration::from_secs(1)));
        let retry = of(&[named("until-elapsed"), sleep(10), limit]);
        assert_eq!(retry.pause(1_000_000, Duration::from_millis(999)), Some(BASE));
        assert_eq!(retry.pause(0, Duration::from_secs(1)), None);
        assert_eq!(of(&[named("forever"), sleep(10)]).pause(u32::MAX, LONG), Some(BASE));
        assert!(of(&[named("forever"), sleep(0)]).pause(0, LONG).unwrap() > Duration::ZERO);
    }

    #[test]
    fn default_policy_matches_the_parameter_defaults() {
        assert_eq!(of(&[]), Retry::USUAL);
        let written = |time| ParamValue::Duration(time).to_string();
        let defaults = [
            "exponential-backoff".to_owned(),
            written(SLEEP),
            TIMES.to_string(),
            written(LONGEST),
            written(ELAPSED),
        ];
        assert_eq!(PARAMS.map(|param| param.default.to_owned()), defaults);
    }

    #[test]
    fn only_a_lost_connection_is_retried() {
        let mut tries = Retry::USUAL.tries();
        assert_eq!(tries.pause_after(Failure::NoNode), Err(Failure::NoNode));
        for _ in 0..3 {
            assert!(tries.pause_after(Failure::ConnectionLoss).is_ok());
        }
        assert_eq!(tries.pause_after(Failure::ConnectionLoss), Err(Failure::ConnectionLoss));
    }
}
