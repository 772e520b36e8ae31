//! An open load: arrivals that do not depend on the speed of the lock.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::columns::TimeUnit;
use zklockbench_core::catalog::Mode;
use zklockbench_core::units::{as_us, format_duration, number};

/// Arrivals, and the treatment of arrivals that find no free session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Open {
    /// Arrival process.
    pub arrivals: Arrivals,
    /// Popularity of the locks.
    pub popularity: Popularity,
    /// Treatment of arrivals that find no free session.
    pub late: Late,
    /// Maximum time for serving the backlog after the measured phase.
    #[serde(rename = "backlog_at_most_us", with = "as_us")]
    #[schemars(with = "u64")]
    pub backlog_at_most: Duration,
}

/// An arrival process. Rates are in arrivals per second, over all contenders and locks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    /// Evenly spaced.
    Constant {
        /// Arrivals per second.
        rate: f64,
    },
    /// Independent arrivals with exponential gaps.
    Poisson {
        /// Arrivals per second.
        rate: f64,
    },
    /// An interrupted Poisson process: bursts of exponential length, and no arrivals in between.
    Bursts {
        /// Average arrivals per second.
        rate: f64,
        /// Rate within a burst as a multiple of the average; more than 1.
        peak: f64,
        /// Mean length of a burst.
        #[serde(rename = "length_us", with = "as_us")]
        #[schemars(with = "u64")]
        length: Duration,
    },
    /// A Poisson process whose rate follows a sine wave.
    Day {
        /// Average arrivals per second.
        rate: f64,
        /// Amplitude as a share of the average rate, from 0 to 1.
        amplitude: f64,
        /// Period of the sine wave.
        #[serde(rename = "period_us", with = "as_us")]
        #[schemars(with = "u64")]
        period: Duration,
    },
    /// A Poisson process whose rate changes linearly over the measured phase.
    Ramp {
        /// Arrivals per second at the start.
        from: f64,
        /// Arrivals per second at the end.
        to: f64,
    },
    /// A Poisson process whose rate changes in steps; the last step lasts until the end.
    Steps(Vec<Step>),
    /// Arrivals from a file.
    Replay(Replay),
}

/// A step with a constant rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    /// Arrivals per second.
    pub rate: f64,
    /// Duration of the step.
    #[serde(rename = "lasts_us", with = "as_us")]
    #[schemars(with = "u64")]
    pub lasts: Duration,
}

/// Arrivals from a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Replay {
    /// Path of the file, as written in the scenario.
    pub file: PathBuf,
    /// Number of arrivals in the file.
    pub count: usize,
    /// Unit of the times, if it was inferred and is finer than seconds; not stored with the results.
    #[serde(skip)]
    pub inferred: Option<TimeUnit>,
    /// Arrivals in order of time; not stored with the results.
    #[serde(skip)]
    pub trace: Arc<[TraceArrival]>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceArrival {
    /// Microseconds after the first arrival.
    pub at_us: u64,
    /// Index of the requested lock, if the file specifies a lock.
    pub lock: Option<usize>,
    pub hold: Option<Duration>,
    pub mode: Option<Mode>,
}

/// Popularity of the locks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Popularity {
    /// Every lock is equally popular.
    #[default]
    Uniform,
    /// The popularity of the k-th lock is proportional to 1 / k raised to this power.
    Zipf(f64),
}

/// Treatment of an arrival that finds no free session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Late {
    /// The arrival waits for a free session, and this time is part of its wait.
    #[default]
    Keep,
    /// The arrival is dropped and counted.
    Drop,
}

impl Arrivals {
    /// Returns the mean number of arrivals per second in the first `over` of the measured phase.
    pub fn mean_rate(&self, over: Duration) -> f64 {
        match self {
            Self::Constant { rate } | Self::Poisson { rate } | Self::Bursts { rate, .. } => *rate,
            Self::Day { rate, amplitude, period } => {
                // The sine wave averages out only over whole periods.
                let turned = std::f64::consts::TAU * over.as_secs_f64() / period.as_secs_f64().max(1e-9);
                rate * (1.0 + amplitude * (1.0 - turned.cos()) / turned.max(1e-9))
            }
            Self::Ramp { from, to } => f64::midpoint(*from, *to),
            Self::Steps(steps) => mean_of_steps(steps, over.as_secs_f64()),
            Self::Replay(replay) => {
                let over_us = zklockbench_core::clock::micros(over);
                let within = replay.trace.iter().filter(|arrival| arrival.at_us < over_us).count();
                within as f64 / over.as_secs_f64().max(f64::MIN_POSITIVE)
            }
        }
    }

