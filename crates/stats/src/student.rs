//! Student's t of logarithms: of units that are few but whose logarithms are not far from normal, such as the medians of
//! whole runs, of which ranks could never be sure.
//!
//! Source: Student, The Probable Error of a Mean, 1908; the variance is that of both sides together, so that one side may
//! have a single value.

use statrs::distribution::{ContinuousCDF, StudentsT};

use super::estimate::{Interval, RatioEstimate};

/// The test of two samples of values above 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StudentRatio {
    /// The probability of a difference that is as clear or clearer, to either side, when nothing differs.
    pub p: f64,
    /// New divided by base, of the geometric means, and the interval that holds a share of 1 − α.
    pub ratio: RatioEstimate,
}

impl StudentRatio {
    /// Compares two samples; `alpha` is what the interval leaves out. `None` where one of them is empty, both together have
    /// fewer than three values, or one has a value that is not above 0 and finite.
    pub fn of(base: &[f64], new: &[f64], alpha: f64) -> Option<Self> {
        let (was, is) = (Logs::of(base)?, Logs::of(new)?);
        let degrees = (base.len() + new.len()).checked_sub(2).filter(|degrees| *degrees > 0)? as f64;
        let difference = is.mean - was.mean;
        let variance = (was.squares + is.squares) / degrees;
        let error = (variance * (1.0 / base.len() as f64 + 1.0 / new.len() as f64)).sqrt();
        let student = StudentsT::new(0.0, 1.0, degrees).ok()?;
        let p = match (difference == 0.0, error == 0.0) {
            (true, _) => 1.0,
            (false, true) => 0.0,
            (false, false) => (2.0 * student.sf((difference / error).abs())).min(1.0),
        };
        let half = error * student.inverse_cdf(1.0 - alpha / 2.0);
        let interval = Interval {
            low: (difference - half).exp(),
            high: (difference + half).exp(),
            coverage: 1.0 - alpha,
        };
        Some(Self { p, ratio: RatioEstimate { ratio: difference.exp(), interval: Some(interval) } })
    }
}

/// The mean of the logarithms, and the sum of the squares of how far they lie from it.
pub struct Logs {
    pub count: usize,
    pub mean: f64,
    pub squares: f64,
}

impl Logs {
    /// `None` of no values, and where one is not above 0 and finite.
    pub fn of(values: &[f64]) -> Option<Self> {
        if values.is_empty() || !values.iter().all(|value| *value > 0.0 && value.is_finite()) {
            return None;
        }
        let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
        let mean = logs.iter().sum::<f64>() / logs.len() as f64;
        let squares = logs.iter().map(|log| (log - mean).powi(2)).sum();
        Some(Self { count: logs.len(), mean, squares })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p_and_interval_are_those_of_scipy() {
        // scipy 1.17.1: ttest_ind(log(new), log(base)) and its confidence_interval(0.95); the one with a single value by the
        // same formula with scipy's t.
        type Case = (&'static [f64], &'static [f64], f64, f64, f64);
        let cases: &[Case] = &[
            (
                &[100.0, 110.0, 95.0, 120.0],
                &[97.0, 103.0, 96.0, 112.0],
                0.559943716609,
                0.82521684,
                1.12158517,
            ),
            (&[10.0, 11.0, 12.0], &[14.0, 15.0, 13.5, 16.0], 0.006076152730, 1.13249133, 1.56285619),
            (&[10.0, 10.4, 9.9, 10.2], &[12.0], 0.006077189872, 1.09674433, 1.28121714),
            (&[1.0, 2.0, 4.0, 8.0, 16.0], &[3.0, 5.0], 0.970534465816, 0.11429787, 8.20225273),
        ];
        for (base, new, p, low, high) in cases {
            let found = StudentRatio::of(base, new, 0.05).unwrap();
            let interval = found.ratio.interval.unwrap();
            assert!((found.p - p).abs() < 1e-9, "{found:?}");
            assert!((interval.low - low).abs() < 1e-6 && (interval.high - high).abs() < 1e-6, "{found:?}");
        }
    }

    #[test]
    fn without_any_spread_the_ratio_is_known_for_sure() {
        let found = StudentRatio::of(&[2.0, 2.0], &[4.0, 4.0], 0.05).unwrap();
        assert_eq!((found.p, found.ratio.interval.map(|interval| interval.low)), (0.0, Some(2.0)));
        assert_eq!(StudentRatio::of(&[2.0, 2.0], &[2.0], 0.05).unwrap().p, 1.0);
    }

    #[test]
    fn too_few_values_and_such_as_have_no_logarithm_say_nothing() {
        assert_eq!(StudentRatio::of(&[1.0], &[2.0], 0.05), None);
        assert_eq!(StudentRatio::of(&[], &[2.0, 3.0, 4.0], 0.05), None);
        assert_eq!(StudentRatio::of(&[0.0, 1.0], &[2.0, 3.0], 0.05), None);
        assert_eq!(StudentRatio::of(&[f64::INFINITY, 1.0], &[2.0, 3.0], 0.05), None);
    }
}
