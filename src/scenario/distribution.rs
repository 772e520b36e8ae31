//! Distributions of hold and think times.

use std::time::Duration;

use rand::Rng;
use rand_distr::{Distribution as _, Exp, LogNormal};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::words::units::as_us;

/// The longest duration that is ever drawn from a distribution with a tail.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);

/// A distribution of durations.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Distribution {
    /// Always the same.
    #[serde(rename = "fixed_us", with = "as_us")]
    #[schemars(with = "u64")]
    Fixed(Duration),
    /// Evenly between the two.
    Uniform {
        /// Smallest.
        #[serde(rename = "min_us", with = "as_us")]
        #[schemars(with = "u64")]
        min: Duration,
        /// Largest.
        #[serde(rename = "max_us", with = "as_us")]
        #[schemars(with = "u64")]
        max: Duration,
    },
    /// Exponential.
    Exponential {
        /// Its mean.
        #[serde(rename = "mean_us", with = "as_us")]
        #[schemars(with = "u64")]
        mean: Duration,
    },
    /// Log-normal.
    LogNormal {
        /// Its median.
        #[serde(rename = "median_us", with = "as_us")]
        #[schemars(with = "u64")]
        median: Duration,
        /// Standard deviation of the logarithm; 0 makes it fixed.
        sigma: f64,
    },
}

impl Distribution {
    pub const ZERO: Distribution = Distribution::Fixed(Duration::ZERO);

    pub fn mean(&self) -> Duration {
        match *self {
            Self::Fixed(value) => value,
            Self::Uniform { min, max } => (min + max) / 2,
            Self::Exponential { mean } => mean,
            Self::LogNormal { median, sigma } => median.mul_f64((sigma * sigma / 2.0).exp()),
        }
    }

    pub fn rarely_exceeded(&self) -> Duration {
        match *self {
            Self::Fixed(value) => value,
            Self::Uniform { max, .. } => max,
            Self::Exponential { mean } => times(mean, 10.0),
            Self::LogNormal { median, sigma } => times(median, (4.0 * sigma).exp()),
        }
    }

    /// The same distribution with every duration multiplied.
    pub fn scaled(&self, factor: f64) -> Self {
        match *self {
            Self::Fixed(value) => Self::Fixed(value.mul_f64(factor)),
            Self::Uniform { min, max } => {
                Self::Uniform { min: min.mul_f64(factor), max: max.mul_f64(factor) }
            }
            Self::Exponential { mean } => Self::Exponential { mean: mean.mul_f64(factor) },
            Self::LogNormal { median, sigma } => Self::LogNormal { median: median.mul_f64(factor), sigma },
        }
    }

    /// Draws one duration, never longer than a year: the tails have no end, clocks do.
    pub fn sample(&self, rng: &mut impl Rng) -> Duration {
        match *self {
            Self::Fixed(value) => value,
            Self::Uniform { min, max } => rng.random_range(min..=max),
            Self::Exponential { mean } => Exp::new(1.0).map_or(mean, |unit| times(mean, unit.sample(rng))),
            Self::LogNormal { median, sigma } => {
                LogNormal::new(0.0, sigma).map_or(median, |unit| times(median, unit.sample(rng)))
            }
        }
    }
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

    fn drawn_mean(distribution: Distribution) -> f64 {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let draws = 100_000;
        let sum: Duration = (0..draws).map(|_| distribution.sample(&mut rng)).sum();
        sum.as_secs_f64() / f64::from(draws)
    }

    #[test]
    fn every_shape_draws_with_the_mean_that_it_states() {
        for distribution in [
            Distribution::Fixed(5 * MILLISECOND),
            Distribution::Uniform { min: MILLISECOND, max: 9 * MILLISECOND },
            Distribution::Exponential { mean: 5 * MILLISECOND },
            Distribution::LogNormal { median: 5 * MILLISECOND, sigma: 0.5 },
        ] {
            let (drawn, stated) = (drawn_mean(distribution), distribution.mean().as_secs_f64());
            assert!((drawn / stated - 1.0).abs() < 0.02, "{distribution:?}: drew {drawn}, states {stated}");
        }
    }

    #[test]
    fn hardly_any_draw_is_longer_than_what_is_rarely_exceeded() {
        for distribution in [
            Distribution::Fixed(5 * MILLISECOND),
            Distribution::Uniform { min: MILLISECOND, max: 9 * MILLISECOND },
            Distribution::Exponential { mean: 5 * MILLISECOND },
            Distribution::LogNormal { median: 5 * MILLISECOND, sigma: 2.0 },
        ] {
            let (mut rng, most) = (ChaCha8Rng::seed_from_u64(4), distribution.rarely_exceeded());
            let longer = (0..10_000).filter(|_| distribution.sample(&mut rng) > most).count();
            assert!(longer < 10, "{distribution:?}: {longer} of 10,000 are longer than {most:?}");
        }
    }

    #[test]
    fn a_uniform_draw_stays_within_its_bounds() {
        let mut rng = ChaCha8Rng::seed_from_u64(2);
        let bounds = MILLISECOND..=2 * MILLISECOND;
        let uniform = Distribution::Uniform { min: *bounds.start(), max: *bounds.end() };
        assert!((0..1000).all(|_| bounds.contains(&uniform.sample(&mut rng))));
        let point = Distribution::Uniform { min: MILLISECOND, max: MILLISECOND };
        assert_eq!(point.sample(&mut rng), MILLISECOND);
    }

    #[test]
    fn the_longest_tail_that_a_file_can_ask_for_never_overflows() {
        assert_eq!(times(Duration::from_secs(u64::MAX), 1e9), LONGEST);
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let wild = Distribution::LogNormal { median: Duration::from_secs(86_400_000), sigma: 3.0 };
        assert!((0..10_000).all(|_| wild.sample(&mut rng) <= LONGEST));
    }

    #[test]
    fn scaling_multiplies_times_and_leaves_the_shape() {
        let scaled = Distribution::LogNormal { median: 10 * MILLISECOND, sigma: 0.5 }.scaled(0.1);
        assert_eq!(scaled, Distribution::LogNormal { median: MILLISECOND, sigma: 0.5 });
    }
}
