//! Metrics: the numbers of a trial that can be compared, gated and drawn. `record::figures` lists the metrics
//! that are not statistics of samples, and defines how to read each of them from a trial.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Measure;
use crate::units::{counted, format_micros, number, shown};
use crate::worded;

/// A metric of a trial, displayed as its name: `wait.p99`, `throughput`, `requests_per_acquisition`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Figure {
    /// A statistic of the samples of a measure: `handoff.p50`.
    Latency(Measure, Statistic),
    Plain(&'static FigureCard),
}

/// Static facts about a metric that is not a statistic of samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FigureCard {
    /// Name in gates, options and files.
    pub name: &'static str,
    /// Description for the documentation.
    pub what: &'static str,
    pub kind: FigureKind,
    pub unit: Unit,
    pub better: Better,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FigureKind {
    Ratio,
    /// A count over the measured phase, or over the whole trial for events that must never happen.
    Count,
}

/// Statistic of the samples of a measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Statistic {
    Mean,
    Min,
    /// A percentile in thousandths of a percent: 99.9 is 99,900.
    Percentile(u32),
    Max,
}

worded! {
    /// Unit of a metric. In files: `us`, `per_s`, `amount`, `bytes`, `share`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum Unit by name {
        /// Microseconds.
        #[serde(rename = "us")]
        Micros = "us",
        /// Rate per second.
        #[serde(rename = "per_s")]
        PerSecond = "per_s",
        /// A count, or an average of counts.
        Amount = "amount",
        Bytes = "bytes",
        /// A share between 0 and 1.
        Share = "share",
    }
}

impl Unit {
    /// Formats a value with this unit for display.
    pub fn show(self, value: f64) -> String {
        match self {
            Self::Micros => format_micros(value.max(0.0).round() as u64),
            Self::PerSecond => format!("{}/s", number(value)),
            Self::Amount | Self::Share => number(value),
            Self::Bytes => format!("{} B", number(value)),
        }
    }
}

worded! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Better by name {
        Lower = "lower",
        Higher = "higher",
        /// The metric describes the load, so neither direction is better.
        Neither = "neither",
    }
}

impl Statistic {
    pub const fn percent(percent: u32) -> Self {
        Self::Percentile(percent * 1_000)
    }

    /// Returns the minimum number of samples for a meaningful statistic. A percentile needs ten samples
    /// beyond it.
    pub fn samples_needed(self) -> u64 {
        match self {
            Self::Percentile(at) => 1_000_000_u64.div_ceil(u64::from(100_000_u32.saturating_sub(at).max(1))),
            Self::Mean | Self::Min | Self::Max => 1,
        }
    }
}

impl fmt::Display for Statistic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mean => f.write_str("mean"),
            Self::Min => f.write_str("min"),
            Self::Max => f.write_str("max"),
            Self::Percentile(at) => write!(f, "p{}", f64::from(*at) / 1e3),
        }
    }
}

impl FromStr for Statistic {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unknown = || {
            let text = shown(text, 60);
            format!("`{text}` is not a statistic: use mean, min, max or a percentile such as p50 or p99.9")
        };
        match text {
            "mean" => return Ok(Self::Mean),
            "min" => return Ok(Self::Min),
            "max" => return Ok(Self::Max),
            "median" => return Ok(Self::percent(50)),
            _ => {}
        }
        let digits = text.strip_prefix('p').ok_or_else(unknown)?;
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
        let all_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        if !all_digits(whole) || !all_digits(fraction) || whole.len() > 2 || fraction.len() > 3 {
            return Err(unknown());
        }
        let thousandths: u32 = format!("{whole}{fraction:0<3}").parse().map_err(|_| unknown())?;
        if thousandths == 0 { Err(unknown()) } else { Ok(Self::Percentile(thousandths)) }
    }
}

