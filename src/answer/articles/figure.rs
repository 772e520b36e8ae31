//! A figure that decides a claim: its value, between which two it lies, and how people write it.

use serde::{Deserialize, Serialize};

use crate::answer::stats::{Interval, Pair, SignedRank, median, median_interval};
use crate::words::units::{format_micros, number};

/// What an interval may leave out.
const LEFT_OUT: f64 = 0.05;

/// What a number counts or measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Of {
    Amount,
    /// Microseconds.
    Us,
    Bytes,
    /// So many a second.
    PerS,
    /// A share between 0 and 1.
    Share,
    /// Of two equal things: 1 for yes, 0 for no.
    YesNo,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    pub what: String,
    pub value: f64,
    pub of: Of,
    /// Of one that several repetitions or rounds measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bounds: Option<Bounds>,
}

/// Between which two values a figure lies.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Bounds {
    pub low: f64,
    pub high: f64,
    /// How sure that is; `None` of so few repetitions that there are only their lowest and their highest.
    pub coverage: Option<f64>,
    pub repetitions: usize,
}

impl Figure {
    pub fn new(what: impl Into<String>, value: f64, of: Of) -> Self {
        Self { what: what.into(), value, of, bounds: None }
    }

    /// The median of what repetitions measured; `None` of none.
    pub fn median(what: impl Into<String>, values: &[f64], of: Of) -> Option<Self> {
        let bounds = Bounds::of(values, median_interval(values));
        Some(Self { bounds, ..Self::new(what, median(values)?, of) })
    }

    /// By which factor one of two is larger, repetition by repetition; `None` where these are no pairs.
    pub fn ratio(what: impl Into<String>, over: &[f64], under: &[f64]) -> Option<Self> {
        if over.len() != under.len() {
            return None;
        }
        let pairs: Vec<Pair> =
            over.iter().zip(under).map(|(new, base)| Pair { base: *base, new: *new }).collect();
        let ranks = SignedRank::of(&pairs, LEFT_OUT).filter(|ranks| ranks.ratio.ratio.is_finite())?;
        let each: Vec<f64> = pairs.iter().map(|pair| pair.new / pair.base).collect();
        let bounds = Bounds::of(&each, ranks.ratio.interval);
        Some(Self { bounds, ..Self::new(what, ranks.ratio.ratio, Of::Amount) })
    }

    pub fn low(&self) -> f64 {
        self.bounds.map_or(self.value, |bounds| bounds.low)
    }

    pub fn high(&self) -> f64 {
        self.bounds.map_or(self.value, |bounds| bounds.high)
    }

    /// Its value alone.
    pub fn shown(&self) -> String {
        self.of.shown(self.value)
    }

    /// Its value, and between which two it lies.
    pub fn in_full(&self) -> String {
        let Some(Bounds { low, high, coverage, repetitions }) = self.bounds else { return self.shown() };
        let (low, high) = (self.of.shown(low), self.of.shown(high));
        if low == high {
            return format!("{} (each of {repetitions})", self.shown());
        }
        let sure = coverage.map_or_else(String::new, |coverage| format!(", {:.1} % sure", 100.0 * coverage));
        format!("{} ({low} to {high} in {repetitions}{sure})", self.shown())
    }
}

impl Of {
    fn shown(self, value: f64) -> String {
        match self {
            Self::Amount => number(value),
            Self::Us => format_micros(value.max(0.0).round() as u64),
            Self::Bytes => format!("{} bytes", number(value)),
            Self::PerS => format!("{}/s", number(value)),
            Self::Share => format!("{} %", number(value * 100.0)),
            Self::YesNo => if value > 0.0 { "yes" } else { "no" }.to_owned(),
        }
    }
}

impl Bounds {
    fn of(values: &[f64], interval: Option<Interval>) -> Option<Self> {
        let repetitions = values.len();
        if let Some(Interval { low, high, coverage }) = interval {
            return Some(Self { low, high, coverage: Some(coverage), repetitions });
        }
        let low = values.iter().copied().reduce(f64::min)?;
        let high = values.iter().copied().reduce(f64::max)?;
        (repetitions > 1).then_some(Self { low, high, coverage: None, repetitions })
    }
}
