//! Distributions of hold and think times.

use std::sync::Arc;
use std::time::Duration;

use rand::Rng;
use rand_distr::{Distribution as _, Exp, LogNormal};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use zklockbench_core::clock::micros;
use zklockbench_core::units::as_us;

/// Maximum duration drawn from a distribution with a tail.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);

/// A distribution of durations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Distribution {
    /// Always this duration.
    #[serde(rename = "fixed_us", with = "as_us")]
    #[schemars(with = "u64")]
    Fixed(Duration),
    /// Uniform between two durations.
    Uniform {
        /// Shortest duration.
        #[serde(rename = "min_us", with = "as_us")]
        #[schemars(with = "u64")]
        min: Duration,
        /// Longest duration.
        #[serde(rename = "max_us", with = "as_us")]
        #[schemars(with = "u64")]
        max: Duration,
    },
    /// Exponential.
    Exponential {
        /// Mean.
        #[serde(rename = "mean_us", with = "as_us")]
        #[schemars(with = "u64")]
        mean: Duration,
    },
    /// Log-normal.
    LogNormal {
        /// Median.
        #[serde(rename = "median_us", with = "as_us")]
        #[schemars(with = "u64")]
        median: Duration,
        /// Standard deviation of the logarithm; 0 makes the duration constant.
        sigma: f64,
    },
    /// Random choice among measured durations.
    #[serde(rename = "measured_us")]
    Measured(MeasuredTimes),
}

/// One or more measured durations, shared by all trials.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "Vec<u64>", into = "Vec<u64>")]
#[schemars(with = "Vec<u64>")]
pub struct MeasuredTimes(Arc<[Duration]>);

impl MeasuredTimes {
    /// Maximum number of times that a scenario may list.
    pub const MOST: usize = 1_000;

    pub fn new(times: Vec<Duration>) -> Self {
        Self(times.into())
    }

    /// Reduces the times to at most [`MeasuredTimes::MOST`] with the same mean, by replacing each group of
    /// neighbours in sorted order with its mean.
    pub fn condensed(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        let most = Self::MOST.min(times.len().max(1));
        let part = |at: usize| at * times.len() / most;
        let mean = |at: usize| mean(&times[part(at)..part(at + 1)]);
        Self::new((0..most).map(mean).collect())
    }
}

impl From<Vec<u64>> for MeasuredTimes {
    fn from(us: Vec<u64>) -> Self {
        Self::new(us.into_iter().map(Duration::from_micros).collect())
    }
}

impl From<MeasuredTimes> for Vec<u64> {
    fn from(times: MeasuredTimes) -> Self {
        times.0.iter().map(|time| micros(*time)).collect()
    }
}

impl Distribution {
    pub const ZERO: Distribution = Distribution::Fixed(Duration::ZERO);

    pub fn mean(&self) -> Duration {
        match *self {
            Self::Fixed(value) => value,
            Self::Uniform { min, max } => (min + max) / 2,
            Self::Exponential { mean } => mean,
            Self::LogNormal { median, sigma } => median.mul_f64((sigma * sigma / 2.0).exp()),
            Self::Measured(ref times) => mean(&times.0),
        }
    }

    pub fn to_toml(&self) -> String {
        let us = |time: Duration| format!("\"{}us\"", micros(time));
        match self {
            Self::Fixed(value) => us(*value),
            Self::Uniform { min, max } => {
                format!("{{ uniform = {{ min = {}, max = {} }} }}", us(*min), us(*max))
            }
            Self::Exponential { mean } => format!("{{ exponential = {{ mean = {} }} }}", us(*mean)),
            Self::LogNormal { median, sigma } => {
                format!("{{ log-normal = {{ median = {}, sigma = {sigma:?} }} }}", us(*median))
            }
            Self::Measured(measured) => {
                let times: Vec<String> = measured.0.iter().map(|time| us(*time)).collect();
                format!("{{ measured = [{}] }}", times.join(", "))
            }
        }
    }

    pub fn rarely_exceeded(&self) -> Duration {
        match *self {
            Self::Fixed(value) => value,
            Self::Uniform { max, .. } => max,
            Self::Exponential { mean } => times(mean, 10.0),
            Self::LogNormal { median, sigma } => times(median, (4.0 * sigma).exp()),
            Self::Measured(ref measured) => measured.0.iter().copied().max().unwrap_or_default(),
        }
    }

    pub fn scaled(&self, factor: f64) -> Self {
        match *self {
            Self::Fixed(value) => Self::Fixed(value.mul_f64(factor)),
            Self::Uniform { min, max } => {
                Self::Uniform { min: min.mul_f64(factor), max: max.mul_f64(factor) }
            }
            Self::Exponential { mean } => Self::Exponential { mean: mean.mul_f64(factor) },
            Self::LogNormal { median, sigma } => Self::LogNormal { median: median.mul_f64(factor), sigma },
            Self::Measured(ref measured) => Self::Measured(MeasuredTimes::new(
                measured.0.iter().map(|time| time.mul_f64(factor)).collect(),
            )),
        }
    }

