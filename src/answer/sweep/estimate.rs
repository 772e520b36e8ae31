//! Between which two values a figure of a point lies, from few repetitions.
//!
//! Figures are compared by their logarithms, because what disturbs a repetition makes it slower by a share. Two repetitions
//! alone say next to nothing of how far repetitions lie apart (Student's factor is 12.7), so the points of a series share
//! what they say of it: the pooled spread. A point whose own repetitions lie further apart is taken by its own.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Of how many repetitions a point's own spread says something.
const OWN_FROM: usize = 3;
/// Repetitions are not trusted to lie nearer to each other than this.
const LEAST: f64 = 0.02;

/// A value, and between which two it lies.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Estimate {
    /// The geometric mean of the repetitions.
    pub value: f64,
    /// The lower end; `None` where there are too few repetitions for any.
    pub low: Option<f64>,
    /// The upper end.
    pub high: Option<f64>,
}

impl Estimate {
    /// How far it reaches up, as a share of the value; `None` where there are too few repetitions.
    pub fn half_width(&self) -> Option<f64> {
        Some(self.high? / self.value - 1.0)
    }
}

/// How far the logarithms of repetitions lie apart.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LogDeviation {
    pub deviation: f64,
    pub degrees: f64,
}

impl LogDeviation {
    /// Of groups of repetitions of the same thing; `None` where no group has two.
    pub fn pooled<'a>(groups: impl IntoIterator<Item = &'a [f64]>) -> Option<Self> {
        let (mut squares, mut degrees) = (0.0, 0.0);
        for group in groups.into_iter().filter(|group| group.len() > 1) {
            let logs: Vec<f64> = logarithms(group);
            let mean = mean(&logs);
            squares += logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>();
            degrees += (logs.len() - 1) as f64;
        }
        (degrees > 0.0).then(|| Self { deviation: (squares / degrees).sqrt().max(LEAST), degrees })
    }

    /// The interval of the mean of these repetitions that leaves out so much on both sides together; `None` of none.
    pub fn interval(pooled: Option<Self>, values: &[f64], outside: f64) -> Option<Estimate> {
        let logs = logarithms(values);
        if logs.is_empty() {
            return None;
        }
        let centre = mean(&logs);
        let half = Self::of_a_point(pooled, values)
            .and_then(|spread| spread.student(outside).map(|factor| factor * spread.deviation))
            .map(|half| half / (logs.len() as f64).sqrt());
        let end = |sign: f64| half.map(|half| (centre + sign * half).exp());
        Some(Estimate { value: centre.exp(), low: end(-1.0), high: end(1.0) })
    }

    fn of_a_point(pooled: Option<Self>, values: &[f64]) -> Option<Self> {
        let own = Self::pooled([values]).filter(|_| values.len() >= OWN_FROM);
        match (own, pooled) {
            (Some(own), Some(pooled)) if own.deviation > pooled.deviation => Some(own),
            (own, None) => own,
            (_, pooled) => pooled,
        }
    }

    fn student(self, outside: f64) -> Option<f64> {
        let student = StudentsT::new(0.0, 1.0, self.degrees).ok()?;
        Some(student.inverse_cdf(1.0 - outside / 2.0))
    }
}

fn logarithms(values: &[f64]) -> Vec<f64> {
    values.iter().filter(|value| **value > 0.0).map(|value| value.ln()).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}
