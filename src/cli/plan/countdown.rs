//! Remaining time of a plan: estimated beforehand, then corrected by the duration of completed steps.

use std::path::Path;
use std::time::Duration;

use crate::cli::output;
use crate::cli::runs;
use zklockbench_core::clock;
use zklockbench_core::error::Error;
use zklockbench_core::units::counted;
use zklockbench_scenario::{Columns, Trace, TraceArrival, parse_with_traces};

pub struct Countdown {
    is_quiet: bool,
    began: clock::Stamp,
    /// End of the last step.
    ended: clock::Stamp,
    /// Expected duration of the completed steps.
    done: Duration,
    /// Expected duration of the remaining steps.
    pub left: Duration,
}

impl Countdown {
    /// Creates a countdown from the expected duration of all steps.
    pub fn of(steps: Duration, is_quiet: bool) -> Self {
        let now = clock::now();
        Self { is_quiet, began: now, ended: now, done: Duration::ZERO, left: steps }
    }

    /// Prints the next step and the remaining time.
    pub fn note(&self, what: &str) {
        if !self.is_quiet {
            output::note(&format!("{what}; about {} left", in_words(self.left())));
        }
    }

    /// Waits for a step and periodically reports the remaining time.
    pub async fn during<T>(&self, step: impl Future<Output = T>) -> T {
        let mut step = std::pin::pin!(step);
        loop {
            match tokio::time::timeout(EVERY, &mut step).await {
                Ok(done) => return done,
                Err(_) => self.note("still measuring"),
            }
        }
    }

    /// Corrects the expected duration of a step that has not begun.
    pub fn expect(&mut self, planned: Duration, actual: Duration) {
        self.left = self.left.saturating_sub(planned) + actual;
    }

    /// Records a completed step; `expected` is the step's expected duration.
    pub fn done(&mut self, expected: Duration) {
        self.ended = clock::now();
        self.done += expected;
        self.left = self.left.saturating_sub(expected);
    }

    fn left(&self) -> Duration {
        let since = |stamp: clock::Stamp| Duration::from_micros(clock::now().saturating_sub(stamp));
        let took = Duration::from_micros(self.ended.saturating_sub(self.began));
        corrected(self.left, self.done, took).saturating_sub(since(self.ended))
    }
}

/// Interval between reports during a long step.
const EVERY: Duration = Duration::from_secs(40);
/// Time for which steps are assumed to have taken as long as expected. Otherwise a slow start of the servers would
/// lengthen the estimates of all other steps, most of which have a fixed duration.
const AS_EXPECTED: Duration = Duration::from_secs(60);

fn corrected(left: Duration, done: Duration, took: Duration) -> Duration {
    let slower = (took + AS_EXPECTED).as_secs_f64() / (done + AS_EXPECTED).as_secs_f64();
    left.mul_f64(slower.clamp(0.8, 3.0))
}

/// Returns the expected duration of a run of this scenario.
pub fn expected(name: &str, text: &str) -> Result<Duration, Error> {
    // Any arrival will do, because the text of a replay states its duration.
    let any = TraceArrival { at_us: 0, lock: None, hold: None, mode: None };
    let traces = |_: &Path, _: &Columns| Ok(Trace::from(vec![any]));
    let parsed = parse_with_traces(name, text, &zklockbench_load::catalog(), &traces)?;
    Ok(runs::expected(&parsed.scenario))
}

pub fn in_words(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..90 => format!("{} seconds", seconds.div_ceil(10).max(1) * 10),
        _ => counted((seconds + 30) / 60, "minute", "minutes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remaining_time_is_corrected_on_a_slow_host() {
        let seconds = Duration::from_secs;
        assert_eq!(corrected(seconds(480), seconds(12), seconds(18)), seconds(520), "a slow start");
        assert_eq!(corrected(seconds(100), seconds(240), seconds(390)), seconds(150));
        assert_eq!(corrected(seconds(100), seconds(60), seconds(600)), seconds(300));
    }

    #[test]
    fn remaining_times_are_rounded() {
        let said = [4, 31, 89, 100, 149, 151].map(|seconds| in_words(Duration::from_secs(seconds)));
        assert_eq!(said, ["10 seconds", "40 seconds", "90 seconds", "2 minutes", "2 minutes", "3 minutes"]);
    }
}
