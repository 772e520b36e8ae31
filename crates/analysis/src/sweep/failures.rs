//! Effects of faults at the points of a sweep.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::series::{Sample, State};
use crate::plan::MeasuredRange;
use zklockbench_core::units::grouped;
use zklockbench_record::FaultRecord;

/// Effect of one fault in one repetition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FailureSample {
    /// The fault, as written in a scenario.
    pub fault: String,
    /// Longest time without an acquisition of a wanted lock, in microseconds; 0 if it was below 5 ms. `None` if the
    /// fault had no visible effect, or fired while an earlier one still blocked a lock.
    pub gap_us: Option<u64>,
    /// Number of sessions that it ended; `None` in the same cases.
    pub sessions_lost: Option<u64>,
}

/// Effect of one fault over the repetitions of a point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FailurePoint {
    /// The fault, as written in a scenario.
    pub fault: String,
    /// Number of faults with a visible effect.
    pub times: usize,
    /// Longest time without an acquisition of a wanted lock.
    pub gap: Option<MeasuredRange>,
    /// Smallest number of sessions that it ended.
    pub sessions_lost_least: Option<u64>,
    /// Largest number of sessions that it ended.
    pub sessions_lost_most: Option<u64>,
}

pub(super) fn samples(faults: &[FaultRecord]) -> Vec<FailureSample> {
    let mut blocked_until = i64::MIN;
    let sample = |fault: &FaultRecord| {
        let gap_us = fault.longest_gap_us.unwrap_or(0);
        let is_alone = fault.asked_us >= blocked_until;
        blocked_until = blocked_until.max(fault.asked_us.saturating_add_unsigned(gap_us));
        let is_known = fault.proved && is_alone;
        FailureSample {
            fault: fault.label.clone(),
            gap_us: is_known.then_some(gap_us),
            sessions_lost: fault.sessions_lost.filter(|_| is_known),
        }
    };
    faults.iter().map(sample).collect()
}

/// The effects over valid repetitions. A growing queue does not affect them.
pub(super) fn points(group: &[&Sample]) -> Vec<FailurePoint> {
    let counting = group.iter().filter(|sample| matches!(sample.state, State::Sound | State::Unstable));
    let all = counting.flat_map(|sample| &sample.failures).map(|one| (one.fault.as_str(), one));
    grouped(all).into_iter().map(|(fault, same)| point(fault, &same)).collect()
}

fn point(fault: &str, same: &[&FailureSample]) -> FailurePoint {
    let gaps = || same.iter().filter_map(|one| one.gap_us);
    let lost = || same.iter().filter_map(|one| one.sessions_lost);
    FailurePoint {
        fault: fault.to_owned(),
        times: gaps().count(),
        gap: MeasuredRange::of_times(gaps()),
        sessions_lost_least: lost().min(),
        sessions_lost_most: lost().max(),
    }
}
