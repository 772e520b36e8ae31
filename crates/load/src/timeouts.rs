//! Acquires and releases that exceed their timeout.

use std::time::Duration;

use zklockbench_core::clock::{self, Stamp};
use zklockbench_core::measure::{Measure, ThreadRecorder};
use zklockbench_scenario::TrialSpec;

/// Minimum tolerance, because leaving a queue takes a few requests.
const AT_LEAST: Duration = Duration::from_millis(100);
/// Tolerance for a try, which waits only for replies, not for the lock.
const OF_TRIES: Duration = Duration::from_secs(1);

fn tolerance(timeout: Duration) -> Duration {
    if timeout.is_zero() { OF_TRIES } else { (timeout / 10).max(AT_LEAST) }
}

/// Records how far a call exceeded the acquire timeout, if this is more than the tolerance. A call that
/// outlasts the measured phase counts up to the end of the phase.
pub fn check(spec: &TrialSpec, recorder: &mut ThreadRecorder, measure: Measure, called: Stamp, ended: Stamp) {
    let Some(timeout) = spec.acquire_timeout else { return };
    // The release after a try has no time limit.
    if measure == Measure::ReleaseOverrun && timeout.is_zero() {
        return;
    }
    let ended = ended.min(recorder.window().end.saturating_sub(1));
    let overrun_us = ended.saturating_sub(called).saturating_sub(clock::micros(timeout));
    if overrun_us > clock::micros(tolerance(timeout)) {
        recorder.record(measure, ended, overrun_us);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zklockbench_core::measure::Window;
    use zklockbench_scenario::{TrialPlan, parse};

    /// Returns the overrun in microseconds of a call that took this long with this timeout.
    fn overrun(timeout: &str, took_ms: u64, measure: Measure) -> Option<u64> {
        let text = format!(
            "name = \"x\"\nstrategies = [\"baton\"]\ncontenders = 2\nduration = \"1s\"\nacquire_timeout = \"{timeout}\"\n"
        );
        let parsed = parse("x.toml", &text, &crate::catalog()).unwrap_or_else(|wrong| panic!("{wrong}"));
        let spec = TrialPlan::of(&parsed.scenario).trials[0].clone();
        let mut recorder = ThreadRecorder::new(1);
        recorder.set_window(Window { start: 10, end: 20_000_010 });
        check(&spec, &mut recorder, measure, 10, 10 + took_ms * 1_000);
        recorder.settle();
        let samples = recorder.histogram(measure);
        (!samples.is_empty()).then(|| samples.max())
    }

    #[test]
    fn overrun_is_recorded_beyond_a_tenth_of_the_timeout() {
        let near = |found: Option<u64>, us: u64| found.is_some_and(|found| found.abs_diff(us) <= us / 500);
        assert_eq!(overrun("2s", 2_190, Measure::Overrun), None);
        assert!(near(overrun("2s", 12_000, Measure::Overrun), 10_000_000));
        assert_eq!(overrun("50ms", 149, Measure::Overrun), None);
        assert!(near(overrun("50ms", 160, Measure::ReleaseOverrun), 110_000));
        assert!(near(overrun("2s", 60_000, Measure::Overrun), 18_000_000), "the phase ends before the call");
    }

    #[test]
    fn try_may_take_a_second_and_its_release_has_no_limit() {
        assert_eq!(overrun("0s", 990, Measure::Overrun), None);
        assert!(overrun("0s", 3_000, Measure::Overrun).is_some());
        assert_eq!(overrun("0s", 3_000, Measure::ReleaseOverrun), None);
    }
}
