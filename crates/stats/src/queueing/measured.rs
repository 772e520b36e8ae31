//! Empirical distributions of measured times, and slow seconds that affect all locks.

use hdrhistogram::Histogram;
use rand::Rng;

/// Number of cells in the lookup table for quantiles.
const GUIDES: usize = 1_024;

/// Empirical distribution of times in microseconds.
#[derive(Debug, Clone, PartialEq)]
pub struct Empirical {
    values: Vec<f64>,
    /// For each value, the share of samples up to and including the value.
    below: Vec<f64>,
    /// Index at which the search for a quantile starts, for each cell of equal probability.
    guide: Vec<u32>,
    mean: f64,
    square: f64,
}

impl Empirical {
    /// Returns the distribution of a histogram, or `None` if the histogram is empty.
    pub fn of(histogram: &Histogram<u64>) -> Option<Self> {
        let weighted: Vec<(f64, f64)> = histogram
            .iter_recorded()
            .map(|step| {
                // The iterator reports the end of a bucket; its middle is closer to the recorded value.
                let value = histogram.median_equivalent(step.value_iterated_to());
                (value as f64, step.count_at_value() as f64)
            })
            .collect();
        Self::weighted(&weighted)
    }

    /// Returns the distribution of equally weighted values, or `None` if there are no values.
    pub fn of_values(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        Self::weighted(&sorted.into_iter().map(|value| (value, 1.0)).collect::<Vec<_>>())
    }

    pub fn fixed(value: f64) -> Self {
        Self {
            values: vec![value],
            below: vec![1.0],
            guide: vec![0; GUIDES],
            mean: value,
            square: value * value,
        }
    }

    /// Returns the distribution of weighted values, which must be sorted by value.
    fn weighted(weighted: &[(f64, f64)]) -> Option<Self> {
        let all: f64 = weighted.iter().map(|(_, weight)| weight).sum();
        if all <= 0.0 {
            return None;
        }
        let moment =
            |power: i32| weighted.iter().map(|(value, weight)| value.powi(power) * weight).sum::<f64>() / all;
        let mut so_far = 0.0;
        let below: Vec<f64> = weighted
            .iter()
            .map(|(_, weight)| {
                so_far += weight;
                so_far / all
            })
            .collect();
        let mut at = 0;
        let guide = (0..GUIDES).map(|cell| {
            while at + 1 < below.len() && below[at] <= cell as f64 / GUIDES as f64 {
                at += 1;
            }
            u32::try_from(at).unwrap_or(u32::MAX)
        });
        Some(Self {
            guide: guide.collect(),
            values: weighted.iter().map(|(value, _)| *value).collect(),
            below,
            mean: moment(1),
            square: moment(2),
        })
    }

    pub fn mean(&self) -> f64 {
        self.mean
    }

    pub fn draw(&self, rng: &mut impl Rng) -> f64 {
        self.at(rng.random::<f64>())
    }

    /// Returns the quantile for this probability.
    pub fn at(&self, share: f64) -> f64 {
        let cell = ((share * GUIDES as f64) as usize).min(GUIDES - 1);
        let mut at = self.guide[cell] as usize;
        while at + 1 < self.values.len() && self.below[at] <= share {
            at += 1;
        }
        self.values[at]
    }

    /// Returns the variance relative to the square of the mean.
    pub fn relative_variance(&self) -> f64 {
        (self.square / (self.mean * self.mean).max(f64::MIN_POSITIVE) - 1.0).max(0.0)
    }

    /// Returns the same shape, narrowed around its mean to at most the given relative variance.
    pub fn narrowed(&self, relative_variance: f64) -> Self {
        let powered = |power: f64| {
            let mut before = 0.0;
            let weighted: Vec<(f64, f64)> = self
                .values
                .iter()
                .zip(&self.below)
                .map(|(value, below)| {
                    let weight = below - before;
                    before = *below;
                    (value.max(0.0).powf(power), weight)
                })
                .collect();
            Self::weighted(&weighted).map(|one| one.scaled(self.mean / one.mean.max(f64::MIN_POSITIVE)))
        };
        if self.relative_variance() <= relative_variance {
            return self.clone();
        }
        let (mut narrow, mut wide) = (0.0, 1.0);
        for _ in 0..20 {
            let middle = f64::midpoint(narrow, wide);
            let is_wide = powered(middle).is_some_and(|one| one.relative_variance() > relative_variance);
            if is_wide { wide = middle } else { narrow = middle }
        }
        powered(narrow).unwrap_or_else(|| self.clone())
    }

    pub fn scaled(&self, factor: f64) -> Self {
        Self {
            values: self.values.iter().map(|value| value * factor).collect(),
            below: self.below.clone(),
            guide: self.guide.clone(),
            mean: self.mean * factor,
            square: self.square * factor * factor,
        }
    }
}

/// Duration of a [`Pace`] step, in microseconds.
pub const STEP_US: f64 = 1e6;

/// Slow and fast seconds of an ensemble: a cyclic sequence of factors for durations, with mean 1.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Pace {
    factors: Vec<f64>,
    /// Start of the first step, in microseconds.
    from: f64,
}