    /// Returns the mean number of arrivals until `at` in a measured phase that lasts `whole`.
    pub fn arrivals_until(&self, at: Duration, whole: Duration) -> f64 {
        let rate = match self {
            Self::Ramp { from, to } => {
                let share = at.as_secs_f64() / whole.as_secs_f64().max(f64::MIN_POSITIVE);
                from + (to - from) * share / 2.0
            }
            _ => self.mean_rate(at),
        };
        rate * at.as_secs_f64()
    }

    /// Returns the arrivals per second during the warm-up and at the start of the measured phase.
    pub fn first_rate(&self) -> f64 {
        match self {
            Self::Constant { rate }
            | Self::Poisson { rate }
            | Self::Bursts { rate, .. }
            | Self::Day { rate, .. } => *rate,
            Self::Ramp { from, .. } => *from,
            Self::Steps(steps) => steps.first().map_or(0.0, |step| step.rate),
            Self::Replay(_) => 0.0,
        }
    }

    /// Returns the peak rate in arrivals per second in the first `over` of the measured phase; for a replay,
    /// the mean rate.
    pub fn peak_rate(&self, over: Duration) -> f64 {
        match self {
            Self::Constant { rate } | Self::Poisson { rate } => *rate,
            Self::Bursts { rate, peak, .. } => rate * peak,
            Self::Day { rate, amplitude, period } => {
                // If `over` ends within the first quarter of the period, the rate is highest at the end of
                // `over`.
                let quarters =
                    (over.as_secs_f64() / period.as_secs_f64().max(f64::MIN_POSITIVE) * 4.0).min(1.0);
                rate * (1.0 + amplitude * (quarters * std::f64::consts::FRAC_PI_2).sin())
            }
            Self::Ramp { from, to } => from.max(*to),
            Self::Steps(steps) => {
                let mut begins = Duration::ZERO;
                let within = steps.iter().filter(|step| {
                    let is_within = begins < over;
                    begins = begins.saturating_add(step.lasts);
                    is_within
                });
                within.map(|step| step.rate).fold(0.0, f64::max)
            }
            Self::Replay(_) => self.mean_rate(over),
        }
    }

    /// Returns an upper bound on the expected number of arrivals. For bursts, it uses the peak rate, because
    /// one burst may last the whole time.
    pub fn at_most(&self, warm_up: Duration, measured: Duration) -> f64 {
        let peak = if let Self::Bursts { peak, .. } = self { *peak } else { 1.0 };
        peak * (self.first_rate() * warm_up.as_secs_f64() + self.mean_rate(measured) * measured.as_secs_f64())
    }

    /// Returns whether the process is constant over time, so that a steady state is possible.
    pub fn is_stationary(&self) -> bool {
        matches!(self, Self::Constant { .. } | Self::Poisson { .. } | Self::Bursts { .. })
    }

    /// Describes the process with scaled times, without a rate that a separate key specifies.
    pub fn described(&self, scale: f64) -> String {
        let time = |time: &Duration| format_duration(time.mul_f64(scale));
        match self {
            Self::Constant { .. } => "evenly spaced".to_owned(),
            Self::Poisson { .. } => "poisson".to_owned(),
            Self::Bursts { peak, length, .. } => {
                format!("in bursts of {} at {} times the rate", time(length), number(*peak))
            }
            Self::Day { amplitude, period, .. } => {
                format!("rising and falling by {} % every {}", number(amplitude * 100.0), time(period))
            }
            Self::Ramp { from, to } => {
                format!("from {} to {} a second", number(from / scale), number(to / scale))
            }
            Self::Steps(steps) => {
                let rates: Vec<_> = steps.iter().map(|step| number(step.rate / scale)).collect();
                format!("in steps of {} a second", rates.join(", "))
            }
            Self::Replay(replay) => {
                let unit =
                    replay.inferred.map(|unit| format!(" (with times read as {} since 1970)", unit.name()));
                format!("as in {}{}", replay.file.display(), unit.unwrap_or_default())
            }
        }
    }

    /// Multiplies every rate, e.g. to turn a rate per contender into a total rate.
    pub fn times(self, factor: f64) -> Self {
        self.with(factor, 1.0)
    }

    /// Multiplies all times and keeps the number of arrivals.
    pub fn scaled(self, factor: f64) -> Self {
        self.with(1.0 / factor, factor)
    }

    /// Multiplies every rate and every time; a replay has only times.
    fn with(self, rates: f64, times: f64) -> Self {
        match self {
            Self::Constant { rate } => Self::Constant { rate: rate * rates },
            Self::Poisson { rate } => Self::Poisson { rate: rate * rates },
            Self::Bursts { rate, peak, length } => {
                Self::Bursts { rate: rate * rates, peak, length: length.mul_f64(times) }
            }
            Self::Day { rate, amplitude, period } => {
                Self::Day { rate: rate * rates, amplitude, period: period.mul_f64(times) }
            }
            Self::Ramp { from, to } => Self::Ramp { from: from * rates, to: to * rates },
            Self::Steps(steps) => {
                let step = |Step { rate, lasts }| Step { rate: rate * rates, lasts: lasts.mul_f64(times) };
                Self::Steps(steps.into_iter().map(step).collect())
            }
            Self::Replay(replay) => Self::Replay(replay.scaled(times)),
        }
    }
}

