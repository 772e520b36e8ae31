//! Cost of failures: each kind is measured several times under the planned load.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::objective::Objective;
use zklockbench_core::measure::{Figure, Measure, Statistic};
use zklockbench_core::units::{format_micros, grouped, number};
use zklockbench_core::verdict::Verdict;
use zklockbench_record::{ArrivalWaits, Bound, FaultRecord, Trial};
use zklockbench_stats::median;

#[derive(Debug, Clone, PartialEq)]
pub struct MeasuredFailure {
    pub(super) record: FaultRecord,
    /// Share of the trial's locks that the fault interrupted.
    interrupted: f64,
    /// Whether the failure hit servers rather than a contender.
    pub(super) hits_servers: bool,
    /// Session timeout that the servers granted, in microseconds.
    granted_us: u64,
}

impl MeasuredFailure {
    /// Returns the effect of a fault in a trial; `None` if no effect was detected.
    pub fn of(trial: &Trial, record: &FaultRecord, hits_servers: bool) -> Option<Self> {
        let locks = record.disturbance.map_or(0.0, |of| of.locks as f64);
        let interrupted = locks / trial.spec.locks as f64;
        let granted_us = trial.sessions.negotiated_timeout_us;
        record.proved.then(|| Self { record: record.clone(), interrupted, hits_servers, granted_us })
    }
}

/// Minimum, median and maximum of a few measurements, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MeasuredRange {
    /// Minimum.
    pub least_us: u64,
    /// Median.
    pub median_us: f64,
    /// Maximum.
    pub most_us: u64,
    /// Whether the maximum is a lower bound, because some waits had not ended.
    pub at_least: bool,
}

impl MeasuredRange {
    fn of(bounds: impl Iterator<Item = Bound>) -> Option<Self> {
        let bounds: Vec<Bound> = bounds.collect();
        let most = bounds.iter().max()?;
        Some(Self {
            least_us: bounds.iter().min()?.us,
            median_us: median(&bounds.iter().map(|bound| bound.us as f64).collect::<Vec<_>>())?,
            most_us: most.us,
            at_least: bounds.iter().any(|bound| bound.at_least),
        })
    }

    fn in_words(self) -> String {
        let [least, most] = [self.least_us, self.most_us].map(format_micros);
        match (self.least_us == self.most_us, self.at_least) {
            (true, true) => format!("at least {most}"),
            (true, false) => most,
            (false, true) => format!("{least} to {most} or more"),
            (false, false) => format!("{least} to {most}"),
        }
    }

    pub(crate) fn of_times(times: impl Iterator<Item = u64>) -> Option<Self> {
        Self::of(times.map(|us| Bound { us, at_least: false }))
    }
}

/// Cost of one kind of failure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FailureCost {
    /// The fault, as written in a scenario.
    pub fault: String,
    /// Number of measured failures.
    pub times: usize,
    /// Longest time without an acquisition of a requested lock; `None` if it was below 5 ms each time.
    pub gap: Option<MeasuredRange>,
    /// Median number of requests that arrived during the interruption or while the queue was longer than
    /// before.
    pub requests: Option<f64>,
    /// Median number of ended sessions, excluding those of crashed clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sessions_lost: Option<f64>,
    /// Session timeout that the servers granted, in microseconds; 0 in files of older versions.
    #[serde(default)]
    pub granted_us: u64,
    /// Mean wait of the requests counted in `requests`.
    pub wait_mean: Option<MeasuredRange>,
    /// 99th percentile of the waits of the requests counted in `requests`.
    pub wait_p99: Option<MeasuredRange>,
    /// Mean wait before the failure, in microseconds.
    pub usual_wait_us: Option<f64>,
    /// Time from the end of the interruption until the queue was as short as before.
    pub drained: Option<MeasuredRange>,
    /// Number of failures after which the queue was still longer than before at the end of the load.
    pub not_drained: usize,
    /// Whether the objective was met while the failure lasted, after the interruption, e.g. with one server
    /// fewer. `None` if the failure does not last, or if there were too few arrivals.
    pub meanwhile: Option<Verdict>,
}

impl FailureCost {
    /// Returns the cost of each kind of failure for a load over this many locks, in the order measured.
    pub fn of_each(failures: &[MeasuredFailure], locks: usize, objective: &Objective) -> Vec<Self> {
        let kinds = grouped(failures.iter().map(|failure| (failure.record.label.as_str(), failure)));
        kinds.into_iter().map(|(fault, all)| Self::of(fault, &all, locks, objective)).collect()
    }