impl Pace {
    /// Computes the pace from each second's mean time and sample count, corrected for sampling noise.
    /// `relative_variance` is the variance of single samples relative to the square of their mean.
    pub fn of(seconds: &[(f64, u64)], relative_variance: f64) -> Self {
        let samples: f64 = seconds.iter().map(|(_, count)| *count as f64).sum();
        let mean = seconds.iter().map(|(mean, count)| mean * *count as f64).sum::<f64>() / samples.max(1.0);
        let known = seconds.iter().filter(|(_, count)| *count > 0).count();
        if known < 3 || mean <= 0.0 {
            return Self::default();
        }
        let spread =
            seconds.iter().map(|(one, count)| (one / mean - 1.0).powi(2) * *count as f64).sum::<f64>()
                / samples;
        let by_chance = relative_variance * known as f64 / samples;
        let own = (spread - by_chance).max(0.0);
        // The fewer samples a second has, the more of its deviation is due to chance.
        let factor = |(one, count): &(f64, u64)| match *count {
            0 => 1.0,
            count => {
                let kept = (own / (own + relative_variance / count as f64).max(1e-12)).sqrt();
                1.0 + kept * (one / mean - 1.0)
            }
        };
        let factors: Vec<f64> = seconds.iter().map(factor).collect();
        // Seconds with few samples move further towards 1, so restore the mean.
        let weighted = factors.iter().zip(seconds).map(|(factor, (_, count))| factor * *count as f64);
        let mean = weighted.sum::<f64>() / samples;
        Self { factors: factors.iter().map(|factor| factor / mean).collect(), from: 0.0 }
    }

    pub fn beginning(mut self, from: f64) -> Self {
        self.from = from;
        self
    }

    pub fn steps(&self) -> usize {
        self.factors.len()
    }

    pub fn variance(&self) -> f64 {
        let count = self.factors.len().max(1) as f64;
        self.factors.iter().map(|factor| (factor - 1.0).powi(2)).sum::<f64>() / count
    }

    /// Returns the factor at a time in microseconds.
    pub fn at(&self, now: f64) -> f64 {
        let steps = self.factors.len();
        if steps == 0 {
            return 1.0;
        }
        let step = ((now - self.from) / STEP_US).floor().rem_euclid(steps as f64) as usize;
        self.factors[step.min(steps - 1)]
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use super::*;

    #[test]
    fn draws_reproduce_the_moments_and_tail_of_the_measurements() {
        let mut measured = Histogram::new(3).unwrap();
        (0..990).for_each(|_| measured.record(100).unwrap());
        (0..10).for_each(|_| measured.record(9_000).unwrap());
        let drawn_from = Empirical::of(&measured).unwrap();
        assert!((drawn_from.mean() - 189.0).abs() < 1.0, "{}", drawn_from.mean());
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let drawn: Vec<f64> = (0..100_000).map(|_| drawn_from.draw(&mut rng)).collect();
        let slow = drawn.iter().filter(|value| **value > 8_000.0).count();
        assert!((900..1_100).contains(&slow), "{slow}");
        assert_eq!((drawn_from.at(0.0), drawn_from.at(0.98)), (100.0, 100.0));
        assert!(drawn_from.at(0.9999) > 8_900.0);
    }

    #[test]
    fn narrowed_shape_has_the_same_mean_and_the_requested_variance() {
        let drawn_from = Empirical::of_values(&[1.0, 2.0, 3.0, 4.0, 40.0]).unwrap();
        let narrowed = drawn_from.narrowed(0.2);
        assert!((narrowed.mean() / 10.0 - 1.0).abs() < 1e-9, "{narrowed:?}");
        assert!((narrowed.relative_variance() - 0.2).abs() < 0.01, "{narrowed:?}");
        assert_eq!(drawn_from.narrowed(99.0), drawn_from);
    }

    #[test]
    fn empty_sample_has_no_distribution() {
        assert_eq!(Empirical::of(&Histogram::new(3).unwrap()), None);
        assert_eq!(Empirical::of_values(&[]), None);
    }

    #[test]
    fn slow_seconds_change_the_pace_but_random_differences_do_not() {
        let chance: Vec<(f64, u64)> =
            (0..20).map(|n| (if n % 2 == 0 { 950.0 } else { 1_050.0 }, 100)).collect();
        assert!(Pace::of(&chance, 1.0).variance() < 1e-9);
        let mut slow = chance;
        slow[3] = (5_000.0, 60);
        let pace = Pace::of(&slow, 0.25).beginning(1e6);
        assert!(pace.at(4.5e6) > 3.5 && pace.at(24.5e6) > 3.5, "{pace:?}");
        assert!(pace.at(0.5e6) < 1.1 && pace.at(1.5e6) < 1.1);
        assert_eq!((Pace::of(&[], 1.0).at(7.0), Pace::default().steps()), (1.0, 0));
    }

    #[test]
    fn single_sample_of_a_partial_last_second_hardly_changes_the_pace() {
        let mut seconds: Vec<(f64, u64)> =
            (0..10).map(|n| (if n % 2 == 0 { 900.0 } else { 1_100.0 }, 1_000)).collect();
        seconds.push((5_000.0, 1));
        let pace = Pace::of(&seconds, 1.0);
        assert!((pace.at(0.5e6) - 0.9).abs() < 0.01 && (pace.at(1.5e6) - 1.1).abs() < 0.01, "{pace:?}");
        assert!(pace.at(10.5e6) < 1.5, "{pace:?}");
    }
}