impl Popularity {
    /// Returns the most popular lock's share of all arrivals.
    pub fn hottest(&self, locks: usize) -> f64 {
        match self {
            Self::Uniform => 1.0 / locks.max(1) as f64,
            Self::Zipf(power) => 1.0 / harmonic(locks.max(1), *power),
        }
    }
}

/// Returns the sum of rank^-power over the ranks 1 to `count`. An integral approximates the terms after the
/// thousandth, with a relative error below 1e-6.
fn harmonic(count: usize, power: f64) -> f64 {
    const SUMMED: usize = 1_000;
    let sum: f64 = (1..=count.min(SUMMED)).map(|rank| (rank as f64).powf(-power)).sum();
    if count <= SUMMED {
        return sum;
    }
    let (from, to) = (SUMMED as f64 + 0.5, count as f64 + 0.5);
    let left = 1.0 - power;
    let rest = if left.abs() < 1e-6 { (to / from).ln() } else { (to.powf(left) - from.powf(left)) / left };
    sum + rest
}

impl Replay {
    /// Returns the time from the first arrival to just after the last, in whole milliseconds.
    pub fn lasts(&self) -> Duration {
        Duration::from_millis(self.trace.last().map_or(0, |last| last.at_us / 1_000) + 1)
    }

    /// Returns the number of locks needed: one more than the highest index in the file.
    pub fn locks(&self) -> usize {
        self.trace
            .iter()
            .filter_map(|arrival| arrival.lock)
            .max()
            .map_or(0, |highest| highest.saturating_add(1))
    }

    fn scaled(self, factor: f64) -> Self {
        if (factor - 1.0).abs() < f64::EPSILON {
            return self;
        }
        let scaled = |arrival: &TraceArrival| TraceArrival {
            at_us: (arrival.at_us as f64 * factor) as u64,
            lock: arrival.lock,
            hold: arrival.hold.map(|hold| hold.mul_f64(factor)),
            mode: arrival.mode,
        };
        Self { trace: self.trace.iter().map(scaled).collect(), ..self }
    }
}

fn mean_of_steps(steps: &[Step], over_s: f64) -> f64 {
    let mut left_s = over_s;
    let mut arrivals = 0.0;
    for step in steps {
        let lasts_s = step.lasts.as_secs_f64().min(left_s);
        arrivals += step.rate * lasts_s;
        left_s -= lasts_s;
    }
    arrivals += steps.last().map_or(0.0, |step| step.rate) * left_s;
    arrivals / over_s.max(f64::MIN_POSITIVE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(seen: f64, expected: f64) {
        assert!((seen / expected - 1.0).abs() < 1e-6, "expected {expected}, got {seen}");
    }

    #[test]
    fn most_popular_of_100_zipf_locks_gets_19_percent_of_arrivals() {
        close(Popularity::Zipf(1.0).hottest(100), 1.0 / 5.187_377_517_639_621);
        close(Popularity::Zipf(0.0).hottest(100), 0.01);
        close(Popularity::Uniform.hottest(100), 0.01);
        close(Popularity::Zipf(3.0).hottest(1), 1.0);
    }

    #[test]
    fn approximate_harmonic_sum_matches_exact_sum() {
        for power in [0.0, 0.5, 0.999_999_9, 1.0, 1.5, 5.0] {
            let sum: f64 = (1..=50_000).map(|rank| f64::from(rank).powf(-power)).sum();
            close(harmonic(50_000, power), sum);
        }
    }

    #[test]
    fn mean_rate_is_averaged_over_the_given_time() {
        let seconds = Duration::from_secs;
        let day = Arrivals::Day { rate: 30.0, amplitude: 1.0, period: seconds(60) };
        close(day.mean_rate(seconds(120)), 30.0);
        close(day.mean_rate(seconds(30)), 30.0 * (1.0 + std::f64::consts::FRAC_2_PI));
        close(day.peak_rate(seconds(15)), 60.0);
        close(day.peak_rate(seconds(5)), 45.0);
        let step = |rate, lasts| Step { rate, lasts: seconds(lasts) };
        let steps = Arrivals::Steps(vec![step(10.0, 5), step(40.0, 5)]);
        close(steps.mean_rate(seconds(20)), 32.5);
        close(steps.mean_rate(seconds(4)), 10.0);
        close(steps.peak_rate(seconds(5)), 10.0);
    }
}
