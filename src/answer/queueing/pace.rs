//! Slow moments and fast ones, which all locks of an ensemble have together.

/// How long a step lasts, in microseconds: a second.
pub const STEP_US: f64 = 1e6;

/// By which factor things take longer, step by step, over and over. On average it is 1.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Pace {
    factors: Vec<f64>,
    /// When the first step begins, in microseconds.
    from: f64,
}

impl Pace {
    /// From the mean times of each second, each with how many samples it has, and the variance of single samples relative to
    /// the square of their mean. What of the differences between seconds is due to few samples is left out.
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
        let kept = ((spread - by_chance) / spread.max(1e-12)).clamp(0.0, 1.0).sqrt();
        let factor =
            |(one, count): &(f64, u64)| if *count == 0 { 1.0 } else { 1.0 + kept * (one / mean - 1.0) };
        Self { factors: seconds.iter().map(factor).collect(), from: 0.0 }
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

    /// The factor at a time, in microseconds.
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
    use super::*;

    #[test]
    fn seconds_that_differ_by_chance_alone_have_no_pace_and_slow_ones_do() {
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
}