    /// Draws one duration of at most a year.
    pub fn sample(&self, rng: &mut impl Rng) -> Duration {
        match *self {
            Self::Fixed(value) => value,
            Self::Uniform { min, max } => rng.random_range(min..=max),
            Self::Exponential { mean } => Exp::new(1.0).map_or(mean, |unit| times(mean, unit.sample(rng))),
            Self::LogNormal { median, sigma } => {
                LogNormal::new(0.0, sigma).map_or(median, |unit| times(median, unit.sample(rng)))
            }
            Self::Measured(ref measured) => match measured.0.len() {
                0 => Duration::ZERO,
                count => measured.0[rng.random_range(0..count)],
            },
        }
    }
}

fn mean(times: &[Duration]) -> Duration {
    times.iter().sum::<Duration>() / u32::try_from(times.len().max(1)).unwrap_or(u32::MAX)
}

fn times(duration: Duration, factor: f64) -> Duration {
    Duration::try_from_secs_f64(duration.as_secs_f64() * factor).map_or(LONGEST, |drawn| drawn.min(LONGEST))
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    fn drawn_mean(distribution: &Distribution) -> f64 {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let draws = 100_000;
        let sum: Duration = (0..draws).map(|_| distribution.sample(&mut rng)).sum();
        sum.as_secs_f64() / f64::from(draws)
    }

    fn shapes(sigma: f64) -> [Distribution; 5] {
        [
            Distribution::Fixed(5 * MILLISECOND),
            Distribution::Uniform { min: MILLISECOND, max: 9 * MILLISECOND },
            Distribution::Exponential { mean: 5 * MILLISECOND },
            Distribution::LogNormal { median: 5 * MILLISECOND, sigma },
            Distribution::Measured(MeasuredTimes::new(vec![MILLISECOND, 2 * MILLISECOND, 12 * MILLISECOND])),
        ]
    }

    #[test]
    fn samples_of_every_distribution_have_the_stated_mean() {
        for distribution in shapes(0.5) {
            let (drawn, stated) = (drawn_mean(&distribution), distribution.mean().as_secs_f64());
            let is_close = (drawn / stated - 1.0).abs() < 0.02;
            assert!(is_close, "{distribution:?}: the samples have mean {drawn}, not {stated}");
        }
    }

    #[test]
    fn fewer_than_one_in_a_thousand_samples_exceed_the_rarely_exceeded_bound() {
        for distribution in shapes(2.0) {
            let (mut rng, most) = (ChaCha8Rng::seed_from_u64(4), distribution.rarely_exceeded());
            let longer = (0..10_000).filter(|_| distribution.sample(&mut rng) > most).count();
            assert!(longer < 10, "{distribution:?}: {longer} of 10,000 are longer than {most:?}");
        }
    }

    #[test]
    fn uniform_samples_stay_within_their_bounds() {
        let mut rng = ChaCha8Rng::seed_from_u64(2);
        let bounds = MILLISECOND..=2 * MILLISECOND;
        let uniform = Distribution::Uniform { min: *bounds.start(), max: *bounds.end() };
        assert!((0..1000).all(|_| bounds.contains(&uniform.sample(&mut rng))));
        let point = Distribution::Uniform { min: MILLISECOND, max: MILLISECOND };
        assert_eq!(point.sample(&mut rng), MILLISECOND);
    }

    #[test]
    fn longest_tail_in_a_scenario_file_does_not_overflow() {
        assert_eq!(times(Duration::from_secs(u64::MAX), 1e9), LONGEST);
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let wild = Distribution::LogNormal { median: Duration::from_secs(86_400_000), sigma: 3.0 };
        assert!((0..10_000).all(|_| wild.sample(&mut rng) <= LONGEST));
    }

    #[test]
    fn condensed_measurements_keep_their_mean_and_approximate_spread() {
        let all: Vec<Duration> = (1..=25_000_u32).rev().map(|at| at * at * Duration::from_nanos(1)).collect();
        let sum = |times: &[Duration]| times.iter().map(Duration::as_secs_f64).sum::<f64>();
        let condensed = MeasuredTimes::condensed(all.clone());
        let (mean, whole) = (sum(&condensed.0) / 1_000.0, sum(&all) / 25_000.0);
        assert_eq!(condensed.0.len(), MeasuredTimes::MOST);
        assert!((mean / whole - 1.0).abs() < 1e-3, "{mean} {whole}");
        let squares = |times: &[Duration], count: f64| {
            times.iter().map(|time| time.as_secs_f64().powi(2)).sum::<f64>() / count
        };
        let spread = squares(&condensed.0, 1_000.0) / squares(&all, 25_000.0);
        assert!((0.999..1.0).contains(&spread), "{spread}");
        assert_eq!(*MeasuredTimes::condensed(vec![MILLISECOND; 3]).0, [MILLISECOND; 3]);
    }

    #[test]
    fn scaling_multiplies_times_and_preserves_the_shape() {
        let scaled = Distribution::LogNormal { median: 10 * MILLISECOND, sigma: 0.5 }.scaled(0.1);
        assert_eq!(scaled, Distribution::LogNormal { median: MILLISECOND, sigma: 0.5 });
    }
}
