//! Distributions of hold and think times.

use std::time::Duration;

use rand::Rng;
use rand_distr::{Distribution as _, Exp, LogNormal};

/// A distribution of durations.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Distribution {
    /// Always the same.
    Fixed(Duration),
    /// Evenly between the two.
    Uniform {
        /// Smallest.
        min: Duration,
        /// Largest.
        max: Duration,
    },
    /// Exponential.
    Exponential {
        /// Its mean.
        mean: Duration,
    },
    /// Log-normal.
    LogNormal {
        /// Its median.
        median: Duration,
        /// Standard deviation of the logarithm; 0 makes it fixed.
        sigma: f64,
    },
}

impl Distribution {
    /// Nothing at all.
    pub const ZERO: Distribution = Distribution::Fixed(Duration::ZERO);

    /// The mean.
    #[must_use]
    pub fn mean(&self) -> Duration {
        match *self {
            Self::Fixed(value) => value,
            Self::Uniform { min, max } => (min + max) / 2,
            Self::Exponential { mean } => mean,
            Self::LogNormal { median, sigma } => median.mul_f64((sigma * sigma / 2.0).exp()),
        }
    }

    /// The same distribution with every duration multiplied.
    #[must_use]
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

    /// Draws one duration.
    pub fn sample(&self, rng: &mut impl Rng) -> Duration {
        match *self {
            Self::Fixed(value) => value,
            Self::Uniform { min, max } => rng.random_range(min..=max),
            Self::Exponential { mean } => Exp::new(1.0).map_or(mean, |unit| mean.mul_f64(unit.sample(rng))),
            Self::LogNormal { median, sigma } => {
                LogNormal::new(0.0, sigma).map_or(median, |unit| median.mul_f64(unit.sample(rng)))
            }
        }
    }
}