impl Figure {
    /// Looks up a metric by name; `plain` lists the metrics that are not statistics of samples.
    pub fn named(text: &str, plain: &[&'static FigureCard]) -> Result<Self, String> {
        if let Some((measure, statistic)) = text.split_once('.') {
            let measure = Measure::from_name(measure).ok_or_else(|| unknown(measure, plain))?;
            return Ok(Self::Latency(measure, statistic.parse()?));
        }
        let find = |name: &str, is: fn(&FigureCard) -> bool| {
            plain.iter().find(|card| card.name == name && is(card)).map(|card| Self::Plain(card))
        };
        // Rates are also accepted with a unit suffix, as in `summary.csv`.
        let rate = || find(text.strip_suffix("_per_s")?, |card| card.unit == Unit::PerSecond);
        if let Some(figure) = find(text, |_| true).or_else(rate) {
            return Ok(figure);
        }
        Err(match Measure::from_name(text) {
            Some(_) => format!("`{text}` is a distribution: add a statistic, e.g. `{text}.p99`"),
            None => unknown(text, plain),
        })
    }

    pub fn unit(self) -> Unit {
        match self {
            Self::Latency(..) => Unit::Micros,
            Self::Plain(card) => card.unit,
        }
    }

    pub fn better(self) -> Better {
        match self {
            // The hold time is part of the load.
            Self::Latency(Measure::Hold, _) => Better::Neither,
            Self::Latency(..) => Better::Lower,
            Self::Plain(card) => card.better,
        }
    }

    pub fn is_count(self) -> bool {
        matches!(self, Self::Plain(FigureCard { kind: FigureKind::Count, .. }))
    }

    pub fn samples_needed(self) -> u64 {
        match self {
            Self::Latency(_, statistic) => statistic.samples_needed(),
            Self::Plain(_) => 1,
        }
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Latency(measure, statistic) => write!(f, "{}.{statistic}", measure.name()),
            Self::Plain(card) => f.write_str(card.name),
        }
    }
}

fn unknown(text: &str, plain: &[&FigureCard]) -> String {
    let measures = Measure::all().into_iter().map(Measure::name);
    let names: Vec<String> = measures.chain(plain.iter().map(|card| card.name.to_owned())).collect();
    let text = &shown(text, 60);
    let nearest = names.iter().map(|name| (strsim::damerau_levenshtein(text, name), name)).min();
    match nearest {
        Some((distance, name)) if distance <= 2 => {
            format!("there is no metric `{text}`; did you mean `{name}`?")
        }
        _ => format!(
            "there is no metric `{text}`; the {} include wait.p99, handoff.p50, throughput and \
             requests_per_acquisition",
            counted(names.len(), "metric", "metrics")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistic_parses_valid_percentiles_and_rejects_all_others() {
        assert_eq!("p99.9".parse(), Ok(Statistic::Percentile(99_900)));
        assert_eq!("p5".parse(), Ok(Statistic::percent(5)));
        assert_eq!("median".parse(), Ok(Statistic::percent(50)));
        for refused in ["p0", "p100", "p", "p99.", "p.9", "p-1", "p1e3", "p99.9999", "pNaN", "avg", ""] {
            assert!(refused.parse::<Statistic>().is_err(), "{refused}");
        }
    }

    #[test]
    fn named_suggests_the_nearest_name_and_asks_for_a_missing_statistic() {
        let error_for = |text: &str| Figure::named(text, &[]).unwrap_err();
        assert!(error_for("wiat.p99").contains("did you mean `wait`?"), "{}", error_for("wiat.p99"));
        assert!(error_for("wait").contains("`wait.p99`"), "{}", error_for("wait"));
        assert!(error_for("xyzzy").contains("wait.p99"), "{}", error_for("xyzzy"));
        let long = "x".repeat(1_000_000);
        assert!([error_for(&long), error_for(&format!("wait.{long}"))].iter().all(|error| error.len() < 300));
    }

    #[test]
    fn percentile_needs_ten_samples_beyond_it() {
        assert_eq!(Statistic::percent(50).samples_needed(), 20);
        assert_eq!(Statistic::percent(99).samples_needed(), 1_000);
        assert_eq!(Statistic::Percentile(99_900).samples_needed(), 10_000);
    }
}
