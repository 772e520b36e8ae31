//! What a figure is of a trial.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Trial;
use super::derived::watches_left;
use crate::words::measure::{Count, Counts, Figure, Measure, Outcome, Ratio, Statistic, Survival};

/// A figure of one repetition.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reading {
    /// Its value, in the unit of the figure.
    pub value: f64,
    /// It is a lower bound.
    pub at_least: bool,
    /// How many samples it rests on, where it is a statistic of samples.
    pub samples: Option<u64>,
}

/// Why a trial has no such figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// Nothing of the kind happened, or it does not apply to the load.
    NotMeasured,
    /// The queue grew, so it would only say how long the trial was.
    Unstable,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotMeasured => "not measured",
            Self::Unstable => "the queue kept growing, so there is no steady value",
        })
    }
}

impl Figure {
    /// What it is of that trial, which must have its histograms.
    ///
    /// # Errors
    /// Why there is no such figure.
    pub fn of(self, trial: &Trial) -> Result<Reading, Missing> {
        let value = match self {
            Self::Latency(measure, statistic) => return latency(trial, measure, statistic),
            Self::Ratio(figure) => ratio(trial, figure),
            Self::Count(figure) => count(trial, figure).map(|count| count as f64),
        };
        value.map(|value| Reading { value, at_least: false, samples: None }).ok_or(Missing::NotMeasured)
    }
}

fn latency(trial: &Trial, measure: Measure, statistic: Statistic) -> Result<Reading, Missing> {
    if measure.is_of_the_queue() && trial.is_unstable() {
        return Err(Missing::Unstable);
    }
    let samples = |measure| trial.histograms.get(&measure);
    let unserved = (measure == Measure::Wait).then(|| samples(Measure::Unserved)).flatten();
    let all = Survival::of(samples(measure), unserved).ok_or(Missing::NotMeasured)?;
    let (value, at_least) = match statistic {
        // As `summary.csv` has it.
        Statistic::Mean => {
            let mean = trial.latency(measure).ok_or(Missing::NotMeasured)?;
            (mean.mean_us, mean.known < 1.0)
        }
        Statistic::Min => (all.shortest_us() as f64, false),
        Statistic::Max => (all.longest().us as f64, all.longest().at_least),
        Statistic::Percentile(at) => {
            let found = all.quantile(f64::from(at) / 100_000.0);
            (found.us as f64, found.at_least)
        }
    };
    Ok(Reading { value, at_least, samples: Some(all.count()) })
}

fn ratio(trial: &Trial, ratio: Ratio) -> Option<f64> {
    let derived = trial.derived();
    match ratio {
        Ratio::Throughput => derived.throughput_per_s,
        Ratio::Offered => derived.offered_per_s,
        Ratio::Fairness => derived.fairness,
        Ratio::FanOut => derived.fan_out,
        Ratio::FanOutSpurious => derived.fan_out_spurious,
        Ratio::RequestsPerAcquisition => derived.requests_per_acquisition,
        Ratio::NotificationsPerAcquisition => derived.notifications_per_acquisition,
        Ratio::NamesPerAcquisition => derived.names_per_acquisition,
        Ratio::BytesPerAcquisition => derived.bytes_per_acquisition,
        Ratio::UtilisationBusiest => Some(trial.utilisation?.busiest),
    }
}

fn count(trial: &Trial, count: Count) -> Option<u64> {
    let measured = &trial.measured;
    // Where not all that was sent and received was seen, its count would be too small.
    let seen = |count: fn(&Counts) -> u64| (measured.unseen == 0).then(|| count(measured));
    match count {
        Count::Acquired => Some(measured.acquired()),
        Count::TimedOut => Some(measured.outcomes.get(Outcome::TimedOut)),
        Count::Unserved => Some(trial.histograms.get(&Measure::Unserved).map_or(0, |h| h.len())),
        Count::Requests => seen(|counts| counts.requests.total()),
        Count::Notifications => seen(|counts| counts.notifications.total()),
        Count::Names => seen(|counts| counts.names_returned),
        Count::Bytes => seen(|counts| counts.bytes_sent + counts.bytes_received),
        Count::Overtaken => Some(measured.overtaken),
        Count::LostWhileHeld => Some(measured.lost_while_held),
        Count::Violations => Some(trial.violation_count),
        Count::Errors => Some(trial.errors.values().sum()),
        Count::SessionsExpired => Some(trial.sessions.expired),
        Count::WatchesLeft => watches_left(trial),
    }
}