    fn of(fault: &str, all: &[&MeasuredFailure], locks: usize, objective: &Objective) -> Self {
        let disturbances = || all.iter().filter_map(|one| Some((one.interrupted, one.record.disturbance?)));
        let waits =
            |of: fn(&ArrivalWaits) -> Bound| MeasuredRange::of(disturbances().map(|(_, one)| of(&one.waits)));
        let requests = disturbances().map(|(interrupted, one)| {
            let each = one.waits.arrivals as f64 / one.locks as f64;
            each * (interrupted * locks as f64).round().max(1.0)
        });
        let lost = all.iter().filter_map(|one| Some(one.record.sessions_lost? as f64));
        let usual = disturbances().filter_map(|(_, one)| Some(one.usual_wait_us? as f64));
        Self {
            fault: fault.to_owned(),
            times: all.len(),
            gap: MeasuredRange::of_times(all.iter().filter_map(|one| one.record.longest_gap_us)),
            requests: median(&requests.collect::<Vec<_>>()),
            sessions_lost: median(&lost.collect::<Vec<_>>()),
            granted_us: all.iter().map(|one| one.granted_us).max().unwrap_or(0),
            wait_mean: waits(|waits| waits.mean),
            wait_p99: waits(|waits| waits.p99),
            usual_wait_us: median(&usual.collect::<Vec<_>>()),
            drained: MeasuredRange::of_times(disturbances().filter_map(|(_, one)| one.drained_us)),
            not_drained: disturbances().filter(|(_, one)| one.drained_us.is_none()).count(),
            meanwhile: meanwhile(all, objective),
        }
    }

    /// Describes the effect on the load in a sentence without a full stop; `None` if there is none.
    pub fn sentence(&self) -> Option<String> {
        let gap = self.gap?.in_words();
        let come = self
            .requests
            .map(|requests| format!("about {} requests arrive in the meantime", number(requests.round())));
        let least = |wait: MeasuredRange| if wait.at_least { "at least " } else { "" };
        let wait = self
            .wait_mean
            .map(|wait| format!("wait {}{} on average", least(wait), format_micros(wait.median_us as u64)));
        // Waits that had not ended are lower bounds.
        let tail = self.wait_p99.map(|wait| match wait.at_least {
            true => format!("1 % of them at least {}", format_micros(wait.most_us)),
            false => format!("99 % of them less than {}", format_micros(wait.most_us)),
        });
        let queue = come.zip(wait).map(|(come, wait)| format!("{come} and {wait}"));
        let queue: Vec<String> = queue.into_iter().chain(tail).collect();
        let queue = if queue.is_empty() { String::new() } else { format!("; {}", queue.join(", ")) };
        Some(format!("{} stops every client for {gap}{queue}", self.fault))
    }

    /// Returns the share of requests that one failure of this kind per week would delay, at this rate.
    pub fn yearly_share(&self, rate: f64) -> Option<f64> {
        const WEEK_S: f64 = 7.0 * 86_400.0;
        self.requests.map(|requests| requests / (rate * WEEK_S))
    }
}

/// Returns the combined verdict on the objective while the failures lasted.
fn meanwhile(all: &[&MeasuredFailure], objective: &Objective) -> Option<Verdict> {
    let figure = objective.figure;
    let read: fn(&ArrivalWaits) -> Bound = match figure {
        Figure::Latency(Measure::Wait, Statistic::Mean) => |waits| waits.mean,
        Figure::Latency(Measure::Wait, Statistic::Percentile(50_000)) => |waits| waits.p50,
        Figure::Latency(Measure::Wait, Statistic::Percentile(99_000)) => |waits| waits.p99,
        _ => return None,
    };
    let judged = |waits: ArrivalWaits| {
        let Bound { us, at_least } = read(&waits);
        let was = figure.unit().show(us as f64);
        let needed = figure.samples_needed();
        match objective.holds(us as f64) {
            false => Verdict::violated(format!("{figure} was {was}, but must be {}", objective.wanted())),
            true if at_least => Verdict::unknown("not all requests were served"),
            true if waits.arrivals < needed => Verdict::unknown(format!(
                "{figure} needs {needed} waits, but {} were measured",
                waits.arrivals
            )),
            true => Verdict::Held,
        }
    };
    all.iter().filter_map(|one| one.record.meanwhile).map(judged).reduce(Verdict::and)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_with_an_unfinished_wait_has_no_upper_end() {
        let words = |least_us, most_us, at_least| {
            MeasuredRange { least_us, median_us: 3_000.0, most_us, at_least }.in_words()
        };
        assert_eq!(words(3_000, 5_000, false), "3 ms to 5 ms");
        assert_eq!(words(3_000, 5_000, true), "3 ms to 5 ms or more");
        assert_eq!(words(3_000, 3_000, true), "at least 3 ms");
        assert_eq!(words(3_000, 3_000, false), "3 ms");
    }
}
